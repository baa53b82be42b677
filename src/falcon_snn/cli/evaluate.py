"""`falcon-snn evaluate`: how many clips a checkpoint labels rightly."""

from pathlib import Path

import typer

from falcon_snn.cli import evaluate_tables as tables
from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import WATCH, JsonFlag, notice, show
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
    seed: int | None = typer.Option(
        None,
        min=0,
        help="With --hardware: number of the first chip; with --stream: seed of the recordings "
        "(default: 0).",
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
    from falcon_snn.training.checkpoint import load_metadata

    if hardware is None and (one_layer_at_a_time or chips is not None):
        asked = "--chips" if chips is not None else "--one-layer-at-a-time"
        raise FalconError(f"{asked} is about chips; add --hardware PROFILE")
    if stream and (hardware is not None or qk_prefix is not None or limit is not None):
        raise FalconError("--stream does not go with --hardware, --qk-prefix or --limit")
    if not stream and (words is not None or hours is not None):
        asked = "--words" if words is not None else "--hours"
        raise FalconError(f"{asked} is about a stream; add --stream")
    if seed is not None and hardware is None and not stream:
        raise FalconError("--seed is about chips and streams; add --hardware PROFILE or --stream")
    if hardware is not None and backend != "auto":
        raise FalconError("chips run in torch on every device; leave out --backend")
    metadata, seed = load_metadata(file), seed or 0
    network, name = metadata.network, metadata.network.name
    facts = {"checkpoint": str(file), "network": name, "data": data, "split": split}
    if stream:
        from falcon_snn.report.stream_figure import draw_stream
        from falcon_snn.workflow.streaming import evaluate_stream

        found = {**facts, "seed": seed, **evaluate_stream(
            file, data, hours=3.0 if hours is None else hours,
            snr_db=20.0 if noise is None else noise,
            words=options.split_words(words), split=split, schedule=schedule, backend=backend,
            seed=seed, watch=WATCH,
        ).as_json()}  # fmt: skip
        title = f"{name}, {found['hours']:g} h, {found['snr_db']:g} dB"
        plot.draw(draw_stream, title, found)
        show(found, as_json, tables.print_stream)
        return
    if hardware is not None:
        from falcon_snn.hardware.profile import load_profile
        from falcon_snn.report.chips_figure import draw_chips
        from falcon_snn.workflow.chips import evaluate_on_chips

        found = {**facts, "seed": seed, "noise_db": noise, **evaluate_on_chips(
            file, data, load_profile(hardware), chips=chips or 5, seed=seed, schedule=schedule,
            split=split, qk_prefix=qk_prefix, limit=limit, noise_db=noise,
            layer_by_layer=one_layer_at_a_time, watch=WATCH,
        ).as_json()}  # fmt: skip
        title = f"{name}, {found['schedule']}, hardware '{found['hardware']}'"
        plot.draw(draw_chips, title, found["ideal"]["accuracy"], found["effects"] + found["layers"])
        show(found, as_json, tables.print_chips)
        return
    from falcon_snn.report.confusion_figure import draw_confusion
    from falcon_snn.workflow.measuring import evaluate as measure

    measured = measure(
        file, data, schedule=schedule, split=split, qk_prefix=qk_prefix, limit=limit,
        backend=backend, noise_db=noise, watch=WATCH,
    )  # fmt: skip
    title = f"{name}, {measured.accuracy:.2f} % of {measured.clips:,} clips"
    plot.draw(draw_confusion, title, metadata.words, measured.confusion)
    found = {**facts, "slots": network.slots, "qk_prefix": qk_prefix or network.prefix,
             "noise_db": noise, **measured.as_json()}  # fmt: skip
    show(found, as_json, tables.print_clips)
    if not as_json:
        notice(f"{measured.clips_per_s:,.0f} clips/s")
        if limit is not None:
            notice("only a part of the split (--limit)")
