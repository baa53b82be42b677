"""Kernels that take their outputs in pieces, each a power of two, agree with torch on all sizes."""

import pytest
import torch
from tests.random_layers import Draw
from tests.test_layers import check_agreement

from falcon_snn.neuron import fused_tiles, layers
from falcon_snn.neuron.layers import Term

OUTPUTS = [24, 33, 48, 61, 80, 96, 112, 157]


@pytest.mark.parametrize("delay", [1, 7])
@pytest.mark.parametrize("kinds", ["p", "ps", "pp"])
@pytest.mark.parametrize("outputs", OUTPUTS)
def test_outputs_in_pieces_agree(outputs: int, kinds: str, delay: int) -> None:
    """One power of two or several, full or not; some programs have fewer outputs than others."""
    draw = Draw(outputs + delay)
    terms = [draw.linear(70, inputs, outputs) for inputs in (150, 40)[: kinds.count("p")]]
    if "s" in kinds:
        spikes, factor = draw.spikes(70, 1, 1, outputs), draw.integers(-60_000, 90_000, outputs)
        terms.append(Term(spikes, factor))
    check_agreement(terms, draw.neurons(outputs), 7, delay)


def test_pieces_hold_the_outputs() -> None:
    for outputs in range(1, 200):
        *others, last = fused_tiles.pieces(outputs)
        assert sum(others) < outputs <= sum(others) + last < outputs + 32
        assert {*others, last} <= {16, 32, 64}


@pytest.mark.parametrize("outputs", [*OUTPUTS, 160])
def test_codes_in_pieces_agree(outputs: int) -> None:
    draw = Draw(outputs)
    term = draw.linear(70, 150, outputs)
    bias, shift = draw.integers(-90_000, 90_000, outputs), draw.integers(12, 16, outputs)
    found = layers.codes(term, bias, shift, 5, "triton")
    assert torch.equal(found, layers.codes(term, bias, shift, 5, "torch"))
