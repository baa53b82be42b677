"""`falcon-snn adapt`: the paper's three phases under a schedule of firing delays."""

from pathlib import Path

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import WATCH, notice
from falcon_snn.cli.run import by_phase


def adapt(
    checkpoint: Path = options.File,
    schedule: str = typer.Option(
        ..., help="fastest, balanced, accurate, full, uniform:D, a JSON file; on chips also qnn."
    ),
    out: Path = typer.Option(..., help="Folder for the phases' checkpoints and curves."),
    data: str = options.Data,
    phases: str = options.Phases,
    recipe: list[str] = typer.Option(
        [], help="PHASE=RECIPE, a file instead of the shipped one; may be repeated."
    ),
    qk_prefix: int | None = options.QkPrefix,
    epochs: int | None = typer.Option(
        None, min=1, help="Epochs of each phase, instead of its recipe's."
    ),
    seed: int = typer.Option(0, min=0, help="Same seed, same weights on the CPU."),
    devices: int = options.Devices,
    resume: bool = options.Resume,
    teachers: list[Path] = options.Teachers,
    hardware: str | None = typer.Option(
        None, help="Learn on chips of this profile, with its precision and its errors."
    ),
) -> None:
    """Adapt a network to a schedule: spike-based QAT, neuron tuning, both together."""
    from falcon_snn.hardware.profile import load_profile
    from falcon_snn.training.checkpoint import load_metadata
    from falcon_snn.workflow.measuring import QNN
    from falcon_snn.workflow.networks import delays_of
    from falcon_snn.workflow.training import adapt as adapt_network

    names = phases.split(",")
    metadata, delays = load_metadata(checkpoint), None
    if schedule != QNN:
        delays = delays_of(schedule, metadata.network, metadata.delays)
    best = adapt_network(
        checkpoint, delays, data, out,
        phases=names, recipes=by_phase("--recipe", recipe, names), qk_prefix=qk_prefix,
        epochs=epochs, seed=seed, devices=devices, resume=resume, teachers=teachers,
        schedule=schedule,
        profile=None if hardware is None else load_profile(hardware), watch=WATCH,
    )  # fmt: skip
    notice(f"best validation accuracy {best:.2f} %: {out / 'best.safetensors'}")
