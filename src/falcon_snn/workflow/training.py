"""Training as functions: devices and clips opened once, phases one after the other."""

import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from falcon_snn.data.augment import Augmentation
from falcon_snn.data.examples import (
    Examples,
    Waves,
    find_source,
    kind_of,
    load_noise,
)
from falcon_snn.data.task import NO_WORDS, examples_for, waves_for
from falcon_snn.errors import FalconError, Stopped
from falcon_snn.files import demand_file_target, demand_unused, locked, replacing, sha256_of
from falcon_snn.forms import MOST_SEED, demand_within
from falcon_snn.hardware.profile import Profile
from falcon_snn.network.qnn import Qnn, with_slots, with_weight_bits
from falcon_snn.network.teacher import Teacher
from falcon_snn.training.batches import Clips
from falcon_snn.training.checkpoint import (
    demand_same_network,
    demand_words,
    load_metadata,
    load_model,
    load_teacher,
)
from falcon_snn.training.devices import Devices, open_devices
from falcon_snn.training.evaluate import validate
from falcon_snn.training.loop import BEST, LAST, EpochResult
from falcon_snn.training.loop import train as train_loop
from falcon_snn.training.recipe import PHASES, RECIPES, Recipe, load_recipe
from falcon_snn.training.step import Job
from falcon_snn.workflow.networks import (
    built_in,
    demand_fit,
    demand_whole_counts,
    network_for,
    qnn_for,
)
from falcon_snn.workflow.sources import Data, data_source, fingerprint
from falcon_snn.workflow.watch import SILENT, Watch

TEACHER = "teacher"  # the name of the float network to distil from


@dataclass(frozen=True)
class Session:
    """Devices and clips, opened once for all phases."""

    devices: Devices
    training: Examples | Waves
    noise: torch.Tensor
    validation: Examples
    seed: int
    watch: Watch

    @property
    def samples(self) -> Examples:
        """Samples to fit a network to: training ones, unless those are still recordings."""
        return self.training if isinstance(self.training, Examples) else self.validation

    @property
    def leads(self) -> bool:
        """Whether this process reports; with several, only the first does."""
        return self.devices.leads

    def locked(self, out: Path) -> AbstractContextManager[None]:
        """Lock the folder of the training; of several processes, the first does it for all."""
        return locked(out) if self.leads else nullcontext()


