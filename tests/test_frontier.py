"""Frontier search: within its means, repeatable, and better than PDS at the same cost."""

import numpy as np
import pytest
from benchmarks.search_nsga2 import nsga2
from hypothesis import given
from hypothesis import strategies as st
from tests.spiking_mlp import SpikingMlp, additive_latency, every_schedule

from falcon_snn.search.evaluations import Evaluations
from falcon_snn.search.frontier import FrontierSettings, added_volume, frontier
from falcon_snn.search.pareto import Point, hypervolume
from falcon_snn.search.pds import Gates, pds
from falcon_snn.search.predictor import local_engine
from falcon_snn.search.run import Method
from falcon_snn.search.space import Schedule, Space

GATES = Gates()


def space_of(network: SpikingMlp) -> Space:
    costs = [188] * (len(network.boundaries) - 1) + [3]
    return Space(network.boundaries, additive_latency(costs), 1000 + 5 * 188)


def ran(network: SpikingMlp, method: Method) -> tuple[Evaluations, list[Schedule]]:
    evaluations = Evaluations(space_of(network), local_engine(network))
    return evaluations, method(evaluations)[0]


def volume(evaluations: Evaluations, found: list[Schedule]) -> int:
    return hypervolume(
        evaluations.points(found),
        right=evaluations.right(evaluations.space.start),
        cycles=evaluations.space.budget_cycles,
    )


def test_frontier_beats_pds_and_the_sampler_at_no_more_evaluations() -> None:
    ours, theirs, sampled = [], [], []
    for seed in range(4):
        network = SpikingMlp(boundaries=8, seed=seed)
        evaluations, accepted = ran(network, lambda e: pds(e, GATES))
        limit = len(evaluations.asked)
        theirs.append(volume(evaluations, accepted))
        settings = FrontierSettings(limit)
        evaluations, found = ran(network, lambda e, s=settings: frontier(e, s, GATES))  # type: ignore[misc]
        assert len(evaluations.asked) <= limit
        ours.append(volume(evaluations, found))
        evaluations, found = ran(network, lambda e, n=limit: nsga2(e, n, GATES, seed=1))  # type: ignore[misc]
        assert len(evaluations.asked) <= limit
        sampled.append(volume(evaluations, found))
    assert sum(ours) > 1.05 * sum(theirs), (ours, theirs)
    assert sum(ours) > 1.05 * sum(sampled), (ours, sampled)


@pytest.mark.parametrize("limit", [1, 2, 7, 40, 10_000])
def test_frontier_keeps_to_budget_and_number_and_repeats_itself(limit: int) -> None:
    network = SpikingMlp(boundaries=4, clips=100, seed=2)
    evaluations, found = ran(network, lambda e: frontier(e, FrontierSettings(limit), GATES))
    space = evaluations.space
    existing = len(space.within_budget(every_schedule(4)))
    assert network.asked == len(found) == len(set(found)) == min(limit, existing)
    assert space.within_budget(found) == found
    _, again = ran(network, lambda e: frontier(e, FrontierSettings(limit), GATES))
    assert again == found


def test_every_change_stands_beside_its_parent() -> None:
    network = SpikingMlp(boundaries=5, clips=100, seed=1)
    evaluations = Evaluations(space_of(network), local_engine(network))
    found, changes = frontier(evaluations, FrontierSettings(60), GATES)
    assert [change.after for change in changes] == found[1:]
    shorter = 0
    for change in changes:
        differences = np.array(change.after) - np.array(change.before)
        assert np.count_nonzero(differences) == 1
        shorter += int(differences.sum() < 0)
    assert shorter, "no delay was ever taken back"


PAIRS = st.tuples(st.integers(0, 20), st.integers(0, 20))


@given(st.lists(PAIRS, min_size=1, max_size=8), PAIRS)
def test_added_volume_is_the_difference_of_hypervolumes(
    front: list[tuple[int, int]], extra: tuple[int, int]
) -> None:
    budget = 25
    points = [Point((index,), right, cycles) for index, (cycles, right) in enumerate(front)]
    more = [*points, Point((99,), extra[1], extra[0])]
    # Left of the whole staircase there is nothing to compare with: the start is always fastest.
    fastest = min(cycles for cycles, _ in front)
    cycles = max(extra[0], fastest)
    more[-1] = more[-1]._replace(cycles=cycles)
    volume = added_volume(
        [(float(c), float(r)) for c, r in front],
        np.array([float(cycles)]),
        np.array([float(extra[1])]),
        budget,
    )
    low = min(right for _, right in front) - 30
    expected = [hypervolume(some, right=low, cycles=budget) for some in (more, points)]
    assert volume[0] == expected[0] - expected[1]
