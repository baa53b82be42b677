"""A small residual spiking network in NumPy, for tests of the search: cheap enough to enumerate."""

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from falcon_snn.pipeline.schedule import Delays
from falcon_snn.search.predictor import Correct

SLOTS = 7


def fire(currents: NDArray[np.int64], delay: int, threshold: int) -> NDArray[np.int64]:
    """Integrate and fire with a delay; `currents` and the spikes are [slots, clips, neurons]."""
    slots = len(currents)
    membrane = np.full(currents.shape[1:], threshold // 2)
    spikes = np.zeros_like(currents)
    received = 0
    for slot in range(slots):
        while received <= min(slot + delay - 1, slots - 1):
            membrane = membrane + currents[received]
            received += 1
        spikes[slot] = membrane >= threshold
        membrane = membrane - threshold * spikes[slot]
    return spikes


class SpikingMlp:
    """Fully connected layers with a shortcut around each; labels are its full-lookahead answers."""

    def __init__(self, boundaries: int = 5, clips: int = 300, seed: int = 0) -> None:
        draw = np.random.default_rng(seed)
        width, classes = 16, 6
        self.boundaries = tuple(f"layer{index}" for index in range(boundaries))
        self.weights = draw.integers(-20, 21, (boundaries, width, width))
        self.readout = draw.integers(-20, 21, (width, classes))
        counts = draw.integers(0, SLOTS + 1, (clips, width))
        steps = np.arange(1, SLOTS + 1)[:, None, None]
        self.source = steps * counts // SLOTS - (steps - 1) * counts // SLOTS
        full = self.scores(dict.fromkeys(self.boundaries, SLOTS))
        self.average = full.sum(axis=0) // clips  # taken off, so that all classes occur
        self.labels = np.argmax(full - self.average, axis=1)
        self.asked = 0

    def scores(self, delays: Delays) -> NDArray[np.int64]:
        spikes = self.source
        for boundary, weights in zip(self.boundaries, self.weights, strict=True):
            spikes = fire(spikes @ weights + 15 * spikes, delays[boundary], threshold=24)
        scores: NDArray[np.int64] = spikes.sum(axis=0) @ self.readout
        return scores

    def start_from(self, delays: Delays) -> None:
        assert set(delays) == set(self.boundaries)

    def correct(self, delays: Delays) -> Correct:
        self.asked += 1
        right: Correct = np.argmax(self.scores(delays) - self.average, axis=1) == self.labels
        return right


def additive_latency(costs: Sequence[int], base: int = 1000) -> "Additive":
    """A latency in which each boundary adds its own cost per slot of delay."""
    return Additive(np.array(costs, dtype=np.int64), base)


class Additive:
    def __init__(self, costs: NDArray[np.int64], base: int) -> None:
        self.costs, self.base = costs, base

    def __call__(self, delays: NDArray[np.int64]) -> NDArray[np.int64]:
        cycles: NDArray[np.int64] = self.base + (delays - 1) @ self.costs
        return cycles


def every_schedule(boundaries: int, delta_max: int = 3) -> list[tuple[int, ...]]:
    return list(product(range(1, delta_max + 1), repeat=boundaries))
