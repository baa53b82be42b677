"""The main job in one piece: train, convert, search, adapt, measure and report, step by step."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from falcon_snn.data.examples import load_examples
from falcon_snn.data.noise import demand_ratio
from falcon_snn.files import read_json, replacing, sha256_of, write_json
from falcon_snn.hardware.profile import Profile, load_profile, profile_toml
from falcon_snn.network.convert import conversion_report
from falcon_snn.pipeline.schedule import read_schedule
from falcon_snn.report.energy import energy_report
from falcon_snn.report.run_report import PAGE, write_run_report
from falcon_snn.search.result_form import CHOSEN
from falcon_snn.training.checkpoint import demand_words, load_metadata, load_model
from falcon_snn.training.evaluate import accuracy, snn_predictions
from falcon_snn.training.export import load_network
from falcon_snn.training.loop import BEST
from falcon_snn.training.recipe import PHASES, Recipe
from falcon_snn.workflow.chips import evaluate_on_chips
from falcon_snn.workflow.measuring import Evaluation, Measured, convert_checkpoint, measure
from falcon_snn.workflow.networks import delays_of, qnn_for
from falcon_snn.workflow.searching import SearchSettings, search
from falcon_snn.workflow.sources import Data, data_source, device, fingerprint, load_split
from falcon_snn.workflow.steps import Run, RunStep, demand_only, execute_steps
from falcon_snn.workflow.training import (
    Start,
    adapt_phases,
    demand_chips,
    demand_phases,
    on_chips,
    open_training,
    read_recipe,
    run_phase,
)
from falcon_snn.workflow.watch import SILENT, Watch

CONVERTED = "network.safetensors"


@dataclass(frozen=True)
class RunSettings:
    """All that the result of a run depends on."""

    data: str
    fingerprint: dict[str, Any]  # of the data and the checkpoint to start from
    network: str  # by name or FILE.py:FUNCTION, if it is to be trained
    network_sha256: str | None  # of that file
    slots: int | None
    qnn_recipe: Recipe | None  # None where a checkpoint is given
    adapt_recipes: dict[str, Recipe]
    seed: int
    profile: Profile
    tau: float
    delta_max: int
    search_clips: int | None  # None: all
    random: int
    noise_db: float | None  # of a second look at the test clips; None: none
    chips: int  # of the profile, to search, adapt and measure on; 0: the ideal chip


def run(
    data: Data, out: Path | str, *, network: str = "tiny", slots: int | None = None,
    start: Path | None = None, recipes: Mapping[str, str | Path] | None = None,
    epochs: Mapping[str, int] | None = None, phases: Sequence[str] = PHASES,
    profile: Profile | None = None, tau: float = 2.0, delta_max: int = 3,
    search_clips: int | None = None, random: int = 10, noise_db: float | None = None,
    chips: int = 0, seed: int = 0, only: str | None = None,
    facts: Mapping[str, Any] | None = None, watch: Watch = SILENT,
) -> Path:  # fmt: skip
    """Do what is not done yet of the main job; gives the path of its page.

    `start` is a QNN to start from instead of training `network`. `facts` go into `run.json`.
    """
    demand_phases(phases)
    if start is not None:
        load_model(start)  # what it is not is said before any step
    recipes, epochs, profile = recipes or {}, epochs or {}, profile or load_profile()
    names = (["qnn"] if start is None else []) + list(phases)
    plans = {
        name: read_recipe(name, recipes.get(name, name), data, epochs.get(name)) for name in names
    }
    demand_chips(profile if chips else None, plans.values())
    own = Path(network.rpartition(":")[0])
    settings = RunSettings(
        data=data_source(data),
        fingerprint=fingerprint(data, start=start),
        network=network,
        network_sha256=sha256_of(own) if start is None and own.is_file() else None,
        slots=slots,
        qnn_recipe=plans.pop("qnn", None),
        adapt_recipes=plans,
        seed=seed,
        profile=profile,
        tau=tau,
        delta_max=delta_max,
        search_clips=search_clips,
        random=random,
        noise_db=noise_db,
        chips=chips,
    )
    _search_settings(settings, settings.delta_max)  # what is wrong is said before the training
    if noise_db is not None:
        demand_ratio(noise_db)
    steps = MainJob(settings, start, watch).steps()
    job = Run(Path(out), asdict(settings))
    if only is not None:
        demand_only(job, steps, only)
    with job.opened(facts or {}, profile):
        execute_steps(job, steps, watch, only)
    return job.path("report", PAGE)


@dataclass(frozen=True)
class MainJob:
    """The steps of a run."""

    settings: RunSettings
    start: Path | None  # a QNN to start from
    watch: Watch

    def steps(self) -> list[RunStep]:
        """All of them, in order."""
        return [
            RunStep("features", "all clips as the network sees them", self._features,
                    uses=("data", "fingerprint")),
            RunStep("qnn", "the quantised network, trained or taken from a checkpoint", self._qnn,
                    uses=("network", "network_sha256", "slots", "fingerprint", "qnn_recipe",
                          "seed"),
                    after=("features",)),
            RunStep("convert", "its spiking network in integers, checked clip by clip",
                    self._convert, after=("features", "qnn")),
            RunStep("search", "where to wait: Fastest, Balanced and Accurate", self._search,
                    uses=("profile", "tau", "delta_max", "search_clips", "random", "chips", "seed"),
                    after=("features", "convert")),
            RunStep("adapt", "training under each of the three schedules", self._adapt,
                    uses=("adapt_recipes", "seed", "chips"), after=("features", "qnn", "search")),
            RunStep("measure", "accuracy and energy on the test clips", self._measure,
                    uses=("profile", "noise_db", "chips"), after=("features", "convert", "adapt")),
            RunStep("report", "tables and figures in one page", self._report,
                    uses=("profile",), after=("convert", "search", "adapt", "measure")),
        ]  # fmt: skip

    def _features(self, run: Run, folder: Path) -> None:
        clips: dict[str, int] = {}
        for split in ("training", "validation", "testing"):
            with self.watch.bar(split) as advance:
                examples = load_examples(self.settings.data, split, advance=advance)
            clips[split] = len(examples)
        write_json(folder / "facts.json", {"words": list(examples.words), "clips": clips})

    def _qnn(self, run: Run, folder: Path) -> None:
        if self.start is not None:
            _, metadata = load_model(self.start)
            demand_words(self.start, metadata.words, _words(run))
            with replacing(folder / BEST) as temporary:
                shutil.copyfile(self.start, temporary)
            return
        recipe = self.settings.qnn_recipe
        assert recipe is not None
        with open_training(
            self.settings.data, [recipe], seed=self.settings.seed, watch=self.watch
        ) as session:
            model = qnn_for(self.settings.network, session.samples, self.settings.slots)
            begin = Start(model, facts=self.settings.fingerprint)
            run_phase(session, recipe, begin, folder, resume=True)

    def _convert(self, run: Run, folder: Path) -> None:
        snn, checked = convert_checkpoint(
            run.path("qnn", BEST), folder / CONVERTED, data=self.settings.data, watch=self.watch
        )
        stages = [asdict(row) for row in conversion_report(snn)]
        write_json(folder / "conversion.json", {"check": checked, "stages": stages})

    def _search(self, run: Run, folder: Path) -> None:
        converted = run.path("convert", CONVERTED)
        longest = min(self.settings.delta_max, load_metadata(converted).network.slots)
        search(
            converted, self.settings.data, folder, _search_settings(self.settings, longest),
            profile=self.settings.profile, resume=True, watch=self.watch,
        )  # fmt: skip

    def _adapt(self, run: Run, folder: Path) -> None:
        checkpoint, plans = run.path("qnn", BEST), self.settings.adapt_recipes
        profile = self.settings.profile if self.settings.chips else None
        hardware = {} if profile is None else {"hardware": profile_toml(profile)}
        adapted: dict[str, dict[str, Any]] = {}
        with open_training(
            self.settings.data, list(plans.values()), seed=self.settings.seed, watch=self.watch
        ) as session:
            for name in CHOSEN:
                model, metadata = load_model(checkpoint)
                network = metadata.network
                file = run.path("search", f"{name}.json")
                delays = read_schedule(file, network.boundaries, network.slots)
                same = next((row for row in adapted.values() if row["delays"] == delays), None)
                if same is not None:  # the search chose one schedule twice
                    adapted[name] = same
                    continue
                facts = {**self.settings.fingerprint, "schedule": name, **hardware}
                # A recipe that distils follows the network that the run started from.
                begin = Start(on_chips(model, profile), delays, (checkpoint,), facts, profile)
                best = adapt_phases(session, plans, begin, folder / name, resume=True)
                adapted[name] = {"folder": name, "delays": delays, "validation_percent": best}
        write_json(folder / "adapted.json", adapted)

    def _measure(self, run: Run, folder: Path) -> None:
        """The test clips are looked at here and nowhere else, once per network."""
        converted = run.path("convert", CONVERTED)
        full = delays_of("full", load_metadata(converted).network, None)
        jobs: dict[str, tuple[Path, dict[str, int] | None]] = {
            "QNN": (converted, None), "full": (converted, full),
        }  # fmt: skip
        for name, row in read_json(run.path("adapt", "adapted.json")).items():
            jobs[name] = (run.path("adapt", row["folder"], BEST), row["delays"])
        examples = load_split(self.settings.data, "test", None, _words(run))
        done: dict[tuple[Path, str], Measured] = {}

        def measured(file: Path, delays: dict[str, int] | None, name: str) -> Measured:
            key = (file, str(delays))
            if key not in done:  # a network that has several names is run once
                snn = load_network(file)[0].to(device())
                with self.watch.bar(name, len(examples)) as advance:
                    done[key] = measure(
                        snn, examples, delays, self.settings.profile, name, advance=advance
                    )
            return done[key]

        rows, tested = [], {}
        for name, (file, delays) in jobs.items():
            one = measured(file, delays, name)
            rows.append(one.configuration(name))
            tested[name] = _tested(one.evaluation)
        before = {  # the converted network under the same delays, not adapted to them
            name: _tested(measured(converted, jobs[name][1], f"{name} before").evaluation)
            for name in CHOSEN
        }
        if self.settings.noise_db is not None:
            noisy = load_split(
                self.settings.data, "test", None, _words(run), self.settings.noise_db
            )
            for name, (file, delays) in jobs.items():
                snn = load_network(file)[0].to(device())
                with self.watch.bar(f"{name} with noise", len(noisy)) as advance:
                    found = snn_predictions(snn, noisy, delays or full, advance=advance)
                tested[name]["noisy_percent"] = accuracy(found, noisy)
        write_json(folder / "accuracy.json", {
            "clips": len(examples), "networks": tested, "before": before,
            "noise_db": self.settings.noise_db,
        })  # fmt: skip
        if self.settings.chips:
            write_json(folder / "chips.json", {"networks": self._on_chips(jobs)})
        balanced = next(row for row in rows if row.name == "balanced")
        write_json(folder / "energy.json", energy_report("", rows, balanced))

    def _on_chips(
        self, jobs: Mapping[str, tuple[Path, dict[str, int] | None]]
    ) -> list[dict[str, Any]]:
        """Every network on the same chips: its ideal accuracy, and each effect."""
        found: dict[tuple[Path, str], dict[str, Any]] = {}  # equal schedules share a network
        for name, (file, _) in jobs.items():
            schedule = {"QNN": "qnn", "full": "full"}.get(name, "own")
            if (file, schedule) not in found:
                report = evaluate_on_chips(
                    file, self.settings.data, self.settings.profile, chips=self.settings.chips,
                    split="test", schedule=schedule, watch=self.watch,
                ).as_json()  # fmt: skip
                ideal, effects = report["ideal"]["accuracy"], report["effects"]
                found[file, schedule] = {"name": name, "ideal": ideal, "effects": effects}
        return list(found.values())

    def _report(self, run: Run, folder: Path) -> None:
        write_run_report(run.folder, folder)


def _search_settings(settings: RunSettings, longest: int) -> SearchSettings:
    return SearchSettings(
        tau=settings.tau, delta_max=longest, limit=settings.search_clips, random=settings.random,
        seed=settings.seed, chips=settings.chips,
    )  # fmt: skip


def _tested(one: Evaluation) -> dict[str, Any]:
    return {
        "right": one.right, "percent": one.accuracy, "recall": one.recall,
        "interval": [low_or_high / 100 for low_or_high in one.interval],
    }  # fmt: skip


def _words(run: Run) -> tuple[str, ...]:
    return tuple(read_json(run.path("features", "facts.json"))["words"])
