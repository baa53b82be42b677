"""The experiments behind the paper's tables, done again: a list of what to train, and its steps.

Every step works in its own folder of a run (`steps.py`): a killed run goes on where it stopped.
Result files are written as steps end and gathered in `results`, where `results` and `reproduce`
read them.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from falcon_snn.data.clips import Clip, word_list
from falcon_snn.data.examples import find_source, open_recordings
from falcon_snn.data.gsc import RELEASES
from falcon_snn.data.ssc import FILE_OF
from falcon_snn.errors import FalconError
from falcon_snn.files import read_json, replacing, write_json
from falcon_snn.forms import MOST_WORKERS, demand_within
from falcon_snn.neuron.encoding import ENCODINGS
from falcon_snn.pipeline.schedule import Delays, complete
from falcon_snn.report.published import ENERGY_ANALOG_MJ, SETTINGS, setting_of
from falcon_snn.report.results import (
    ABLATED,
    AFTER_ALL,
    AFTER_TEN,
    MAIN,
    beside_balanced,
    write_result,
)
from falcon_snn.search.result import read_result as read_search
from falcon_snn.training.checkpoint import load_checkpoint, load_metadata, save_checkpoint
from falcon_snn.training.loop import BEST
from falcon_snn.training.recipe import PHASES, RECIPES, load_recipe
from falcon_snn.workflow.data_sets import write_spikes
from falcon_snn.workflow.measuring import energy, energy_file
from falcon_snn.workflow.networks import delays_of
from falcon_snn.workflow.recording import FULL, QNN, record
from falcon_snn.workflow.searching import SearchSettings, search
from falcon_snn.workflow.sources import Data, data_source, fingerprint
from falcon_snn.workflow.steps import Run, RunStep, execute_steps
from falcon_snn.workflow.training import adapt, train
from falcon_snn.workflow.watch import SILENT, Watch

RESULTS = "results"
SPIKES, TEACHER, START = "spikes", "teacher", "start"
SEARCH, ENERGY = "search", "energy"  # kinds of files beside the results


@dataclass(frozen=True)
class Experiment:
    """One network of the paper; all of it with the first seed, the main table with every seed."""

    setting: str
    network: str
    spikes: bool = False  # on the inner ear's spikes of the recordings
    seeds: tuple[int, ...] = (0,)


class Adaptation(NamedTuple):
    """A configuration that is trained under delays."""

    schedule: str  # of the search; or full, or random-N: the Nth that is like Balanced
    epochs: tuple[int, int, int]  # of qat, tune and joint
    start: str = START  # or the configuration that it goes on from
    qk_prefix: int | None = None
    tested: bool = True  # or only validated


@dataclass(frozen=True)
class ExperimentPlan:
    """What is trained, and for how many epochs."""

    experiments: tuple[Experiment, ...] = (
        Experiment("gsc-medium", "medium", seeds=(0, 1, 2)),
        Experiment("gsc-large", "large"),
        Experiment("ssc-medium", "medium", spikes=True),
    )
    teacher_epochs: int = 40
    qnn_epochs: int = 80
    encoding_epochs: int = 3  # of QAT at delay 1 with each encoding of the source; the better stays
    adapt_epochs: tuple[int, int, int] = (30, 8, 6)
    short_epochs: int = 10
    search: SearchSettings = field(default_factory=SearchSettings)

    def adaptations(self, setting: str) -> dict[str, Adaptation]:
        """The configurations of a setting that are adapted, by their names in the results."""
        whole, curve = self.adapt_epochs, (self.adapt_epochs[0], 0, 0)
        short = (self.short_epochs, 0, 0)
        tested = beside_balanced(setting) == AFTER_TEN  # what the table of random schedules shows
        made = {
            **{name: Adaptation(name, whole) for name in MAIN[2:]},
            "full-30": Adaptation("full", curve, tested=False),
            **{name: Adaptation(name.removesuffix("-10"), short, tested=tested)
               for name in AFTER_TEN},
        }  # fmt: skip
        if setting != ABLATED:
            return made | {"random-1-30": Adaptation("random-1", curve, tested=False)}
        return {
            **made,
            **{name: Adaptation(name, whole) for name in AFTER_ALL},
            **{f"prefix-{p}": Adaptation("balanced", (0, 0, self.short_epochs), "balanced", p)
               for p in (6, 5, 4, 3)},
        }  # fmt: skip


# The configurations behind each table and figure of `reproduce`, of which a setting has its own;
# the others need no training.
NEEDED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("main-results", "latency-comparison", "method-comparison", "search"), MAIN),
    "claims": (*MAIN, "prefix-3"),
    "qat-curves": ("balanced", "random-1", "random-1-30", "full-30"),
    "random-curves": AFTER_TEN,
    "qk-prefix": ("balanced", "prefix-6", "prefix-5", "prefix-4", "prefix-3"),
    "energy": ("balanced",),
    "delay-effects": (QNN,),
    "schedules": (QNN,),
}
# Seconds per epoch of 51,088 clips on an H200 with a teacher and validation, of the QNN and of
# spikes. Measured are the teacher and Large; Medium's steps are four fifths of Large's.
_EPOCH_S = {"medium": (1.4, 1.55), "large": (1.75, 1.9), TEACHER: (2.2, 0.0)}
_SPIKES_FACTOR = 1.5  # 140 features instead of 64
_SIDE_BY_SIDE = 1.2  # the work of three processes on one GPU, over that of one
_CLIPS = 51_088
_CLIPS_PER_S = 1_340  # through the inner ear
_STEP_S = 10  # to load, compile, search and measure


def needed(only: str | None, setting: str, plan: ExperimentPlan) -> list[str]:
    """The configurations of a setting that an exhibit of `reproduce` shows; None: everything."""
    there = (*MAIN, *plan.adaptations(setting))
    if only is None:
        return list(there)
    if only == "random-adaptation":
        return list(beside_balanced(setting))
    one = next((other for other in SETTINGS if only.endswith(f"-{other}")), setting)
    if one != setting or (only == "qk-prefix" and setting != ABLATED):
        return []
    return [name for name in NEEDED.get(only.removesuffix(f"-{one}"), ()) if name in there]


class Planned(NamedTuple):
    """A step, and the GPU seconds that it is expected to take."""

    step: RunStep
    seconds: float


def plan_steps(
    data: str, plan: ExperimentPlan, only: str | None, clips: int, watch: Watch = SILENT
) -> list[Planned]:
    """All that has to be done for an exhibit, in order; `clips` are those of training."""
    found: dict[str, Planned] = {}
    for experiment in plan.experiments:
        wanted = needed(only, experiment.setting, plan)
        seeds = experiment.seeds if set(MAIN) <= set(wanted) else experiment.seeds[:1]
        for number, seed in enumerate(seeds if wanted else ()):
            names = wanted if number == 0 else MAIN
            for one in _Steps(data, plan, experiment, seed, clips, watch).steps(names):
                found.setdefault(one.step.name, one)
    return list(found.values())


def longest_first(planned: Sequence[Planned]) -> list[Planned]:
    """The steps that most work waits for come first, and none before what it reads."""
    behind: dict[str, float] = {}
    for step, seconds in reversed(planned):
        after = (behind[one.step.name] for one in planned if step.name in one.step.after)
        behind[step.name] = seconds + max(after, default=0.0)
    return sorted(planned, key=lambda one: -behind[one.step.name])


@dataclass(frozen=True)
class _Steps:
    """The steps of one network with one seed."""

    data: str
    plan: ExperimentPlan
    experiment: Experiment
    seed: int
    clips: int
    watch: Watch

    def steps(self, names: Sequence[str]) -> Iterator[Planned]:
        """Those that some configurations need."""
        one, plan, first = self.experiment, self.plan, self.experiment.seeds[0]
        teacher, qnn, start = self._teacher, self._name(QNN), self._name(START)
        if one.spikes:
            seconds = 1.3 * self.clips / _CLIPS_PER_S  # with validation and test
            yield Planned(RunStep(SPIKES, "the recordings through the inner ear",
                                  self._spikes, ("data", "fingerprint")), seconds)  # fmt: skip
        before = (SPIKES,) if one.spikes else ()
        yield self._planned(teacher, "a float network to learn from", self._train_teacher,
                            before, TEACHER, plan.teacher_epochs)  # fmt: skip
        yield self._planned(qnn, "the quantised network", self._train_qnn, (*before, teacher),
                            one.network, plan.qnn_epochs)  # fmt: skip
        contest = self.seed == first
        yield self._planned(
            start, "the better encoding of source spikes" if contest else "the same encoding",
            self._choose_encoding, (*before, teacher, qnn) if contest
            else (qnn, f"{one.setting}-{START}-seed{first}"),
            one.network, 0, 2 * plan.encoding_epochs if contest else 0,
        )  # fmt: skip
        yield self._planned(self._name(SEARCH), "where to wait", self._search, (*before, start),
                            one.network)  # fmt: skip
        for name in names:
            if (how := plan.adaptations(one.setting).get(name)) is not None:
                yield self._planned(
                    self._name(name), f"{name}: {'+'.join(map(str, how.epochs))} epochs",
                    partial(self._adapt, name, how),
                    (*before, teacher, self._name(how.start), self._name(SEARCH)), one.network,
                    0, sum(how.epochs),
                )  # fmt: skip

    def _planned(
        self, name: str, does: str, work: Any, after: tuple[str, ...], network: str,
        epochs: int = 0, spiking_epochs: int = 0,
    ) -> Planned:  # fmt: skip
        qnn_s, snn_s = _EPOCH_S.get(network, _EPOCH_S["medium"])
        factor = self.clips / _CLIPS * (_SPIKES_FACTOR if self.experiment.spikes else 1)
        seconds = _STEP_S + factor * (epochs * qnn_s + spiking_epochs * snn_s)
        does = f"{self.experiment.setting}, seed {self.seed}: {does}"
        uses = ("data", "fingerprint", "recipes", "plan")
        return Planned(RunStep(name, does, work, uses, after), seconds)

    def _name(self, part: str) -> str:
        return f"{self.experiment.setting}-{part}-seed{self.seed}"

    @property
    def _teacher(self) -> str:
        """One teacher for each kind of data, whatever the seed."""
        return f"{TEACHER}-{SPIKES}" if self.experiment.spikes else TEACHER

    def _source(self, run: Run) -> str:
        return str(run.path(SPIKES)) if self.experiment.spikes else self.data

    def _spikes(self, run: Run, folder: Path) -> None:
        for split, name in FILE_OF.items():
            if not (folder / name).exists():
                write_spikes(self.data, folder / name, split=split, watch=self.watch)

    def _train_teacher(self, run: Run, folder: Path) -> None:
        train(TEACHER, self._source(run), folder, epochs=self.plan.teacher_epochs, resume=True,
              watch=self.watch)  # fmt: skip

    def _train_qnn(self, run: Run, folder: Path) -> None:
        train(self.experiment.network, self._source(run), folder, epochs=self.plan.qnn_epochs,
              seed=self.seed, teachers=[run.path(self._teacher, BEST)], resume=True,
              watch=self.watch)  # fmt: skip
        for configuration in (QNN, FULL):
            self._record(run, folder, configuration)

    def _choose_encoding(self, run: Run, folder: Path) -> None:
        """The QNN with the encoding that is better on validation clips after a little training."""
        qnn, first = run.path(self._name(QNN), BEST), self.experiment.seeds[0]
        accuracies: dict[str, float] = {}
        for encoding in ENCODINGS if self.seed == first else ():
            start = folder / f"{encoding}.safetensors"
            _encode(qnn, encoding, start)
            network = load_metadata(start).network
            accuracies[encoding] = adapt(
                start, delays_of("fastest", network, None), self._source(run), folder / encoding,
                phases=("qat",), epochs=self.plan.encoding_epochs, seed=self.seed, resume=True,
                teachers=[run.path(self._teacher, BEST)], schedule="fastest", watch=self.watch,
            )  # fmt: skip
        if accuracies:
            chosen = max(accuracies, key=lambda name: accuracies[name])
        else:
            chosen = read_json(run.path(f"{self.experiment.setting}-{START}-seed{first}",
                                        "encoding.json"))["chosen"]  # fmt: skip
        _encode(qnn, chosen, folder / BEST)
        write_json(folder / "encoding.json", {"chosen": chosen, "validation_percent": accuracies})

    def _search(self, run: Run, folder: Path) -> None:
        search(run.path(self._name(START), BEST), self._source(run), folder, self.plan.search,
               resume=True, watch=self.watch)  # fmt: skip

    def _adapt(self, name: str, how: Adaptation, run: Run, folder: Path) -> None:
        start = run.path(self._name(how.start), BEST)
        network = load_metadata(start).network
        delays = _delays(read_search(run.path(self._name(SEARCH), "result.json")), how.schedule)
        if delays is None:
            self.watch.notice(f"{name}: fewer schedules are like Balanced; left out")
            write_json(folder / "left-out.json", {"why": "no such schedule"})
            return
        phases = {phase: n for phase, n in zip(PHASES, how.epochs, strict=True) if n}
        adapt(start, complete(delays, network.boundaries, network.slots, how.schedule),
              self._source(run), folder, phases=tuple(phases), epochs=phases, seed=self.seed,
              qk_prefix=how.qk_prefix, teachers=[run.path(self._teacher, BEST)], resume=True,
              schedule=name, watch=self.watch)  # fmt: skip
        self._record(run, folder, name, before=start, test=how.tested)
        if name == "balanced" and setting_of(network.name, network.slots) in ENERGY_ANALOG_MJ:
            measured = energy(folder / BEST, self._source(run), watch=self.watch)
            measured["balanced"] = measured.pop("own")
            report = energy_file(folder / BEST, self._source(run), "test", measured, "balanced")
            write_json(folder / f"{ENERGY}.json", report)

    def _record(self, run: Run, folder: Path, configuration: str, **how: Any) -> None:
        spoken = f"{self.data} through the inner ear" if self.experiment.spikes else self.data
        result = record(folder, self.experiment.setting, configuration, self._source(run),
                        data_name=spoken, watch=self.watch, **how)  # fmt: skip
        write_result(folder / result.file_name, result)


def _delays(found: dict[str, Any], schedule: str) -> Delays | None:
    """The delays of a search's choice, above 1 only; None: it has no such random schedule."""
    if schedule == "full":
        return dict.fromkeys(found["boundaries"], len(found["uniform"]))
    number = found["chosen"].get(schedule)
    if number is None:
        others = found["random"]["balanced"]["schedules"]
        place = int(schedule.removeprefix("random-")) - 1
        if place >= len(others):
            return None
        number = others[place]["schedule"]
    return dict(found["evaluated"][number]["delays"])


