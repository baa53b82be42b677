"""The product that streams its inputs: the same spikes as torch, whatever its shape."""

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.random_layers import Draw
from tests.test_layers import check_agreement

from falcon_snn.neuron import fused_tiles
from falcon_snn.neuron.layers import Term

ALWAYS = patch.object(fused_tiles, "_KEPT_INPUTS", 0)  # small layers take it as well


@settings(max_examples=25)
@given(data=st.data(), slots=st.integers(1, 8), kinds=st.sampled_from(["p", "ps", "pp"]))
def test_small_layers(data: st.DataObject, slots: int, kinds: str) -> None:
    """Odd sizes with borders, alone, with spikes and with a second product."""
    most = 2 if kinds == "pp" else 4
    delay = data.draw(st.integers(max(1, slots + 1 - most), slots))
    draw = Draw(data.draw(st.integers(0, 999)))
    channels, outputs = data.draw(st.sampled_from([3, 16, 48])), data.draw(st.integers(1, 70))
    clips, factor = data.draw(st.integers(1, 3)), draw.integers(-300, 900, outputs)
    x = draw.spikes(clips, 7, 6, channels, slots=slots, border=(2, 1))
    terms = [Term(x, factor, draw.weight(outputs, 5, 3, channels), (1, 2), (2, 1), (2, 1))]
    if kinds == "ps":
        terms.append(Term(draw.spikes(clips, 7, 3, outputs, slots=slots), 99 * factor))
    if kinds == "pp":
        other = draw.spikes(clips, 7, 6, 33, slots=slots)
        terms.append(Term(other, factor, draw.weight(outputs, 1, 1, 33), (1, 2)))
    with ALWAYS:
        assert fused_tiles.wide_tile(1, slots - delay + 1, two=kinds == "pp")
        check_agreement(terms, draw.neurons(outputs), slots, delay, (1, 1))


@pytest.mark.parametrize(("slots", "delay"), [(2, 1), (2, 2), (3, 1), (7, 7)])
@pytest.mark.parametrize("channels", [128, 120])
def test_many_inputs(slots: int, delay: int, channels: int) -> None:
    """More rows and outputs than a tile has; chunks within a run of inputs, and across runs."""
    draw = Draw(channels + delay)
    x = draw.spikes(2, 13, 8, channels, slots=slots, border=(1, 1))
    factor, weight = draw.integers(-90, 900, 70), draw.weight(70, 3, 3, channels)
    term = Term(x, factor, weight, (1, 1), (1, 1), (1, 1))
    assert fused_tiles.wide_tile(9 * channels, slots - delay + 1, two=False)
    check_agreement([term], draw.neurons(70), slots, delay)
