"""Theorem 1 and Proposition 1 in exact arithmetic: rounding cannot fake a counterexample."""

from fractions import Fraction
from itertools import combinations, pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from falcon_snn.errors import FalconError
from falcon_snn.neuron import theorems
from falcon_snn.neuron.theorems import Drive

EXACT = st.fractions(min_value=-6, max_value=8, max_denominator=12)


@st.composite
def streams(draw: st.DrawFn) -> Drive:
    slots = draw(st.integers(1, 8))
    return Drive(
        tuple(draw(st.lists(EXACT, min_size=slots, max_size=slots))),
        threshold=draw(st.fractions(min_value=Fraction(1, 12), max_value=5, max_denominator=12)),
        initial=Fraction(1, 2) + draw(EXACT),
        static_per_slot=draw(EXACT) / slots,
    )


@settings(max_examples=400)
@given(streams())
@example(Drive((Fraction(9, 2), -4, 0, 0)))
def test_theorem_1_for_all_delay_pairs(stream: Drive) -> None:
    errors = theorems.count_errors(stream)
    slots = stream.slots
    assert theorems.count(stream, slots) == theorems.full_count(stream)
    assert errors[-1] == 0
    for shorter, longer in combinations(range(1, slots + 1), 2):
        assert 0 <= errors[shorter - 1] - errors[longer - 1] <= longer - shorter
    for delay, error in enumerate(errors, start=1):
        assert error <= slots - delay


@settings(max_examples=200)
@given(streams())
def test_a_longer_delay_moves_the_count_towards_full_lookahead(stream: Drive) -> None:
    full = theorems.full_count(stream)
    counts = [theorems.count(stream, delay) for delay in range(1, stream.slots + 1)]
    for count, following in pairwise(counts):
        assert min(count, full) <= following <= max(count, full)


@pytest.mark.parametrize("slots", range(1, 9))
@pytest.mark.parametrize("threshold", [1, Fraction(3, 7), 5])
def test_both_bounds_are_tight(slots: int, threshold: int | Fraction) -> None:
    errors = theorems.count_errors(theorems.tight_stream(slots, threshold))
    assert errors == [slots - delay for delay in range(1, slots + 1)]


@pytest.mark.parametrize("slots", range(3, 8))
def test_proposition_1_for_every_three_delays(slots: int) -> None:
    for delays in combinations(range(1, slots + 1), 3):
        one, zero = theorems.samples(delays, slots)
        accuracies = []
        for delay in range(1, slots + 1):
            runs = [theorems.run(one, delay, slots), theorems.run(zero, delay, slots)]
            accuracies.append(theorems.accuracy(runs))
            # No neuron of the changed layer miscounts, at any delay, on either input.
            assert [sum(train) for train in runs[0].changed] == [1, 1, 1]
            assert [sum(train) for train in runs[1].changed] == [1, 1, 0]
            assert [sum(train) for train in runs[1].following] == [0, 1]
        first, second, third = delays
        assert accuracies[first - 1] == 1
        assert accuracies[second - 1] == Fraction(1, 2)
        assert accuracies[third - 1] == 1
        expected = [Fraction(1, 2) if second <= d < third else 1 for d in range(1, slots + 1)]
        assert accuracies == expected


@pytest.mark.parametrize("delays", [(1, 1, 2), (0, 1, 2), (3, 2, 5), (1, 2, 8), (1, 2)])
def test_delays_that_do_not_rise_are_refused(delays: tuple[int, ...]) -> None:
    with pytest.raises(FalconError):
        theorems.samples(delays, 7)
