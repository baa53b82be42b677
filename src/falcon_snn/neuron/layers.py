"""Spiking layers in integers: packed spikes in, packed spikes out, one function per kind of layer.

A layer's numbers are rounded once, at conversion, onto an int32 grid that cannot overflow; after
that every backend adds and compares integers, so all of them give the same spikes bit for bit.

Backends: `triton` (fused kernels for GPUs), `numba` (event-driven kernels for CPUs) and `torch`
(matrix products in float32, whose sums of integers below 2^24 are exact in any order).
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from falcon_snn.errors import FalconError
from falcon_snn.neuron import integer
from falcon_snn.neuron.packed import count, encoding_table, encoding_tensor, unpack

BACKENDS = ("torch", "numba", "triton")


@dataclass(frozen=True)
class IntegerNeurons:
    """V starts at `initial`; each slot adds `static` + `factor` * current; fires at `threshold`."""

    factor: Tensor  # int32 [outputs], like the others
    static: Tensor
    initial: Tensor
    threshold: Tensor


def choose_layer_backend(backend: str, device: torch.device) -> str:
    """The layer backend by name; `auto` is triton on a GPU and numba on a CPU."""
    if backend == "auto":
        return "triton" if device.type == "cuda" else "numba"
    if backend not in BACKENDS:
        raise FalconError(f"unknown backend '{backend}'; choose auto or {', '.join(BACKENDS)}")
    if backend == "numba" and device.type != "cpu":
        raise FalconError(f"backend 'numba' runs on the CPU; these spikes are on {device.type}")
    return backend


def linear(
    packed: Tensor, weight: Tensor, neurons: IntegerNeurons, slots: int, delay: int, backend: str
) -> Tensor:
    """Packed spikes [rows, inputs] times int8 weights [outputs, inputs], then SN_delta."""
    if backend == "triton":
        from falcon_snn.neuron import fused

        return fused.linear(packed, weight, neurons, slots, delay)
    if backend == "numba":
        from falcon_snn.neuron import layers_numba

        image, kernel = packed[None, :, None], weight[:, None, None]  # a 1x1 convolution
        return layers_numba.product(image, kernel, neurons, slots, delay).flatten(0, 2)
    if delay == slots:
        total = _product(count(packed), weight)
        return _full_lookahead(total, neurons, slots, backend)
    rows, outputs = packed.shape[0], weight.shape[0]
    currents = _product(unpack(packed, slots).flatten(0, 1), weight).view(slots, rows, outputs)
    return integer.fire_integer(
        currents, delay, initial=neurons.initial, static_per_slot=neurons.static,
        threshold=neurons.threshold, factor=neurons.factor, backend=backend,
    )  # fmt: skip


def conv(
    bordered: Tensor, weight: Tensor, neurons: IntegerNeurons, slots: int, delay: int,
    stride: int, backend: str, *, border: bool,
) -> Tensor:  # fmt: skip
    """3x3 convolution of packed spikes, then SN_delta.

    Input [clip, token + 2, feature + 2, channel] with a border of silence; weights int8
    [outputs, 3, 3, channel]; the stride is along the features. The output has a border if asked.
    """
    if backend == "triton":
        from falcon_snn.neuron import fused

        return fused.conv(bordered, weight, neurons, slots, delay, stride, border=border)
    if backend == "numba":
        from falcon_snn.neuron import layers_numba

        return layers_numba.product(bordered, weight, neurons, slots, delay, stride, border=border)
    windows = bordered.unfold(1, 3, 1).unfold(2, 3, stride)  # [clip, token, feature, c, kt, kf]
    clips, tokens, features = windows.shape[:3]
    rows = windows.permute(0, 1, 2, 4, 5, 3).reshape(clips * tokens * features, -1)
    out = linear(rows, weight.flatten(1), neurons, slots, delay, backend)
    out = out.view(clips, tokens, features, -1)
    return F.pad(out, (0, 0, 1, 1, 1, 1)) if border else out


def residual(
    a: Tensor, b: Tensor, factor_b: Tensor, neurons: IntegerNeurons, slots: int, delay: int,
    backend: str,
) -> Tensor:  # fmt: skip
    """Two packed streams [rows, channels], slot by slot, each with its factor, then SN_delta."""
    if backend == "triton":
        from falcon_snn.neuron import fused

        return fused.residual(a, b, factor_b, neurons, slots, delay)
    return integer.residual_integer(
        a, b, delay, slots=slots, factor_a=neurons.factor, factor_b=factor_b,
        initial=neurons.initial, static_per_slot=neurons.static, threshold=neurons.threshold,
        backend=backend,
    )  # fmt: skip


def codes(
    packed: Tensor, weight: Tensor, factor: Tensor, bias: Tensor, shift: Tensor, first: int,
    backend: str,
) -> Tensor:  # fmt: skip
    """Q and K: int8 codes clip((factor S + bias) >> shift) of the first slots' sums S."""
    if backend == "triton":
        from falcon_snn.neuron import fused

        return fused.codes(packed, weight, factor, bias, shift, first)
    total = _product(count(packed, first), weight).int()
    return ((total * factor + bias) >> shift).clamp(-127, 127).to(torch.int8)


