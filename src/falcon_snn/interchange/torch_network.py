"""A float torch module of your own becomes a network with its weights kept."""

import math
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from falcon_snn.errors import FalconError
from falcon_snn.interchange.torch_reader import follow, read_module, top_of
from falcon_snn.interchange.torch_stages import Layer, StageWriter
from falcon_snn.network.description import Network
from falcon_snn.network.operations import Readout, Source
from falcon_snn.network.operations.source import LARGEST
from falcon_snn.network.parts import Bias, Normalise, Weights
from falcon_snn.network.product import SUFFIXES
from falcon_snn.network.qnn import Qnn

SOURCES = ("auto", "layer", "scale", "counts")


def from_torch(
    module: nn.Module, example: Any, slots: int = 7, *, name: str | None = None,
    source: str = "auto", encoding: str = "first", weight_bits: int = 8,
) -> Qnn:  # fmt: skip
    """The QNN of a float module, trained or not; its weights are copies of the module's.

    `example` is a batch in torch's own layout: [N, F], [N, C, L], [N, C, H, W], or [N, H, W] where
    the module itself flattens. It gives the shape and the ranges: a firing stage's step is the
    value that 99.9 % of its ReLU's outputs on `example` do not exceed, divided by `slots`. A few
    hundred samples that look like the data are better than one.

    Layers are Conv1d, Conv2d and Linear, each with batch norm or not, then ReLU; relu(a + b) of two
    layers, or of a layer and an earlier ReLU, fires once; average pooling and flattening join the
    layer after them; the last Linear is the readout. Dropout before a layer stays in training.
    Batch norms that have seen no data yet take their statistics from `example`.

    `source` is how real inputs become spikes:

        layer   the first layer and its ReLU, computed once on 8-bit inputs (Falcon's encoder)
        scale   inputs become counts as they are, and the first layer takes spikes
        counts  inputs are counts already
        auto    layer where the module begins with a convolution, else scale

    8-bit inputs are (x - zero) levels. `zero` is 0 where inputs are not negative or lie around 0,
    otherwise their mean, and for `scale` their least value, since counts cannot be negative. What
    `zero` takes away is added to the bias of the first layer. That is exact except where a padded
    kernel reaches over the border of the map, whose padding then means `zero` and not 0.
    """
    if source not in SOURCES:
        raise FalconError(f"source is '{source[:40]}'; choose one of {', '.join(SOURCES)}")
    example = torch.as_tensor(example)
    if example.dim() < 2 or not example.numel():
        raise FalconError("the example is a batch [N, ...] of one or more samples")
    example = example.detach().cpu().float()
    if not bool(example.isfinite().all()):
        raise FalconError("the example has values that are not finite")
    module = _with_statistics(module, example)
    written = StageWriter(read_module(module, example), source)
    scaling = written.scaling
    first = replace(_source(example, source, written.input, scaled=scaling), encoding=encoding)
    if scaling:
        stages = [replace(first, name=written.source), *written.stages]
    else:
        own, *rest = written.stages
        assert isinstance(own, Source)
        stages = [replace(first, name=own.name, product=own.product), *rest]
    network = Network(name or type(module).__name__, slots, tuple(stages), weight_bits)
    _check_layout(network.source, example)
    model = Qnn(network)
    with torch.no_grad():
        _fill(model, written)
        if scaling and not first.given:
            _set_step(model, network.source.name, top_of(example - first.zero))
    return model.eval()


def _with_statistics(module: nn.Module, example: Tensor) -> nn.Module:
    """A copy whose batch norms know the data: those that have seen none learn from the example.

    Training normalises by the batch, so ranges taken without statistics would fit nothing.
    """
    module = deepcopy(module).cpu().eval()
    norms = [part for part in module.modules() if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d)]
    fresh = [norm for norm in norms if not norm.num_batches_tracked]
    for norm in fresh:
        norm.momentum = None  # the mean over all batches that it sees: this one
        norm.train()
    with torch.no_grad(), suppress(Exception):  # the reader says what does not fit
        if fresh:
            module(example)
    return module.eval()


