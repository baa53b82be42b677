"""Integer layers on the CPU; `layers` calls these for backend `numba`.

Products are sparse (`events_numba`) or dense, whichever is less work; both give the same integers.
Dense: what each output sees is laid out in rows, slot by slot, and multiplied as 8-bit integers, a
few clips at a time, so that rows and sums stay in the cache. Where all input comes before the first
decision, counts take the place of slots, one product for all.
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from falcon_snn.neuron import integer, layers_torch
from falcon_snn.neuron.encoding import encoding_table
from falcon_snn.neuron.events_numba import fire_events
from falcon_snn.neuron.int8_product import int8_product, products_per_event
from falcon_snn.neuron.layers_torch import pool as pool
from falcon_snn.neuron.numba_backend import use_torch_threads
from falcon_snn.neuron.packed import count

if TYPE_CHECKING:
    from falcon_snn.neuron.layers import AttentionCurve, IntegerNeurons, Pair, Term

_ROWS_BYTES = 1 << 20  # of the rows that are laid out at once, for each thread
_SAMPLE = 4096  # of the inputs, to see how many spike
_CACHED = 1 << 17  # weights that a core keeps near, in 16 bits; events slow down with more
_LAID_OUT = 60  # events that take as long as laying out one weight
TAPS = 5  # of an encoder's line, taken together


def fire(
    terms: Sequence["Term"], neurons: "IntegerNeurons", slots: int, delay: int, border: "Pair"
) -> Tensor:
    shape = terms[0].shape
    if all(term.weight is None for term in terms):
        out = _residual(terms, neurons, slots, delay)
        return layers_torch.with_border(out.view(shape), border)
    planes = 1 if delay == slots else slots
    if not _is_dense(terms, planes):
        return fire_events(terms, neurons, slots, delay, border)
    factor = terms[0].factor if len(terms) == 1 else torch.ones_like(terms[0].factor)
    size = (shape[0], shape[1] + 2 * border[0], shape[2] + 2 * border[1], shape[3])
    out = torch.zeros(size, dtype=torch.uint8)
    inner = out[:, border[0] : border[0] + shape[1], border[1] : border[1] + shape[2]]
    for part in _parts(terms, planes):
        sums = [_sums(term, part, slots, planes) for term in terms]
        if len(sums) == 2:
            sums[0] = terms[0].factor * sums[0].int() + terms[1].factor * sums[1].int()
        fired = layers_torch.fire_sums(sums[0], factor, neurons, slots, delay, "numba")
        inner[part] = fired.view(-1, *shape[1:])
    return out


def _residual(
    terms: Sequence["Term"], neurons: "IntegerNeurons", slots: int, delay: int
) -> Tensor:  # fmt: skip
    """One or two streams of spikes; a single one is added twice, the second time with factor 0."""
    a, b = (term.window().flatten(0, 2) for term in (terms[0], terms[-1]))
    factor_b = terms[1].factor if len(terms) == 2 else torch.zeros_like(terms[0].factor)
    return integer.residual_integer(
        a, b, delay, slots=slots, factor_a=terms[0].factor, factor_b=factor_b,
        initial=neurons.initial, static_per_slot=neurons.static, threshold=neurons.threshold,
        backend="numba",
    )  # fmt: skip


def _is_dense(terms: Sequence["Term"], planes: int) -> bool:
    """Whether products of whole rows are less work than adding weights spike by spike.

    Events also pay for laying out every weight anew: much for a single clip.
    """
    dense = events = 0.0
    for term in terms:
        if term.weight is not None:
            products = prod(term.shape[:3]) * term.weight.numel()
            some = term.packed.flatten()[:: max(term.packed.numel() // _SAMPLE, 1)]
            spikes = float(count(some).float().mean())  # of an input, in all slots
            adds = spikes * products + _LAID_OUT * term.weight.numel()
            dense += planes * products
            events += products_per_event() * adds * max(term.weight.numel() / _CACHED, 1)
    return dense < events


def _parts(terms: Sequence["Term"], planes: int) -> Iterator[slice]:
    """A few clips at a time."""
    clips, lines, pixels, _ = terms[0].shape
    inputs = max(term.packed.shape[3] if term.weight is None else term.weight[0].numel()
                 for term in terms)  # fmt: skip
    at_once = _ROWS_BYTES * torch.get_num_threads() // max(planes * lines * pixels * inputs, 1)
    for first in range(0, clips, max(at_once, 1)):
        yield slice(first, first + max(at_once, 1))


def _sums(term: "Term", part: slice, slots: int, planes: int) -> Tensor:
    """The exact sums of some clips, [slot, row, output], or of all slots together in one."""
    x = term.window()[part]
    if planes == 1:
        x = count(x, slots)
    rows = _rows(x, term.weight, term.stride, planes)
    return rows if term.weight is None else int8_product(rows, term.weight)


def _rows(x: Tensor, weight: Tensor | None, stride: "Pair", planes: int) -> Tensor:
    """What each output sees of bytes [clip, line, pixel, channel]: int8 [slot, row, input].

    One plane holds the bytes as they are, several their bits.
    """
    kernel = (1, 1) if weight is None else tuple(weight.shape[1:3])
    clips, lines, pixels, channels = x.shape
    if planes == 1 and kernel == (1, 1) and stride == (1, 1):
        return x.reshape(1, -1, channels).view(torch.int8)
    tokens = [
        (size - taps) // step + 1
        for size, taps, step in zip((lines, pixels), kernel, stride, strict=True)
    ]
    shape = (planes, clips, *tokens, kernel[0], kernel[1] * channels)
    rows = torch.empty(shape, dtype=torch.int8)
    use_torch_threads()
    _lay_out(x.contiguous().view(torch.int8).flatten(2).numpy(), channels, stride, rows.numpy())
    return rows.view(planes, -1, kernel[0] * kernel[1] * channels)


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _lay_out(image, channels, stride, rows):  # type: ignore[no-untyped-def]
    planes, clips, lines, pixels, taps, size = rows.shape
    for task in prange(clips * lines):
        clip, line = task // lines, task % lines
        for tap in range(taps):
            seen = image[clip, line * stride[0] + tap]
            for pixel in range(pixels):
                start = np.uint64(pixel * stride[1] * channels)
                for plane in range(planes):
                    row = rows[plane, clip, line, pixel, tap]
                    if planes == 1:
                        for i in range(np.uint64(size)):
                            row[i] = seen[start + i]
                    else:
                        for i in range(np.uint64(size)):
                            row[i] = (seen[start + i] >> plane) & 1


def codes(term: "Term", bias: Tensor, shift: Tensor, first: int) -> Tensor:
    assert term.weight is not None
    rows = count(term.packed, first).flatten(0, 2).view(torch.int8)
    total = int8_product(rows[None], term.weight)[0].int()
    code = ((total * term.factor + bias) >> shift).clamp(-127, 127).to(torch.int8)
    return code.view(term.shape)


def encode(
    features: Tensor, weight: Tensor, stride: "Pair", padding: "Pair", lengths: Tensor | None,
    factor: Tensor, neurons: "IntegerNeurons", slots: int, kind: str, border: "Pair",
) -> Tensor:  # fmt: skip
    outputs, line_taps, pixel_taps, channels = weight.shape
    # What each tap of a line sees, [clip, line, tap, pixel]: once for all lines of the kernel.
    windows = layers_torch.with_border(features, (0, padding[1])).unfold(2, pixel_taps, stride[1])
    clips, lines, pixels = windows.shape[:3]
    size, groups = pixel_taps * channels, -(-pixel_taps * channels // TAPS)
    seen = torch.zeros((clips, lines, groups, TAPS, pixels), dtype=torch.int32)
    seen.flatten(2, 3)[:, :, :size] = windows.permute(0, 1, 4, 3, 2).flatten(2, 3)
    taps = torch.zeros((outputs, line_taps, groups, TAPS), dtype=torch.int32)
    taps.flatten(2)[:, :, :size] = weight.flatten(2)
    tokens = (lines + 2 * padding[0] - line_taps) // stride[0] + 1
    shape = (clips, tokens + 2 * border[0], pixels + 2 * border[1], outputs)
    out = torch.zeros(shape, dtype=torch.uint8)
    use_torch_threads()
    _encode(
        seen.numpy(), taps.numpy(), stride[0], padding[0],
        _all_or(lengths, features).numpy(), neurons.initial.numpy(), neurons.static.numpy(),
        neurons.threshold.numpy(), factor.numpy(), np.array(encoding_table(slots, kind), np.uint8),
        border, out.numpy(),
    )  # fmt: skip
    return out


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _encode(  # type: ignore[no-untyped-def]
    seen, weight, stride, padding, lengths, initial, static_per_slot, threshold, factor, trains,
    border, out,
):  # fmt: skip
    clips, lines, groups, _, width = seen.shape
    outputs, line_taps = weight.shape[:2]
    # Kernel lines and the lines they see follow each other, so one index serves both.
    weights = weight.reshape((outputs, line_taps * groups, TAPS))
    bands = seen.reshape((clips * lines * groups, TAPS, width))
    packed = out.ravel()
    tokens = out.shape[1] - 2 * border[0]
    slots = trains.shape[0] - 1
    for task in prange(clips * tokens):
        clip = task // tokens
        token = task % tokens
        top = token * stride - padding
        if top + line_taps > lengths[clip] + padding:
            continue
        corner = (clip * out.shape[1] + token + border[0]) * out.shape[2] + border[1]
        corner = np.uint64(corner * outputs)
        above = (clip * lines + top) * groups
        first, last = max(-top, 0) * groups, min(line_taps, lengths[clip] - top) * groups
        potential = np.empty(width, np.int32)
        count = np.empty(width, np.int32)
        for output in range(outputs):
            potential[:] = 0
            count[:] = 0
            for group in range(first, last):
                _add_taps(potential, weights[output, group], bands[above + group])
            constant = initial[output] + slots * static_per_slot[output]
            level = threshold[output]
            for feature in range(width):
                potential[feature] = potential[feature] * factor[output] + constant
            for _ in range(slots):
                for feature in range(width):
                    fires = potential[feature] >= level
                    count[feature] += 1 if fires else 0
                    potential[feature] -= level if fires else np.int32(0)
            for feature in range(np.uint64(width)):
                packed[corner + feature * np.uint64(outputs)] = trains[np.uint64(count[feature])]
            corner += np.uint64(1)


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def _add_taps(total, weight, seen):  # type: ignore[no-untyped-def]
    """TAPS at a time, so that five products share a load and a store."""
    w0, w1, w2, w3, w4 = weight[0], weight[1], weight[2], weight[3], weight[4]
    x0, x1, x2, x3, x4 = seen[0], seen[1], seen[2], seen[3], seen[4]
    for i in range(total.shape[0]):
        low = w0 * x0[i] + w1 * x1[i] + w2 * x2[i]
        total[i] += low + w3 * x3[i] + w4 * x4[i]


def attention(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, heads: int, curve: "AttentionCurve",
    factor: Tensor, neurons: "IntegerNeurons", slots: int,
) -> Tensor:  # fmt: skip
    levels = layers_torch.scores_of(q, k, heads)
    use_torch_threads()
    _attention_codes(levels.numpy(), curve.table.numpy(), _all_or(lengths, q).numpy())
    return layers_torch.context_of(levels, v, factor, neurons, slots, "numba")


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _attention_codes(scores, table, lengths):  # type: ignore[no-untyped-def]
    """Put codes of the map in the place of scores [clip, head, query, key]; 0 for padded keys."""
    clips, heads, tokens, _ = scores.shape
    for task in prange(clips * heads):
        clip = task // heads
        head = task % heads
        for query in range(tokens):
            for key in range(tokens):
                score = np.int32(scores[clip, head, query, key])
                code = 0
                for bit in range(7, -1, -1):  # the largest code whose smallest score is reached
                    code += (1 << bit) if score >= table[head, code + (1 << bit)] else 0
                scores[clip, head, query, key] = code if key < lengths[clip] else 0


def _all_or(lengths: Tensor | None, x: Tensor) -> Tensor:
    """The lengths, or those of clips [clip, line, ...] without padding."""
    return torch.full((x.shape[0],), x.shape[1]) if lengths is None else lengths
