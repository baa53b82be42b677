"""Honest figures: an interval for every accuracy, a paired test for every comparison."""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from falcon_snn.search.predictor import Correct


class Interval(NamedTuple):
    low: float
    high: float


def wilson(right: int, clips: int) -> Interval:
    """Wilson's 95 % score interval for an accuracy of `right` out of `clips`."""
    z = NormalDist().inv_cdf(0.975)
    accuracy = right / clips
    centre = (accuracy + z * z / (2 * clips)) / (1 + z * z / clips)
    half = z * sqrt(accuracy * (1 - accuracy) / clips + (z / (2 * clips)) ** 2)
    half /= 1 + z * z / clips
    # The ends are exact where rounding would leave them a hair inside.
    low = 0.0 if right == 0 else centre - half
    high = 1.0 if right == clips else centre + half
    return Interval(low, high)


def mcnemar(rescued: int, harmed: int) -> float:
    """Exact two-sided McNemar test: p that a fair coin splits R + H clips at least as unevenly."""
    changed = rescued + harmed
    ways, total = 1, 0
    for index in range(min(rescued, harmed) + 1):
        total += ways
        ways = ways * (changed - index) // (index + 1)
    # Both are integers of any size: dividing before the conversion to float cannot overflow.
    return min(1.0, 2 * total / (1 << changed))


def welch(one: Sequence[float], other: Sequence[float]) -> float:
    """Two-sided p that two groups of runs have the same mean, whatever the spread of each."""
    from scipy.stats import ttest_ind  # takes a second to load

    if len(set(one)) == len(set(other)) == 1:  # no spread at all
        return float(one[0] == other[0])
    return float(ttest_ind(one, other, equal_var=False).pvalue)


class Flattery(NamedTuple):
    """What a search believes it gained, and what clips that it never saw say."""

    gain: float  # over the start, on the half that was searched
    held_out_gain: float  # over the start, on the other half
    flatters_by: float  # the difference


def flattery(
    start: Correct, chosen: Correct, held_out_start: Correct, held_out_chosen: Correct
) -> Flattery:
    """By how much a search's own figure flatters itself.

    Gains over the start are compared, not accuracies: one half may simply be easier.
    """
    gain = float(np.mean(chosen)) - float(np.mean(start))
    held_out_gain = float(np.mean(held_out_chosen)) - float(np.mean(held_out_start))
    return Flattery(gain, held_out_gain, gain - held_out_gain)
