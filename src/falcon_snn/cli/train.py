"""`falcon-snn train`: a QNN from data, or a teacher for one."""

from pathlib import Path

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import WATCH, notice


def train(
    out: Path = typer.Option(..., help="Folder for checkpoints and curves."),
    network: str = typer.Option(
        "medium",
        help="tiny, medium, large, kestrel-5, -7, -9 or -5-small; FILE.py:FUNCTION, a network of "
        "your own (a torch module or a description); or teacher, a larger float network to distil "
        "from.",
    ),
    data: str = options.Data,
    classes: tuple[str, ...] | None = options.Classes,
    recipe: str | None = typer.Option(
        None,
        help="A recipe: a TOML file, 'small' for small sets, 'chip' for weights of few bits; by "
        "default 'qnn', or 'teacher'.",
    ),
    slots: int | None = typer.Option(
        None, help="T, the spike slots of a stage; above 8 for a QNN only."
    ),
    weight_bits: int | None = typer.Option(
        None, min=2, max=8, help="Bits of an analog weight, such as 3 for xue2020; by default 8."
    ),
    epochs: int | None = typer.Option(None, min=1, help="Epochs, instead of the recipe's."),
    seed: int = typer.Option(0, min=0, help="Same seed, same weights on the CPU."),
    devices: int = options.Devices,
    resume: bool = options.Resume,
    init: Path | None = options.Start,
    teachers: list[Path] = options.Teachers,
) -> None:
    """Train a QNN or a teacher; a killed run continues with --resume, to the same weights."""
    from falcon_snn.workflow.training import train as train_network

    result = train_network(
        network, data, out, recipe=recipe, slots=slots, epochs=epochs, seed=seed, devices=devices,
        resume=resume, init=init, teachers=teachers, classes=classes, weight_bits=weight_bits,
        watch=WATCH,
    )  # fmt: skip
    notice(f"best validation accuracy {result.best_accuracy:.2f} %: {out / 'best.safetensors'}")
