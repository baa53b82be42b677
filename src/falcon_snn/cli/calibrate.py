"""`falcon-snn calibrate`: offsets of a network's scores, and the thresholds of its words."""

from pathlib import Path

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import WATCH, JsonFlag, notice, out, print_json


def calibrate(
    target: Path = typer.Option(..., "--out", help="File for the calibrated network."),
    file: Path = options.File,
    data: str = options.Data,
    schedule: str | None = options.ScheduleOrFull,
    hours: float = typer.Option(2.0, help="Hours of sound, made of validation clips."),
    noise: float = typer.Option(20.0, help="Signal-to-noise ratio of that sound in dB."),
    false_per_hour: float = typer.Option(0.5, min=0.0, help="False accepts to allow in an hour."),
    seed: int = typer.Option(0, min=0, help="Seed of that sound."),
    as_json: bool = JsonFlag,
) -> None:
    """Choose score offsets and thresholds of a network on validation clips.

    Offsets are added to the class scores, for all commands. One threshold is for
    `classify`, the other for `detect` and `listen`.
    """
    from falcon_snn.workflow.calibrating import calibrate as choose

    found = choose(
        file, data, target, schedule=schedule, hours=hours, snr_db=noise,
        false_per_hour=false_per_hour, seed=seed, watch=WATCH,
    )  # fmt: skip
    facts = found.stream.facts(found.point)
    assert facts is not None
    if as_json:
        print_json({
            "out": str(target), "offsets": found.offsets, "clip_threshold": found.clip_threshold,
            "accuracy_before": found.accuracy_before, "accuracy": found.accuracy, "stream": facts,
        })  # fmt: skip
        return
    moved = sorted(found.offsets.items(), key=lambda one: -abs(one[1]))[:3]
    largest = ", ".join(f"{word} {offset:+.2f}" for word, offset in moved)
    out.print(f"scores: offsets of {len(found.offsets)} classes, the largest {largest}")
    out.print(
        f"clips: a word below {found.clip_threshold:.2f} is unknown; {found.accuracy:.2f} % of the "
        f"validation clips and of silence are right (cross-validated), {found.accuracy_before:.2f} "
        "% before"
    )
    out.print(
        f"streams: a word is reported from {facts['threshold']:.4f} on; "
        f"{facts['miss_percent']:.1f} % misses at {facts['false_per_hour']:.2g} false accepts per "
        f"hour, {found.stream.hours:g} h of validation clips"
    )
    notice(f"{target}: the network with all three")