@dataclass(frozen=True)
class Start:
    """Where a phase starts from, and what it runs under."""

    model: Qnn | Teacher
    delays: dict[str, int] | None = None
    teachers: tuple[Path, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    profile: Profile | None = None  # its chips run the spikes


@contextmanager
def open_training(
    data: Data, recipes: Sequence[Recipe], *, classes: Sequence[str] | None = None,
    devices: int = 1, seed: int = 0, watch: Watch = SILENT,
) -> Iterator[Session]:  # fmt: skip
    """Start the processes and load the clips that the recipes need, with these classes."""
    # DDP says so of every 1x1 convolution; it costs a copy of small gradients.
    warnings.filterwarnings("ignore", message="Grad strides do not match", category=UserWarning)
    demand_within("--seed", seed, 0, MOST_SEED)
    opened = open_devices(devices)
    torch.backends.cudnn.benchmark = opened.device.type == "cuda"
    torch.manual_seed(seed)
    source = data_source(data)
    # The first process fills the cache of decoded clips, the others then find it filled.
    with opened.first_alone():
        training, noise = load_training(source, recipes, classes)
        validation = examples_for(source, "validation", classes)
    own_watch = watch if opened.leads else SILENT
    yield Session(opened, training, noise, validation, seed, own_watch)
    opened.close()


def load_training(
    source: str, recipes: Sequence[Recipe], classes: Sequence[str] | None
) -> tuple[Examples | Waves, torch.Tensor]:
    """The training clips as the recipes need them, and the noise that is added to some."""
    sound = kind_of(find_source(source)) == "recordings"
    waves = sound and any(recipe.needs_waves for recipe in recipes)
    training = (waves_for if waves else examples_for)(source, "training", classes)
    noisy = waves and any(recipe.augment.noisy for recipe in recipes)
    return training, load_noise(source) if noisy else torch.zeros(0)


def read_recipe(
    name: str, source: str | Path, data: Data, epochs: int | None = None,
    classes: Sequence[str] | None = None,
) -> Recipe:  # fmt: skip
    """The recipe of a phase; of a shipped one, only what fits the data and the classes.

    Those are made for sound: speed, noise and streams need recordings, masks need a time axis.
    With classes for what is not a word, a network learns to hear streams, and no answer is
    softened: smoothing and mixup make all sure answers equally sure, and then no threshold tells a
    word from what sounds like it.
    """
    recipe = load_recipe(source, epochs)
    if recipe.spiking != (name in PHASES):
        wanted = "spikes" if name in PHASES else "counts"
        raise FalconError(f"recipe of {name}: 'forward' is '{recipe.forward}', not '{wanted}'")
    if str(source) not in RECIPES:
        return recipe
    kind = kind_of(find_source(data_source(data)))
    if kind == "spikes":
        still = replace(recipe.augment, speed=0.0, noise_probability=0.0, stream=0.0)
        return replace(recipe, augment=still)
    if kind != "recordings":
        return replace(recipe, augment=Augmentation())
    if classes is None or not {*NO_WORDS} <= {*classes}:
        return replace(recipe, augment=replace(recipe.augment, stream=0.0))
    return replace(recipe, label_smoothing=0.0, augment=replace(recipe.augment, mixup=0.0))


def demand_classes(data: Data, examples: Examples, classes: Sequence[str] | None) -> None:
    """Refuse words that the data has no clips of."""
    if classes is not None and tuple(classes) != examples.words:
        gone = sorted(set(classes) - set(examples.words) - set(NO_WORDS))
        raise FalconError(f"{data}: has no recordings of {', '.join(gone[:3]) or 'words'}")


def demand_phases(phases: Sequence[str]) -> None:
    """Refuse what is no phase of an adaptation; recipes of other names train a QNN."""
    for name in phases or [""]:
        if name not in PHASES:
            raise FalconError(f"unknown phase '{name[:40]}'; choose from {', '.join(PHASES)}")
    if len(set(phases)) < len(phases):
        raise FalconError("--phases names a phase twice")


def demand_distilling(teachers: Sequence[Path], recipes: Iterable[Recipe]) -> None:
    """Refuse a teacher that is none, or that no recipe would follow."""
    for teacher in teachers:
        load_metadata(teacher)
    if teachers and not any(recipe.distil for recipe in recipes):
        raise FalconError("--teacher: no recipe distils; set 'distil' above 0 in one")


def demand_chips(profile: Profile | None, recipes: Iterable[Recipe]) -> None:
    """Refuse a recipe that would leave chips of a profile out of the training."""
    if profile is not None and any(recipe.gradient == "temporal" for recipe in recipes):
        raise FalconError("--hardware: chips run whole slots; choose the gradient 'rate'")


def on_chips(model: Qnn, profile: Profile | None) -> Qnn:
    """The network that is adapted: on chips of a profile, with weights that they can hold."""
    return model if profile is None else with_weight_bits(model, profile.weight_bits)


def run_phase(
    session: Session, recipe: Recipe, start: Start, out: Path, *, resume: bool = False,
    after_epoch: Callable[[int], None] = lambda epoch: None,
) -> EpochResult:  # fmt: skip
    """Train one phase into a folder; `after_epoch` is called after each and may end it (raise)."""
    teachers = []
    for path in start.teachers:
        teacher, metadata = load_teacher(path)
        demand_words(path, metadata.words, session.training.words)
        asked = teacher.folded() if isinstance(teacher, Teacher) else teacher
        teachers.append(asked.requires_grad_(False).to(session.devices.device))
    device = session.devices.device
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
        profile=start.profile,
        facts={**start.facts, **taught_by(start.teachers)},
    )
    name = " ".join(filter(None, (_schedule_name(start.facts), out.name)))
    done = load_metadata(out / LAST).epoch if resume and (out / LAST).exists() else 0
    _say_plan(session.watch, name, clips, recipe.epochs, done)
    ended = done

    def count(clips_done: int, result: EpochResult | None) -> None:
        nonlocal ended
        if result is not None:
            ended = result.epoch
        watch(clips_done, result)
        if result is not None:
            after_epoch(result.epoch)

    try:
        with session.watch.phase(name, recipe.epochs, clips.steps(), done) as watch:
            return train_loop(job, session.devices, count)
    except KeyboardInterrupt:
        if not ended:
            raise Stopped(f"stopped in epoch 1 of {name}", "nothing of it is kept") from None
        raise Stopped(f"stopped after epoch {ended} of {name}") from None


