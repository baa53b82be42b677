"""Anybody's NIR file as a stage graph: feed-forward networks of layers that we know."""

from math import prod
from pathlib import Path
from typing import Any

from falcon_snn.errors import FalconError
from falcon_snn.interchange.nir_files import described, read_nir_file, understood
from falcon_snn.interchange.stage_builder import LayerWeights, Signal, StageBuilder, Window
from falcon_snn.pipeline.graph import INPUT, Graph

FIRES = ("IF", "LIF", "CubaLIF", "Threshold")
INTEGRATES = ("I", "LI", "CubaLI")
KNOWN = (
    "Input", "Output", "Linear", "Affine", "Conv1d", "Conv2d", "AvgPool2d", "SumPool2d", "Flatten",
    "Scale", *FIRES, *INTEGRATES,
)  # fmt: skip


def graph_from_nir(path: Path | str, slots: int | None = None) -> Graph:
    """The stages of a NIR file; `slots` is T, which NIR does not state (Falcon's own files do)."""
    file = read_nir_file(path)
    network = described(file, path)
    with understood(path):
        if network is None:
            return Graph(
                Path(path).stem, 7 if slots is None else slots, tuple(_Import(file).stages)
            )
        if slots is not None and slots != network.slots:
            network = network.with_slots(slots)
        return network.graph


class _Import(StageBuilder):
    def __init__(self, file: Any) -> None:
        super().__init__()
        self.signals: dict[str, Signal] = {}
        before: dict[str, list[str]] = {name: [] for name in file.nodes}
        for source, target in file.edges:
            before[target].append(source)
        for name in _in_order(before):
            node, kind = file.nodes[name], type(file.nodes[name]).__name__
            if kind not in KNOWN:
                raise FalconError(
                    f"layer '{name}' of type {kind} is not supported; known are {', '.join(KNOWN)}"
                )
            inputs = [self.signals[source] for source in before[name]]
            x = self.add(inputs) if len(inputs) > 1 else inputs[0] if inputs else Signal()
            self.signals[name] = self._layer(name, kind, node, x)

    def _layer(self, name: str, kind: str, node: Any, x: Signal) -> Signal:
        if kind == "Input":
            return Signal(stage=INPUT)
        if kind == "Output":
            self.finish(x)
            return x
        if kind in FIRES:
            return self.fire(name, x)
        if kind in INTEGRATES:
            return self.count(name, x)
        if kind in ("AvgPool2d", "SumPool2d"):
            window = Window(_pair(node.kernel_size), _pair(node.stride))
            return self.pool(name, x, window, _positions(node))
        if kind in ("Flatten", "Scale"):
            return x
        return self.weigh(name, x, _weights(kind, node), _positions(node))


def _weights(kind: str, node: Any) -> LayerWeights:
    if kind in ("Linear", "Affine"):
        return LayerWeights(channels=node.weight.shape[-1], columns=node.weight.shape[-2])
    outputs, channels, *kernel = node.weight.shape
    strides = (int(node.stride),) if kind == "Conv1d" else _pair(node.stride)
    groups = int(node.groups)
    return LayerWeights(channels, outputs // groups, groups, Window(tuple(kernel), strides))


def _positions(node: Any) -> int:
    """Output positions: everything but the channels, which a linear map has last."""
    shape = [int(size) for size in node.output_type["output"]]
    return prod(shape[:-1]) if type(node).__name__ in ("Linear", "Affine") else prod(shape[1:])


def _pair(value: Any) -> tuple[int, ...]:
    try:
        return tuple(int(item) for item in value)
    except TypeError:
        return (int(value), int(value))


def _in_order(before: dict[str, list[str]]) -> list[str]:
    """Nodes after all that they read; the file's own order where there is a choice."""
    order: list[str] = []
    waiting = list(before)
    while waiting:
        ready = next((name for name in waiting if set(before[name]) <= set(order)), None)
        if ready is None:
            raise FalconError(
                f"the network is recurrent (through {', '.join(sorted(waiting)[:6])}); "
                "only feed-forward networks can be read"
            )
        order.append(ready)
        waiting.remove(ready)
    return order
