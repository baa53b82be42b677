"""Theorem 1 and Proposition 1 of the paper as code, in exact arithmetic (int or Fraction)."""

import random
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from falcon_snn.errors import FalconError
from falcon_snn.neuron.reference import integrate_and_fire

Exact = int | Fraction
Train = tuple[int, ...]  # one spike or none per slot
HALF = Fraction(1, 2)


class Drive(NamedTuple):
    """One neuron and its input: all that Theorem 1 holds fixed while the delay changes."""

    currents: tuple[Exact, ...]
    threshold: Exact = 1
    initial: Exact = HALF
    static_per_slot: Exact = 0

    @property
    def slots(self) -> int:
        return len(self.currents)


def count(stream: Drive, delay: int) -> int:
    """q(delay), the spikes that SN_delay emits."""
    spikes, _ = integrate_and_fire(
        stream.currents, delay, stream.threshold, stream.initial, stream.static_per_slot
    )
    return sum(spikes)


def full_count(stream: Drive) -> int:
    """q(T) = min(T, max(0, floor(P(T-1) / theta))), without running the neuron."""
    total = stream.initial + sum(stream.currents) + stream.slots * stream.static_per_slot
    return min(stream.slots, max(0, total // stream.threshold))


def count_errors(stream: Drive) -> list[int]:
    """e(1), ..., e(T) with e(delay) = |q(delay) - q(T)|."""
    full = full_count(stream)
    return [abs(count(stream, delay) - full) for delay in range(1, stream.slots + 1)]


def tight_stream(slots: int, threshold: Exact = 1) -> Drive:
    """The proof's stream with e(delay) = T - delay: all current comes in the last slot."""
    last = slots * threshold  # with the initial theta/2: T theta < P(T-1) < (T+1) theta
    return Drive((0,) * (slots - 1) + (last,), threshold, Fraction(threshold) / 2)


def random_streams(slots: int, number: int, seed: int = 0) -> list[Drive]:
    """Streams of mixed sign on a grid of 1/16, for a picture of typical count errors."""
    rng = random.Random(seed)
    return [
        Drive(tuple(Fraction(rng.randint(-24, 40), 16) for _ in range(slots)))
        for _ in range(number)
    ]


# The network of Proposition 1: five input channels, three neurons whose delay changes, two
# neurons with delay 1; thresholds 1, initial potentials 1/2, no static currents.
CHANGED_LAYER = ((1, 0, 0, 0, 0), (0, 1, -1, 0, 0), (0, 0, 0, 1, -1))
NEXT_LAYER = ((1, -1, 0), (1, 0, -1))


class Labelled(NamedTuple):
    codes: tuple[int, ...]  # input spikes per channel, in its first slots
    label: int


class TheoremRun(NamedTuple):
    """What the network does with a sample when the changed layer waits `delay` slots."""

    sample: Labelled
    delay: int
    changed: tuple[Train, ...]
    following: tuple[Train, ...]
    prediction: int


def samples(delays: Sequence[int], slots: int) -> tuple[Labelled, Labelled]:
    """The two inputs for which accuracy falls at delays[1] and returns at delays[2]."""
    if len(delays) != 3:
        raise FalconError(f"{len(delays)} delays given; Proposition 1 needs three, as in 1,3,5")
    first, second, third = delays
    if not 1 <= first < second < third <= slots:
        raise FalconError(
            f"delays {first},{second},{third} with {slots} slots; they must rise within 1..{slots}"
        )
    return Labelled((1, second, second - 1, third, third - 1), 1), Labelled((1, 1, 0, 0, 0), 0)


def run(sample: Labelled, delay: int, slots: int) -> TheoremRun:
    """Pass a sample through the network; the readout says 1 if q_1 - q_2 + 1/2 > 0."""
    trains = tuple(tuple(int(slot < code) for slot in range(slots)) for code in sample.codes)
    changed = _layer(CHANGED_LAYER, trains, delay)
    following = _layer(NEXT_LAYER, changed, 1)
    score = sum(following[0]) - sum(following[1]) + HALF
    return TheoremRun(sample, delay, changed, following, int(score > 0))


def accuracy(runs: Sequence[TheoremRun]) -> Fraction:
    return Fraction(sum(run.prediction == run.sample.label for run in runs), len(runs))


def _layer(
    weights: tuple[tuple[int, ...], ...], trains: tuple[Train, ...], delay: int
) -> tuple[Train, ...]:
    outputs = []
    for row in weights:
        currents = [
            sum(weight * spike for weight, spike in zip(row, slot, strict=True))
            for slot in zip(*trains, strict=True)
        ]
        spikes, _ = integrate_and_fire(currents, delay, 1, HALF, 0)
        outputs.append(tuple(int(spike) for spike in spikes))
    return tuple(outputs)
