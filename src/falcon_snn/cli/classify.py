"""`falcon-snn classify`: say the word in a recording."""

from pathlib import Path

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, notice, out, print_json


def classify(
    file: Path = typer.Argument(help="A recording of one word (wav and what libsndfile reads)."),
    checkpoint: Path | None = options.Checkpoint,
    pretrained: str | None = options.Pretrained,
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
    from falcon_snn.workflow.model import load

    model = load(options.network_file(checkpoint, pretrained))
    chosen = schedule or ("full" if model.metadata.delays is None else "own")
    x = model.features_of_file(file)
    streams = model.streams(x, chosen, backend)
    top = [
        {"word": word, "confidence": confidence}
        for word, confidence in model.ranking(streams, backend)[:3]
    ]
    delays = model.delays(chosen)
    if raster is not None:
        from falcon_snn.report.raster import draw_raster

        title = f"{file.name}: {top[0]['word']} ({chosen} schedule)"
        draw_raster(raster, model.snn, streams, delays, x[0].numpy(), title)
        notice(f"{raster}: spikes of every stage")
    if as_json:
        print_json({"file": str(file), "word": top[0]["word"], "top": top, "delays": delays})
        return
    out.print(f"[bold]{top[0]['word']}[/]  {top[0]['confidence']:.1%}")
    out.print("then " + ", ".join(f"{row['word']} {row['confidence']:.1%}" for row in top[1:]))
