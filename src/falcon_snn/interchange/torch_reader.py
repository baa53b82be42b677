"""Anybody's torch module, read once: what it does, in order, in a few kinds of operations.

`torch_network.py` makes a network of them with the module's weights, `torch_graph.py` the stages
for timing. What is of no known kind is refused by name, with what to write instead.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from falcon_snn.errors import FalconError

# Neurons are known by package and name, so that none of the packages has to be installed. A ReLU
# is what integrate-and-fire neurons of a converted network stand for.
NEURONS = {
    "snntorch": ("Leaky", "Lapicque", "Synaptic", "Alpha"),
    "spikingjelly": ("IFNode", "LIFNode", "ParametricLIFNode"),
    "torch": ("ReLU",),
}
_LAYERS: dict[type[nn.Module], str] = {
    nn.Linear: "weigh", nn.Conv1d: "weigh", nn.Conv2d: "weigh",
    nn.BatchNorm1d: "norm", nn.BatchNorm2d: "norm",
    nn.AvgPool1d: "pool", nn.AvgPool2d: "pool",
    nn.AdaptiveAvgPool1d: "adaptive", nn.AdaptiveAvgPool2d: "adaptive",
    nn.MaxPool1d: "max", nn.MaxPool2d: "max",
    nn.Flatten: "shape", nn.Identity: "pass",
    nn.Dropout: "drop", nn.Dropout1d: "drop", nn.Dropout2d: "drop",
}  # fmt: skip
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "fire": (torch.relu, torch.relu_, F.relu, "relu", "relu_"),
    "add": (operator.add, operator.iadd, torch.add, "add", "add_"),
    "shape": (
        torch.flatten, torch.reshape, torch.unsqueeze, torch.squeeze, "flatten", "view", "reshape",
        "unsqueeze", "squeeze",
    ),
    "mean": (torch.mean, "mean"),
    "pool": (F.avg_pool1d, F.avg_pool2d),
    "adaptive": (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d),
    "max": (torch.max_pool1d, torch.max_pool2d, F.max_pool1d, F.max_pool2d),
    "drop": (F.dropout, F.dropout1d, F.dropout2d),
    "pass": ("contiguous", "float"),
}  # fmt: skip
_INSTEAD = {
    "use ReLU": (
        "gelu", "silu", "sigmoid", "tanh", "leakyrelu", "elu", "selu", "celu", "prelu", "relu6",
        "hardswish", "hardsigmoid", "hardtanh", "mish", "softplus", "logsigmoid",
    ),
    "leave it out: scores are compared as they are": ("softmax", "logsoftmax"),
    "use BatchNorm1d or BatchNorm2d": ("layernorm", "groupnorm", "instancenorm2d", "rmsnorm"),
    "use AvgPool2d": ("maxpool3d", "adaptivemaxpool1d", "adaptivemaxpool2d", "lppool2d"),
}  # fmt: skip
_SINGLE = ("weigh", "norm")  # kinds that have numbers of their own


@dataclass(frozen=True, eq=False)
class Op:
    """One thing that a module does."""

    kind: str  # input, weigh, norm, fire, pool, max, shape, drop, pass, add, output; or number
    name: str  # the module's, or the operation's where it is not a module
    before: tuple["Op", ...]
    shape: tuple[int, ...] = ()  # of what comes out, with the batch
    layer: nn.Module | None = None
    kernel: tuple[int, ...] = ()  # of pooling
    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    dropout: float = 0.0
    top: float = 0.0  # what 99.9 % of a firing's values do not exceed


def read_module(module: nn.Module, example: Tensor) -> list[Op]:
    """What a module does with a batch [N, ...], in inference, in the order in which it does it."""
    if _leaf(module):  # a single layer
        module = nn.Sequential(module)
    graph = follow(module)
    modes = [(part, part.training) for part in module.modules()]
    reader = _Reader(fx.GraphModule(module, graph).eval())
    first = next(module.parameters(), torch.zeros(()))
    try:
        with torch.no_grad():
            reader.run(example.to(first))
    except FalconError:
        raise
    # Whatever the user's layers raise for an input that they cannot take.
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        shape = tuple(example.shape[1:])
        raise FalconError(f"an input of shape {shape} does not fit ({reason})") from None
    finally:
        for part, training in modes:
            part.training = training
    return list(reader.ops.values())


def follow(module: nn.Module) -> fx.Graph:
    """The module's forward as a graph of calls."""
    try:
        return _Tracer().trace(module)
    # Whatever the user's forward does with values that are not there while tracing.
    except Exception as error:
        reason = str(error).partition("\n")[0].partition(". ")[0] or type(error).__name__
        raise FalconError(
            f"{type(module).__name__} cannot be followed ({reason}); its forward "
            "must compute one step without branching on values (write x.shape[0] for len(x))"
        ) from None


