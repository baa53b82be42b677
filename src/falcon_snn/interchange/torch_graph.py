"""A torch module of anybody's as a stage graph: one feed-forward step of layers that we know."""

import operator
from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from falcon_snn.errors import FalconError
from falcon_snn.interchange.stage_builder import Signal, StageBuilder, Weights, Window
from falcon_snn.pipeline.graph import INPUT, Graph

# Neurons are known by package and name, so that none of the packages has to be installed. A ReLU
# is what integrate-and-fire neurons of a converted network stand for.
NEURONS = {
    "snntorch": ("Leaky", "Lapicque", "Synaptic", "Alpha"),
    "spikingjelly": ("IFNode", "LIFNode", "ParametricLIFNode"),
    "torch": ("ReLU",),
}
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.AvgPool2d, nn.MaxPool2d)
TRANSPARENT = (
    nn.Flatten, nn.Dropout, nn.Dropout2d, nn.Identity, nn.BatchNorm1d, nn.BatchNorm2d
)  # fmt: skip
_SHAPING = (torch.flatten, torch.reshape, "flatten", "view", "reshape", "size")
_ADDING = (operator.add, operator.iadd, torch.add, "add", "add_")
_FIRING = (torch.relu, F.relu, "relu")


def graph_from_torch(
    module: nn.Module, input_shape: tuple[int, ...], slots: int = 7, name: str | None = None
) -> Graph:
    """The stages of a module that computes one time step from an input [batch, *input_shape].

    Neurons of snnTorch and SpikingJelly fire, and so does ReLU; a sum of two streams followed by
    neurons is a residual. Boundaries have the names of the module's neurons.
    """
    graph = _Tracer().trace(module)
    traced = fx.GraphModule(module, graph)
    _refuse_unknown(traced)
    try:
        with torch.no_grad():
            _Shapes(traced).run(torch.zeros(1, *input_shape))
    except (RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise FalconError(f"an input of shape {input_shape} does not fit ({reason})") from None
    builder = _Import(traced)
    return Graph(name or type(module).__name__, slots, tuple(builder.stages))


class _Tracer(fx.Tracer):
    """Goes into modules of the user's, not into those of torch or a package of neurons."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return _package(m) in NEURONS and not isinstance(m, nn.Sequential)

    def trace(
        self, root: nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
    ) -> fx.Graph:
        try:
            return super().trace(root, concrete_args)
        # Whatever the user's forward does with values that are not there while tracing.
        except Exception as error:
            raise FalconError(
                f"{type(root).__name__} cannot be followed ({str(error).splitlines()[0]}); its "
                "forward must compute one step without branching on values"
            ) from None


class _Shapes(fx.Interpreter):
    """Runs the module once and notes the shape of every result."""

    extra_traceback = False

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        n.meta["shape"] = tuple(result.shape) if isinstance(result, Tensor) else (1, 1)
        return result


def _refuse_unknown(traced: fx.GraphModule) -> None:
    """Name the first layer that no rule is known for, before anything is run."""
    kinds = (*LAYERS, *TRANSPARENT)
    known = ", ".join((*(kind.__name__ for kind in kinds), *sum(NEURONS.values(), ())))
    for node in traced.graph.nodes:
        if node.op == "call_module":
            layer = traced.get_submodule(node.target)
            if not _fires(layer) and not isinstance(layer, kinds):
                raise FalconError(
                    f"layer '{node.target}' of type {type(layer).__name__} is not supported; "
                    f"known are {known}"
                )


class _Import(StageBuilder):
    def __init__(self, traced: fx.GraphModule) -> None:
        super().__init__()
        self.traced = traced
        self.signals: dict[fx.Node, Signal] = {}
        self.modules = dict(traced.named_modules())
        self.called: set[str] = set()
        for node in traced.graph.nodes:
            self.signals[node] = self._node(node)

    def _node(self, node: fx.Node) -> Signal:
        inputs = [self.signals[item] for item in node.all_input_nodes if item.op != "get_attr"]
        if node.op in ("placeholder", "get_attr"):
            return Signal(stage=INPUT)
        if node.op == "output":
            for x in dict.fromkeys(inputs):
                self.finish(x)
            return Signal()
        if node.op == "call_module":
            return self._module(self._module_name(node), node, inputs[0])
        if node.target in _ADDING and len(inputs) > 1:
            return self.add(node.name, inputs)
        if node.target in _FIRING:
            return self.fire(self._free_name(node.name), inputs[0])
        # Of what a neuron gives, spikes and potential, both come from the same stage.
        if node.target in (*_SHAPING, operator.getitem) or node.target is getattr:
            return inputs[0]
        raise FalconError(
            f"operation '{node.name}' ({getattr(node.target, '__name__', node.target)}) is not "
            "supported; known are layers, flatten, view, reshape, relu and the sum of two streams"
        )

    def _module_name(self, node: fx.Node) -> str:
        name = str(node.target)
        if name not in self.called:
            self.called.add(name)
            return name
        if isinstance(self.modules[name], (nn.ReLU, *TRANSPARENT)):
            return self._free_name(node.name)
        raise FalconError(
            f"layer '{name}' is used twice; give a module of one time step in which every layer "
            "has weights and neurons of its own"
        )

    def _free_name(self, name: str) -> str:
        """A name for what is no module, or one used again, that no module has."""
        return self._free_name(f"{name}_again") if name in self.modules else name

    def _module(self, name: str, node: fx.Node, x: Signal) -> Signal:
        layer, positions = self.modules[str(node.target)], _positions(node)
        if _fires(layer):
            return self.fire(name, x)
        if isinstance(layer, TRANSPARENT):
            return x
        if isinstance(layer, nn.MaxPool2d):
            if not x.is_spikes:
                raise FalconError(
                    f"layer '{name}' takes the largest of sums, which the arrays cannot; "
                    "put it behind the neurons, where it is an OR of spikes"
                )
            return x
        if isinstance(layer, nn.AvgPool2d):
            window = Window(_pair(layer.kernel_size, 2), _pair(layer.stride, 2))
            return self.pool(name, x, window, positions[0])
        if isinstance(layer, nn.Linear):
            return self.weigh(name, x, Weights(layer.in_features, layer.out_features), positions[1])
        assert isinstance(layer, nn.Conv1d | nn.Conv2d)
        groups, window = layer.groups, Window(tuple(layer.kernel_size), tuple(layer.stride))
        inputs, outputs = layer.in_channels // groups, layer.out_channels // groups
        return self.weigh(name, x, Weights(inputs, outputs, groups, window), positions[0])


def _fires(layer: nn.Module) -> bool:
    return type(layer).__name__ in NEURONS.get(_package(layer), ())


def _package(module: nn.Module) -> str:
    return type(module).__module__.partition(".")[0]


def _positions(node: fx.Node) -> tuple[int, int]:
    """Output positions with the channels first (convolutions) and with the channels last."""
    shape = node.meta["shape"]
    return prod(shape[2:]), prod(shape[1:-1])


def _pair(value: Any, axes: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, tuple) else (value,) * axes