def taught_by(teachers: Sequence[Path]) -> dict[str, Any]:
    """What a checkpoint says about its teachers; a file may be renamed, its content may not."""
    if not teachers:
        return {}
    return {
        "teachers": [sha256_of(teacher) for teacher in teachers],
        "teacher_files": [teacher.name for teacher in teachers],
    }


def _schedule_name(facts: Mapping[str, Any]) -> str:
    """The schedule of a phase in one word; a file by its name."""
    return Path(str(facts.get("schedule", ""))).name.removesuffix(".json")


def _say_plan(watch: Watch, name: str, clips: Clips, epochs: int, done: int) -> None:
    if done >= epochs:
        watch.notice(f"{name}: all {epochs} epochs are done")
        return
    steps = f"{clips.steps()} {'step' if clips.steps() == 1 else 'steps'}"
    watch.notice(
        f"{name}: {len(clips):,} clips in batches of {clips.batch}, {steps} an epoch, "
        f"{epochs} {'epoch' if epochs == 1 else 'epochs'}"
    )
    if done:
        watch.notice(f"continuing at epoch {done + 1}")


def train(
    network: str | Qnn, data: Data, out: Path | str, *, recipe: str | Path | None = None,
    slots: int | None = None, epochs: int | None = None, seed: int = 0, devices: int = 1,
    resume: bool = False, init: Path | None = None, teachers: Sequence[Path] = (),
    classes: Sequence[str] | None = None, weight_bits: int | None = None, watch: Watch = SILENT,
) -> EpochResult:  # fmt: skip
    """Train a QNN (or a teacher) into a folder; a killed run continues with `resume`.

    `network` is a built-in name, "teacher", FILE.py:FUNCTION, or a QNN such as `from_torch` gives.
    `classes` are those of `data.task.task_classes`; by default all words of the data.
    """
    teaching = network == TEACHER
    name = TEACHER if teaching else "qnn"
    plan = read_recipe(name, recipe or name, data, epochs, classes)
    if teaching and any(given is not None for given in (init, slots, weight_bits)):
        raise FalconError(
            "a teacher is a float network from scratch; leave out --init, --slots and --weight-bits"
        )
    demand_distilling(teachers, [plan])
    with (
        open_training(
            data, [plan], classes=classes, devices=devices, seed=seed, watch=watch
        ) as session,
        session.locked(Path(out)),
    ):
        demand_classes(data, session.validation, classes)
        model = _model(network, session.samples, slots, init)
        if weight_bits is not None and isinstance(model, Qnn):
            model = with_weight_bits(model, weight_bits)
        facts = fingerprint(data, start=init)
        start = Start(model, teachers=tuple(teachers), facts=facts)
        return run_phase(session, plan, start, Path(out), resume=resume)


