"""Falcon executed slot by slot in torch, so that gradients pass through the times of spikes.

The same parameters as `Falcon`, batch norm frozen; currents are float, so a spike may differ from
the integer network's where a potential lies within rounding of its threshold. Every stage costs T
matrix products, which is why the rate gradient is the default in training.

Spike tensors are [slot, batch, token, ...], with channels last.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from falcon_snn.network.model import (
    Block,
    Conv,
    Execution,
    Falcon,
    Linear,
    Normalise,
    pool,
)
from falcon_snn.network.quantise import (
    Counter,
    quantise_input,
    quantise_weight,
    straight_through,
)
from falcon_snn.neuron.firing import fire_train
from falcon_snn.neuron.layers import token_mask
from falcon_snn.neuron.packed import encode, unpack


class SlotFalcon(nn.Module):
    """A Falcon under a schedule of delays, run through its slots."""

    def __init__(self, model: Falcon, delays: Mapping[str, int], encoding: str = "even") -> None:
        super().__init__()
        self.model, self.delays, self.encoding = model, dict(delays), encoding

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Class scores of clips [batch, token, feature], as `Falcon.forward` gives them."""
        model = self.model
        mask = None if lengths is None else token_mask(lengths, x.shape[1])
        run = Execution(mask, None)
        x = quantise_input(x.float(), model.config.input_levels)
        if mask is not None:
            x = x * mask[:, :, None]
        count = run.silence(model.encoder_fire(model.encoder(x.unsqueeze(3))))
        spikes = as_spikes(count, model.config.slots, self.encoding) * model.encoder_fire.step()
        spikes = self._stem(spikes, run)
        for block in model.blocks:
            assert isinstance(block, Block)
            spikes = self._block(block, spikes, run)
        scores: Tensor = model.classifier(pool(model.norm(spikes.sum(dim=0)), mask))
        return scores

    def _stem(self, spikes: Tensor, run: Execution) -> Tensor:
        stem = self.model.stem
        spikes = self._fire("stem.conv1", stem.conv1, stem.conv1_fire, spikes)
        if run.mask is not None:
            spikes = spikes * run.mask[None, :, :, None, None]
        spikes = self._fire("stem.conv2", stem.conv2, stem.conv2_fire, spikes).flatten(3)
        spikes = self._fire("stem.fc1", stem.fc1, stem.fc1_fire, spikes)
        return self._fire("stem.fc2", stem.fc2, stem.fc2_fire, spikes)

    def _block(self, block: Block, x: Tensor, run: Execution) -> Tensor:
        def fire(kind: str, layer: Linear, counter: Counter, spikes: Tensor) -> Tensor:
            return self._fire(f"{block.name}.{kind}", layer, counter, spikes)

        context = self._context(block, x, run)
        mixed = fire("attn_out", block.attn_out, block.attn_out_fire, context)
        x = self._add(f"{block.name}.residual1", block.norm1, block.residual1_fire, x + mixed)
        inner = fire("ffn1", block.ffn1, block.ffn1_fire, x)
        outer = fire("ffn2", block.ffn2, block.ffn2_fire, inner)
        return self._add(f"{block.name}.residual2", block.norm2, block.residual2_fire, x + outer)

    def _context(self, block: Block, x: Tensor, run: Execution) -> Tensor:
        """Q and K from the first p slots, V and Context with full lookahead."""
        slots, prefix = self.model.config.slots, self.model.config.prefix
        early = x[:prefix].sum(dim=0) * (slots / prefix)
        q = block.q_code(block.q(early))
        k = block.k_code(block.k(early))
        value = block.v_fire.decode(block.v_fire(block.v(x.sum(dim=0))))
        count = block.context_fire(block.mix(q, k, value, run))
        # With full lookahead all spikes come at once, one in each of the first slots.
        return block.context_fire.decode(as_spikes(count, slots, "first"))

    def _fire(self, name: str, layer: Linear | Conv, counter: Counter, spikes: Tensor) -> Tensor:
        """Decoded spikes of a stage: linear map, batch norm, SN_delta."""
        return self._add(name, layer.norm, counter, product(layer, spikes))

    def _add(self, name: str, norm: Normalise, counter: Counter, y: Tensor) -> Tensor:
        scale, shift = affine(norm)
        step: Tensor = counter.step()
        spikes = fire_train(
            y.float() * (scale / step),
            self.delays[name],
            threshold=counter.threshold,
            offset=counter.offset,
            static=shift / step,
            gradient="temporal",
        )
        return spikes * step


def affine(norm: Normalise) -> tuple[Tensor, Tensor]:
    """Frozen batch norm as y = scale x + shift."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
    return scale, norm.bias - norm.running_mean * scale


def product(layer: Linear | Conv, spikes: Tensor) -> Tensor:
    """The layer's map without batch norm, on every slot."""
    weight = quantise_weight(layer.weight, layer.bits)
    if isinstance(layer, Linear):
        return F.linear(spikes, weight)
    flat = spikes.flatten(0, 1).permute(0, 3, 1, 2)
    y = F.conv2d(flat, weight, stride=(1, layer.stride), padding=layer.size // 2)
    y = y.permute(0, 2, 3, 1)
    return y.reshape(*spikes.shape[:2], *y.shape[1:])


def as_spikes(count: Tensor, slots: int, encoding: str) -> Tensor:
    """A count as spikes [slot, ...]; each spike passes back a T-th of the count's gradient."""
    spikes = unpack(encode(count.detach().round().to(torch.uint8), slots, encoding), slots)
    return straight_through(spikes.to(count), (count / slots).expand(slots, *count.shape))
