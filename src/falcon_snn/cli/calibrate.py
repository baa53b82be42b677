"""`falcon-snn calibrate`: the thresholds from which a network's words count."""

from pathlib import Path

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, notice, out, print_json


def calibrate(
    target: Path = typer.Option(..., "--out", help="The network with its thresholds."),
    checkpoint: Path | None = options.Checkpoint,
    pretrained: str | None = options.Pretrained,
    data: str = options.Data,
    schedule: str | None = typer.Option(
        None, help="As of `evaluate`; by default what the network was trained for, or full."
    ),
    hours: float = typer.Option(2.0, help="Sound of which streams are made."),
    noise: float = typer.Option(20.0, help="Their signal-to-noise ratio in dB."),
    false_per_hour: float = typer.Option(0.5, min=0.0, help="False accepts that are allowed."),
    seed: int = typer.Option(0, min=0, help="Of the streams."),
    as_json: bool = JsonFlag,
) -> None:
    """Choose the thresholds of `classify`, `detect` and `listen` on validation clips."""
    from falcon_snn.cli.watch import TerminalWatch
    from falcon_snn.workflow.calibrating import calibrate as choose

    file = options.network_file(checkpoint, pretrained)
    found = choose(
        file, data, target, schedule=schedule, hours=hours, snr_db=noise,
        false_per_hour=false_per_hour, seed=seed, watch=TerminalWatch(),
    )  # fmt: skip
    facts = found.stream.facts(found.point)
    assert facts is not None
    if as_json:
        print_json({
            "out": str(target), "clip_threshold": found.clip_threshold,
            "accuracy_before": found.accuracy_before, "accuracy": found.accuracy, "stream": facts,
        })  # fmt: skip
        return
    out.print(
        f"clips: a word below {found.clip_threshold:.2f} is unknown; {found.accuracy:.2f} % of the "
        f"validation clips and of silence are right, {found.accuracy_before:.2f} % without"
    )
    out.print(
        f"streams: a word is reported from {facts['threshold']:.4f} on; "
        f"{facts['miss_percent']:.1f} % misses at {facts['false_per_hour']:.2g} false accepts per "
        f"hour, {found.stream.hours:g} h of validation clips"
    )
    notice(f"{target}: the network with both")
