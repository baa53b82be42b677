"""`falcon-snn classify`: say the word in a recording."""

from pathlib import Path

import typer

from falcon_snn.cli import networks
from falcon_snn.cli.output import JsonFlag, notice, out, print_json


def classify(
    file: Path = typer.Argument(help="A recording of one word (wav and what libsndfile reads)."),
    checkpoint: Path | None = networks.Checkpoint,
    pretrained: str | None = networks.Pretrained,
    schedule: str | None = typer.Option(
        None,
        help="fastest, balanced, accurate, full, uniform:D or a JSON file; by default what the "
        "checkpoint was trained for, or full.",
    ),
    raster: Path | None = typer.Option(None, help="Draw the spikes of every stage to this file."),
    backend: str = typer.Option("auto", help="auto, torch, numba or triton."),
    as_json: bool = JsonFlag,
) -> None:
    """Say which word a recording holds, with the three likeliest and their confidence."""
    import torch

    from falcon_snn.data.audio import read_wave, to_int16
    from falcon_snn.data.features import CLIP_SAMPLES, FRAMES, log_mel, one_second
    from falcon_snn.errors import FalconError
    from falcon_snn.training.export import load_network

    checkpoint = networks.network_file(checkpoint, pretrained)
    network, metadata = load_network(checkpoint)
    if metadata.config.tokens != FRAMES:
        raise FalconError(f"{checkpoint}: takes spikes of the inner ear, not recordings")
    chosen = schedule or ("full" if metadata.delays is None else "own")
    delays = networks.delays_of(chosen, metadata)
    wave = torch.from_numpy(to_int16(read_wave(file)))
    lengths = torch.tensor([len(wave)])
    padded = torch.nn.functional.pad(wave, (0, max(0, CLIP_SAMPLES - len(wave))))
    x = log_mel(one_second(padded[None], lengths))
    streams = network.streams(x, None, delays, backend)
    confidence = network.logits(streams, None, backend)[0].softmax(dim=0)
    top = [
        {"word": metadata.words[index], "confidence": float(confidence[index])}
        for index in confidence.argsort(descending=True, stable=True)[:3].tolist()
    ]
    if raster is not None:
        from falcon_snn.report.raster import draw_raster

        title = f"{file.name}: {top[0]['word']} ({chosen} schedule)"
        draw_raster(raster, network, streams, delays, x[0].numpy(), title)
        notice(f"{raster}: spikes of every stage")
    if as_json:
        print_json({"file": str(file), "word": top[0]["word"], "top": top, "delays": delays})
        return
    out.print(f"[bold]{top[0]['word']}[/]  {top[0]['confidence']:.1%}")
    out.print("then " + ", ".join(f"{row['word']} {row['confidence']:.1%}" for row in top[1:]))
