"""Sparse products on the CPU: each spike adds its row of weights to the sums of its slot.

Work follows the spikes, no window is copied and no current goes to memory, except those of a
second term. A linear layer is a 1x1 convolution of an image with one pixel per line.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor
from torch.nn import functional as F

from falcon_snn.neuron import layers_torch
from falcon_snn.neuron.integer_numba import fire_row
from falcon_snn.neuron.numba_backend import use_torch_threads
from falcon_snn.neuron.packed import unpack
from falcon_snn.neuron.vectors import LANES, MOST_ROWS, count_bits, lowest_bit, spike_mask, sum_rows

if TYPE_CHECKING:
    from falcon_snn.neuron.layers import IntegerNeurons, Pair, Term

_Currents = np.ndarray[tuple[int, ...], np.dtype[np.int32]]

_NOWHERE: _Currents = np.empty((0, 0, 0, 0, 0), np.int32)  # None would have to be compiled anew
UNROLLED = 8  # places of spikes that are written without a branch
CHUNK = 32  # output lines per task: enough tasks for all threads even from one clip


def fire_events(
    terms: Sequence["Term"], neurons: "IntegerNeurons", slots: int, delay: int, border: "Pair"
) -> Tensor:
    """`layers.fire` of one or two terms, at least one of them with weights."""
    shape = terms[0].shape
    first, *others = sorted(terms, key=lambda term: term.weight is None)
    flat = all(term.flat for term in terms)
    extra = _currents(others[0], neurons, slots, flat=flat).numpy() if others else _NOWHERE
    if flat:
        out = torch.zeros((1, shape[0] * shape[1] * shape[2], 1, shape[3]), dtype=torch.uint8)
        _call(first, neurons, slots, delay, extra, _NOWHERE, (0, 0), out, flat=True)
        return layers_torch.with_border(out.view(shape), border)
    size = (shape[0], shape[1] + 2 * border[0], shape[2] + 2 * border[1], shape[3])
    out = torch.zeros(size, dtype=torch.uint8)
    _call(first, neurons, slots, delay, extra, _NOWHERE, border, out, flat=False)
    return out


def _currents(term: "Term", neurons: "IntegerNeurons", slots: int, *, flat: bool) -> Tensor:
    """What a term adds per slot, its factor included: int32 [clip, line, slot, pixel, output]."""
    clips, lines, pixels, outputs = term.shape
    if flat:
        clips, lines, pixels = 1, clips * lines * pixels, 1
    if term.weight is None:
        spikes = unpack(term.window(), slots).view(slots, clips, lines, pixels, outputs)
        return (term.factor * spikes).permute(1, 2, 0, 3, 4).contiguous()
    currents = torch.empty((clips, lines, slots, pixels, outputs), dtype=torch.int32)
    silent = torch.empty((clips, 0, 0, outputs), dtype=torch.uint8)
    _call(term, neurons, slots, 1, _NOWHERE, currents.numpy(), (0, 0), silent, flat=flat)
    return currents


def _call(
    term: "Term", neurons: "IntegerNeurons", slots: int, delay: int, extra: _Currents,
    currents: _Currents, border: "Pair", out: Tensor, *, flat: bool,
) -> None:  # fmt: skip
    """Run the product of a term; flat rows are an image of one clip with one pixel per line."""
    assert term.weight is not None
    image, stride, features = term.window().contiguous(), term.stride, term.shape[2]
    taps = tuple(term.weight.shape[1:3])
    if flat:
        image, taps, stride, features = (
            image.view(1, -1, 1, term.weight[0].numel()),
            (1, 1),
            (1, 1),
            1,
        )
    parameters = torch.stack((neurons.initial, neurons.static, neurons.threshold, term.factor))
    if unused := -len(term.weight) % LANES:
        parameters = F.pad(parameters, (0, unused))
    per_line = parameters.repeat(1, features).numpy()
    use_torch_threads()
    _product(
        image.flatten(2).numpy(), _added(term.weight, flat), *per_line, slots, delay, taps,
        stride, extra, currents, border, out.numpy(),
    )  # fmt: skip


@lru_cache(maxsize=64)  # a network's layers: their weights do not change between clips
def _added(weight: Tensor, flat: bool) -> Any:
    """What a spike adds, in the order of the columns or of a flat row: int8 [input, output]."""
    rows = weight.flatten(1).t() if flat else weight.permute(2, 1, 3, 0).flatten(0, 2)
    return F.pad(rows, (0, -len(weight) % LANES)).contiguous().numpy()


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _product(  # type: ignore[no-untyped-def]
    image, rows, initial, static_per_slot, threshold, factor, slots, delay, taps, stride,
    extra, all_currents, border, out,
):  # fmt: skip
    """Sums of the spikes' weights, then SN_delta; `extra` joins them, or `all_currents` takes them.

    Either is empty or has the shape [clip, line, slot, pixel, output], the factor included. Rows of
    weights are as long as a multiple of LANES; so are the neurons of a pixel here.
    """
    clips, lines, _ = image.shape
    channels = rows.shape[0] // (taps[0] * taps[1])
    pixels = image.shape[2] // channels
    weights, width = rows.ravel(), rows.shape[1]
    outputs = out.shape[3]
    features = initial.shape[0] // width
    tokens = (lines - taps[0]) // stride[0] + 1
    one = np.ones_like(factor)
    chunks = (tokens + CHUNK - 1) // CHUNK
    size = taps[0] * channels  # of a column: what a kernel sees of one pixel
    words = (pixels * size + 63) // 64
    for task in prange(clips * chunks):
        clip = task // chunks
        begin = task % chunks * CHUNK
        columns = np.zeros(64 * words, np.uint8)
        listed = np.empty(64 * words + UNROLLED, np.uint32)
        starts = np.empty(pixels + 1, np.int64)
        sums = np.empty((slots, 1, features * width), np.int32)
        flat_sums = sums.ravel()
        potential = np.empty(features * width, np.int32)
        packed = np.empty(features * width, np.uint8)
        for token in range(begin, min(begin + CHUNK, tokens)):
            flat_sums[:] = 0
            _see(image, clip, token * stride[0], taps[0], channels, columns)
            for slot in range(slots):
                _list_spikes(columns, slot, size, listed, starts)
                for feature in range(features):
                    pixel = feature * stride[1]
                    _add(
                        weights, -pixel * size * width, width, listed, starts[pixel],
                        starts[pixel + taps[1]], flat_sums, (slot * features + feature) * width,
                    )  # fmt: skip
            if all_currents.size > 0:
                for slot in range(slots):
                    for feature in range(features):
                        at = feature * width
                        for i in range(outputs):
                            current = sums[slot, 0, at + i] * factor[at + i]
                            all_currents[clip, token, slot, feature, i] = current
                continue
            scale = factor
            if extra.size > 0:
                scale = one
                for slot in range(slots):
                    for feature in range(features):
                        at = feature * width
                        for i in range(outputs):
                            current = sums[slot, 0, at + i] * factor[at + i]
                            sums[slot, 0, at + i] = current + extra[clip, token, slot, feature, i]
            fire_row(
                sums, None, scale, None, 0, delay, slots, initial, static_per_slot, threshold,
                potential, packed,
            )  # fmt: skip
            for feature in range(features):
                for i in range(np.uint64(outputs)):
                    spikes = packed[np.uint64(feature * width) + i]
                    out[clip, token + border[0], feature + border[1], i] = spikes


@njit(cache=True, error_model="numpy", nogil=True)
def _see(image, clip, top, taps, channels, columns):  # type: ignore[no-untyped-def]
    """Lines side by side: [line, pixel, channel] to [pixel, line, channel]."""
    for tap in range(taps):
        for pixel in range(image.shape[2] // channels):
            to, at = np.uint64((pixel * taps + tap) * channels), np.uint64(pixel * channels)
            for channel in range(np.uint64(channels)):
                columns[to + channel] = image[clip, top + tap, at + channel]


@njit(cache=True, error_model="numpy", nogil=True)
def _list_spikes(columns, slot, size, listed, starts):  # type: ignore[no-untyped-def]
    """The places that spike in a slot, in order, and where those of each column begin."""
    found = np.uint64(0)
    column = 0
    for word in range(columns.shape[0] // 64):
        mask = spike_mask(columns, 64 * word, slot)
        while column < starts.shape[0] and column * size < 64 * (word + 1):
            before = (np.uint64(1) << np.uint64(column * size - 64 * word)) - np.uint64(1)
            starts[column] = found + count_bits(mask & before)
            column += 1
        left, to = mask, found
        while left != 0:
            for i in range(np.uint64(UNROLLED)):  # places after the last are written over
                listed[to + i] = np.uint64(64 * word) + lowest_bit(left)
                left &= left - np.uint64(1)
            to += np.uint64(UNROLLED)
        found += count_bits(mask)
    while column < starts.shape[0]:
        starts[column] = found
        column += 1


_sum_10, _sum_4, _sum_3, _sum_1 = (sum_rows(groups) for groups in (10, 4, 3, 1))


@njit(cache=True, error_model="numpy", nogil=True)
def _add(weights, at, width, rows, first, last, sums, to):  # type: ignore[no-untyped-def]
    """sums[to:] += the sum of weights[at + width r:] for each r in rows[first:last]."""
    for start in range(first, last, MOST_ROWS):
        end = min(start + MOST_ROWS, last)
        column = 0
        while width - column >= 10 * LANES:
            _sum_10(weights, at + column, width, rows, start, end, sums, to + column)
            column += 10 * LANES
        while width - column >= 4 * LANES:
            _sum_4(weights, at + column, width, rows, start, end, sums, to + column)
            column += 4 * LANES
        while width - column >= 3 * LANES:
            _sum_3(weights, at + column, width, rows, start, end, sums, to + column)
            column += 3 * LANES
        while width - column >= LANES:
            _sum_1(weights, at + column, width, rows, start, end, sums, to + column)
            column += LANES
