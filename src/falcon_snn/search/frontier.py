"""Frontier search: many schedules of the Pareto front grow at once, and delays may be taken back.

PDS follows two schedules and only adds delay. Here every round looks at the neighbours of all
schedules of the front (one delay longer or shorter), predicts their accuracy from all answers so
far, and evaluates those that promise the largest gain of hypervolume. Latency is exact and free,
so only accuracy is predicted, and boundaries that cost almost nothing are found without help.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from falcon_snn.search.evaluations import Evaluations
from falcon_snn.search.pareto import Point, pareto_filter
from falcon_snn.search.pds import Change, Gates, candidates, compare
from falcon_snn.search.space import Schedule, Space, with_delay

Floats = NDArray[np.float64]

# The accuracy surface in units of its own spread: how far it varies, over how many changed delays,
# and how much of it is noise that no neighbour shares. Values nearby do as well.
_VARIANCE, _REACH, _NOISE = 4.0, 20.0, 0.01


@dataclass(frozen=True)
class FrontierSettings:
    evaluations: int  # schedules to evaluate at most
    batch: int = 16  # schedules per round: fewer learn faster, more share work
    optimism: float = 1.0  # standard deviations added to a prediction


class Promise(NamedTuple):
    """A schedule not yet evaluated, and the schedule of the front that it was made from."""

    schedule: Schedule
    parent: Schedule
    cycles: int


def frontier(
    evaluations: Evaluations, settings: FrontierSettings, gates: Gates
) -> tuple[list[Schedule], list[Change]]:
    """Every schedule evaluated, and each against the schedule of the front that it came from."""
    space = evaluations.space
    start = space.start
    evaluations.correct(start, [start])
    single = space.within_budget(candidates(start, space.delta_max))
    compared = compare(evaluations, gates, "frontier", 1, start, single[: settings.evaluations - 1])
    step = 2
    while (left := settings.evaluations - len(evaluations.asked)) > 0:
        points = evaluations.points(evaluations.asked)
        pool = nearest_neighbours(space, points)
        if not pool:
            break
        front = pareto_filter(points)
        hoped = optimistic(evaluations, [one.schedule for one in pool], settings.optimism)
        chosen = most_promising(front, pool, hoped, space.budget_cycles, min(settings.batch, left))
        # Candidates of one parent go together: a predictor keeps what lies before the change.
        for parent in dict.fromkeys(pool[index].parent for index in chosen):
            after = [pool[index].schedule for index in chosen if pool[index].parent == parent]
            compared += compare(evaluations, gates, "frontier", step, parent, after)
        step += 1
    found = evaluations.asked
    kept = {point.schedule for point in pareto_filter(evaluations.points(found))}
    return found, [change._replace(accepted=change.after in kept) for change in compared]


def nearest_neighbours(space: Space, points: list[Point]) -> list[Promise]:
    """Neighbours of the front; if all are known, of the front of what lies behind it, and so on."""
    known = {point.schedule for point in points}
    behind = points
    while behind:
        front = pareto_filter(behind)
        if pool := neighbours(space, front, known):
            return pool
        behind = [point for point in behind if point not in front]
    return []


def neighbours(space: Space, front: list[Point], known: set[Schedule]) -> list[Promise]:
    """All schedules one delay away from the front, longer or shorter, under the budget."""
    parents: dict[Schedule, Schedule] = {}
    for point in front:
        for index, current in enumerate(point.schedule):
            for delay in range(1, space.delta_max + 1):
                schedule = with_delay(point.schedule, index, delay)
                if delay != current and schedule not in known:
                    parents.setdefault(schedule, point.schedule)
    cycles = space.cycles(list(parents))
    return [
        Promise(schedule, parent, latency)
        for (schedule, parent), latency in zip(parents.items(), cycles, strict=True)
        if latency < space.budget_cycles
    ]


def optimistic(evaluations: Evaluations, schedules: list[Schedule], optimism: float) -> Floats:
    """Clips that schedules may get right: a Gaussian process's mean plus deviations.

    Two schedules resemble each other by exp(-distance / reach), the distance being the sum of the
    differences of their delays.
    """
    known = np.array(evaluations.asked, dtype=np.float64)
    wanted = np.array(schedules, dtype=np.float64)
    right = np.array([evaluations.right(one) for one in evaluations.asked], dtype=np.float64)
    centre, spread = right.mean(), max(float(right.std()), 1e-9)
    covariance = _resemblance(known, known) + _NOISE * np.eye(len(known))
    cross = _resemblance(known, wanted)
    weights = np.linalg.solve(covariance, cross)
    mean = weights.T @ ((right - centre) / spread)
    variance = _VARIANCE - np.einsum("kw,kw->w", cross, weights)
    hoped: Floats = centre + spread * (mean + optimism * np.sqrt(np.maximum(variance, 0.0)))
    return hoped


def most_promising(
    front: list[Point], pool: list[Promise], hoped: Floats, budget_cycles: int, n: int
) -> list[int]:
    """Indices of up to `n` promises, one after the other, each as if those before had held.

    The worth of one is the hypervolume it would add; where none adds any, what it may get right.
    """
    cycles = np.array([one.cycles for one in pool], dtype=np.float64)
    steps = [(float(point.cycles), float(point.right)) for point in front]
    chosen: list[int] = []
    for _ in range(min(n, len(pool))):
        gain = added_volume(steps, cycles, hoped, budget_cycles)
        worth = gain if np.delete(gain, chosen).max() > 0 else hoped.copy()
        worth[chosen] = -np.inf
        best = int(np.argmax(worth))
        chosen.append(best)
        steps.append((float(cycles[best]), float(hoped[best])))
    return chosen


def added_volume(
    steps: list[tuple[float, float]], cycles: Floats, right: Floats, budget_cycles: int
) -> Floats:
    """Hypervolume that each point (cycles, right) alone would add to the staircase of `steps`."""
    ordered = sorted(steps)
    edges = np.array([edge for edge, _ in ordered] + [budget_cycles], dtype=np.float64)
    height = np.maximum.accumulate([best for _, best in ordered])
    width = np.maximum(edges[1:] - np.maximum(edges[:-1], cycles[:, None]), 0.0)
    volume: Floats = (width * np.maximum(right[:, None] - height, 0.0)).sum(axis=1)
    return volume


def _resemblance(one: Floats, other: Floats) -> Floats:
    distance = np.abs(one[:, None, :] - other[None, :, :]).sum(axis=2)
    resemblance: Floats = _VARIANCE * np.exp(-distance / _REACH)
    return resemblance
