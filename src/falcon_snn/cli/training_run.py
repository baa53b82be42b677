"""What `train`, `adapt` and `run` share: devices, clips, phases with their progress bars."""

import logging
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from falcon_snn.cli.output import err, notice
from falcon_snn.errors import FalconError

if TYPE_CHECKING:
    from lightning.fabric import Fabric
    from torch import Tensor

    from falcon_snn.data.examples import Examples, Waves
    from falcon_snn.network.model import Falcon
    from falcon_snn.network.teacher import Teacher
    from falcon_snn.training.loop import EpochResult
    from falcon_snn.training.recipe import Recipe


@dataclass(frozen=True)
class Session:
    """Devices and clips, opened once for all phases."""

    fabric: "Fabric"
    training: "Examples | Waves"
    noise: "Tensor"
    validation: "Examples"
    seed: int

    @property
    def leads(self) -> bool:
        """Whether this process speaks; with several, only the first does."""
        return bool(self.fabric.global_rank == 0)


@dataclass(frozen=True)
class Start:
    """Where a phase starts from, and what it runs under."""

    model: "Falcon | Teacher"
    delays: dict[str, int] | None = None
    teachers: tuple[Path, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


@contextmanager
def open_training(
    data: str, recipes: Sequence["Recipe"], *, devices: int, seed: int
) -> Iterator[Session]:
    """Start the processes and load the clips that the recipes need."""
    import torch
    from lightning.fabric import Fabric

    from falcon_snn.data.examples import (
        find_source,
        is_spikes,
        load_examples,
        load_noise,
        load_waves,
    )

    _quiet()
    on_gpu = torch.cuda.is_available()
    available = torch.cuda.device_count() if on_gpu else devices
    if not 1 <= devices <= available:
        raise FalconError(f"--devices is {devices}; this machine has {available}")
    torch.backends.cudnn.benchmark = on_gpu
    torch.manual_seed(seed)
    fabric = Fabric(
        accelerator="cuda" if on_gpu else "cpu",
        devices=devices,
        strategy="ddp" if devices > 1 else "auto",
        precision="bf16-mixed" if on_gpu else "32-true",
    )
    fabric.launch()
    torch.manual_seed(seed)
    # The first process fills the cache of decoded clips, the others then find it filled.
    with fabric.rank_zero_first(local=True):
        waves = any(recipe.needs_waves for recipe in recipes)
        if waves and is_spikes(find_source(data)):
            waves = False
            if fabric.global_rank == 0:
                notice("these are spikes: of the augmentation, speed and noise are left out")
        training = (load_waves if waves else load_examples)(data, "training")
        noisy = waves and any(recipe.augment.noise_probability for recipe in recipes)
        noise = load_noise(data) if noisy else torch.zeros(0)
        validation = load_examples(data, "validation")
    try:
        yield Session(fabric, training, noise, validation, seed)
    finally:
        if devices > 1 and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def demand_distilling(teachers: Sequence[Path], recipes: Iterable["Recipe"]) -> None:
    """Refuse a teacher that no recipe would follow."""
    if teachers and not any(recipe.distil for recipe in recipes):
        raise FalconError("--teacher: no recipe distils; set 'distil' above 0 in one")


def note_encodings(plans: Mapping[str, "Recipe"], source: str) -> None:
    """Say which phases place source spikes otherwise than the checkpoint they start from."""
    for name, plan in plans.items():
        if plan.encoding != source:
            notice(f"{name}: source spikes are '{plan.encoding}', in the checkpoint '{source}'")


def run_phase(
    session: Session,
    recipe: "Recipe",
    start: Start,
    out: Path,
    *,
    resume: bool = False,
    compiled: bool | None = None,
) -> "EpochResult":
    """Train one phase, with a bar: epoch, loss, validation accuracy, clips/s, time left."""
    from falcon_snn.training.batches import Clips
    from falcon_snn.training.checkpoint import demand_words, load_teacher
    from falcon_snn.training.loop import EpochResult, train
    from falcon_snn.training.step import Job

    teachers = []
    for path in start.teachers:
        teacher, held = load_teacher(path)
        demand_words(path, held.words, session.training.words)
        teachers.append(session.fabric.to_device(teacher.requires_grad_(False)))
    device = session.fabric.device
    clips = Clips(session.training, recipe, device, session.noise)
    job = Job(
        model=start.model,
        recipe=recipe,
        clips=clips,
        validation=session.validation,
        out=out,
        seed=session.seed,
        delays=start.delays,
        teachers=tuple(teachers),
        resume=resume,
        compile=device.type == "cuda" if compiled is None else compiled,
        facts=start.facts,
    )
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(compact=True),
        console=err,
        disable=not session.leads,
    )
    steps = clips.steps()
    with bar:
        task = bar.add_task(out.name, total=recipe.epochs, figures="")

        def watch(clips_done: int, ended: EpochResult | None) -> None:
            if ended is None:
                bar.advance(task, 1 / steps)
            else:
                bar.update(task, completed=ended.epoch, figures=_figures(ended))

        return train(job, session.fabric, watch)


def adapt_phases(
    session: Session,
    plans: Mapping[str, "Recipe"],
    checkpoint: Path,
    start: Start,
    out: Path,
    *,
    resume: bool,
    compiled: bool | None = None,
) -> float:
    """Phases one after the other, each in its folder; `best.safetensors` is the best of all.

    Gives the best validation accuracy.
    """
    from falcon_snn.files import replacing
    from falcon_snn.training.checkpoint import load_model

    best, best_accuracy = checkpoint, -1.0
    for name, plan in plans.items():
        begin = replace(start, teachers=start.teachers if plan.distil else ())
        result = run_phase(session, plan, begin, out / name, resume=resume, compiled=compiled)
        session.fabric.barrier()
        phase_best = out / name / "best.safetensors"
        if result.best_accuracy > best_accuracy:
            best, best_accuracy = phase_best, result.best_accuracy
        # Each phase starts from the best epoch of the one before it.
        start = replace(start, model=load_model(phase_best)[0])
    if session.leads:
        with replacing(out / "best.safetensors") as temporary:
            shutil.copyfile(best, temporary)
    return best_accuracy


def run_validation(
    session: Session, model: "Falcon", delays: dict[str, int], recipe: "Recipe"
) -> float:
    """Validation accuracy in percent of a network as it is, under a schedule."""
    from falcon_snn.training.evaluate import validate

    session.fabric.to_device(model)
    return validate(model, session.validation, delays, recipe.encoding)


def _quiet() -> None:
    """Leave out what the libraries say about themselves."""
    logging.getLogger("lightning.fabric").setLevel(logging.WARNING)
    logging.getLogger("lightning.fabric.utilities.rank_zero").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message="Grad strides do not match", category=UserWarning)


def _figures(result: "EpochResult") -> str:
    return (
        f"loss {result.loss:.3f}, validation {result.validation_accuracy:.2f} %, "
        f"{result.clips_per_second:,.0f} clips/s"
    )
