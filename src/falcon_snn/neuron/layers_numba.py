"""Integer layers on the CPU; `layers` calls these for backend `numba`.

Where all input comes before the first decision, one product of spike counts serves all slots: what
each output sees is laid out in rows and multiplied as 8-bit integers, a few clips at a time, so
that rows and sums stay in the cache. Otherwise each spike adds its weights (`events_numba`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from falcon_snn.neuron import layers_torch
from falcon_snn.neuron.attention_numba import attention as attention
from falcon_snn.neuron.chip_numba import chip_currents
from falcon_snn.neuron.encoding import encoding_table
from falcon_snn.neuron.events_numba import fire_events
from falcon_snn.neuron.int8_product import int8_product
from falcon_snn.neuron.integer_numba import (
    ROWS,
    call,
    count_row,
    count_streams,
    fire_rows,
    lookahead,
)
from falcon_snn.neuron.layers_torch import pool as pool
from falcon_snn.neuron.numba_backend import use_torch_threads
from falcon_snn.neuron.vectors import count_bits

if TYPE_CHECKING:
    from falcon_snn.neuron.layers import IntegerNeurons, Pair, Term

_PART_BYTES = 1 << 21  # of rows and sums at a time, for each thread


def fire(
    terms: Sequence["Term"], neurons: "IntegerNeurons", slots: int, delay: int, border: "Pair"
) -> Tensor:
    shape = terms[0].shape
    if any(term.chip for term in terms):
        return _fire_on_chip(terms, neurons, slots, delay, border)
    if all(term.weight is None for term in terms):
        out = _residual(terms, neurons, slots, delay)
        return layers_torch.with_border(out.view(shape), border)
    if delay < slots:
        return fire_events(terms, neurons, slots, delay, border)
    use_torch_threads()
    counts = [_counts(term.window(), slots) for term in terms]
    factor = terms[0].factor if len(terms) == 1 else torch.ones_like(terms[0].factor)
    each = _lookahead(slots, factor, neurons, shape[2])
    out = _silence(shape, border)
    inputs = max(term.shape[3] if term.weight is None else term.weight[0].numel() for term in terms)
    for part in _parts(shape, inputs):
        sums = [_sums(term, some[part]) for term, some in zip(terms, counts, strict=True)]
        if len(sums) == 2:
            one, other = (term.factor * of.int() for term, of in zip(terms, sums, strict=True))
            sums[0] = one + other
        _fire_sums(sums[0], slots, each, border, out[part])
    return out


def _fire_on_chip(
    terms: Sequence["Term"], neurons: "IntegerNeurons", slots: int, delay: int, border: "Pair"
) -> Tensor:
    """A few clips at a time: currents of all passes stay in the cache."""
    shape, full = terms[0].shape, delay == slots
    one = torch.ones_like(neurons.threshold)
    each = _lookahead(slots, one, neurons, shape[2])
    parameters = (neurons.initial, neurons.static, neurons.threshold)
    out = _silence(shape, border)
    within = out[:, border[0] : border[0] + shape[1], border[1] : border[1] + shape[2]]
    for part in _parts(shape, slots * 4 * shape[3]):
        currents = [chip_currents(_clips_of(term, part), slots) for term in terms]
        drive = layers_torch.saturated(currents, slots, full=full)
        if full:
            _fire_sums(drive[0], slots, each, border, out[part])
        else:
            rows = drive.shape[1]
            fired = call(fire_rows, drive, None, one, None, rows, delay, slots, *parameters)
            within[part] = fired.view(-1, *shape[1:])
    return out


def _clips_of(term: "Term", part: slice) -> "Term":
    """A term of some of its clips."""
    if term.chip is None:
        return replace(term, packed=term.packed[part])
    array, clips = term.chip
    keys = None if clips is None else clips[part]
    return replace(term, packed=term.packed[part], chip=(array, keys))


def _lookahead(slots: int, factor: Tensor, neurons: "IntegerNeurons", pixels: int) -> Any:
    """What `count_row` needs of the neurons of a line."""
    parameters = (factor, neurons.initial, neurons.static, neurons.threshold)
    return lookahead(slots, *(parameter.numpy() for parameter in parameters), pixels)


def _silence(shape: Sequence[int], border: "Pair") -> Tensor:
    size = (shape[0], shape[1] + 2 * border[0], shape[2] + 2 * border[1], shape[3])
    return torch.zeros(size, dtype=torch.uint8)


def _fire_sums(sums: Tensor, slots: int, each: Any, border: "Pair", out: Tensor) -> None:
    """SN_T of sums [row, output] to the lines of `out` within its border."""
    lines = sums.view(-1, each.shape[1]).numpy()
    _fire_lines(lines, slots, each, border[0], out.flatten(2).numpy())


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _fire_lines(sums, slots, each, border, out):  # type: ignore[no-untyped-def]
    lines = out.shape[1] - 2 * border
    rows, neurons = sums.shape
    first = (out.shape[2] - neurons) // 2
    for task in prange((rows + ROWS - 1) // ROWS):
        for row in range(task * ROWS, min((task + 1) * ROWS, rows)):
            packed = out[row // lines, row % lines + border, first : first + neurons]
            count_row(sums[row], slots, each, packed)


def _residual(
    terms: Sequence["Term"], neurons: "IntegerNeurons", slots: int, delay: int
) -> Tensor:  # fmt: skip
    """One or two streams of spikes; a single one is added twice, the second time with factor 0."""
    a, b = (term.window().flatten(0, 2) for term in (terms[0], terms[-1]))
    factor_b = terms[1].factor if len(terms) == 2 else torch.zeros_like(terms[0].factor)
    factors = (terms[0].factor, factor_b)
    parameters = (neurons.initial, neurons.static, neurons.threshold)
    if delay == slots:
        return call(count_streams, a, b, slots, *factors, *parameters)
    return call(fire_rows, a[None], b[None], *factors, len(a), delay, slots, *parameters)


def _parts(shape: Sequence[int], inputs: int) -> Iterator[slice]:
    """A few clips at a time: of their rows' bytes and of their sums."""
    clips, lines, pixels, outputs = shape
    bytes_per_clip = lines * pixels * (inputs + 4 * outputs)
    at_once = max(_PART_BYTES * torch.get_num_threads() // max(bytes_per_clip, 1), 1)
    for first in range(0, clips, at_once):
        yield slice(first, first + at_once)


def _sums(term: "Term", counts: Tensor) -> Tensor:
    """The exact sums of some clips over all slots, [row, output]."""
    if term.weight is None:
        return counts.flatten(0, 2)
    return int8_product(_rows(counts, term.weight, term.stride), term.weight)


def _counts(packed: Tensor, first: int) -> Tensor:
    """`packed.count` in one pass."""
    counts = torch.empty(packed.shape, dtype=torch.uint8)
    _count(packed.contiguous().view(-1).numpy(), (1 << first) - 1, counts.view(-1).numpy())
    return counts


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _count(packed, mask, counts):  # type: ignore[no-untyped-def]
    size = 1 << 16
    for block in prange((packed.shape[0] + size - 1) // size):
        for i in range(
            np.uint64(block * size), np.uint64(min((block + 1) * size, packed.shape[0]))
        ):
            counts[i] = count_bits(np.uint64(packed[i] & np.uint8(mask)))


def _rows(x: Tensor, weight: Tensor, stride: "Pair") -> Tensor:
    """What each output sees of bytes [clip, line, pixel, channel]: int8 [row, input]."""
    kernel = tuple(weight.shape[1:3])
    clips, lines, pixels, channels = x.shape
    if kernel == (1, 1) and stride == (1, 1):
        return x.reshape(-1, channels).view(torch.int8)
    tokens = [
        (size - taps) // step + 1
        for size, taps, step in zip((lines, pixels), kernel, stride, strict=True)
    ]
    rows = torch.empty((clips, *tokens, kernel[0], kernel[1] * channels), dtype=torch.int8)
    _lay_out(x.contiguous().view(torch.int8).flatten(2).numpy(), channels, stride, rows.numpy())
    return rows.view(-1, kernel[0] * kernel[1] * channels)


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _lay_out(image, channels, stride, rows):  # type: ignore[no-untyped-def]
    clips, lines, pixels, taps, size = rows.shape
    for task in prange(clips * lines):
        clip, line = task // lines, task % lines
        for pixel in range(pixels):
            start = np.uint64(pixel * stride[1] * channels)
            for tap in range(taps):
                for i in range(np.uint64(size)):
                    byte = image[clip, line * stride[0] + tap, start + i]
                    rows[clip, line, pixel, tap, i] = byte


def codes(term: "Term", bias: Tensor, shift: Tensor, first: int) -> Tensor:
    assert term.weight is not None
    if term.chip is not None:
        currents = chip_currents(term, first)
        return layers_torch.codes_of(currents, bias, shift).view(term.shape)
    use_torch_threads()
    rows = _counts(term.packed, first).flatten(0, 2).view(torch.int8)
    total = int8_product(rows, term.weight)
    code = torch.empty(total.shape, dtype=torch.int8)
    _codes(total.numpy(), term.factor.numpy(), bias.numpy(), shift.numpy(), code.numpy())
    return code.view(term.shape)


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _codes(total, factor, bias, shift, code):  # type: ignore[no-untyped-def]
    for row in prange(total.shape[0]):
        for i in range(np.uint64(total.shape[1])):
            level = np.int32(np.int32(total[row, i]) * factor[i] + bias[i])
            level = np.int32(level >> shift[i])
            code[row, i] = max(min(level, np.int32(127)), np.int32(-127))


def encode(
    features: Tensor, weight: Tensor, stride: "Pair", padding: "Pair", lengths: Tensor | None,
    factor: Tensor, neurons: "IntegerNeurons", slots: int, kind: str, border: "Pair",
) -> Tensor:  # fmt: skip
    use_torch_threads()
    x = layers_torch.real_features(features, lengths, padding)
    size = [(x.shape[1 + axis] - weight.shape[1 + axis]) // stride[axis] + 1 for axis in (0, 1)]
    shape = (len(x), *size, len(weight))
    each = _lookahead(slots, factor, neurons, size[1])
    out = _silence(shape, border)
    for part in _parts(shape, weight[0].numel()):
        sums = int8_product(_rows(x[part], weight, stride), weight, 127)
        _fire_sums(sums, slots, each, border, out[part])
    if kind != "first":  # what full lookahead gives
        _translate(out.view(-1).numpy(), np.array(encoding_table(slots, kind), np.uint8))
    if lengths is not None:
        lines = out[:, border[0] : border[0] + size[0]]
        lines[:] = layers_torch.real_trains(lines, weight, stride, padding, lengths)
    return out


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _translate(packed, trains):  # type: ignore[no-untyped-def]
    """The train with as many spikes."""
    for i in prange(packed.shape[0]):
        packed[i] = trains[count_bits(np.uint64(packed[i]))]
