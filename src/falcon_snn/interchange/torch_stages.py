"""What a torch module does, written as the stages of a network, with the numbers of its layers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor, nn

from falcon_snn.errors import FalconError
from falcon_snn.interchange.torch_reader import Op, spiking
from falcon_snn.network.operations import Fire, FireTerm, Readout, Source
from falcon_snn.network.product import Pair, Product, Shape
from falcon_snn.network.stage import Stage
from falcon_snn.pipeline.graph import INPUT


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer of weights as a network has it."""

    name: str
    product: Product
    weight: Tensor  # [outputs, lines, pixels, inputs of a group]
    bias: Tensor
    module: nn.Module
    norm: nn.BatchNorm1d | nn.BatchNorm2d | None = None


@dataclass(frozen=True, eq=False)
class LayerTerm:
    """One input of a stage: what it reads, through a layer or not."""

    reads: str
    layer: Layer | None = None


@dataclass(frozen=True, eq=False)
class _Value:
    """What flows between operations: spikes of a stage, or sums that have not fired."""

    stage: str  # of spikes
    map: Shape  # lines, pixels, channels, as pooled
    pool: Pair = (1, 1)
    flat: bool = False
    dropout: float = 0.0
    terms: tuple[LayerTerm, ...] = ()  # of sums


class StageWriter:
    """Follows the operations; afterwards its lists hold all stages but a source that scales."""

    def __init__(self, ops: list[Op], source: str) -> None:
        self.stages: list[Stage] = []
        self.terms: dict[str, tuple[LayerTerm, ...]] = {}
        self.tops: dict[str, float] = {}
        self.input: Shape = (1, 1, 1)
        self.scaling = True  # whether the source only scales
        names = {op.name for op in ops}
        self.source = next(name for name in ("source", "source_", "source__") if name not in names)
        self._shapes: dict[str, Shape] = {}
        self._raw = _raw(ops)
        self._values: dict[Op, _Value] = {}
        first = _first_layer(ops, self._raw)
        wanted = source == "layer" or (source == "auto" and not isinstance(first, nn.Linear))
        self._first = first if wanted else None
        for op in ops:
            self._values[op] = self._follow(op)
        if source == "layer" and self.scaling:
            raise FalconError(
                "source 'layer' needs a first layer that reads the inputs alone, without pooling, "
                "groups or a sum, and has a ReLU; use 'scale'"
            )

    def _follow(self, op: Op) -> _Value:
        if op in self._raw:
            before = self._values[op.before[0]].dropout if op.before else 0.0
            return _Value(self.source, (0, 0, 0), dropout=1 - (1 - before) * (1 - op.dropout))
        inputs = [self._read(op, before) for before in op.before]
        if op.kind == "add":
            return self._add(op, inputs)
        if op.kind == "output":
            return self._finish(inputs)
        x = inputs[0]
        if op.kind == "weigh":
            return self._weigh(op, x)
        if op.kind == "norm":
            return self._norm(op, x)
        if op.kind == "fire":
            return self._fire(op, x)
        if op.kind == "pool":
            return self._pool(op, x)
        if op.kind == "shape":
            return self._reshape(op, x)
        if op.kind == "max":
            raise FalconError(f"layer '{op.name}' takes the largest value; use AvgPool2d")
        return replace(x, dropout=1 - (1 - x.dropout) * (1 - op.dropout))

    def _read(self, op: Op, before: Op) -> _Value:
        """What an operation reads; the first to read the inputs says what their axes are."""
        x = self._values[before]
        if before not in self._raw:
            return x
        axes = before.shape[1:]
        plain = op.kind == "shape" or (op.kind == "weigh" and isinstance(op.layer, nn.Linear))
        if len(axes) == 2 and plain:
            shape = (axes[0], axes[1], 1)
        elif len(axes) <= 3:
            spatial = (*axes[1:], 1, 1)[:2]
            shape = (spatial[0], spatial[1], axes[0])
        else:
            raise FalconError(f"samples have {len(axes)} axes; give [F], [C, L] or [C, H, W]")
        if self._shapes.setdefault(self.source, shape) != shape:
            raise FalconError(f"layer '{op.name}' reads the inputs in a shape other than the first")
        self.input = shape
        return replace(x, map=shape)

    def _weigh(self, op: Op, x: _Value) -> _Value:
        layer = op.layer
        assert isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d)
        if x.terms:
            raise FalconError(
                f"layer '{op.name}' follows '{_name_of(x)}' without ReLU between; put a ReLU there"
            )
        if isinstance(layer, nn.Linear):
            if len(op.shape) != 2:
                raise FalconError(
                    f"layer '{op.name}' is Linear on a map; flatten before it, or use Conv1d or "
                    "Conv2d with kernel 1"
                )
            lines, pixels, channels = x.map
            weight = layer.weight.detach().view(-1, channels, lines, pixels)
            product = Product(layer.out_features, (lines, pixels))
            after = (1, 1, layer.out_features)
        else:
            weight = layer.weight.detach()
            weight = weight if weight.dim() == 4 else weight.unsqueeze(3)
            product = _convolution(op.name, layer)
            sides = (*op.shape[2:], 1)
            after = (sides[0], sides[1], layer.out_channels)
        product = replace(product, pool=x.pool, norm="bias", dropout=x.dropout)
        bias = torch.zeros(product.outputs) if layer.bias is None else layer.bias.detach().cpu()
        found = Layer(
            op.name, product, weight.cpu().permute(0, 2, 3, 1), bias.float(), layer
        )  # fmt: skip
        return _Value("", after, terms=(LayerTerm(x.stage, found),))

    def _norm(self, op: Op, x: _Value) -> _Value:
        norm = op.layer
        assert isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d)
        layer = x.terms[0].layer if len(x.terms) == 1 else None
        if layer is None or layer.norm is not None or norm.num_features != layer.product.outputs:
            raise FalconError(
                f"layer '{op.name}' follows no layer of weights; put batch norm right after one, "
                "before its ReLU and before a sum"
            )
        if norm.running_var is None:
            raise FalconError(f"layer '{op.name}' keeps no statistics; use track_running_stats")
        layer = replace(layer, norm=norm, product=replace(layer.product, norm="batch"))
        return replace(x, terms=(replace(x.terms[0], layer=layer),))

    def _fire(self, op: Op, x: _Value) -> _Value:
        if spiking(op.layer):
            kind = type(op.layer).__name__
            raise FalconError(
                f"layer '{op.name}': {kind} neurons have rules of their own; use ReLU"
            )
        if not x.terms:
            if x.stage == self.source:
                raise FalconError(f"layer '{op.name}' is a ReLU of the inputs; leave it out")
            return x  # spikes are not negative
        name = _stage_name(next((t.layer.name for t in x.terms if t.layer), op.name))
        if name in self.terms:
            raise FalconError(f"the sums of layer '{name}' are read twice; read its ReLU instead")
        layer = x.terms[0].layer
        if layer is not None and layer.module is self._first and _alone(x):
            self.stages.append(Source(name, self.input, layer.product))
            self.scaling = False
        else:
            terms = (FireTerm(t.reads, t.layer.product if t.layer else None) for t in x.terms)
            self.stages.append(Fire(name, tuple(terms)))
        self.terms[name], self.tops[name] = x.terms, op.top
        self._shapes[name] = x.map
        return _Value(name, x.map, flat=x.flat, dropout=x.dropout)

    def _pool(self, op: Op, x: _Value) -> _Value:
        if x.terms:
            raise FalconError(
                f"layer '{op.name}' pools the sums of '{_name_of(x)}'; put the pooling after the "
                "ReLU"
            )
        if op.stride != op.kernel:
            raise FalconError(
                f"layer '{op.name}' has windows of {op.kernel} at steps of {op.stride}; use a "
                "stride that equals the kernel"
            )
        if any(op.padding):
            raise FalconError(f"layer '{op.name}' is padded; use padding=0")
        window = (*op.kernel, 1)
        lines, pixels, channels = x.map
        after = (lines // window[0], pixels // window[1], channels)
        pool = (x.pool[0] * window[0], x.pool[1] * window[1])
        return replace(x, map=after, pool=pool, flat=len(op.shape) == 2)

    def _reshape(self, op: Op, x: _Value) -> _Value:
        before = op.before[0].shape
        if op.shape == before:
            return x
        if op.shape != (before[0], prod(before[1:])):
            raise FalconError(
                f"operation '{op.name}' makes {op.shape} of {before}; only flatten to [N, -1]"
            )
        return replace(x, flat=True)

    def _add(self, op: Op, inputs: Sequence[_Value]) -> _Value:
        terms = tuple(term for x in inputs for term in (x.terms or (LayerTerm(x.stage),)))
        if len(terms) > 2:
            raise FalconError(
                f"operation '{op.name}' makes a sum of {len(terms)} streams; add two, and put a "
                "ReLU after them"
            )
        if any(x.pool != (1, 1) for x in inputs):
            raise FalconError(
                f"operation '{op.name}' adds a pooled stream; put a convolution of size 1 after "
                "the pooling"
            )
        return _Value("", inputs[0].map, flat=inputs[0].flat, terms=terms)

    def _finish(self, inputs: Sequence[_Value]) -> _Value:
        x = inputs[0] if len(inputs) == 1 else _Value("", (0, 0, 0))
        term = x.terms[0] if len(x.terms) == 1 else LayerTerm("")
        layer = term.layer
        if layer is None or not isinstance(layer.module, nn.Linear) or layer.norm is not None:
            raise FalconError(
                "the module has no classifier at its end; let it return the scores of one Linear "
                "without ReLU or batch norm"
            )
        before, product = self._shapes[term.reads], layer.product
        window = (0, 0) if product.pool == before[:2] != (1, 1) else product.pool
        name = _stage_name(layer.name)
        self.stages.append(
            Readout(name, term.reads, product.outputs, window, dropout=product.dropout)
        )
        self.terms[name] = x.terms
        return x


def _raw(ops: list[Op]) -> set[Op]:
    """The inputs, also after what only changes how they are written."""
    raw: set[Op] = set()
    for op in ops:
        before = op.before[0] if op.before else None
        if op.kind == "input" or (before in raw and op.kind in ("drop", "pass")):
            raw.add(op)
        elif before in raw and op.kind == "shape" and len(op.shape) > 2:
            assert before is not None
            if _bare(before.shape) == _bare(op.shape):
                raw.add(op)
    return raw


def _first_layer(ops: list[Op], raw: set[Op]) -> nn.Module | None:
    """The layer that reads the inputs, if it is the only one that does."""
    seen = set(raw)
    readers = [op for op in ops if op not in raw and raw & set(op.before)]
    while len(readers) == 1 and readers[0].kind in ("shape", "drop", "pass"):
        seen.add(readers[0])
        readers = [op for op in ops if op not in seen and readers[0] in op.before]
    return readers[0].layer if len(readers) == 1 and readers[0].kind == "weigh" else None


def _bare(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape[1:] if size != 1)


def _alone(x: _Value) -> bool:
    """Whether sums can be those of a source: one layer, without pooling or groups."""
    layer = x.terms[0].layer
    return (
        len(x.terms) == 1
        and layer is not None
        and layer.product.pool == (1, 1)
        and layer.product.groups == 1
    )


def _name_of(x: _Value) -> str:
    return next((term.layer.name for term in x.terms if term.layer), "a sum")


def _stage_name(name: str) -> str:
    """A layer's name, unless networks use it for something else."""
    return f"{name}_" if name == INPUT or hasattr(nn.ModuleDict, name) else name


def _convolution(name: str, layer: nn.Conv1d | nn.Conv2d) -> Product:
    if any(size != 1 for size in layer.dilation):
        raise FalconError(f"layer '{name}' is dilated; use dilation=1")
    if layer.padding_mode != "zeros":
        raise FalconError(f"layer '{name}' pads with '{layer.padding_mode}'; use zeros")
    padding = layer.padding
    if padding == "valid":
        padding = (0,) * len(layer.kernel_size)
    elif padding == "same":
        if any(size % 2 == 0 for size in layer.kernel_size):
            raise FalconError(f"layer '{name}': padding 'same' needs a kernel of odd size")
        padding = tuple(size // 2 for size in layer.kernel_size)
    assert not isinstance(padding, str)
    kernel, stride, padding = (*layer.kernel_size, 1), (*layer.stride, 1), (*padding, 0)
    return Product(
        layer.out_channels, (kernel[0], kernel[1]), (stride[0], stride[1]),
        (padding[0], padding[1]), layer.groups,
    )  # fmt: skip
