"""Intervals and paired tests against scipy; random schedules against brute force."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from tests.spiking_mlp import additive_latency

from falcon_snn.search.random_schedules import random_schedules
from falcon_snn.search.statistics import flattery, mcnemar, welch, wilson


@given(st.integers(1, 12_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_equals_scipy(pair: tuple[int, int]) -> None:
    right, clips = pair
    expected = binomtest(right, clips).proportion_ci(method="wilson")
    assert wilson(right, clips) == pytest.approx((expected.low, expected.high), abs=1e-12)


@given(st.integers(0, 3000), st.integers(0, 3000))
def test_mcnemar_equals_the_exact_binomial_test(rescued: int, harmed: int) -> None:
    if rescued + harmed == 0:
        assert mcnemar(0, 0) == 1.0
    else:
        expected = binomtest(rescued, rescued + harmed).pvalue
        assert mcnemar(rescued, harmed) == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_welch_of_a_worked_example() -> None:
    # t = 3.0 / sqrt(1/3 + 1/3) with 4 degrees of freedom; no spread leaves nothing to chance.
    assert welch([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]) == pytest.approx(0.0213, abs=1e-4)
    assert (welch([1.0, 1.0], [1.0, 1.0]), welch([1.0, 1.0], [2.0, 2.0])) == (1.0, 0.0)


def test_flattery_compares_gains_not_accuracies() -> None:
    start, chosen = np.array([True, False, False, False]), np.array([True, True, True, False])
    easy_start, easy_chosen = np.array([True, True, False]), np.array([True, True, True])
    result = flattery(start, chosen, easy_start, easy_chosen)
    assert result == pytest.approx((1 / 2, 1 / 3, 1 / 6))


@given(
    st.lists(st.integers(1, 3), min_size=2, max_size=6),
    st.lists(st.integers(0, 2), min_size=6, max_size=6),
    st.integers(1, 8),
    st.integers(0, 3),
)
def test_random_schedules_are_all_there_is(
    like: list[int], costs: list[int], n: int, seed: int
) -> None:
    latency = additive_latency(costs[: len(like)])
    same = set(permutations(like)) - {tuple(like)}
    cycles = latency(np.array([like]))[0]
    expected = {one for one in same if latency(np.array([one]))[0] == cycles}
    found = random_schedules(tuple(like), latency, n, seed)
    assert found.existing == len(expected)
    assert len(set(found.schedules)) == len(found.schedules) == min(n, len(expected))
    assert set(found.schedules) <= expected
    assert found == random_schedules(tuple(like), latency, n, seed)


def test_random_schedules_of_a_space_too_large_to_list() -> None:
    like = (2,) * 9 + (3,) * 4 + (1,) * 16
    latency = additive_latency([188] * 28 + [3])
    found = random_schedules(like, latency, 10, seed=1)
    assert found.existing is None
    assert len(set(found.schedules)) == 10
    assert like not in found.schedules
    for schedule in found.schedules:
        assert sorted(schedule) == sorted(like)
        assert latency(np.array([schedule]))[0] == latency(np.array([like]))[0]
    assert found.schedules != random_schedules(like, latency, 10, seed=2).schedules