def example_for(module: nn.Module, sample: Tensor) -> Tensor:
    """Samples [N, F], [N, L], [N, H, W] or [N, H, W, C] as the module's first layer takes them.

    A Conv2d gets [N, C, H, W], a Conv1d [N, C, L]; others, and modules that reshape their input
    themselves, get the samples as they are. All as float32.
    """
    sample, layers = sample.float(), dict(module.named_modules())
    for node in follow(module).nodes:
        layer = layers.get(str(node.target)) if node.op == "call_module" else None
        if node.op in ("call_function", "call_method") or isinstance(layer, nn.Linear | nn.Flatten):
            break
        if isinstance(layer, nn.Conv2d) and sample.dim() in (3, 4):
            return sample.unsqueeze(1) if sample.dim() == 3 else sample.permute(0, 3, 1, 2)
        if isinstance(layer, nn.Conv1d) and sample.dim() in (2, 3):
            return sample.unsqueeze(1) if sample.dim() == 2 else sample.transpose(1, 2)
    return sample


def _source(x: Tensor, kind: str, shape: tuple[int, int, int], *, scaled: bool) -> Source:
    """How inputs become 8-bit integers, from a batch of them."""
    least, most, mean = float(x.min()), float(x.max()), float(x.mean())
    span = most - least
    if kind == "counts":
        if least < 0 or bool((x != x.round()).any()):
            raise FalconError("source 'counts' takes whole numbers, 0 or more; use 'scale'")
        return Source("source", shape, given=True)
    if 0 <= least <= span:
        zero = 0.0
    elif scaled:
        zero = least
    else:
        zero = 0.0 if abs(mean) <= span / 4 else mean
    largest = max(abs(least - zero), abs(most - zero)) or 1.0
    return Source("source", shape, levels=LARGEST / largest, zero=zero)


def _check_layout(source: Source, example: Tensor) -> None:
    """Inputs are taken in torch's layout and with channels last: the two must not be confused."""
    lines, pixels, channels = source.input
    own = example.reshape(len(example), channels, lines, pixels).permute(0, 2, 3, 1)
    if not torch.equal(source.fit(example), own):
        sizes = " x ".join(map(str, example.shape[1:]))
        raise FalconError(f"samples of {sizes} read the same with channels first and last")


def _fill(model: Qnn, written: StageWriter) -> None:
    """Weights, batch norms, biases and steps of the module."""
    network = model.network
    for name, terms in written.terms.items():
        part = model.part(name)
        for suffix, term in zip(SUFFIXES, terms, strict=False):
            outside = term.reads == written.source
            zero = network.source.zero if outside else 0.0
            if term.layer is None and zero:
                raise FalconError(
                    f"stage '{name}' adds the inputs themselves, and some are negative; "
                    "put a layer on them, or give inputs of 0 or more"
                )
            if term.layer is None:
                continue
            if isinstance(network.by_name[name], Readout):
                part.linear.weight.copy_(term.layer.weight.flatten(1))
                part.linear.bias.copy_(_bias(term.layer, zero))
            else:
                weights = part.weights if suffix == "" else part.weights2
                _copy(term.layer, weights, zero)
    for name, top in written.tops.items():
        _set_step(model, name, top)


def _bias(layer: Layer, zero: float) -> Tensor:
    """The bias of a layer whose inputs had `zero` taken away."""
    return layer.bias + zero * layer.weight.flatten(1).sum(dim=1)


def _copy(layer: Layer, weights: Weights, zero: float) -> None:
    weights.weight.copy_(layer.weight)
    bias, norm, own = _bias(layer, zero), layer.norm, weights.norm
    if norm is None:
        assert isinstance(own, Bias)
        own.bias.copy_(bias)
        return
    assert isinstance(own, Normalise)
    assert own.running_mean is not None
    assert own.running_var is not None
    assert norm.running_mean is not None
    assert norm.running_var is not None
    if norm.affine:
        own.weight.copy_(norm.weight)
        own.bias.copy_(norm.bias)
    own.running_mean.copy_(norm.running_mean.cpu() - bias)
    own.running_var.copy_(norm.running_var.cpu() + (norm.eps - own.eps))


def _set_step(model: Qnn, name: str, top: float) -> None:
    model.part(name).fire.step.log.fill_(math.log(max(top, 1e-12) / model.network.slots))
