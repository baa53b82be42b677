"""Which network should run on this chip: a space, limits and data in, a front of designs out."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from falcon_snn.data.noise import demand_ratio
from falcon_snn.errors import FalconError
from falcon_snn.files import read_json, write_json
from falcon_snn.forms import MOST_CHIPS, MOST_SEED, demand_within
from falcon_snn.hardware.profile import Profile, load_profile
from falcon_snn.report.design_page import DESIGNS, RESULT, SPACE, TRIALS, write_design_page
from falcon_snn.search.designs import Candidate, Limits, bands, draw, make_space, read_space
from falcon_snn.training.recipe import Recipe
from falcon_snn.workflow.contest import Contest, import_optuna, studies, work
from falcon_snn.workflow.designed import finish
from falcon_snn.workflow.networks import samples_of
from falcon_snn.workflow.sources import Data, data_source, fingerprint, load_split
from falcon_snn.workflow.steps import RUN_FILE, Run, RunStep, execute_steps
from falcon_snn.workflow.training import demand_chips, demand_distilling, read_recipe, taught_by
from falcon_snn.workflow.watch import SILENT, Watch
from falcon_snn.workflow.workers import Workers


@dataclass(frozen=True)
class DesignSettings:
    """All that the result depends on."""

    data: str
    fingerprint: dict[str, Any]
    space: dict[str, Any]
    limits: Limits
    profile: Profile
    bands: int
    trials: int
    qnn_recipe: Recipe
    qat_recipe: Recipe
    teachers: tuple[str, ...]
    noise_db: float | None
    chips: int
    seed: int


def design(
    data: Data, out: Path | str, *, limits: Limits, space: str | Path = "default",
    profile: Profile | None = None, band_count: int = 3, trials: int = 24, epochs: int = 27,
    adapt_epochs: int = 9, recipes: Mapping[str, str | Path] | None = None,
    teachers: Sequence[Path] = (), noise_db: float | None = 10.0, chips: int = 0, seed: int = 0,
    workers: Workers | None = None, resume: bool = False, facts: Mapping[str, Any] | None = None,
    watch: Watch = SILENT,
) -> dict[str, Any]:  # fmt: skip
    """Search a space of networks under limits; `report/design.json` as data.

    Costs that need no training are checked first. Of the rest, some train for a few epochs, the
    better part goes on, and the best of each band of latencies is searched for delays, adapted and
    measured, all on validation clips; with `chips`, on so many chips of the profile.
    """
    import_optuna()
    demand_within("--bands", band_count, 1, 1_000)
    demand_within("--trials", trials, 1, inf)
    demand_within("--chips", chips, 0, MOST_CHIPS)
    demand_within("--seed", seed, 0, MOST_SEED)
    if noise_db is not None:
        demand_ratio(noise_db)
    recipes, profile = recipes or {}, profile or load_profile()
    qnn = read_recipe("qnn", recipes.get("qnn", "qnn"), data, epochs)
    qat = read_recipe("qat", recipes.get("qat", "qat"), data, adapt_epochs)
    demand_distilling(teachers, [qnn, qat])
    demand_chips(profile if chips else None, [qat])
    settings = DesignSettings(
        data=data_source(data), fingerprint=fingerprint(data, **taught_by(teachers)),
        space=read_space(space), limits=limits, profile=profile, bands=band_count, trials=trials,
        qnn_recipe=qnn, qat_recipe=qat, teachers=tuple(map(str, teachers)),
        noise_db=noise_db, chips=chips, seed=seed,
    )  # fmt: skip
    job = Run(Path(out), asdict(settings))
    job.demand_own()
    if (job.folder / RUN_FILE).exists() and not resume:
        raise FalconError(f"{job.folder}: already holds a run; add --resume or change --out")
    steps = DesignJob(settings, _candidates(settings), workers or Workers(), watch).steps()
    with job.opened(facts or {}, profile):
        execute_steps(job, steps, watch)
    result: dict[str, Any] = read_json(job.path("report", RESULT))
    return result


@dataclass(frozen=True)
class Drawn:
    """What the space gave: its counts, and the candidates of each band in order of their trials."""

    counts: dict[str, Any]
    bands: tuple[tuple[Candidate, ...], ...]


def _candidates(settings: DesignSettings) -> Drawn:
    examples = load_split(settings.data, "validation")
    if len(examples.words) < 2:
        raise FalconError(f"{settings.data}: only one class; a network needs two or more")
    if examples.kind == "spikes" and settings.noise_db is not None:
        raise FalconError("spikes take no noise; add --no-noise")
    space = make_space(settings.space, samples_of(examples), settings.limits, settings.profile)
    if not space.candidates:
        raise FalconError(_why_empty(settings.limits, space.designs, space.unfit, space.excluded))
    found = bands(space, settings.bands)
    share = [settings.trials // len(found)] * len(found)
    for index in range(settings.trials % len(found)):
        share[-1 - index] += 1
    drawn = [
        tuple(draw(band, count, settings.seed)) for band, count in zip(found, share, strict=True)
    ]
    counts = {
        "designs": space.designs, "unfit": space.unfit, "excluded": dict(space.excluded),
        "within": len(space.candidates),
        "fastest_us": space.candidates[0].latency_us, "slowest_us": space.candidates[-1].latency_us,
    }  # fmt: skip
    return Drawn(counts, tuple(band for band in drawn if band))


def _why_empty(limits: Limits, designs: int, unfit: int, excluded: Mapping[str, int]) -> str:
    if unfit == designs:
        return f"none of the {designs:,} designs fits samples of this shape; choose another --space"
    parts = [
        f"--within-{key} {getattr(limits, key):g} excludes {count:,}"
        for key, count in excluded.items()
        if count
    ]
    return f"none of the {designs:,} designs is within the limits: {', '.join(parts)}"


@dataclass(frozen=True)
class DesignJob:
    """The steps of a search for designs."""

    settings: DesignSettings
    drawn: Drawn
    workers: Workers
    watch: Watch

    def steps(self) -> list[RunStep]:
        """All of them, in order."""
        chip = ("space", "limits", "profile", "data", "fingerprint", "bands", "trials", "seed")
        training = ("qnn_recipe", "noise_db", "teachers")
        return [
            RunStep("space", "every design, and what it costs untrained", self._space, chip),
            RunStep("contest", "a few epochs each; the better part goes on", self._contest,
                    (*chip, *training), ("space",)),
            RunStep("designs", "the best of each band: delays, adaptation, rivals", self._designs,
                    (*chip, *training, "qat_recipe", "chips"), ("contest",)),
            RunStep("report", "the front in one page", self._report,
                    after=("space", "contest", "designs")),
        ]  # fmt: skip

    @property
    def contest(self) -> Contest:
        """What a worker gets."""
        settings = self.settings
        return Contest(
            data=settings.data, bands=self.drawn.bands, limits=settings.limits,
            profile=settings.profile, recipe=settings.qnn_recipe,
            teachers=tuple(map(Path, settings.teachers)), noise_db=settings.noise_db,
            seed=settings.seed, fingerprint=settings.fingerprint,
            watch=_child(self.watch, self.workers), chips=settings.chips,
        )  # fmt: skip

    def _space(self, run: Run, folder: Path) -> None:
        counts, bands = self.drawn.counts, self.drawn.bands
        self.watch.notice(
            f"    {counts['designs']:,} designs, {counts['within']:,} within the limits; "
            f"{sum(map(len, bands))} will be tried"
        )
        rows = [[_row(each) for each in band] for band in bands]
        write_json(folder / SPACE, {**counts, "bands": rows})

    def _contest(self, run: Run, folder: Path) -> None:
        optuna = import_optuna()
        state = optuna.trial.TrialState
        contest = self.contest
        found = studies(contest, folder)
        cut_off = [
            (band, trial._trial_id)
            for band, study in enumerate(found)
            for trial in study.get_trials(deepcopy=False, states=(state.RUNNING,))
        ]
        self.workers.map(
            work,
            [
                (contest, folder, cut_off[index :: self.workers.count])
                for index in range(self.workers.count)
            ],
        )
        rows = []
        for band, study in enumerate(found):
            for trial in study.get_trials(deepcopy=False):
                if "candidate" in trial.user_attrs:
                    scores = {
                        key.removeprefix("epoch "): value
                        for key, value in trial.user_attrs.items()
                        if key.startswith("epoch ")
                    }
                    candidate = contest.candidates[trial.user_attrs["candidate"]]
                    rows.append({
                        **_row(candidate), "band": band, "state": trial.state.name.lower(),
                        "scores": scores, "error": trial.user_attrs.get("error"),
                    })  # fmt: skip
        if failed := [row for row in rows if row["state"] == "fail"]:
            self.watch.notice(
                f"    {len(failed)} of {len(rows)} trials failed, see {folder / TRIALS}"
            )
        if not any(row["state"] == "complete" for row in rows):
            reason = failed[0]["error"] if failed else "all were above --within-mj once they spiked"
            raise FalconError(f"no trial finished: {reason}")
        write_json(folder / TRIALS, rows)

    def _designs(self, run: Run, folder: Path) -> None:
        trials = read_json(run.path("contest", TRIALS))
        contest = self.contest
        last = str(contest.rungs[-1])
        best: dict[int, dict[str, Any]] = {}
        for row in trials:
            if row["state"] == "complete":
                leader = best.get(row["band"])
                if leader is None or row["scores"][last]["score"] > leader["scores"][last]["score"]:
                    best[row["band"]] = row
        calls = [
            (contest, self.settings.qat_recipe, row["candidate"], run.path("contest"), folder)
            for row in best.values()
        ]
        fewer = replace(self.workers, count=min(self.workers.count, len(calls)))
        write_json(folder / DESIGNS, fewer.map(finish, calls))

    def _report(self, run: Run, folder: Path) -> None:
        write_design_page(run.folder, folder)


def _row(candidate: Candidate) -> dict[str, Any]:
    return {
        "candidate": candidate.number, "name": candidate.name,
        "latency_us": candidate.latency_us, "tiles": candidate.tiles,
        "least_mj": candidate.least_mj,
    }  # fmt: skip


def _child(watch: Watch, workers: Workers) -> Watch:
    """Bars of several processes would overwrite each other: these print lines."""
    if workers.count == 1 and workers.engine == "local":
        return watch
    return _Lines(watch) if workers.engine == "local" else SILENT


class _Lines(Watch):
    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def notice(self, text: str) -> None:
        self.watch.notice(text)
