"""How a network's integers lie in the nodes of a NIR file: there and back."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from falcon_snn.network.description import Network
from falcon_snn.network.integer import Snn
from falcon_snn.network.operations import Fire, Readout, Source
from falcon_snn.network.product import SUFFIXES, Product
from falcon_snn.network.stage import Stage
from falcon_snn.pipeline.graph import INPUT

Numbers = NDArray[Any]

# Integers that no field of a node holds; they are in its metadata under their own names.
_NOTED = (
    "initial", "static", "bias", "shift", "grid", "curve.table", "curve.slope", "curve.offset"
)  # fmt: skip


def ranks(network: Network) -> dict[str, int]:
    """Axes of every signal but channels: those of its map, more where padding needs them."""
    shapes = {INPUT: network.source.input, **network.shapes}
    found = {name: 2 if s[1] > 1 else int(s[0] > 1) for name, s in shapes.items()}
    pairs = [
        (stage.name, read, product)
        for stage in network.inner_stages
        for read, product in _inputs(stage)
    ]
    for _, read, product in pairs:
        padding = (0, 0) if product is None else product.padding
        found[read] = max(found[read], 2 if padding[1] else int(padding[0] > 0))
    before: dict[str, int] = {}
    while before != found:  # a layer can take axes away, never add some
        before = dict(found)
        for name, read, product in pairs:
            found[read] = max(found[read], found[name])
            if product is None:
                found[name] = found[read]
    return found


def _inputs(stage: Stage) -> list[tuple[str, Product | None]]:
    """What a stage reads, through weights or as it is."""
    if isinstance(stage, Source):
        return [(INPUT, stage.product)]
    if isinstance(stage, Fire):
        return [(term.reads, term.product) for term in stage.terms]
    products = [(read, product) for _, read, product in stage.products]
    return [*products] or [(read, None) for read in stage.reads]


def conv_weight(snn: Snn, stage: Stage, suffix: str) -> Numbers:
    """Weights [outputs, channels, lines, pixels] as the array holds them."""
    name = f"{stage.name}.weight{suffix}"
    weight = snn.arrays.get(name, snn.tensors[name])
    return np.ascontiguousarray(weight.numpy().transpose(0, 3, 1, 2))


def _codes(node: Any, product: Product, channels: int) -> Numbers:
    """The same back: without copies for pooled inputs, and without zeros between groups."""
    kernel, _, _ = product.window()
    array = node.weight.reshape(product.outputs, channels, *kernel).transpose(0, 2, 3, 1)
    array = array[:, :: product.pool[0], :: product.pool[1]]
    rows, width = product.outputs // product.groups, channels // product.groups
    blocks = [
        array[group * rows : (group + 1) * rows, ..., group * width : (group + 1) * width]
        for group in range(product.groups)
    ]
    return np.concatenate(blocks)


def readout_weight(snn: Snn) -> Numbers:
    """Weights [classes, channels x lines x pixels] of every place; windows share theirs."""
    network, readout = snn.network, snn.network.readout
    lines, pixels, channels = network.shapes[readout.source]
    (high, wide), _ = readout.windows((lines, pixels, channels))
    codes = np.asarray(snn.tensors[f"{readout.name}.weight"].numpy())
    small = codes.reshape(len(codes), lines // high, pixels // wide, channels)
    large = small.repeat(high, axis=1).repeat(wide, axis=2)
    weight = np.zeros((len(codes), lines, pixels, channels), codes.dtype)
    weight[:, : large.shape[1], : large.shape[2]] = large
    return weight.transpose(0, 3, 1, 2).reshape(len(codes), -1)


def _readout_codes(node: Any, network: Network) -> Numbers:
    readout = network.readout
    lines, pixels, channels = network.shapes[readout.source]
    (high, wide), _ = readout.windows((lines, pixels, channels))
    weight = node.weight.reshape(-1, channels, lines, pixels).transpose(0, 2, 3, 1)
    last = (lines // high * high, pixels // wide * wide)
    return np.asarray(weight[:, : last[0] : high, : last[1] : wide].reshape(len(weight), -1))


def tensors(network: Network, nodes: dict[str, Any]) -> dict[str, Tensor]:
    """The integers of a file's nodes by the names that `Snn` has for them."""
    integers: dict[str, Any] = {}
    shapes = {INPUT: network.source.input, **network.shapes}
    for stage in network.stages:
        name, node = stage.name, nodes[stage.name]
        integers |= {
            f"{name}.{part}": node.metadata[part] for part in _NOTED if part in node.metadata
        }
        if isinstance(stage, Readout):
            integers[f"{name}.weight"] = _readout_codes(nodes[f"{name}.array"], network)
            continue
        for suffix, (read, product) in zip(SUFFIXES, _inputs(stage), strict=False):
            if product is not None:
                array = nodes[f"{name}.array{suffix}"]
                integers[f"{name}.weight{suffix}"] = _codes(array, product, shapes[read][2])
            scale = nodes.get(f"{name}.scale{suffix}")
            if scale is not None:
                integers[f"{name}.factor{suffix}"] = _per_channel(scale.scale)
        integers.setdefault(f"{name}.factor", _per_channel(node.r))
        if stage.emits == "spikes":
            integers[f"{name}.threshold"] = _per_channel(node.v_threshold)
    return {name: torch.from_numpy(np.array(value, order="C")) for name, value in integers.items()}


def _per_channel(values: Numbers) -> Numbers:
    return values.reshape(len(values), -1)[:, 0]
