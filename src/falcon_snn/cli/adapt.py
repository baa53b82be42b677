"""`falcon-snn adapt`: the paper's three phases under a schedule of firing delays."""

from pathlib import Path
from typing import Any

import typer

from falcon_snn.cli.output import notice


def adapt(
    checkpoint: Path = typer.Option(..., help="The checkpoint to start from."),
    schedule: str = typer.Option(
        ..., help="fastest, balanced, accurate, uniform:D or a JSON file."
    ),
    out: Path = typer.Option(..., help="Folder for the phases' checkpoints and curves."),
    data: str = typer.Option("embedded", help="'embedded', a path, or a name in $FALCON_DATA."),
    phases: str = typer.Option("qat,tune,joint", help="Phases in order, with commas between."),
    recipe: list[Path] = typer.Option(
        [], help="Recipe for a phase, instead of the one that comes along; one per phase, in order."
    ),
    qk_prefix: int | None = typer.Option(None, help="Slots that Q and K wait for."),
    epochs: int | None = typer.Option(None, help="Epochs of each phase, if not the recipe's."),
    seed: int = typer.Option(0, help="Same seed, same weights on the CPU."),
    devices: int = typer.Option(1, help="GPUs, or processes on the CPU, that share each batch."),
    resume: bool = typer.Option(False, help="Continue the run in --out if there is one."),
    teacher: list[Path] = typer.Option(
        [], help="Checkpoint to distil from; of several, the mean of their scores."
    ),
    compiled: bool | None = typer.Option(
        None, "--compile/--no-compile", help="torch.compile; by default on a GPU only."
    ),
) -> None:
    """Adapt a network to a schedule: spike-based QAT, neuron tuning, both together."""
    from falcon_snn.cli.networks import delays_of
    from falcon_snn.cli.training_run import (
        Start,
        adapt_phases,
        demand_distilling,
        note_encodings,
        open_training,
        run_validation,
    )
    from falcon_snn.errors import FalconError
    from falcon_snn.training.checkpoint import demand_words, load_model
    from falcon_snn.training.recipe import PHASES, load_recipe

    names = phases.split(",")
    if unknown := [name for name in names if name not in PHASES]:
        raise FalconError(f"unknown phase '{unknown[0]}'; choose from {', '.join(PHASES)}")
    if recipe and len(recipe) != len(names):
        raise FalconError(f"{len(recipe)} recipes for {len(names)} phases; give one for each")
    sources: list[str] = [str(source) for source in recipe] or names
    plans = {name: load_recipe(source, epochs) for name, source in zip(names, sources, strict=True)}
    for name, plan in plans.items():
        if not plan.spiking:
            raise FalconError(f'the recipe of phase {name} must have forward = "spikes"')
    demand_distilling(teacher, plans.values())
    model, metadata = load_model(checkpoint, qk_prefix)
    delays = delays_of(schedule, metadata)
    facts: dict[str, Any] = {"data": data, "schedule": schedule, "start": str(checkpoint)}
    with open_training(data, list(plans.values()), devices=devices, seed=seed) as session:
        demand_words(checkpoint, metadata.words, session.validation.words)
        before = run_validation(session, model, delays, plans[names[0]])
        facts["accuracy_before"] = before
        if session.leads:
            note_encodings(plans, metadata.recipe["encoding"])
            notice(f"validation accuracy before adaptation {before:.2f} %")
        start = Start(model, delays, tuple(teacher), facts)
        best = adapt_phases(
            session, plans, checkpoint, start, out, resume=resume, compiled=compiled
        )
    if session.leads:
        notice(f"best validation accuracy {best:.2f} %: {out / 'best.safetensors'}")