def _model(
    network: str | Qnn, examples: Examples, slots: int | None, init: Path | None
) -> Qnn | Teacher:
    if isinstance(network, Qnn):
        demand_fit(network.network, examples)
        return network
    if network == TEACHER:
        if tuple(examples.x.shape[1:]) == (98, 64):
            return Teacher(built_in("medium", "gsc", classes=len(examples.words)))
        return Teacher(network_for("medium", examples))
    model = qnn_for(network, examples, slots)
    if init is None:
        return model
    first, metadata = load_model(init)
    demand_words(init, metadata.words, examples.words)
    first = with_slots(first, model.network.slots)
    bits = first.network.weight_bits
    demand_same_network(init, first.network, replace(model.network, weight_bits=bits))
    return first


def adapt(
    checkpoint: Path, delays: dict[str, int] | None, data: Data, out: Path | str, *,
    phases: Sequence[str] = PHASES, recipes: Mapping[str, str | Path] | None = None,
    qk_prefix: int | None = None, epochs: int | Mapping[str, int] | None = None, seed: int = 0,
    devices: int = 1, resume: bool = False, teachers: Sequence[Path] = (), schedule: str = "",
    profile: Profile | None = None, watch: Watch = SILENT,
) -> float:  # fmt: skip
    """Adapt a network to a schedule, phase after phase; the best validation accuracy in percent.

    `epochs` are those of every phase, or of each by its name, instead of the recipes'.
    `out/best.safetensors` is the best epoch of all phases. With a profile every step runs on
    another of its chips: the network learns to withstand their errors, with no delays as a QNN.
    """
    recipes, best = recipes or {}, Path(out) / BEST
    if delays is None and profile is None:
        raise FalconError("--schedule: the QNN has nothing to adapt to but chips; add --hardware")
    demand_phases(phases)
    demand_file_target(best, checkpoint, *teachers)
    if not resume:
        demand_unused(Path(out), [BEST])
    each = epochs if isinstance(epochs, Mapping) else dict.fromkeys(phases, epochs)
    classes = load_metadata(checkpoint).words
    plans = {
        name: read_recipe(name, recipes.get(name, name), data, each.get(name), classes)
        for name in phases
    }
    demand_distilling(teachers, plans.values())
    demand_chips(profile, plans.values())
    model, metadata = load_model(checkpoint, qk_prefix)
    model = on_chips(model, profile)
    if delays is None:
        demand_whole_counts(model.network)
    with (
        open_training(
            data,
            list(plans.values()),
            classes=metadata.words,
            devices=devices,
            seed=seed,
            watch=watch,
        ) as session,
        session.locked(Path(out)),
    ):
        demand_words(checkpoint, metadata.words, session.validation.words)
        before = run_validation(session, model, delays, profile)
        session.watch.notice(f"validation accuracy before adaptation {before:.2f} %")
        facts = fingerprint(data, start=checkpoint, profile=profile, schedule=schedule)
        start = Start(model, delays, tuple(teachers), {**facts, "accuracy_before": before}, profile)
        return adapt_phases(session, plans, start, Path(out), resume=resume)


def adapt_phases(
    session: Session, plans: Mapping[str, Recipe], start: Start, out: Path, *, resume: bool
) -> float:  # fmt: skip
    """Phases one after the other, each in its folder; gives the best validation accuracy."""
    best, best_accuracy = None, -1.0
    for name, plan in plans.items():
        begin = replace(start, teachers=start.teachers if plan.distil else ())
        result = run_phase(session, plan, begin, out / name, resume=resume)
        session.devices.wait()
        phase_best = out / name / BEST
        if result.best_accuracy > best_accuracy:
            best, best_accuracy = phase_best, result.best_accuracy
        # Each phase starts from the best epoch of the one before it.
        start = replace(start, model=load_model(phase_best)[0])
    assert best is not None
    if session.leads:
        with replacing(out / BEST) as temporary:
            shutil.copyfile(best, temporary)
    return best_accuracy


def run_validation(
    session: Session, model: Qnn, delays: dict[str, int] | None, profile: Profile | None = None
) -> float:
    """Validation accuracy in percent of a network as it is, under a schedule; None: as a QNN."""
    model.to(session.devices.device)
    return validate(model, session.validation, delays, profile=profile)
