"""`falcon-snn refit`: a trained network for other words."""

from pathlib import Path

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import WATCH, JsonFlag, notice, out, print_json


def refit(
    target: Path = typer.Option(..., "--out", help="File for the network with its new readout."),
    file: Path = options.File,
    data: str = options.Data,
    classes: tuple[str, ...] | None = options.Classes,
    schedule: str | None = options.ScheduleOrFull,
    passes: int = typer.Option(4, help="How often the training clips are heard, each time anew."),
    seed: int = typer.Option(0, min=0, help="Seed of how the clips are moved, and of their noise."),
    as_json: bool = JsonFlag,
) -> None:
    """Fit the readout of a trained network to other words; its spikes and delays stay.

    It takes minutes on a CPU. The words are those of the data, or --words.
    """
    from falcon_snn.workflow.refitting import refit as fit

    found = fit(
        file, data, target, classes=classes, schedule=schedule, passes=passes, seed=seed,
        watch=WATCH,
    )  # fmt: skip
    if as_json:
        print_json({
            "out": str(target), "classes": list(found.classes), "samples": found.samples,
            "ridge": found.ridge, "clips": found.clips, "accuracy": found.accuracy,
        })  # fmt: skip
        return
    out.print(
        f"{len(found.classes)} classes, fitted to {found.samples:,} samples with ridge "
        f"{found.ridge:g}: {found.accuracy:.2f} % of {found.clips:,} validation clips are right "
        "(offsets cross-validated)"
    )
    notice(f"{target}: the network with its new readout")
