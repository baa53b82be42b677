"""Candidates train for a few epochs, and only the better part goes on.

One Optuna study per band of latencies, all in one journal, in which every process and every new
start finds what is done. The trials are drawn beforehand; successive halving says which go on. A
trial that was cut off continues from its last epoch.

Trials are judged as integer networks with full lookahead: before adaptation, delay 1 costs a
network of many slots far more than it does after it.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from falcon_snn.data.examples import Examples
from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile
from falcon_snn.network.convert import convert
from falcon_snn.network.integer import Snn
from falcon_snn.network.qnn import Qnn
from falcon_snn.pipeline.schedule import Delays
from falcon_snn.search.designs import Candidate, Limits
from falcon_snn.training.checkpoint import load_metadata, load_model
from falcon_snn.training.evaluate import accuracy, snn_predictions
from falcon_snn.training.loop import BEST, LAST
from falcon_snn.training.recipe import Recipe
from falcon_snn.workflow.measuring import measure
from falcon_snn.workflow.sources import chosen, load_split
from falcon_snn.workflow.training import Session, Start, open_training, run_phase
from falcon_snn.workflow.watch import Watch

JOURNAL = "journal.jsonl"
HALVING = 3  # one in this many candidates goes on
RUNGS = 3  # the last of them is the whole training
ENERGY_CLIPS = 256
_LOCK_S = 30  # a lock that a killed process left is removed after this time


@dataclass(frozen=True)
class Contest:
    """All that a trial's result depends on; goes to every worker."""

    data: str
    bands: tuple[tuple[Candidate, ...], ...]  # those drawn, in the order of their trials
    limits: Limits
    profile: Profile
    recipe: Recipe
    teachers: tuple[Path, ...]
    noise_db: float | None  # None: data to which no noise can be added
    seed: int
    fingerprint: dict[str, Any]
    watch: Watch
    chips: int = 0  # of the profile, on which winners are searched, adapted and judged; 0: ideal

    @property
    def candidates(self) -> dict[int, Candidate]:
        return {each.number: each for band in self.bands for each in band}

    @property
    def rungs(self) -> list[int]:
        """The epochs after which it is decided which go on; the last is the whole training."""
        epochs = self.recipe.epochs
        return sorted({max(1, epochs // HALVING**power) for power in range(RUNGS)})


@dataclass(frozen=True)
class Judge:
    """Validation clips, clean and noisy, on which integer networks are compared."""

    clean: Examples
    noisy: Examples | None
    class_weight: float  # of the recipe: a mean over clips, or over classes

    def score(self, snn: Snn, delays: Delays) -> dict[str, float]:
        """Percent of the clips, clean and noisy, and the mean of both, which decides."""
        sets = {"clean": self.clean} | ({} if self.noisy is None else {"noisy": self.noisy})
        found = {
            name: accuracy(snn_predictions(snn, clips, delays), clips, self.class_weight)
            for name, clips in sets.items()
        }
        return found | {"score": sum(found.values()) / len(found)}


@contextmanager
def opened(contest: Contest, recipes: Sequence[Recipe]) -> Iterator[tuple[Session, Judge]]:
    """The session and the judge of one process."""
    with open_training(
        contest.data, recipes, seed=contest.seed, watch=contest.watch
    ) as session:  # fmt: skip
        noisy = None
        if contest.noise_db is not None:
            noisy = load_split(contest.data, "validation", noise_db=contest.noise_db)
        yield session, Judge(session.validation, noisy, contest.recipe.class_weight)


def folder_of(candidate: Candidate, folder: Path) -> Path:
    slug = re.sub(r"[^a-z0-9]+", "-", candidate.name.lower())
    return folder / f"{candidate.number:05d}-{slug}"


def studies(contest: Contest, folder: Path) -> list[Any]:
    """The studies of the bands; new ones get their trials."""
    optuna = import_optuna()
    path = str(folder / JOURNAL)
    journal = optuna.storages.journal
    lock = journal.JournalFileSymlinkLock(path, grace_period=_LOCK_S)
    storage = optuna.storages.JournalStorage(journal.JournalFileBackend(path, lock_obj=lock))
    pruner = optuna.pruners.SuccessiveHalvingPruner(
        min_resource=contest.rungs[0], reduction_factor=HALVING
    )
    found = []
    for number, band in enumerate(contest.bands):
        study = optuna.create_study(
            storage=storage, pruner=pruner, study_name=f"band-{number}", direction="maximize",
            load_if_exists=True,
            sampler=optuna.samplers.RandomSampler(seed=contest.seed % (1 << 32)),
        )  # fmt: skip
        known = {trial.user_attrs["candidate"] for trial in study.get_trials(deepcopy=False)}
        for candidate in band:
            if candidate.number not in known:
                study.enqueue_trial({}, user_attrs={"candidate": candidate.number})
        found.append(study)
    return found


def import_optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise FalconError("design needs Optuna; pip install 'falcon-snn[design]'") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # Its file journal works well, but is still called experimental.
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


def work(contest: Contest, folder: Path, mine: Sequence[tuple[int, int]]) -> None:
    """What one process does: first the trials that were cut off, then whatever waits."""
    optuna = import_optuna()
    waiting = optuna.trial.TrialState.WAITING
    with opened(contest, [contest.recipe]) as (session, judge):
        found = studies(contest, folder)
        for band, trial_id in mine:
            trial = optuna.trial.Trial(found[band], trial_id)
            _run_trial(contest, session, judge, found[band], trial, folder)
        for study in found:
            while study.get_trials(deepcopy=False, states=(waiting,)):
                trial = study.ask()
                if "candidate" not in trial.user_attrs:  # another process took the last one
                    study.tell(trial, state=optuna.trial.TrialState.FAIL)
                    break
                _run_trial(contest, session, judge, study, trial, folder)


def _run_trial(
    contest: Contest, session: Session, judge: Judge, study: Any, trial: Any, folder: Path
) -> None:
    optuna = import_optuna()
    state = optuna.trial.TrialState
    candidate = contest.candidates[trial.user_attrs["candidate"]]
    try:
        scores = _train(contest, session, judge, trial, candidate, folder_of(candidate, folder))
    except optuna.TrialPruned as reason:
        study.tell(trial, state=state.PRUNED)
        outcome = str(reason)
    except (FalconError, torch.OutOfMemoryError) as error:
        line = str(error).splitlines()[0]
        trial.set_user_attr("error", line)
        study.tell(trial, state=state.FAIL)
        outcome = f"failed ({line})"
    else:
        study.tell(trial, scores["score"])
        outcome = f"score {scores['score']:.2f} %"
    last = folder_of(candidate, folder) / LAST
    last.unlink(missing_ok=True)  # three times the size of what is kept
    contest.watch.notice(f"{candidate.name}, {candidate.latency_us:.2f} µs: {outcome}")


def _train(
    contest: Contest, session: Session, judge: Judge, trial: Any, candidate: Candidate, out: Path
) -> dict[str, float]:
    """Train a candidate, rung by rung; the scores of its best epoch."""
    optuna = import_optuna()
    rungs, device = contest.rungs, session.devices.device

    def after_epoch(epoch: int) -> None:
        if epoch not in rungs[:-1]:
            return
        scores = trial.user_attrs.get(f"epoch {epoch}")
        if scores is None:
            snn = convert(load_model(out / LAST)[0]).to(device)
            scores = judge.score(snn, candidate.lookahead)
            if contest.limits.mj is not None:
                scores["mj"] = _energy_mj(snn, judge, candidate, contest.profile)
            trial.set_user_attr(f"epoch {epoch}", scores)
        if scores.get("mj", 0) > (contest.limits.mj or float("inf")):
            raise optuna.TrialPruned(f"{scores['mj']:.3f} mJ, above the limit")
        if epoch not in _reported(trial):
            trial.report(scores["score"], epoch)
        if trial.should_prune():
            raise optuna.TrialPruned(f"score {scores['score']:.2f} % after epoch {epoch}, ended")

    torch.manual_seed(contest.seed * 1_000_003 + candidate.number)
    start = Start(Qnn(candidate.network), None, contest.teachers, contest.fingerprint)
    if (out / LAST).exists():
        after_epoch(load_metadata(out / LAST).epoch)
    run_phase(session, contest.recipe, start, out, resume=True, after_epoch=after_epoch)
    scores = judge.score(convert(load_model(out / BEST)[0]).to(device), candidate.lookahead)
    trial.set_user_attr(f"epoch {rungs[-1]}", scores)
    return scores


def _reported(trial: Any) -> dict[int, float]:
    frozen = trial.study.get_trials(deepcopy=False)[trial.number]
    values: dict[int, float] = frozen.intermediate_values
    return values


def _energy_mj(snn: Snn, judge: Judge, candidate: Candidate, profile: Profile) -> float:
    clips = chosen(judge.clean, range(len(judge.clean))[:ENERGY_CLIPS])
    return measure(snn, clips, candidate.delays, profile, "").energy.core_mj
