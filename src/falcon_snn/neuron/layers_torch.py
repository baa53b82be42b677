"""Integer layers in plain torch, on any device; `layers` calls these for backend `torch`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from falcon_snn.neuron import integer
from falcon_snn.neuron.analog_cells import UNIT
from falcon_snn.neuron.int8_product import float_product
from falcon_snn.neuron.layers import token_mask
from falcon_snn.neuron.packed import count, encoding_tensor, unpack

if TYPE_CHECKING:
    from falcon_snn.neuron.layers import AttentionCurve, IntegerNeurons, Pair, Term

LARGEST_INPUT = (1 << 30) - 64  # to a membrane over all slots; a float32 holds it


def fire(
    terms: Sequence["Term"], neurons: "IntegerNeurons", slots: int, delay: int, border: "Pair"
) -> Tensor:
    full = delay == slots  # all input is in before the first decision, so counts will do
    if any(term.chip for term in terms):
        drive = saturated([chip_currents(term, slots) for term in terms], slots, full=full)
        one = torch.ones_like(neurons.threshold)
        out = _fire_sums(drive, one, neurons, slots, delay)
        return with_border(out.view(terms[0].shape), border)
    sums = [_sums(term, slots, full=full) for term in terms]
    currents, factor = sums[0], terms[0].factor
    if len(terms) == 2:
        currents = factor * currents.int() + terms[1].factor * sums[1].int()
        factor = torch.ones_like(factor)
    out = _fire_sums(currents, factor, neurons, slots, delay)
    return with_border(out.view(terms[0].shape), border)


def saturated(currents: Sequence[Tensor], slots: int, *, full: bool) -> Tensor:
    """What the currents of all terms add, int32 [slot, row, output]; `full`: of all slots together.

    No membrane overflows; exact sums never come near (`network/fixed_point.py`).
    """
    if full:
        added, limit = summed([slot for one in currents for slot in one])[None], LARGEST_INPUT
    else:
        added = currents[0] if len(currents) == 1 else currents[0] + currents[1]
        limit = LARGEST_INPUT // slots
    return added.clamp(-limit, limit).int()


def summed(currents: Sequence[Tensor] | Tensor) -> Tensor:
    """The sum of currents in int64; torch's own takes five times as long."""
    found = currents[0].long()
    for one in currents[1:]:
        found += one
    return found


def chip_currents(term: "Term", slots: int) -> Tensor:
    """What a term adds to the membrane in each pass, int32 [pass, row, output].

    Products of a factor and a sum stay below 2^53 wherever the membrane does not saturate.
    """
    if term.chip is None:
        return term.factor * _sums(term, slots, full=False).int()
    array, clips = term.chip
    found = (term.factor.double() * array.sums(rows_of(term), slots, clips) / UNIT).floor()
    return found.clamp(-LARGEST_INPUT, LARGEST_INPUT).int()


def rows_of(term: "Term") -> Tensor:
    """The packed spikes that each output of a layer of weights sees, [row, input]."""
    assert term.weight is not None
    return _windows(term.window(), term.weight, term.stride)


def _sums(term: "Term", slots: int, *, full: bool) -> Tensor:
    """The exact sums of a term, [slot, row, output]; `full`: of all slots together."""
    x, weight = term.window(), term.weight
    rows = x.flatten(0, 2) if weight is None else _windows(x, weight, term.stride)
    spikes = count(rows, slots)[None] if full else unpack(rows, slots)
    return spikes.float() if weight is None else float_product(spikes, weight)


def _windows(x: Tensor, weight: Tensor, stride: "Pair") -> Tensor:
    """What each output sees of [clip, line, pixel, channel], in the order of the weights."""
    kernel = weight.shape[1:3]
    windows = x.unfold(1, kernel[0], stride[0]).unfold(2, kernel[1], stride[1])
    return windows.permute(0, 1, 2, 4, 5, 3).reshape(-1, weight[0].numel())


def codes(term: "Term", bias: Tensor, shift: Tensor, first: int) -> Tensor:
    assert term.weight is not None
    if term.chip is not None:
        return codes_of(chip_currents(term, first), bias, shift).view(term.shape)
    total = float_product(count(term.packed, first), term.weight).int()
    return ((total * term.factor + bias) >> shift).clamp(-127, 127).to(torch.int8)


