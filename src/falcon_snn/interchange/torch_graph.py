"""Anybody's torch module as a stage graph: one feed-forward step of layers that we know."""

from math import prod

import torch
from torch import nn

from falcon_snn.errors import FalconError
from falcon_snn.interchange.stage_builder import LayerWeights, Signal, StageBuilder, Window
from falcon_snn.interchange.torch_reader import Op, read_module
from falcon_snn.pipeline.graph import INPUT, Graph


def graph_from_torch(
    module: nn.Module, input_shape: tuple[int, ...], slots: int = 7, name: str | None = None
) -> Graph:
    """The stages of a module that computes one time step from an input [batch, *input_shape].

    For timing alone: nothing is asked of the weights. Neurons of snnTorch and SpikingJelly fire,
    and so does ReLU; a sum of two streams followed by neurons is a residual. Boundaries have the
    names of the module's neurons.
    """
    builder, signals = StageBuilder(), dict[Op, Signal]()
    for op in read_module(module, torch.zeros(1, *input_shape)):
        signals[op] = _add(builder, op, [signals[before] for before in op.before])
    return Graph(name or type(module).__name__, slots, tuple(builder.stages))


def _add(builder: StageBuilder, op: Op, inputs: list[Signal]) -> Signal:
    if op.kind == "input":
        return Signal(stage=INPUT)
    if op.kind == "output":
        for x in dict.fromkeys(inputs):
            builder.finish(x)
        return Signal()
    if op.kind == "add":
        return builder.add(inputs)
    x = inputs[0]
    if op.kind == "fire":
        return builder.fire(op.name, x)
    if op.kind == "max" and not x.is_spikes:
        raise FalconError(
            f"layer '{op.name}' takes the largest of sums, which the arrays cannot; "
            "put it after the neurons, where it is an OR of spikes"
        )
    if op.kind == "pool":
        return builder.pool(op.name, x, Window(op.kernel, op.stride), prod(op.shape[2:]))
    if op.kind != "weigh":  # flattening, dropout, batch norm, OR: no stage of their own
        return x
    layer = op.layer
    if isinstance(layer, nn.Linear):
        weights = LayerWeights(layer.in_features, layer.out_features)
        return builder.weigh(op.name, x, weights, prod(op.shape[1:-1]))
    assert isinstance(layer, nn.Conv1d | nn.Conv2d)
    groups, window = layer.groups, Window(tuple(layer.kernel_size), tuple(layer.stride))
    columns = layer.out_channels // groups
    weights = LayerWeights(layer.in_channels // groups, columns, groups, window)
    return builder.weigh(op.name, x, weights, prod(op.shape[2:]))