def _encode(checkpoint: Path, encoding: str, to: Path) -> None:
    """The same network with another encoding of its source; its weights do not depend on it."""
    metadata, tensors = load_checkpoint(checkpoint)
    network = metadata.network.with_source(encoding=encoding)
    save_checkpoint(to, replace(metadata, network=network), tensors)


def _gather(job: Run, planned: Sequence[Planned]) -> None:
    """Copy the result files of all steps into one folder; searches and energy of first seeds."""
    found: dict[str, Path] = {}
    for step in (one.step.name for one in planned):
        found |= {path.name: path for path in job.path(step).glob("*-seed*.json")}
        setting = next((name for name in SETTINGS if step.startswith(f"{name}-")), "")
        for name, file in ((SEARCH, "result.json"), (ENERGY, f"{ENERGY}.json")):
            if (path := job.path(step, file)).exists():
                found.setdefault(f"{name}-{setting}.json", path)
    for name, path in found.items():
        with replacing(job.path(RESULTS, name)) as temporary:
            shutil.copyfile(path, temporary)


def _demand_speech_commands(source: str, clips: Sequence[Clip]) -> None:
    """The paper's tables are about a whole release; minutes on anything else would be lost."""
    words = len(word_list(clips))
    if all((len(clips), words) != (whole.clips, whole.words) for whole in RELEASES.values()):
        raise FalconError(
            f"{source}: {len(clips):,} clips of {words} words; the paper's tables are about all of "
            f"Speech Commands: give {' or '.join(RELEASES)} (`falcon-snn data download`)"
        )