def codes_of(currents: Tensor, bias: Tensor, shift: Tensor) -> Tensor:
    """Codes of currents [pass, row, output]."""
    return ((summed(currents) + bias) >> shift).clamp(-127, 127).to(torch.int8)


def attention(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, heads: int, curve: "AttentionCurve",
    factor: Tensor, neurons: "IntegerNeurons", slots: int,
) -> Tensor:  # fmt: skip
    scores = _heads(q, heads) @ _heads(k, heads).transpose(2, 3)
    levels = torch.empty_like(scores)
    for head in range(heads):
        edges = curve.table[head, 1:256].contiguous()
        levels[:, head] = torch.bucketize(scores[:, head].int(), edges, right=True)
    if lengths is not None:
        levels *= token_mask(lengths, q.shape[1])[:, None, None, :]
    mixed = (levels @ _heads(count(v), heads)).transpose(1, 2).flatten(2)
    return _full_lookahead(mixed.flatten(0, 1), factor, neurons, slots).view(v.shape)


def _heads(x: Tensor, heads: int) -> Tensor:
    return x.float().view(*x.shape[:2], heads, -1).transpose(1, 2)


def encode(
    features: Tensor, weight: Tensor, stride: "Pair", padding: "Pair", lengths: Tensor | None,
    factor: Tensor, neurons: "IntegerNeurons", slots: int, kind: str, border: "Pair",
) -> Tensor:  # fmt: skip
    x = real_features(features.float(), lengths, padding)
    lines = (x.shape[1] - weight.shape[1]) // stride[0] + 1
    pixels = (x.shape[2] - weight.shape[2]) // stride[1] + 1
    total = float_product(_windows(x, weight, stride), weight, 127)
    first = _full_lookahead(total, factor, neurons, slots)
    table = encoding_tensor(slots, kind, first.device)
    trains = table[count(first).long()].view(len(x), lines, pixels, -1)
    return with_border(real_trains(trains, weight, stride, padding, lengths), border)


def real_features(features: Tensor, lengths: Tensor | None, padding: "Pair") -> Tensor:
    """Features [clip, line, pixel, channel] with zeros around them and in place of padded lines."""
    if lengths is not None:
        features = features * token_mask(lengths, features.shape[1])[:, :, None, None]
    return with_border(features, padding)


def real_trains(
    trains: Tensor, weight: Tensor, stride: "Pair", padding: "Pair", lengths: Tensor | None
) -> Tensor:
    """Source spikes without those of lines that would need padded ones."""
    if lengths is None:
        return trains
    line = torch.arange(trains.shape[1], device=trains.device)
    # The last line that an output sees, counted without the padding on the far side.
    last = line * stride[0] + weight.shape[1] - 2 * padding[0]
    return trains * (last <= lengths[:, None])[:, :, None, None]


def pool(packed: Tensor, lengths: Tensor | None) -> Tensor:
    counts = count(packed)
    if lengths is not None:
        counts = counts * token_mask(lengths, packed.shape[1])[:, :, None]
    return counts.sum(dim=1, dtype=torch.int32)


def with_border(x: Tensor, border: "Pair") -> Tensor:
    """Zeros around the lines and pixels of [clip, line, pixel, channel]."""
    return x if border == (0, 0) else F.pad(x, (0, 0, border[1], border[1], border[0], border[0]))


def _fire_sums(
    sums: Tensor, factor: Tensor, neurons: "IntegerNeurons", slots: int, delay: int
) -> Tensor:
    """SN_delta of sums [slot, row, output]; where the delay is T, of one sum over all slots."""
    if delay == slots:
        return _full_lookahead(sums[0], factor, neurons, slots)
    return integer.fire_integer(
        sums, delay, initial=neurons.initial, static_per_slot=neurons.static,
        threshold=neurons.threshold, factor=factor,
    )  # fmt: skip


def _full_lookahead(total: Tensor, factor: Tensor, neurons: "IntegerNeurons", slots: int) -> Tensor:
    return integer.count_integer(
        total, slots=slots, initial=neurons.initial, static_per_slot=neurons.static,
        threshold=neurons.threshold, factor=factor,
    )  # fmt: skip
