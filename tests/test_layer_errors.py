"""Integer layers: what they cannot compute is said in one line."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.random_layers import Draw

from falcon_snn.errors import FalconError
from falcon_snn.neuron import layers
from falcon_snn.neuron.layers import Term


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"packed": torch.zeros(2, 4, 5, dtype=torch.uint8)}, "spikes are torch.uint8 \\(2, 4, 5"),
        ({"packed": torch.zeros(2, 4, 5, 3)}, "spikes are torch.float32"),
        ({"weight": torch.zeros(6, 3, 3, 4, dtype=torch.int8)}, "pixels, channels] for 3 channels"),
        ({"weight": torch.zeros(6, 3, 3, 3)}, "weights are torch.float32"),
        ({"weight": torch.zeros(6, 5, 3, 3, dtype=torch.int8)}, "kernel of \\(5, 3\\) does not"),
        ({"weight": None, "stride": (1, 2)}, "without weights have no stride"),
        ({"stride": (0, 1)}, "a stride of \\(0, 1\\)"),
        ({"padding": (1, 0)}, "padding \\(1, 0\\) of spikes with border \\(0, 0\\)"),
        ({"factor": torch.zeros(5, dtype=torch.int32)}, "each must be int32 \\(6,\\)"),
        ({"factor": torch.zeros(6)}, "each must be int32"),
    ],
)  # fmt: skip
def test_a_bad_term_is_one_clear_error(change: dict[str, Any], message: str) -> None:
    draw = Draw(0)
    term = Term(draw.spikes(2, 4, 5, 3), draw.integers(1, 9, 6), draw.weight(6, 3, 3, 3))
    with pytest.raises(FalconError, match=message):
        layers.fire([replace(term, **change)], draw.neurons(6), 7, 1, "torch")


def test_bad_stages_say_what_is_wrong() -> None:
    draw = Draw(0)
    term, neurons = draw.linear(3, 5, 6), draw.neurons(6)
    for message, terms, cells, slots, delay in (
        ("a firing stage of 0 terms; give one or two", [], neurons, 7, 1),
        ("a firing stage of 3 terms", [term] * 3, neurons, 7, 1),
        ("give .3, 1, 1, 6. and .4, 1, 1, 6.", [term, draw.linear(4, 5, 6)], neurons, 7, 1),
        ("each must be int32", [term], draw.neurons(5), 7, 1),
        ("9 slots do not fit a byte", [term], neurons, 9, 1),
        ("delay is 0", [term], neurons, 7, 0),
        ("delay is 8", [term], neurons, 7, 8),
    ):
        with pytest.raises(FalconError, match=message):
            layers.fire(terms, cells, slots, delay, "numba")
    with pytest.raises(FalconError, match="it cannot be negative"):
        layers.fire([term], neurons, 7, 1, "torch", border=(0, -1))
    with pytest.raises(FalconError, match="codes take a 1x1 kernel"):
        layers.codes(replace(term, weight=None), term.factor, term.factor, 5, "torch")
    weight, geometry = draw.weight(6, 1, 1, 5), ((1, 1), (0, 0), None)
    with pytest.raises(FalconError, match="features are torch"):
        layers.encode(term.packed, weight, *geometry, term.factor, neurons, 7, "even", "torch")


def test_backends_say_why_they_cannot_run() -> None:
    with pytest.raises(FalconError, match="unknown backend 'cupy'"):
        layers.choose_layer_backend("cupy", torch.device("cpu"))
    with pytest.raises(FalconError, match="unknown backend 'auto'"):
        layers.fire([Draw(0).linear(1, 1, 1)], Draw(0).neurons(1), 7, 1, "auto")
    with pytest.raises(FalconError, match="runs on the CPU"):
        layers.choose_layer_backend("numba", torch.device("cuda"))


def test_a_stage_too_wide_for_the_fused_kernel_says_so() -> None:
    terms = [Draw(0).linear(2, inputs, 3) for inputs in (6_000, 6_001)]
    with pytest.raises(FalconError, match="12,001 inputs; 'triton' takes up to 12,000"):
        layers.fire(terms, Draw(0).neurons(3), 7, 1, "triton")
