"""`falcon-snn evaluate`: how many clips a checkpoint labels rightly."""

from pathlib import Path
from typing import Any

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import WATCH, JsonFlag, notice, out, print_json
from falcon_snn.errors import FalconError


def evaluate(
    file: Path = options.File,
    data: str = options.Data,
    schedule: str | None = typer.Option(
        None,
        help="qnn (float), own, fastest, balanced, accurate, full, uniform:D or a JSON file; by "
        "default what the checkpoint was trained for.",
    ),
    split: str = options.Split,
    qk_prefix: int | None = options.QkPrefix,
    limit: int | None = options.Limit,
    noise: float | None = typer.Option(
        None,
        help="Add noise at this signal-to-noise ratio in dB: background noise to recordings, "
        "white noise to images and arrays; always the same.",
    ),
    backend: str = options.Backend,
    hardware: str | None = typer.Option(
        None, help="Run on chips of this profile, such as noisy, with their precision and errors."
    ),
    chips: int | None = typer.Option(
        None, min=1, help="With --hardware: how many chips (default: 5)."
    ),
    seed: int = typer.Option(
        0,
        min=0,
        help="With --hardware: number of the first chip; with --stream: seed of the recordings.",
    ),
    one_layer_at_a_time: bool = typer.Option(
        False, "--one-layer-at-a-time", help="With --hardware: also each layer alone on the chip."
    ),
    stream: bool = typer.Option(
        False,
        "--stream",
        help="Run on long recordings made of the clips: misses against false "
        "accepts per hour (noise at 20 dB if --noise is left out).",
    ),
    hours: float | None = typer.Option(None, help="With --stream: hours of sound (default: 3)."),
    words: str | None = typer.Option(
        None, help="With --stream: the keywords, such as yes,no; the rest are other words."
    ),
    plot: options.Pictures = options.picture(
        "--plot", "Draw which words are taken for which; or the chips, or the stream's curve"
    ),
    as_json: bool = JsonFlag,
) -> None:
    """Measure the accuracy of a network under a schedule of firing delays."""
    from falcon_snn.report.confusion_figure import draw_confusion
    from falcon_snn.training.checkpoint import load_metadata
    from falcon_snn.workflow.measuring import evaluate as measure

    if hardware is None and (one_layer_at_a_time or chips is not None):
        asked = "--chips" if chips is not None else "--one-layer-at-a-time"
        raise FalconError(f"{asked} is about chips; add --hardware PROFILE")
    if stream and (hardware is not None or qk_prefix is not None or limit is not None):
        raise FalconError("--stream does not go with --hardware, --qk-prefix or --limit")
    if not stream and (words is not None or hours is not None):
        asked = "--words" if words is not None else "--hours"
        raise FalconError(f"{asked} is about a stream; add --stream")
    if stream:
        from falcon_snn.cli.stream import show_stream
        from falcon_snn.workflow.streaming import evaluate_stream

        measured = evaluate_stream(
            file, data, hours=3.0 if hours is None else hours,
            snr_db=20.0 if noise is None else noise,
            words=options.split_words(words), split=split, schedule=schedule, backend=backend,
            seed=seed, watch=WATCH,
        )  # fmt: skip
        show_stream(measured, _facts(file, data, split, seed), plot.draw, as_json)
        return
    if hardware is not None and backend != "auto":
        raise FalconError("chips run in torch on every device; leave out --backend")
    if hardware is not None:
        from falcon_snn.cli.chips import show_chips
        from falcon_snn.hardware.profile import load_profile
        from falcon_snn.workflow.chips import evaluate_on_chips

        report = evaluate_on_chips(
            file, data, load_profile(hardware), chips=chips or 5, seed=seed, schedule=schedule,
            split=split, qk_prefix=qk_prefix, limit=limit, layer_by_layer=one_layer_at_a_time,
            watch=WATCH,
        )  # fmt: skip
        show_chips(report, _facts(file, data, split, seed), plot.draw, as_json)
        return
    found = measure(
        file, data, schedule=schedule, split=split, qk_prefix=qk_prefix, limit=limit,
        backend=backend, noise_db=noise, watch=WATCH,
    )  # fmt: skip
    metadata = load_metadata(file)
    network, prefix = metadata.network, qk_prefix or metadata.network.prefix
    title = f"{network.name}, {found.accuracy:.2f} % of {found.clips:,} clips"
    plot.draw(draw_confusion, title, metadata.words, found.confusion)
    if as_json:
        print_json({
            "checkpoint": str(file), "data": data, "split": split, "schedule": found.schedule,
            "delays": found.delays, "slots": network.slots, "qk_prefix": prefix,
            "noise_db": noise, "clips": found.clips, "right": found.right,
            "accuracy": found.accuracy, "interval": found.interval, "recall": found.recall,
            "mean_recall": found.mean_recall, "confusion": found.confusion,
            "clips_per_s": found.clips_per_s,
        })  # fmt: skip
        return
    low, high = found.interval
    clips = f"{split} clips" + ("" if noise is None else f" with noise at {noise:g} dB")
    out.print(
        f"{found.accuracy:.2f} % of {found.clips:,} {clips} ({found.right:,} right, 95 % "
        f"interval {low:.2f} .. {high:.2f}), schedule {found.schedule}, T = {network.slots}"
    )
    out.print(f"mean recall of the classes {found.mean_recall:.2f} %; recall of each, in percent:")
    cells = [f"{word[:13]:<13}{percent:6.1f}" for word, percent in found.recall.items()]
    for first in range(0, len(cells), 4):
        out.print(" ".join(cells[first : first + 4]))
    notice(f"{found.clips_per_s:,.0f} clips/s")
    if limit is not None:
        notice("only a part of the split (--limit)")


def _facts(file: Path, data: str, split: str, seed: int) -> dict[str, Any]:
    """What was measured on what."""
    from falcon_snn.training.checkpoint import load_metadata

    return {"checkpoint": str(file), "network": load_metadata(file).network.name, "data": data,
            "split": split, "seed": seed}  # fmt: skip
