"""Falcon as a spiking network in integers: packed spikes between stages, nothing else.

Stages run in one fixed order and each reads only earlier ones, so an execution can start again
at any stage from the streams that were kept: that is what makes the delay search fast.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from falcon_snn.config import FalconConfig
from falcon_snn.errors import FalconError
from falcon_snn.neuron import layers
from falcon_snn.neuron.layers import AttentionCurve, IntegerNeurons
from falcon_snn.neuron.packed import count

Streams = dict[str, Tensor]  # stage name to packed spikes (Q and K: int8 codes)

MAX_PADDING = 2  # inputs may be padded to this many times the configured tokens
_STEM = ("encoder", "stem.conv1", "stem.conv2", "stem.fc1", "stem.fc2")
_BLOCK = ("q", "k", "v", "context", "attn_out", "residual1", "ffn1", "ffn2", "residual2")


@dataclass(frozen=True)
class IntegerFalcon:
    """The converted network: its configuration and its integers by name."""

    config: FalconConfig
    tensors: dict[str, Tensor]
    encoding: str = "even"  # how a source count is spread over the slots

    @property
    def stages(self) -> tuple[str, ...]:
        """All stages in the order of execution."""
        blocks = range(self.config.blocks)
        return _STEM + tuple(f"block{block}.{kind}" for block in blocks for kind in _BLOCK)

    @property
    def device(self) -> torch.device:
        return self.tensors["classifier.bias"].device

    def to(self, device: torch.device | str) -> "IntegerFalcon":
        moved = {name: tensor.to(device) for name, tensor in self.tensors.items()}
        return IntegerFalcon(self.config, moved, self.encoding)

    @staticmethod
    def kind(name: str) -> str:
        """What a stage is: source, conv, linear, code, context or residual."""
        last = name.rsplit(".", 1)[-1]
        kinds = {"encoder": "source", "conv1": "conv", "conv2": "conv", "q": "code", "k": "code"}
        kinds |= {"context": "context", "residual1": "residual", "residual2": "residual"}
        return kinds.get(last, "linear")

    def neurons(self, name: str) -> IntegerNeurons:
        t = self.tensors
        return IntegerNeurons(
            t[f"{name}.factor"], t[f"{name}.static"], t[f"{name}.initial"], t[f"{name}.threshold"]
        )

    def predict(
        self, x: Tensor, lengths: Tensor | None, delays: Mapping[str, int], backend: str = "auto"
    ) -> Tensor:
        """Class indices, int64 [clip]."""
        streams = self.streams(x, lengths, delays, backend)
        return self.scores(streams, lengths, backend).argmax(dim=1)

    def counts(
        self, x: Tensor, lengths: Tensor | None, delays: Mapping[str, int], backend: str = "auto"
    ) -> dict[str, Tensor]:
        """The integers of every stage, with the names and shapes of `Falcon.execute`."""
        return self.counts_and_predictions(x, lengths, delays, backend)[0]

    def counts_and_predictions(
        self, x: Tensor, lengths: Tensor | None, delays: Mapping[str, int], backend: str = "auto"
    ) -> tuple[dict[str, Tensor], Tensor]:
        streams = self.streams(x, lengths, delays, backend)
        counts = {name: self.decode(name, stream) for name, stream in streams.items()}
        return counts, self.scores(streams, lengths, backend).argmax(dim=1)

    @staticmethod
    def decode(name: str, stream: Tensor) -> Tensor:
        """A stream's integers: spike counts, or the codes of Q and K."""
        if IntegerFalcon.kind(name) == "code":
            return stream
        return count(IntegerFalcon.inner(name, stream))

    @staticmethod
    def inner(name: str, stream: Tensor) -> Tensor:
        """A stage's stream without the silent border that convolutions read."""
        return stream[:, 1:-1, 1:-1] if name in ("encoder", "stem.conv1") else stream

    def streams(
        self, x: Tensor, lengths: Tensor | None, delays: Mapping[str, int], backend: str = "auto"
    ) -> Streams:
        """Run the whole network on features [clip, token, feature]; keep every stage's output."""
        config = self.config
        if x.shape[2] != config.features or x.shape[1] > MAX_PADDING * config.tokens:
            raise FalconError(
                f"input is {x.shape[1]} tokens of {x.shape[2]} features; this network takes "
                f"{config.features} features and at most {MAX_PADDING * config.tokens} tokens"
            )
        backend = layers.choose_layer_backend(backend, x.device)
        features = (x.float() * config.input_levels).round().clamp(-127, 127).to(torch.int8)
        streams = {
            "encoder": layers.encode(
                features, self.tensors["encoder.weight"].flatten(1), lengths,
                self.neurons("encoder"), config.slots, self.encoding, backend,
            )
        }  # fmt: skip
        return self.resume(streams, "stem.conv1", lengths, delays, backend)

    def resume(
        self, streams: Streams, start: str, lengths: Tensor | None, delays: Mapping[str, int],
        backend: str = "auto",
    ) -> Streams:  # fmt: skip
        """Run from stage `start` on; earlier stages' streams are taken as they are."""
        backend = layers.choose_layer_backend(backend, self.device)
        stages = self.stages
        first = stages.index(start)
        result = {name: streams[name] for name in stages[:first]}
        for name in stages[first:]:
            result[name] = self._stage(name, result, lengths, delays, backend)
        return result

    def scores(self, streams: Streams, lengths: Tensor | None, backend: str = "auto") -> Tensor:
        """Class scores times the number of tokens, as float64 that holds exact integers."""
        last = streams[self.stages[-1]]
        backend = layers.choose_layer_backend(backend, last.device)
        pooled = layers.pool(last, lengths, backend).double()
        weight, bias = (self.tensors[f"classifier.{part}"].double() for part in ("weight", "bias"))
        if lengths is None:
            return pooled @ weight.t() + bias * last.shape[1]
        return pooled @ weight.t() + bias * lengths[:, None]

    def logits(self, streams: Streams, lengths: Tensor | None, backend: str = "auto") -> Tensor:
        """Class scores in the units of training, for confidences."""
        tokens = streams[self.stages[-1]].shape[1] if lengths is None else lengths[:, None]
        return self.scores(streams, lengths, backend) / (self.tensors["classifier.grid"] * tokens)

    def _stage(
        self, name: str, streams: Streams, lengths: Tensor | None, delays: Mapping[str, int],
        backend: str,
    ) -> Tensor:  # fmt: skip
        slots, kind = self.config.slots, self.kind(name)
        inputs = self._inputs(name)
        x = streams[inputs[0]]
        if kind == "conv":
            first = name == "stem.conv1"
            out = layers.conv(
                x, self.tensors[f"{name}.weight"], self.neurons(name), slots, delays[name],
                2 if first else 1, backend, border=first,
            )  # fmt: skip
            if first and lengths is not None:  # padded tokens are silent, like a clip's border
                token = torch.arange(-1, out.shape[1] - 1, device=out.device)
                out *= (token < lengths[:, None])[:, :, None, None]
            return out
        if kind == "context":
            curve = AttentionCurve(
                *(self.tensors[f"{name[:-8]}.curve.{p}"] for p in ("table", "slope", "offset"))
            )
            k, v = streams[inputs[1]], streams[inputs[2]]
            return layers.attention(
                x, k, v, lengths, self.config.heads, curve, self.neurons(name), slots, backend
            )
        rows = x.flatten(0, 1).flatten(1)
        shape = (*x.shape[:2], -1)
        if kind == "residual":
            other = streams[inputs[1]].flatten(0, 1)
            return layers.residual(
                rows, other, self.tensors[f"{name}.factor_b"], self.neurons(name), slots,
                delays[name], backend,
            ).view(shape)  # fmt: skip
        weight = self.tensors[f"{name}.weight"]
        if kind == "code":
            factor, bias, shift = (
                self.tensors[f"{name}.{part}"] for part in ("factor", "bias", "shift")
            )
            prefix = self.config.prefix
            return layers.codes(rows, weight, factor, bias, shift, prefix, backend).view(shape)
        delay = slots if name.endswith(".v") else delays[name]
        return layers.linear(rows, weight, self.neurons(name), slots, delay, backend).view(shape)

    def _inputs(self, name: str) -> tuple[str, ...]:
        """The stages that a stage reads."""
        block, _, kind = name.rpartition(".")
        if kind in ("attn_out", "ffn1", "ffn2"):
            before = {"attn_out": "context", "ffn1": "residual1", "ffn2": "ffn1"}[kind]
            return (f"{block}.{before}",)
        if kind == "context":
            return (f"{block}.q", f"{block}.k", f"{block}.v")
        if kind == "residual2":
            return (f"{block}.residual1", f"{block}.ffn2")
        if block == "stem":
            return (_STEM[_STEM.index(name) - 1],)
        number = int(block.removeprefix("block"))
        entry = "stem.fc2" if number == 0 else f"block{number - 1}.residual2"
        return (entry,) if kind in ("q", "k", "v") else (entry, f"{block}.attn_out")
