"""Networks of any operations: what they cost in time and energy equals a slow count."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cost_checks import assert_adds_up, assert_timed_as_simulated
from tests.network_oracle import Array
from tests.random_networks import (
    SEEDS,
    full,
    padded,
    profiles,
    random_inputs,
    scheduled,
    trained_like,
    trains,
)

from falcon_snn.hardware.profile import Profile
from falcon_snn.network.activity import measure, network_energy
from falcon_snn.network.convert import convert
from falcon_snn.network.description import Network
from falcon_snn.network.integer import Snn
from falcon_snn.network.operations import Code, Fire
from falcon_snn.network.product import Product


@settings(max_examples=60)
@given(scheduled(), profiles())
def test_the_graph_is_timed_as_the_event_simulation_times_it(
    case: tuple[Network, dict[str, int]], profile: Profile
) -> None:
    network, delays = case
    graph = network.graph
    assert graph.boundaries == network.boundaries
    assert_timed_as_simulated(graph, delays, profile)


def slow_rows(
    network: Network, stage: str, read: str, product: Product, bits: Array
) -> tuple[int, int]:
    """Rows on in all windows of a layer, tap by tap, and the accumulates of its outputs."""
    lines, pixels, _ = network.shapes[stage]
    height, width, channels = network.shapes[read]
    rows = accumulates = 0
    high, wide = product.kernel[0] * product.pool[0], product.kernel[1] * product.pool[1]
    each = product.outputs // product.groups
    for each_bit in bits:
        for clip in each_bit:
            for line in range(lines):
                for pixel in range(pixels):
                    top = (line * product.stride[0] - product.padding[0]) * product.pool[0]
                    left = (pixel * product.stride[1] - product.padding[1]) * product.pool[1]
                    for y in range(top, top + high):
                        for x in range(left, left + wide):
                            if 0 <= y < height and 0 <= x < width:
                                for channel in range(channels):
                                    on = int(clip[y][x][channel])
                                    rows += on
                                    accumulates += on * each
    return rows, accumulates


@settings(max_examples=25)
@given(scheduled(), SEEDS, st.booleans(), profiles())
def test_activity_and_energy_equal_a_slow_count(
    case: tuple[Network, dict[str, int]], seed: int, qnn: bool, profile: Profile
) -> None:
    network, delays = case
    snn, x = convert(trained_like(network, seed)), random_inputs(network, 2, seed)
    used = full(network) if qnn else delays
    activity, predictions = measure(snn, [(x[:1], None), (x[1:], None)], None if qnn else delays)
    assert torch.equal(predictions, snn.predict(x, None, used))
    energy = network_energy(network, activity, None if qnn else delays, profile)
    streams = trains(snn, snn.streams(x, None, used))
    bits = {
        name: np.stack([train.sum(axis=0).astype(int) >> bit & 1 for bit in range(4)])
        if qnn
        else train
        for name, train in streams.items()
        if train.ndim == 5
    }
    for name, train in bits.items():
        assert activity.spikes[name] == pytest.approx(train.sum() / 2)
        assert activity.neurons[name] == train[0, 0].size
    added: dict[str, float] = {}
    for stage in network.inner_stages[1:]:
        for suffix, read, product in stage.products:
            seen = bits[read]
            if isinstance(stage, Code) and not qnn:
                seen = seen[: stage.prefix or network.slots]
            rows, accumulates = slow_rows(network, stage.name, read, product, seen)
            layer = f"{stage.name}.array2" if suffix else stage.name
            assert activity.rows[layer] == pytest.approx(rows / 2), layer
            added[layer] = added.get(layer, 0.0) + accumulates / 2
            if qnn:
                macs = int(np.prod(network.shapes[stage.name])) * product.rows(
                    network.shapes[read][2]
                )
                assert energy.operations[layer].macs_8x4 == macs
        if isinstance(stage, Fire):
            plain = [term.reads for term in stage.terms if term.product is None]
            if plain:
                sums = [activity.neurons[n] if qnn else activity.spikes[n] for n in plain]
                added[stage.name] = (0 if qnn else added.get(stage.name, 0.0)) + sum(sums)
                assert energy.operations[stage.name].accumulates == pytest.approx(added[stage.name])
    if not qnn:
        found = {n: o.accumulates for n, o in energy.operations.items() if n in added}
        assert found == pytest.approx(added)
    assert_adds_up(energy, profile)


@settings(max_examples=25)
@given(padded(), SEEDS)
def test_activity_does_not_count_padding(
    case: tuple[Network, dict[str, int], list[Network]], seed: int
) -> None:
    network, delays, short = case
    snn = convert(trained_like(network, seed))
    x = random_inputs(network, 2, seed)
    (length, *_), alone = short[0].source.input, Snn(short[0], snn.tensors)
    masked, _ = measure(snn, [(x, torch.full((2,), length))], delays)
    plain, _ = measure(alone, [(x[:, :length], None)], delays)
    for stage in network.inner_stages:  # both are of a clip of their network's full length
        ratio = network.shapes[stage.name][0] / short[0].shapes[stage.name][0]
        if stage.emits == "spikes":
            wanted = plain.spikes[stage.name] * ratio
            assert masked.spikes[stage.name] == pytest.approx(wanted)
        for suffix, _, _ in stage.products:
            layer = f"{stage.name}.array2" if suffix else stage.name
            assert masked.rows[layer] == pytest.approx(plain.rows[layer] * ratio)
