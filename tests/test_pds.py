"""PDS against a slow, literal reading of Algorithm 2 on networks enumerated in full."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from tests.spiking_mlp import SpikingMlp, additive_latency, every_schedule

from falcon_snn.errors import FalconError
from falcon_snn.pipeline.schedule import Delays
from falcon_snn.search.evaluations import Evaluations
from falcon_snn.search.pareto import Point, choose, hypervolume, pareto_filter
from falcon_snn.search.pds import Change, Gates, best, pds, rescue_score
from falcon_snn.search.predictor import Correct, local_engine
from falcon_snn.search.space import Schedule, Space

PAPER = Gates()


class Table:
    """A predictor that looks its answers up."""

    def __init__(self, answers: dict[Schedule, Correct]) -> None:
        self.answers, self.asked = answers, list[Schedule]()

    def start_from(self, delays: Delays) -> None:
        self.current = delays

    def correct(self, delays: Delays) -> Correct:
        self.asked.append(tuple(delays.values()))
        return self.answers[self.asked[-1]]


def literal_pds(
    answers: dict[Schedule, Correct],
    latency: dict[Schedule, int],
    budget: int,
    gates: Gates = PAPER,
    delta_max: int = 3,
) -> tuple[list[Schedule], dict[str, Schedule]]:
    """Algorithm 2, line by line, over complete tables of answers and latencies."""
    boundaries = len(next(iter(answers)))
    clips = len(next(iter(answers.values())))
    start = (1,) * boundaries
    found = [start]
    for mode in ("acc", "eff"):
        delta = start
        while True:
            entries = []
            for place in range(boundaries):
                for d in range(delta[place] + 1, delta_max + 1):
                    changed = list(delta)
                    changed[place] = d
                    other = tuple(changed)
                    R = H = 0
                    for was, now in zip(answers[delta], answers[other], strict=True):
                        R += bool(now and not was)
                        H += bool(was and not now)
                    gain = Fraction(R - H, clips)
                    score = (R - H) / math.sqrt(R + H) if R + H > 0 else 0
                    added = latency[other] - latency[delta]
                    if score < gates.tau or (R - H) / clips < gates.eps:
                        continue
                    if not latency[other] < budget:
                        continue
                    if mode == "acc":
                        utility: Fraction | float = gain
                    else:
                        utility = gain / added if added > 0 else math.inf
                    entries.append((utility, gain, added, other))
            if not entries:
                break
            leader = entries[0]
            for entry in entries[1:]:
                better = entry[0] > leader[0]
                if entry[0] == leader[0]:
                    better = entry[1] > leader[1]
                    if entry[1] == leader[1]:
                        better = entry[2] < leader[2]
                if better:
                    leader = entry
            delta = leader[3]
            found.append(delta)

    accuracy = {one: Fraction(int(answers[one].sum()), clips) for one in found}
    left = []
    for one in found:
        beaten = False
        for other in found:
            no_worse = accuracy[other] >= accuracy[one] and latency[other] <= latency[one]
            strict = accuracy[other] > accuracy[one] or latency[other] < latency[one]
            beaten = beaten or (no_worse and strict)
        if not beaten and one not in left:
            left.append(one)
    low_a, high_a = min(accuracy[x] for x in left), max(accuracy[x] for x in left)
    low_l, high_l = min(latency[x] for x in left), max(latency[x] for x in left)

    def score_of(one: Schedule) -> Fraction:
        a = (accuracy[one] - low_a) / (high_a - low_a) if high_a > low_a else Fraction(0)
        b = Fraction(latency[one] - low_l, high_l - low_l) if high_l > low_l else Fraction(0)
        return a - b

    names = {
        "fastest": min(left, key=lambda one: latency[one]),
        "balanced": max(left, key=lambda one: (score_of(one), accuracy[one])),
        "accurate": max(left, key=lambda one: accuracy[one]),
    }
    return found, names


def searched(
    predictor: Table | SpikingMlp, space: Space, gates: Gates = PAPER
) -> tuple[Evaluations, list[Schedule], list[Change]]:
    evaluations = Evaluations(space, local_engine(predictor))
    found, changes = pds(evaluations, gates)
    return evaluations, found, changes


@pytest.mark.parametrize("seed", range(6))
def test_pds_equals_the_literal_algorithm_on_an_enumerated_network(seed: int) -> None:
    network = SpikingMlp(seed=seed)
    space = Space(network.boundaries, additive_latency([188, 188, 188, 188, 3]), 1000 + 5 * 188)
    everything = every_schedule(5)
    answers = {one: network.correct(space.delays(one)) for one in everything}
    latency = dict(zip(everything, space.cycles(everything), strict=True))
    found, names = literal_pds(answers, latency, space.budget_cycles)

    evaluations, accepted, changes = searched(network, space)
    assert accepted == list(dict.fromkeys(found))
    assert [c.after for c in changes if c.accepted] == found[1:]
    chosen = choose(evaluations.points(accepted))
    assert {name: point.schedule for name, point in chosen.items()} == names
    assert len(accepted) > 1, "this network gives the search nothing to do"


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[Schedule, Correct], NDArray[np.int64], int]:
    """Few clips and few distinct costs: ties, zero costs and empty gates are common."""
    boundaries = draw(st.integers(1, 4))
    schedules = every_schedule(boundaries)
    clips = draw(st.integers(1, 12))
    bits = draw(hnp.arrays(np.bool_, (len(schedules), clips)))
    costs = draw(st.lists(st.integers(0, 3), min_size=boundaries, max_size=boundaries))
    budget = draw(st.integers(99, 115))
    answers = {schedule: bits[index] for index, schedule in enumerate(schedules)}
    return answers, np.array(costs, dtype=np.int64), budget


@given(tables(), st.sampled_from([-1.0, 0.0, 0.5, 1.0]), st.sampled_from([-1.0, 0.0, 0.1]))
def test_pds_equals_the_literal_algorithm_on_random_answers(
    table: tuple[dict[Schedule, Correct], NDArray[np.int64], int], tau: float, eps: float
) -> None:
    answers, costs, budget = table
    names = tuple(f"b{index}" for index in range(len(costs)))
    space = Space(names, additive_latency([int(c) for c in costs], base=100), budget)
    latency = dict(zip(answers, space.cycles(list(answers)), strict=True))
    gates = Gates(tau, eps)
    predictor = Table(answers)
    evaluations, accepted, changes = searched(predictor, space, gates)
    found, chosen = literal_pds(answers, latency, budget, gates)
    assert [c.after for c in changes if c.accepted] == found[1:]
    ours = choose(evaluations.points(accepted))
    assert {name: point.schedule for name, point in ours.items()} == chosen
    # Each schedule is asked for once, and none but the start at or over the budget.
    assert len(predictor.asked) == len(set(predictor.asked))
    assert all(latency[one] < budget for one in predictor.asked if one != space.start)


def test_one_schedule_left_is_all_three() -> None:
    answers = {one: np.array([True, False]) for one in every_schedule(2)}
    space = Space(("a", "b"), additive_latency([5, 5]), 2000)
    evaluations, accepted, _ = searched(Table(answers), space)
    assert accepted == [(1, 1)]
    assert {p.schedule for p in choose(evaluations.points(accepted)).values()} == {(1, 1)}


def change(rescued: int, harmed: int, added: int, after: Schedule) -> Change:
    return Change("acc", 1, (1, 1), after, rescued, harmed, 100, added, True, True, False)


def test_ties_go_to_gain_then_latency_then_boundary_order() -> None:
    free_small = change(5, 0, 0, (2, 1))
    free_large = change(9, 0, -3, (1, 2))
    assert best([free_small, free_large], "eff") is free_large  # both infinite: larger gain
    slow, quick = change(9, 0, 4, (2, 1)), change(10, 1, 2, (1, 2))
    assert best([slow, quick], "acc") is quick  # same gain: smaller added latency
    third, sixth = change(3, 0, 3, (3, 1)), change(6, 0, 6, (1, 3))
    assert best([third, sixth], "eff") is sixth  # 3/3 and 6/6 are the same ratio, exactly
    assert best([change(1, 0, 1, (2, 1)), change(1, 0, 1, (1, 2))], "acc").after == (2, 1)


def test_the_gates_close_at_their_limits() -> None:
    """Score exactly 2 and gain exactly 0.001 pass, a latency equal to the budget does not."""
    assert rescue_score(4, 0) == 2.0
    assert rescue_score(0, 0) == 0.0
    right = np.zeros(4000, dtype=np.bool_)
    four = right.copy()
    four[:4] = True
    answers: dict[Schedule, Correct] = {(1,): right, (2,): four, (3,): ~right}
    for budget, expected in ((1010, [(1,)]), (1011, [(1,), (2,)])):
        space = Space(("only",), additive_latency([10]), budget)
        predictor = Table(answers)
        _, accepted, _ = searched(predictor, space)
        assert accepted == expected
        assert predictor.asked == expected  # the over-budget candidate was not evaluated
    space = Space(("only",), additive_latency([10]), 1011)
    assert searched(Table(answers), space, Gates(eps=0.0011))[1] == [(1,)]
    assert searched(Table(answers), space, Gates(tau=2.01))[1] == [(1,)]


def test_the_pareto_filter_keeps_equals_and_balanced_prefers_accuracy_on_a_tie() -> None:
    twins = [Point((1, 2), 50, 100), Point((2, 1), 50, 100)]
    assert pareto_filter([*twins, Point((3, 3), 49, 100)]) == twins
    assert choose(twins)["balanced"].schedule == (1, 2)  # zero ranges: the first found
    ends = [Point((1, 1), 40, 90), Point((3, 1), 60, 120)]
    assert choose(ends)["balanced"].schedule == (3, 1)


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=12))
def test_hypervolume_counts_the_dominated_cells(pairs: list[tuple[int, int]]) -> None:
    found = [Point((index,), right, cycles) for index, (right, cycles) in enumerate(pairs)]
    cells = sum(
        any(p.right > right and p.cycles <= cycle for p in found)
        for right in range(2, 12)
        for cycle in range(10)
    )
    assert hypervolume(found, right=2, cycles=10) == cells


def test_answers_of_the_wrong_kind_are_refused() -> None:
    space = Space(("a",), additive_latency([1]), 2000)
    with pytest.raises(FalconError, match="one bool per clip"):
        searched(Table({(1,): np.array([1, 0])}), space)
    uneven: dict[Schedule, Correct]
    uneven = {(1,): np.array([True]), (2,): np.array([True, False]), (3,): np.array([True])}
    with pytest.raises(FalconError, match="answered for 2 clips, earlier for 1"):
        searched(Table(uneven), space)
