"""From integers back to parameters: the same network, which then can learn."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from tests.network_oracle import Array
from tests.random_networks import (
    SEEDS,
    floats,
    full,
    networks,
    random_inputs,
    scheduled,
    trained_like,
)

from falcon_snn.network.convert import convert
from falcon_snn.network.description import Network
from falcon_snn.network.integer import Snn
from falcon_snn.network.operations import Fire, FireTerm, Readout, Source
from falcon_snn.network.product import Product
from falcon_snn.network.quantise import Counter
from falcon_snn.network.restore import restore
from falcon_snn.training.export import load_network
from falcon_snn.training.pretrained import pretrained_names, pretrained_path

CLIPS = 3


def in_units(snn: Snn) -> dict[str, Array]:
    """Every number in units that a grid does not change: thresholds, steps of a code, scores."""
    tensors = {name: floats(tensor) for name, tensor in snn.tensors.items()}
    found = {}
    for name, values in tensors.items():
        stage, _, part = name.rpartition(".")
        grid: Array = np.ones(1)
        if f"{stage}.grid" in tensors:
            grid = tensors[f"{stage}.grid"]
        elif f"{stage}.shift" in tensors and part != "weight":
            grid = 2.0 ** tensors[f"{stage}.shift"]
        elif part.startswith(("factor", "static", "initial")):
            grid = tensors[f"{stage}.threshold"]
        if part not in ("grid", "shift", "threshold"):
            found[name] = values / grid
    return found


def same(first: Snn, second: Snn) -> None:
    """Equal but for the last digits of constants; codes of weights in the arrays exactly."""
    one, other = in_units(first), in_units(second)
    assert one.keys() == other.keys()
    for name, values in one.items():
        stage, _, part = name.rpartition(".")
        if part in ("weight", "weight2") and stage != first.network.readout.name:
            heard = one[f"{stage}.factor{part.removeprefix('weight')}"] != 0
            assert (values[heard] == other[name][heard]).all(), name
            continue
        largest = np.abs(values).max()
        assert np.allclose(values, other[name], rtol=2e-3, atol=2e-5 * largest + 1e-7), name


@settings(max_examples=150)
@given(networks(), SEEDS)
def test_converted_again_it_is_the_same_network(network: Network, seed: int) -> None:
    snn = convert(trained_like(network, seed))
    model = restore(snn)
    assert model.network == network
    assert not model.training
    same(snn, convert(model))


def test_streams_without_weights_keep_their_proportion() -> None:
    """Thresholds hide what one is worth, an output that says nothing what two are."""
    network = Network(
        "sums of sums",
        3,
        (
            Source("x", (2, 2, 4)),
            Fire("a", (FireTerm("x", Product(4)),)),
            Fire("b", (FireTerm("a"), FireTerm("x"))),
            Fire("c", (FireTerm("b"), FireTerm("a")), norm=True),
            Readout("scores", "c", 2),
        ),
    )
    for seed in range(5):
        model = trained_like(network, seed)
        with torch.no_grad():
            model.part("b").fire.threshold.mul_(1.7)
            model.part("c").norm.weight[:2] = 0.0
        snn = convert(model)
        same(snn, convert(restore(snn)))


@settings(max_examples=60)
@given(scheduled(), SEEDS)
def test_spikes_mean_the_same_to_training(case: tuple[Network, dict[str, int]], seed: int) -> None:
    """Scores of given spikes, in the float network that has the gradients."""
    network, delays = case
    first, x = trained_like(network, seed), random_inputs(network, CLIPS, seed)
    snn = convert(first)
    spikes = snn.counts(snn.streams(x, None, delays))
    with torch.no_grad():
        scores, again = first(x, None, spikes), restore(snn)(x, None, spikes)
    slack = 1e-3 * float(scores.abs().max()) + 1e-4
    assert torch.allclose(scores, again, rtol=1e-3, atol=slack)


@pytest.mark.parametrize("name", [name for name in pretrained_names() if "words" not in name])
def test_shipped_networks_come_back(name: str) -> None:
    snn, metadata = load_network(pretrained_path(name))
    back = restore(snn)
    same(snn, convert(back))
    steps = [float(part.step().detach()) for part in back.modules() if isinstance(part, Counter)]
    assert all(1e-4 < step < 10 for step in steps)  # as a training begins with, not 0 or 1e9
    x = torch.randn(4, *snn.network.source.input, generator=torch.Generator().manual_seed(0))
    delays = metadata.delays or full(snn.network)
    again = convert(back)
    kept, found = (each.counts(each.streams(x, None, delays)) for each in (snn, again))
    for stage in snn.network.inner_stages:
        if isinstance(stage, Fire):
            share = float((kept[stage.name] != found[stage.name]).double().mean())
            assert share < 0.02, stage.name
