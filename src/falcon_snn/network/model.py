"""Falcon, read from top to bottom: encoder, stem, Transformer blocks, classifier.

This module computes with counts, so it is the QNN; the SNN has the same parameters. For training
the SNN, `forward` takes the counts that the integer network's spikes gave (`spikes`): the values
are then those of the spiking network, the gradients those of the counts.

Tensors have channels last: [batch, token, channel], in the stem [batch, token, feature, channel].
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from falcon_snn.config import FalconConfig
from falcon_snn.network.quantise import (
    ConSmax,
    Counter,
    SignedCode,
    quantise_input,
    quantise_weight,
    straight_through,
)
from falcon_snn.neuron.layers import token_mask


class Normalise(nn.BatchNorm1d):
    """Batch norm over the last axis, whatever stands before it."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.reshape(-1, x.shape[-1])).view(x.shape)


class Linear(nn.Module):
    """A quantised linear map without bias, followed by batch norm."""

    def __init__(self, inputs: int, outputs: int, bits: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        nn.init.kaiming_normal_(self.weight, nonlinearity="linear")
        self.norm = Normalise(outputs)
        self.bits = bits

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(F.linear(x, quantise_weight(self.weight, self.bits)))


class Conv(nn.Module):
    """A quantised convolution [token, feature] without bias, followed by batch norm.

    The kernel is centred and padded with zeros; the stride is along the feature axis only.
    """

    def __init__(self, inputs: int, outputs: int, size: int, stride: int, bits: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, size, size))
        nn.init.kaiming_normal_(self.weight, nonlinearity="linear")
        self.norm = Normalise(outputs)
        self.size, self.stride, self.bits = size, stride, bits

    def forward(self, x: Tensor) -> Tensor:
        weight = quantise_weight(self.weight, self.bits)
        y = F.conv2d(x.permute(0, 3, 1, 2), weight, stride=(1, self.stride), padding=self.size // 2)
        return self.norm(y.permute(0, 2, 3, 1).contiguous())


class Execution:
    """One pass through the network: what is masked, and whose counts are used."""

    def __init__(self, mask: Tensor | None, spikes: Mapping[str, Tensor] | None) -> None:
        self.mask = mask  # [batch, token], False on padding
        self.spikes = spikes
        self.counts: dict[str, Tensor] = {}

    def settle(self, name: str, own: Tensor) -> Tensor:
        """Record a stage's integers; take the spiking network's values where they are given."""
        value = own if self.spikes is None else straight_through(self.spikes[name].to(own), own)
        self.counts[name] = value
        return value

    def silence(self, x: Tensor) -> Tensor:
        """No spikes from padded tokens: padding then looks like the border of the clip."""
        return x if self.mask is None else x * self.mask[:, :, None, None]


class Stem(nn.Module):
    """Two convolutional and two linear IF stages; tokens stay, features shrink."""

    def __init__(self, config: FalconConfig) -> None:
        super().__init__()
        bits, slots, wide = config.weight_bits, config.slots, config.stem_channels
        self.conv1 = Conv(config.encoder_channels, wide, 3, 2, bits)
        self.conv2 = Conv(wide, wide, 3, 1, bits)
        self.fc1 = Linear(config.stem_width, config.hidden, bits)
        self.fc2 = Linear(config.hidden, config.hidden, bits)
        step = 3.0 / slots
        self.conv1_fire = Counter(wide, slots, step)
        self.conv2_fire = Counter(wide, slots, step)
        self.fc1_fire = Counter(config.hidden, slots, step)
        self.fc2_fire = Counter(config.hidden, slots, step)

    def forward(self, x: Tensor, run: Execution) -> Tensor:
        n = run.settle("stem.conv1", run.silence(self.conv1_fire(self.conv1(x))))
        n = run.settle("stem.conv2", self.conv2_fire(self.conv2(self.conv1_fire.decode(n))))
        x = self.conv2_fire.decode(n).flatten(2)
        n = run.settle("stem.fc1", self.fc1_fire(self.fc1(x)))
        n = run.settle("stem.fc2", self.fc2_fire(self.fc2(self.fc1_fire.decode(n))))
        return self.fc2_fire.decode(n)


class Block(nn.Module):
    """Attention and feed-forward network, each with a residual, batch norm and IF stage."""

    def __init__(self, config: FalconConfig, name: str) -> None:
        super().__init__()
        hidden, bits, slots = config.hidden, config.weight_bits, config.slots
        self.name, self.heads, self.head_size = name, config.heads, config.head_size
        self.q = Linear(hidden, hidden, bits)
        self.k = Linear(hidden, hidden, bits)
        self.v = Linear(hidden, hidden, bits)
        self.attn_out = Linear(hidden, hidden, bits)
        self.ffn1 = Linear(hidden, config.ffn, bits)
        self.ffn2 = Linear(config.ffn, hidden, bits)
        self.norm1 = Normalise(hidden)
        self.norm2 = Normalise(hidden)
        self.q_code = SignedCode(4.0 / 127)
        self.k_code = SignedCode(4.0 / 127)
        self.consmax = ConSmax(config.heads, config.tokens)
        step = 3.0 / slots
        self.v_fire = Counter(hidden, slots, step)
        self.context_fire = Counter(hidden, slots, step)
        self.attn_out_fire = Counter(hidden, slots, step)
        self.residual1_fire = Counter(hidden, slots, step)
        self.ffn1_fire = Counter(config.ffn, slots, step)
        self.ffn2_fire = Counter(hidden, slots, step)
        self.residual2_fire = Counter(hidden, slots, step)

    def forward(self, x: Tensor, run: Execution) -> Tensor:
        context = self.attend(x, run)
        n = run.settle(f"{self.name}.attn_out", self.attn_out_fire(self.attn_out(context)))
        total = self.norm1(x + self.attn_out_fire.decode(n))
        n = run.settle(f"{self.name}.residual1", self.residual1_fire(total))
        x = self.residual1_fire.decode(n)
        n = run.settle(f"{self.name}.ffn1", self.ffn1_fire(self.ffn1(x)))
        n = run.settle(f"{self.name}.ffn2", self.ffn2_fire(self.ffn2(self.ffn1_fire.decode(n))))
        total = self.norm2(x + self.ffn2_fire.decode(n))
        n = run.settle(f"{self.name}.residual2", self.residual2_fire(total))
        return self.residual2_fire.decode(n)

    def attend(self, x: Tensor, run: Execution) -> Tensor:
        """Context values: C = SN_T(A V), A = Q_A(ConSmax(Q K^T / sqrt(d_h)))."""
        q = run.settle(f"{self.name}.q", self.q_code(self.q(x)))
        k = run.settle(f"{self.name}.k", self.k_code(self.k(x)))
        v = run.settle(f"{self.name}.v", self.v_fire(self.v(x)))
        n = self.context_fire(self.mix(q, k, self.v_fire.decode(v), run))
        return self.context_fire.decode(run.settle(f"{self.name}.context", n))

    def mix(self, q: Tensor, k: Tensor, value: Tensor, run: Execution) -> Tensor:
        """A V for the codes of Q and K and decoded values; padded keys get no attention."""
        step = self.q_code.step() * self.k_code.step() / self.head_size**0.5
        scores = self._split(q * step) @ self._split(k).transpose(2, 3)
        attention = self.consmax(scores)
        if run.mask is not None:
            attention = attention * run.mask[:, None, None, :]
        attention = attention * self.consmax.step()
        mixed = attention @ self._split(value).to(attention)
        return mixed.transpose(1, 2).flatten(2)

    def _split(self, x: Tensor) -> Tensor:
        """[batch, token, hidden] to [batch, head, token, head size]."""
        return x.view(*x.shape[:2], self.heads, self.head_size).transpose(1, 2)


class Falcon(nn.Module):
    """The network of the paper: log-mel frames or binned spikes in, class scores out."""

    def __init__(self, config: FalconConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Conv(1, config.encoder_channels, 5, 2, config.weight_bits)
        # The encoder is no IF stage: its threshold and offset stay 1 and 0 (no parameters).
        self.encoder_fire = Counter(config.encoder_channels, config.slots, 3.0 / config.slots)
        self.encoder_fire.threshold.requires_grad_(False)
        self.encoder_fire.offset.requires_grad_(False)
        self.stem = Stem(config)
        self.blocks = nn.ModuleList(Block(config, f"block{i}") for i in range(config.blocks))
        self.norm = Normalise(config.hidden)
        self.classifier = nn.Linear(config.hidden, config.classes)

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, spikes: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """Class scores of clips `x` [batch, token, feature] with `lengths` real tokens each."""
        return self.execute(x, lengths, spikes)[0]

    def execute(
        self, x: Tensor, lengths: Tensor | None = None, spikes: Mapping[str, Tensor] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Class scores and the integers of every stage, by stage name."""
        mask = None if lengths is None else token_mask(lengths, x.shape[1])
        run = Execution(mask, spikes)
        x = quantise_input(x.float(), self.config.input_levels)
        if mask is not None:
            x = x * mask[:, :, None]
        n = run.settle("encoder", run.silence(self.encoder_fire(self.encoder(x.unsqueeze(3)))))
        x = self.stem(self.encoder_fire.decode(n), run)
        for block in self.blocks:
            x = block(x, run)
        return self.classifier(pool(self.norm(x), mask)), run.counts


def with_slots(model: Falcon, slots: int) -> Falcon:
    """The same network with other slots: a stage's range alpha T stays, its levels change."""
    result = Falcon(replace(model.config, slots=slots, qk_prefix=None))
    result.load_state_dict(model.state_dict())
    with torch.no_grad():
        for part in result.modules():
            if isinstance(part, Counter):
                part.step.log.add_(math.log(model.config.slots / slots))
    return result.eval()


def pool(x: Tensor, mask: Tensor | None) -> Tensor:
    """Mean over the real tokens."""
    if mask is None:
        return x.mean(dim=1)
    weight = mask.to(x) / mask.sum(dim=1, keepdim=True)
    return (x * weight[:, :, None]).sum(dim=1)


def parameter_count(model: nn.Module) -> int:
    """Trainable parameters."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)