def reproduce_training(
    data: Data, out: Path | str, *, only: str | None = None, setting: str | None = None,
    plan: ExperimentPlan | None = None,
    facts: dict[str, Any] | None = None, workers: int = 1, watch: Watch = SILENT,
) -> Path:  # fmt: skip
    """Train what an exhibit of `reproduce` needs and is not done yet; the folder of results.

    `setting` is one of the paper's networks alone; all can share a folder. `workers` steps are at
    work side by side.
    """
    demand_within("--workers", workers, 1, MOST_WORKERS)
    plan, source = plan or ExperimentPlan(), data_source(data)
    recordings = open_recordings(find_source(source))
    _demand_speech_commands(source, recordings.clips)
    clips = sum(clip.split == "training" for clip in recordings.clips)
    known = [one.setting for one in plan.experiments]
    if setting is not None and setting not in known:
        raise FalconError(f"--setting is '{setting[:40]}'; choose one of {', '.join(known)}")
    chosen = tuple(one for one in plan.experiments if setting in (None, one.setting))
    plan = replace(plan, experiments=chosen)
    facts_of_plan = {name: value for name, value in asdict(plan).items() if name != "experiments"}
    settings: dict[str, Any] = {
        "data": source, "fingerprint": fingerprint(data), "plan": facts_of_plan,
        "recipes": {name: asdict(load_recipe(name)) for name in RECIPES},
    }  # fmt: skip
    # Lines of several processes would not say whose they are: those of the steps are enough.
    heard = watch if workers == 1 else SILENT
    planned = longest_first(plan_steps(source, plan, only, clips, heard))
    if not planned:
        of = "" if setting is None else f" of {setting}"
        raise FalconError(f"'{only}' needs nothing{of} that is trained; leave out --train")
    job = Run(Path(out), settings)
    with job.opened(facts or {}):
        left = [one for one in planned if not job.valid(one.step)]
        minutes = sum(one.seconds for one in left) / 60
        minutes /= 1 if workers == 1 else _SIDE_BY_SIDE
        watch.notice(f"{len(left)} of {len(planned)} steps are left: about {minutes:.0f} minutes "
                     "on one H200")  # fmt: skip
        try:
            execute_steps(job, [one.step for one in planned], watch, workers=workers)
        finally:
            _gather(job, planned)
    return job.folder / RESULTS
