"""The spiking network in integers: packed spikes between stages, nothing else.

Stages run in one fixed order and each reads only earlier ones, so an execution can start again
at any stage from the streams that were kept: that is what makes the delay search fast.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from falcon_snn.errors import FalconError
from falcon_snn.network.description import Network
from falcon_snn.network.operations.attention import MAX_PADDING
from falcon_snn.network.parts import array_weights
from falcon_snn.network.product import Product
from falcon_snn.network.quantise import mixed_type
from falcon_snn.network.stage import Stage
from falcon_snn.neuron import layers
from falcon_snn.neuron.analog import AnalogArray, clip_keys
from falcon_snn.neuron.packed import count

Streams = dict[str, Tensor]  # stage name to packed spikes with their border (codes: int8)


@dataclass(frozen=True)
class Snn:
    """A converted network: its description and its integers by name."""

    network: Network
    tensors: dict[str, Tensor]
    chip: Mapping[str, AnalogArray] = field(default_factory=dict)  # weights on a sampled chip

    @property
    def device(self) -> torch.device:
        return self.tensors[f"{self.network.readout.name}.bias"].device

    @cached_property
    def arrays(self) -> dict[str, Tensor]:
        """Weights as the arrays hold them, by the name of their tensor."""
        return {
            f"{stage.name}.weight{suffix}": array_weights(
                self.tensors[f"{stage.name}.weight{suffix}"], product, self.network.shapes[read][2]
            )
            for stage in self.network.stages
            for suffix, read, product in stage.products
        }

    def to(self, device: torch.device | str) -> "Snn":
        """On another device; chips are sampled on theirs."""
        return Snn(self.network, {name: t.to(device) for name, t in self.tensors.items()})

    def predict(
        self, x: Tensor, lengths: Tensor | None, delays: Mapping[str, int], backend: str = "auto"
    ) -> Tensor:
        """Class indices, int64 [clip]."""
        streams = self.streams(x, lengths, delays, backend)
        return self.scores(streams, lengths, backend).argmax(dim=1)

    def counts(self, streams: Streams) -> dict[str, Tensor]:
        """The integers of every stage, with the names and shapes of `Qnn.execute`."""
        return {name: self.decode(name, stream) for name, stream in streams.items()}

    def decode(self, name: str, stream: Tensor) -> Tensor:
        """A stream's integers: spike counts, or codes."""
        if self.network.by_name[name].emits == "codes":
            return stream
        inner = self.network.inner(name, stream)
        if inner.is_cuda:
            from falcon_snn.neuron.fused_training import spike_counts

            return spike_counts(inner, mixed_type(torch.uint8))
        return count(inner)

    def streams(
        self, x: Tensor, lengths: Tensor | None, delays: Mapping[str, int], backend: str = "auto"
    ) -> Streams:
        """Run the whole network on inputs [clip, ...]; keep every stage's output."""
        source = self.network.source
        lines, most = source.fit(x).shape[1], MAX_PADDING * source.input[0]
        if lines > most:
            raise FalconError(f"inputs of {lines} lines; this network takes up to {most}")
        run = Running(self, {}, lengths, delays, backend, x)
        return run.go_on(self.network.inner_stages)

    def resume(
        self, streams: Streams, start: str, lengths: Tensor | None, delays: Mapping[str, int],
        backend: str = "auto",
    ) -> Streams:  # fmt: skip
        """Run from stage `start` on; earlier stages' streams are taken as they are."""
        stages = self.network.inner_stages
        first = [stage.name for stage in stages].index(start)
        kept = {stage.name: streams[stage.name] for stage in stages[:first]}
        return Running(self, kept, lengths, delays, backend).go_on(stages[first:])

    def scores(self, streams: Streams, lengths: Tensor | None, backend: str = "auto") -> Tensor:
        """Class scores times the places they are averaged over: exact integers in float64."""
        return self.network.readout.run(Running(self, streams, lengths, {}, backend))

    def features(self, streams: Streams, lengths: Tensor | None, backend: str = "auto") -> Tensor:
        """What the readout weighs: mean spike counts, float64 [clip, feature]."""
        readout = self.network.readout
        run = Running(self, streams, lengths, {}, backend)
        return readout.sums(run) / readout.places(run, run.inner(readout.source).shape[1])

    def logits(self, streams: Streams, lengths: Tensor | None, backend: str = "auto") -> Tensor:
        """Class scores in the units of training, for confidences."""
        readout = self.network.readout
        run = Running(self, streams, lengths, {}, backend)
        places = readout.places(run, run.inner(readout.source).shape[1])
        return readout.run(run) / (run.tensor(readout.name, "grid") * places)


class Running:
    """One execution: the streams so far, and what the stages need to go on."""

    def __init__(
        self, snn: Snn, streams: Streams, lengths: Tensor | None, delays: Mapping[str, int],
        backend: str, x: Tensor | None = None,
    ) -> None:  # fmt: skip
        self.snn, self.network, self.streams = snn, snn.network, streams
        self.lengths, self.delays = lengths, delays
        self.backend = layers.choose_layer_backend(backend, snn.device)
        self._x = x
        self._lines = None if lengths is None else self.network.lines(lengths)

    def go_on(self, stages: tuple[Stage, ...]) -> Streams:
        for stage in stages:
            self.streams[stage.name] = stage.run(self)
        return self.streams

    @property
    def x(self) -> Tensor:
        assert self._x is not None
        return self._x

    def tensor(self, stage: str, part: str) -> Tensor:
        return self.snn.tensors[f"{stage}.{part}"]

    def term(self, stage: str, suffix: str, reads: str, product: Product | None) -> layers.Term:
        """One input of a stage: the one place where spikes meet weights, or a chip's."""
        stream, border = self.streams[reads], self.network.borders[reads]
        factor = self.tensor(stage, f"factor{suffix}")
        if product is None:
            return layers.Term(stream, factor, border=border)
        name = f"{stage}.weight{suffix}"
        _, stride, padding = product.window()
        array = self.snn.chip.get(name)
        chip = None if array is None else (array, self.clip_keys if array.noise else None)
        weight = self.snn.arrays[name]
        return layers.Term(stream, factor, weight, stride, padding, border, chip=chip)

    @cached_property
    def clip_keys(self) -> Tensor:
        """What fresh noise knows a clip by."""
        return clip_keys(self.inner(self.network.source.name))

    def neurons(self, stage: str) -> layers.IntegerNeurons:
        static, initial, threshold = (
            self.tensor(stage, part) for part in ("static", "initial", "threshold")
        )
        return layers.IntegerNeurons(static, initial, threshold)

    def inner(self, name: str) -> Tensor:
        return self.network.inner(name, self.streams[name])

    def lines(self, name: str) -> Tensor | None:
        """Lines of a stage that are real; None where no clip has padding."""
        return None if self._lines is None else self._lines[name]

    def silence(self, name: str, stream: Tensor) -> Tensor:
        """Padded lines are silent, like a clip's border."""
        if self._lines is None or name not in self.network.silent:
            return stream
        border = self.network.borders[name][0]
        line = torch.arange(-border, stream.shape[1] - border, device=stream.device)
        return stream * (line < self._lines[name][:, None])[:, :, None, None]
