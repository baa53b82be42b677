"""Pipeline Delay Search (paper, section 3.3 and Algorithm 2): where to wait, and how long."""

from dataclasses import dataclass
from fractions import Fraction
from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from falcon_snn.search.evaluations import Evaluations
from falcon_snn.search.predictor import Correct
from falcon_snn.search.space import Schedule, unique, with_delay

PATHS = ("acc", "eff")


@dataclass(frozen=True)
class Gates:
    """What a change must achieve, besides staying under the latency budget."""

    tau: float = 2.0  # smallest rescue score
    eps: float = 0.001  # smallest accuracy gain


class Change(NamedTuple):
    """A candidate against the schedule that it would replace."""

    path: str
    step: int
    before: Schedule
    after: Schedule
    rescued: int  # R: clips that turn from wrong to right
    harmed: int  # H: clips that turn from right to wrong
    clips: int
    added_cycles: int
    passes_tau: bool
    passes_eps: bool
    accepted: bool

    @property
    def passes(self) -> bool:
        return self.passes_tau and self.passes_eps


def rescued_and_harmed(before: Correct, after: Correct) -> tuple[int, int]:
    """(R, H): clips that turn right, and clips that turn wrong."""
    return int(np.count_nonzero(after & ~before)), int(np.count_nonzero(before & ~after))


def accuracy_gain(rescued: int, harmed: int, clips: int) -> float:
    """dA = (R - H) / |D_val|."""
    return (rescued - harmed) / clips


def rescue_score(rescued: int, harmed: int) -> float:
    """S = (R - H) / sqrt(R + H), and 0 when nothing changes."""
    return (rescued - harmed) / sqrt(rescued + harmed) if rescued + harmed else 0.0


def utility_acc(change: Change) -> Fraction:
    """U_acc = dA. A fraction: equal scores must be equal, not nearly so."""
    return Fraction(change.rescued - change.harmed, change.clips)


def utility_eff(change: Change) -> Fraction | float:
    """U_eff = dA / dL, infinite when the change adds no latency."""
    if change.added_cycles <= 0:
        return inf
    return Fraction(change.rescued - change.harmed, change.clips * change.added_cycles)


def candidates(schedule: Schedule, delta_max: int) -> list[Schedule]:
    """One delay increased, to each larger value, in boundary order."""
    return [
        with_delay(schedule, index, delay)
        for index, current in enumerate(schedule)
        for delay in range(current + 1, delta_max + 1)
    ]


def best(changes: list[Change], path: str) -> Change:
    """The largest utility; then the larger gain, the smaller added latency, boundary order."""
    utility = {"acc": utility_acc, "eff": utility_eff}[path]
    return min(changes, key=lambda c: (-utility(c), -utility_acc(c), c.added_cycles))


def pds(evaluations: Evaluations, gates: Gates) -> tuple[list[Schedule], list[Change]]:
    """The schedules accepted on both paths, the start among them, and every change compared.

    Candidates at or over the budget fail the third gate without being evaluated.
    """
    space = evaluations.space
    start = space.start
    evaluations.correct(start, [start])
    accepted, compared = [start], list[Change]()
    for path in PATHS:
        current, step = start, 1
        while True:
            allowed = space.within_budget(candidates(current, space.delta_max))
            changes = compare(evaluations, gates, path, step, current, allowed)
            passing = [change for change in changes if change.passes]
            chosen = best(passing, path) if passing else None
            compared += [change._replace(accepted=change is chosen) for change in changes]
            if chosen is None:
                break
            current, step = chosen.after, step + 1
            accepted.append(current)
    return unique(accepted), compared


def compare(
    evaluations: Evaluations,
    gates: Gates,
    path: str,
    step: int,
    before: Schedule,
    candidates: list[Schedule],
) -> list[Change]:
    """Evaluate candidates that lie under the budget, each against the schedule before it."""
    answers = evaluations.correct(before, candidates)
    before_answers = evaluations.answers(before)
    before_cycles, *cycles = evaluations.space.cycles([before, *candidates])
    changes = []
    for after, correct, after_cycles in zip(candidates, answers, cycles, strict=True):
        rescued, harmed = rescued_and_harmed(before_answers, correct)
        changes.append(
            Change(
                path=path,
                step=step,
                before=before,
                after=after,
                rescued=rescued,
                harmed=harmed,
                clips=len(correct),
                added_cycles=after_cycles - before_cycles,
                passes_tau=rescue_score(rescued, harmed) >= gates.tau,
                passes_eps=accuracy_gain(rescued, harmed, len(correct)) >= gates.eps,
                accepted=False,
            )
        )
    return changes
