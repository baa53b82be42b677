"""Theorem 1 and Proposition 1 as a table: what every delay does to counts and to answers."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from falcon_snn.errors import FalconError
from falcon_snn.neuron import theorems

RANDOM_STREAMS = 1000


@dataclass(frozen=True)
class Theory:
    """Proposition 1 for three delays, and the count errors of Theorem 1, at every delay."""

    slots: int
    chosen: list[int]  # the three delays of Proposition 1
    runs: list[theorems.TheoremRun]  # of the sample with label 1, by delay
    accuracies: list[Fraction]
    errors: list[list[int]]  # of random streams, by delay
    by_delay: list[dict[str, Any]]


def theory(chosen: list[int], slots: int) -> Theory:
    """Run both at all delays; the three chosen ones rise."""
    if not 3 <= slots <= 8:
        raise FalconError(f"slots is {slots}; three delays and one byte per train need 3..8")
    one, zero = theorems.samples(chosen, slots)
    runs, accuracies = [], []
    for delay in range(1, slots + 1):
        both = [theorems.run(one, delay, slots), theorems.run(zero, delay, slots)]
        runs.append(both[0])
        accuracies.append(theorems.accuracy(both))
    tight = theorems.count_errors(theorems.tight_stream(slots))
    errors = [theorems.count_errors(s) for s in theorems.random_streams(slots, RANDOM_STREAMS)]
    table = [
        {
            "delay": run.delay,
            "counts_changed_layer": [sum(train) for train in run.changed],
            "counts_next_layer": [sum(train) for train in run.following],
            "prediction_label_1": run.prediction,
            "accuracy": str(accuracy),
            "count_error_bound": slots - run.delay,
            "count_error_tight": bound,
            "count_error_random_max": max(found),
            "count_error_random_mean": sum(found) / RANDOM_STREAMS,
        }
        for run, accuracy, bound, found in zip(
            runs, accuracies, tight, zip(*errors, strict=True), strict=True
        )
    ]
    return Theory(slots, chosen, runs, accuracies, errors, table)
