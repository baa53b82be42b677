"""Somebody else's layers, one after the other, become the stages of a graph.

Between two firing stages there may be one layer of weights, with poolings before and after it: sums
of sums are sums, so they become one analog stage whose inputs are all that reach an output. What
has no weights and no neurons (flattening, scaling, batch norm in inference) takes no stage.
"""

from dataclasses import dataclass, field, replace
from math import prod

from falcon_snn.errors import FalconError
from falcon_snn.pipeline.graph import TimedStage


@dataclass(frozen=True)
class Window:
    """What an output position sees of the positions before: a kernel that moves by a stride."""

    kernel: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()

    def then(self, next_one: "Window") -> "Window":
        """Both, one after the other: K = k1 + (k2 - 1) s1, S = s1 s2 on every axis."""
        if not self.kernel:
            return next_one
        if not next_one.kernel:  # a linear map of everything sees whole windows
            return self
        sizes = zip(self.kernel, self.stride, next_one.kernel, next_one.stride, strict=True)
        kernel, stride = zip(
            *((k1 + (k2 - 1) * s1, s1 * s2) for k1, s1, k2, s2 in sizes), strict=True
        )
        return Window(kernel, stride)


@dataclass(frozen=True)
class LayerWeights:
    """A layer of weights: what one of its arrays takes and gives, and how many there are."""

    channels: int  # inputs of an array at one position
    columns: int
    arrays: int = 1  # groups of a grouped convolution
    window: Window = Window()


@dataclass(frozen=True)
class Signal:
    """What flows between layers: spikes of a stage, sums not yet fired, or streams to be added."""

    stage: str = ""  # the firing stage, or `input`
    window: Window = Window()  # pooling since then
    weights: LayerWeights | None = None
    layer: str = ""  # name of the weights
    positions: int = 1
    parts: tuple["Signal", ...] = ()

    @property
    def is_spikes(self) -> bool:
        return self.weights is None and not self.parts


@dataclass
class StageBuilder:
    """Collects stages. A method takes a layer's name and what flows in, gives what flows out."""

    stages: list[TimedStage] = field(default_factory=list)

    def weigh(self, name: str, x: Signal, weights: LayerWeights, positions: int) -> Signal:
        if not x.is_spikes:
            raise FalconError(
                f"layer '{name}' takes sums that no neurons have fired on; "
                "put neurons before it (an analog array takes spikes)"
            )
        return replace(x, weights=weights, layer=name, positions=positions)

    def pool(self, name: str, x: Signal, window: Window, positions: int) -> Signal:
        """Average or sum pooling: it only adds, so it becomes part of the layer of weights."""
        if x.parts:
            raise FalconError(f"layer '{name}' pools a sum of streams; put neurons before it")
        if x.weights is None:
            return replace(x, window=x.window.then(window))
        weights = replace(x.weights, window=x.weights.window.then(window))
        return replace(x, weights=weights, positions=positions)

    def add(self, inputs: list[Signal]) -> Signal:
        """Streams that are added slot by slot; the neurons that follow make a residual of them."""
        return Signal(parts=tuple(part for x in inputs for part in (x.parts or (x,))))

    def fire(self, name: str, x: Signal) -> Signal:
        before = tuple(self._stream(name, part) for part in (x.parts or (x,)))
        kind = "neuron" if len(before) == 1 else "residual"
        self.stages.append(TimedStage(name, kind, before))
        return Signal(stage=name)

    def count(self, name: str, x: Signal) -> Signal:
        """A number from all slots: readout without spikes."""
        if x.weights is None:
            raise FalconError(f"layer '{name}' integrates no layer of weights; put one before it")
        self.stages.append(TimedStage(name, "quantise", (self._stream(name, x),)))
        return Signal(stage=name)

    def finish(self, x: Signal) -> None:
        """The network's output; a last layer of weights without neurons is timed as well."""
        for part in x.parts or (x,):
            if part.weights is not None:
                self._stream("output", part)

    def _stream(self, name: str, x: Signal) -> str:
        """The stage that a signal comes from; emits the analog stage of pending weights."""
        if x.weights is None:
            if x.window.kernel:
                raise FalconError(
                    f"layer '{name}' fires on pooled spikes; put a layer of weights before it"
                )
            return x.stage
        window = x.window.then(x.weights.window)
        stage = TimedStage(
            x.layer, "analog", (x.stage,), inner=x.weights.channels * prod(window.kernel),
            columns=x.weights.columns, copies=x.positions * x.weights.arrays,
        )  # fmt: skip
        if stage not in self.stages:  # a fork reads the same sums twice
            self.stages.append(stage)
        return stage.name
