"""Neurons that know all their input: levels at every threshold, small and near the largest."""

import pytest
import torch
from tests.random_layers import DEVICE

from falcon_snn.neuron import layers
from falcon_snn.neuron.encoding import ENCODINGS, encoding_table
from falcon_snn.neuron.layers import IntegerNeurons, Term

_THRESHOLDS = (1, 7, 1 << 26, (1 << 27) + 1, (1 << 28) - 1, 1 << 28, 1 << 29, (1 << 30) - 1)


def neurons_at_every_edge() -> tuple[IntegerNeurons, list[int]]:
    """Their levels without any input, and how many thresholds those hold."""
    pairs = [
        (number * threshold + beside, threshold)
        for threshold in _THRESHOLDS
        for number in range(-1, 11)
        for beside in (-1, 0, 1)
        if abs(number * threshold + beside) < 1 << 30
    ]
    levels, thresholds = torch.tensor(pairs, dtype=torch.int32, device=DEVICE).T.contiguous()
    neurons = IntegerNeurons(torch.zeros_like(levels), levels, thresholds)
    return neurons, [max(0, level // threshold) for level, threshold in pairs]


@pytest.mark.parametrize("slots", range(1, 9))
def test_a_neuron_fires_as_often_as_its_level_holds_thresholds(slots: int) -> None:
    neurons, held = neurons_at_every_edge()
    weight = torch.ones((len(held), 1, 1, 1), dtype=torch.int8, device=DEVICE)
    silence = torch.zeros((1, 1, 1, 1), dtype=torch.uint8, device=DEVICE)
    factor = torch.ones_like(neurons.static)
    fired = layers.fire([Term(silence, factor, weight)], neurons, slots, slots, "triton")
    assert fired.flatten().tolist() == [(1 << min(n, slots)) - 1 for n in held]
    for kind in ENCODINGS:
        trains = layers.encode(
            silence.to(torch.int8), weight, (1, 1), (0, 0), None, factor, neurons, slots, kind,
            "triton",
        )  # fmt: skip
        table = encoding_table(slots, kind)
        assert trains.flatten().tolist() == [table[min(n, slots)] for n in held]