def spiking(layer: nn.Module | None) -> bool:
    """Whether a layer is neurons of a package for spiking networks."""
    return layer is not None and not isinstance(layer, nn.ReLU) and _fires(layer)


class _Tracer(fx.Tracer):
    """Goes into the user's modules, not into those of torch or a package of neurons."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return _leaf(m)


class _Reader(fx.Interpreter):
    """Runs the module once and notes what every call does."""

    def __init__(self, traced: fx.GraphModule) -> None:
        super().__init__(traced)
        self.extra_traceback = False
        self.modules = dict(traced.named_modules())
        self.called: set[str] = set()
        self.ops: dict[fx.Node, Op] = {}

    def run_node(self, n: fx.Node) -> Any:
        layer = self.modules[str(n.target)] if n.op == "call_module" else None
        kind = _kind_of_layer(str(n.target), layer) if layer is not None else _kind_of_call(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        result = super().run_node(n)
        if isinstance(result, Tensor | tuple) or n.op == "output":
            read = (item for item in (*n.args, *n.kwargs.values()) if isinstance(item, fx.Node))
            before = tuple(self.ops[item] for item in read if item in self.ops)
            if n.op == "output":
                before = tuple(self.ops[item] for item in n.all_input_nodes if item in self.ops)
            op = self._op(n, kind, layer, before, args, kwargs, result)
            if op.kind != "number":
                self.ops[n] = op
        return result

    def _op(
        self, n: fx.Node, kind: str, layer: nn.Module | None, before: tuple[Op, ...],
        args: tuple[Any, ...], kwargs: dict[str, Any], result: Any,
    ) -> Op:  # fmt: skip
        name = self._name(n, kind, layer)
        shape = tuple(result.shape) if isinstance(result, Tensor) else ()
        given = _arguments(kind, layer, args, kwargs)
        if n.target is operator.getitem and before and spiking(before[0].layer):
            # Of what a neuron gives, spikes and potential, both come from the same stage.
            kind = "pass"
        elif n.target is operator.getitem and not isinstance(result, Tensor):
            kind = "number"
        if kind == "unknown" and isinstance(result, Tensor):
            what = str(getattr(n.target, "__name__", n.target))
            raise FalconError(_refusal(f"operation '{n.name}' ({what})", what))
        if kind == "unknown":
            kind = "number"
        if kind == "add":
            _check_sum(name, before, kwargs)
        if kind in ("pool", "adaptive", "mean"):
            windows = _windows(name, kind, before[0].shape, shape, given)
            return Op("pool", name, before, shape, layer, *windows)
        dropout = float(given["p"]) if kind == "drop" else 0.0
        top = top_of(result) if kind == "fire" and isinstance(result, Tensor) else 0.0
        return Op(kind, name, before, shape, layer, dropout=dropout, top=top)

    def _name(self, n: fx.Node, kind: str, layer: nn.Module | None) -> str:
        name = str(n.target)
        if layer is None or name in self.called:
            if kind in _SINGLE or spiking(layer):
                raise FalconError(
                    f"layer '{name}' is used twice; give a module of one time step in which every "
                    "layer has weights and neurons of its own"
                )
            return self._free(n.name)
        self.called.add(name)
        return name

    def _free(self, name: str) -> str:
        """A name for what is not a module, or is used again, that no module has."""
        return self._free(f"{name}_again") if name in self.modules else name


def _kind_of_layer(name: str, layer: nn.Module) -> str:
    if _fires(layer):
        return "fire"
    for known, kind in _LAYERS.items():
        if isinstance(layer, known):
            return kind
    what = type(layer).__name__
    raise FalconError(_refusal(f"layer '{name}' of type {what}", what))


def _kind_of_call(n: fx.Node) -> str:
    if n.op in ("placeholder", "output"):
        return "input" if n.op == "placeholder" else "output"
    if n.op == "get_attr":
        return "number"
    return next((kind for kind, calls in _FUNCTIONS.items() if n.target in calls), "unknown")


def _refusal(where: str, what: str) -> str:
    plain = what.replace("_", "").lower()
    layers = ", ".join(kind.__name__ for kind in _LAYERS)
    neurons = ", ".join(sum(NEURONS.values(), ()))
    known = f"known: {layers}, {neurons}, their functions, flatten, view, mean and a + b"
    instead = next((text for text, names in _INSTEAD.items() if plain in names), known)
    return f"{where} is not supported; {instead}"


def _arguments(
    kind: str, layer: nn.Module | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of pooling, mean and dropout by name, from a layer or a call."""
    if layer is not None:
        return vars(layer)
    names = {
        "pool": ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad",
                 "divisor_override"),
        "adaptive": ("output_size",), "mean": ("dim", "keepdim"), "drop": ("p",),
    }.get(kind, ())  # fmt: skip
    return {"p": 0.5, "dim": None} | dict(zip(names, args[1:], strict=False)) | kwargs


