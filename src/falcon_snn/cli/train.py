"""`falcon-snn train`: a QNN from speech, or a teacher for one."""

from pathlib import Path

import typer

from falcon_snn.cli.output import notice


def train(
    out: Path = typer.Option(..., help="Folder for checkpoints and curves."),
    recipe: str | None = typer.Option(
        None, help="A recipe as a TOML file; 'qnn' and 'teacher' come along and are the default."
    ),
    data: str = typer.Option("embedded", help="'embedded', a path, or a name in $FALCON_DATA."),
    model: str = typer.Option(
        "medium", help="tiny, medium, large, or teacher: a larger float network to distil from."
    ),
    slots: int = typer.Option(7, help="T, the spike slots of a stage; above 8 for a QNN only."),
    epochs: int | None = typer.Option(None, help="Epochs, if not those of the recipe."),
    seed: int = typer.Option(0, help="Same seed, same weights on the CPU."),
    devices: int = typer.Option(1, help="GPUs, or processes on the CPU, that share each batch."),
    resume: bool = typer.Option(False, help="Continue the run in --out if there is one."),
    init: Path | None = typer.Option(
        None, help="Start from the weights of this checkpoint; its slots may be others."
    ),
    teacher: list[Path] = typer.Option(
        [], help="Checkpoint to distil from; of several, the mean of their scores."
    ),
    compiled: bool | None = typer.Option(
        None, "--compile/--no-compile", help="torch.compile; by default on a GPU only."
    ),
) -> None:
    """Train a QNN or a teacher; a killed run goes on with --resume to the same weights."""
    from falcon_snn.cli.networks import dataset_of
    from falcon_snn.cli.training_run import Start, demand_distilling, open_training, run_phase
    from falcon_snn.config import MODELS, falcon_config
    from falcon_snn.errors import FalconError
    from falcon_snn.network.model import Falcon, with_slots
    from falcon_snn.network.teacher import Teacher
    from falcon_snn.training.checkpoint import demand_same, demand_words, load_model
    from falcon_snn.training.recipe import load_recipe

    if model not in (*MODELS, "teacher"):
        raise FalconError(f"unknown model '{model}'; choose one of {', '.join(MODELS)}, teacher")
    plan = load_recipe(recipe or ("teacher" if model == "teacher" else "qnn"), epochs)
    if plan.spiking:
        raise FalconError(f"recipe '{recipe}' trains the spiking network; use `falcon-snn adapt`")
    if model == "teacher" and init is not None:
        raise FalconError("a teacher starts from scratch; leave out --init")
    demand_distilling(teacher, [plan])
    with open_training(data, [plan], devices=devices, seed=seed) as session:
        words = session.validation.words
        dataset = dataset_of(session.validation)
        network: Falcon | Teacher
        if model == "teacher":
            network = Teacher(falcon_config("medium", dataset, classes=len(words)))
        else:
            network = Falcon(falcon_config(model, dataset, classes=len(words), slots=slots))
        if init is not None:
            first, held = load_model(init)
            demand_words(init, held.words, words)
            first = with_slots(first, slots)
            demand_same(init, "configuration", vars(first.config), vars(network.config))
            network = first
        start = Start(network, teachers=tuple(teacher), facts={"data": data})
        result = run_phase(session, plan, start, out, resume=resume, compiled=compiled)
    if session.leads:
        notice(f"best validation accuracy {result.best_accuracy:.2f} %: {out / 'best.safetensors'}")