def attention(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, heads: int, curve: "AttentionCurve",
    neurons: IntegerNeurons, slots: int, backend: str,
) -> Tensor:  # fmt: skip
    """Context spikes SN_T(A V) for codes q, k and packed values v, each [clip, token, channel]."""
    if backend == "triton":
        from falcon_snn.neuron import fused

        return fused.attention(q, k, v, lengths, heads, curve, neurons, slots)

    def split(x: Tensor) -> Tensor:
        return x.float().view(*x.shape[:2], heads, -1).transpose(1, 2)

    scores = split(q) @ split(k).transpose(2, 3)
    if backend == "numba":
        from falcon_snn.neuron import layers_numba

        levels = layers_numba.attention_codes(scores, curve.table, _all_or(lengths, q))
    else:
        levels = torch.empty_like(scores)
        for head in range(heads):
            edges = curve.table[head, 1:256].contiguous()
            levels[:, head] = torch.bucketize(scores[:, head].int(), edges, right=True)
        if lengths is not None:
            levels *= token_mask(lengths, q.shape[1])[:, None, None, :]
    mixed = (levels @ split(count(v))).transpose(1, 2).flatten(2)
    out = _full_lookahead(mixed.flatten(0, 1), neurons, slots, backend)
    return out.view(v.shape)


def encode(
    features: Tensor, weight: Tensor, lengths: Tensor | None, neurons: IntegerNeurons,
    slots: int, kind: str, backend: str,
) -> Tensor:  # fmt: skip
    """Source spikes of int8 features [clip, token, feature]: 5x5 convolution, count, train.

    The result is bordered, [clip, token + 2, feature/2 + 2, channel]; padded tokens are silent.
    """
    if backend == "triton":
        from falcon_snn.neuron import fused

        return fused.encode(features, weight, lengths, neurons, slots, kind)
    if backend == "numba":
        from falcon_snn.neuron import layers_numba

        real = _all_or(lengths, features)
        return layers_numba.encode(features, weight, real, neurons, encoding_table(slots, kind))
    clips, tokens, bands = features.shape
    if lengths is not None:
        features = features * token_mask(lengths, tokens)[:, :, None]
    windows = F.pad(features.float(), (2, 2, 2, 2)).unfold(1, 5, 1).unfold(2, 5, 2)
    total = _product(windows.reshape(clips * tokens * (bands // 2), 25), weight)
    first = _full_lookahead(total, neurons, slots, backend)
    table = encoding_tensor(slots, kind, first.device)
    trains = table[count(first).long()].view(clips, tokens, bands // 2, -1)
    if lengths is not None:
        trains = trains * token_mask(lengths, tokens)[:, :, None, None]
    return F.pad(trains, (0, 0, 1, 1, 1, 1))


def pool(packed: Tensor, lengths: Tensor | None, backend: str) -> Tensor:
    """Spikes per channel over the real tokens: [clip, token, channel] to int32 [clip, channel]."""
    if backend == "triton":
        from falcon_snn.neuron import fused

        return fused.pool(packed, lengths)
    counts = count(packed)
    if lengths is not None:
        counts = counts * token_mask(lengths, packed.shape[1])[:, :, None]
    return counts.sum(dim=1, dtype=torch.int32)


@dataclass(frozen=True)
class AttentionCurve:
    """The map's code as a function of the integer score, per head.

    `table[h, c]` is the smallest score with code c or more (c = 0..255; entry 256 is out of
    reach). `slope` and `offset` give a float guess, exp(slope score - offset), of the code.
    """

    table: Tensor  # int32 [heads, 257], rises with c
    slope: Tensor  # float32 [heads]
    offset: Tensor  # float32 [heads]


def _all_or(lengths: Tensor | None, x: Tensor) -> Tensor:
    """The lengths, or those of clips [clip, token, ...] without padding."""
    return torch.full((x.shape[0],), x.shape[1]) if lengths is None else lengths


def token_mask(lengths: Tensor, tokens: int) -> Tensor:
    """True where a token is real: [clip, token]."""
    return torch.arange(tokens, device=lengths.device) < lengths[:, None]


def _product(x: Tensor, weight: Tensor) -> Tensor:
    """x times weight^T as float32 that holds exact integers."""
    return x.float() @ weight.flatten(1).float().t()


def _full_lookahead(total: Tensor, neurons: IntegerNeurons, slots: int, backend: str) -> Tensor:
    return integer.count_integer(
        total, slots=slots, initial=neurons.initial, static_per_slot=neurons.static,
        threshold=neurons.threshold, factor=neurons.factor, backend=backend,
    )  # fmt: skip