def _windows(
    name: str, kind: str, before: tuple[int, ...], after: tuple[int, ...], given: dict[str, Any]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Kernel, stride and padding of pooling over the axes after batch and channels."""
    sizes, axes = before[2:], len(before) - 2
    if kind == "mean":
        dims = given["dim"]
        chosen = (dims,) if isinstance(dims, int) else dims or ()
        if axes < 1 or {dim % len(before) for dim in chosen} != set(range(2, len(before))):
            raise FalconError(
                f"operation '{name}' is a mean over axes other than all of the map's; use "
                "x.mean(dim=(2, 3)), for signals of one axis x.mean(dim=2)"
            )
        return sizes, sizes, (0,) * axes
    if kind == "adaptive":
        if any(size != 1 for size in after[2:]):
            raise FalconError(f"layer '{name}' pools to {after[2:]}; use AvgPool2d, or pool to 1")
        return sizes, sizes, (0,) * axes
    kernel, padding = _axes(given["kernel_size"], axes), _axes(given.get("padding", 0), axes)
    stride = _axes(given.get("stride") or kernel, axes)
    floor = tuple(
        (size + 2 * p - k) // s + 1
        for size, k, s, p in zip(sizes, kernel, stride, padding, strict=True)
    )
    if given.get("divisor_override") or floor != after[2:]:
        raise FalconError(f"layer '{name}': leave out ceil_mode and divisor_override")
    return kernel, stride, padding


def _axes(value: int | Sequence[int], axes: int) -> tuple[int, ...]:
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * axes if len(values) == 1 else values


def _check_sum(name: str, before: tuple[Op, ...], kwargs: dict[str, Any]) -> None:
    if len(before) != 2 or kwargs.get("alpha", 1) != 1:
        raise FalconError(f"operation '{name}' adds a number; only two streams can be added")
    one, other = (op.shape for op in before)
    if one != other:
        raise FalconError(f"operation '{name}' adds {one[1:]} and {other[1:]}; sizes must be equal")


def top_of(x: Tensor) -> float:
    """What 99.9 % of the values do not exceed; the largest, or 1, where that is nothing."""
    values = x.flatten()
    top = values.kthvalue(max(1, ceil(0.999 * len(values)))).values
    return float(top) or float(values.max()) or 1.0


def _fires(layer: nn.Module) -> bool:
    return type(layer).__name__ in NEURONS.get(_package(layer), ())


def _leaf(module: nn.Module) -> bool:
    return _package(module) in NEURONS and not isinstance(module, nn.Sequential)


def _package(module: nn.Module) -> str:
    return type(module).__module__.partition(".")[0]
