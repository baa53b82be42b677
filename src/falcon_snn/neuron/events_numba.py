"""Sparse products on the CPU: each spike adds its weights to the sums of its slot.

Work follows the spikes, no window is copied and no current goes to memory, except those of a
second term. A linear layer is a 1x1 convolution of an image with one pixel per line.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor
from torch.nn import functional as F

from falcon_snn.neuron import layers_torch
from falcon_snn.neuron.integer_numba import add_slot, decide
from falcon_snn.neuron.numba_backend import use_torch_threads
from falcon_snn.neuron.packed import unpack

if TYPE_CHECKING:
    from falcon_snn.neuron.layers import IntegerNeurons, Pair, Term

_Currents = np.ndarray[tuple[int, ...], np.dtype[np.int32]] | None

CHUNK = 32  # output lines per task: enough tasks for all threads even from one clip


def fire_events(
    terms: Sequence["Term"], neurons: "IntegerNeurons", slots: int, delay: int, border: "Pair"
) -> Tensor:
    """`layers.fire` of one or two terms, at least one of them with weights."""
    shape = terms[0].shape
    first, *others = sorted(terms, key=lambda term: term.weight is None)
    flat = all(term.flat for term in terms)
    extra = _currents(others[0], neurons, slots, flat=flat).numpy() if others else None
    if flat:
        out = torch.zeros((1, shape[0] * shape[1] * shape[2], 1, shape[3]), dtype=torch.uint8)
        _call(first, neurons, slots, delay, extra, None, (0, 0), out, flat=True)
        return layers_torch.with_border(out.view(shape), border)
    size = (shape[0], shape[1] + 2 * border[0], shape[2] + 2 * border[1], shape[3])
    out = torch.zeros(size, dtype=torch.uint8)
    _call(first, neurons, slots, delay, extra, None, border, out, flat=False)
    return out


def _currents(term: "Term", neurons: "IntegerNeurons", slots: int, *, flat: bool) -> Tensor:
    """What a term adds per slot, its factor included: int32 [clip, line, slot, pixel * output]."""
    clips, lines, pixels, outputs = term.shape
    if flat:
        clips, lines, pixels = 1, clips * lines * pixels, 1
    if term.weight is None:
        spikes = unpack(term.window(), slots).view(slots, clips, lines, pixels, outputs)
        return (term.factor * spikes).permute(1, 2, 0, 3, 4).flatten(3)
    currents = torch.empty((clips, lines, slots, pixels * outputs), dtype=torch.int32)
    silent = torch.empty((clips, 0, 0, outputs), dtype=torch.uint8)
    _call(term, neurons, slots, 1, None, currents.numpy(), (0, 0), silent, flat=flat)
    return currents


def _call(
    term: "Term", neurons: "IntegerNeurons", slots: int, delay: int, extra: _Currents,
    currents: _Currents, border: "Pair", out: Tensor, *, flat: bool,
) -> None:  # fmt: skip
    """Run the product of a term; flat rows are an image of one clip with one pixel per line."""
    assert term.weight is not None
    image, weight, stride = term.window().contiguous(), term.weight, term.stride
    features = term.shape[2]
    if flat:
        inputs = weight[0].numel()
        image, weight, stride = image.view(1, -1, 1, inputs), weight.view(-1, 1, 1, inputs), (1, 1)
        features = 1
    per_line = [
        parameter.repeat(features).numpy()
        for parameter in (neurons.initial, neurons.static, neurons.threshold, term.factor)
    ]
    use_torch_threads()
    _product(
        image.numpy(), _rows(weight, stride).numpy(), *per_line, slots, delay,
        tuple(weight.shape[1:3]), stride[0], extra, currents, border, out.numpy(),
    )  # fmt: skip


def _rows(weight: Tensor, stride: "Pair") -> Tensor:
    """What a spike adds: [line mod period, pixel mod stride, channel, outputs it reaches].

    A spike on line l and pixel p reaches the tokens t with l - stride t among the taps, which lie
    in a ring of as many lines as see one spike, and features f with stride f + tap = p. Sums have
    the order [feature, ring, output], so all that a spike adds lies side by side; where a ring's
    line is not reached, it adds zeros.
    16 bits where no sum of one slot can leave them: twice the sums per instruction.
    """
    outputs, line_taps, pixel_taps, channels = weight.shape
    reach = int(weight.flatten(1).int().abs().sum(dim=1).max())
    ring, span = -(-line_taps // stride[0]), -(-pixel_taps // stride[1])
    rows = torch.zeros(
        (ring * stride[0], stride[1], channels, span, ring, outputs),
        dtype=torch.int16 if reach < 1 << 15 else torch.int32,
    )
    weight = F.pad(weight, (0, 0, 0, 0, 0, ring * stride[0] - line_taps))
    for line in range(ring * stride[0]):
        tap = line % stride[0] + (line // stride[0] - torch.arange(ring)) % ring * stride[0]
        for phase in range(min(stride[1], pixel_taps)):
            taps = weight[:, tap, phase :: stride[1]].flip(2)  # neighbours in f have falling taps
            rows[line, phase, :, span - taps.shape[2] :] = taps.permute(3, 2, 1, 0)
    return rows.flatten(4)


def _bit_positions() -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    """The set bits of each byte, lowest first; the places after them are never read."""
    positions = np.zeros((256, 8), np.uint32)
    for byte in range(256):
        bits = [bit for bit in range(8) if byte >> bit & 1]
        positions[byte, : len(bits)] = bits
    return positions


_POSITIONS = _bit_positions()
_COUNTS = np.array([byte.bit_count() for byte in range(256)], np.uint8)


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _product(  # type: ignore[no-untyped-def]
    image, rows, initial, static_per_slot, threshold, factor, slots, delay, taps, line_stride,
    extra, all_currents, border, out,
):  # fmt: skip
    """Sums of the spikes' weights, then SN_delta; `extra` joins them, or `all_currents` takes them.

    Either is None or has the shape [clip, line, slot, neuron], the factor included.
    """
    clips, lines, pixels, channels = image.shape
    period, stride, _, span, cell = rows.shape  # a cell: the outputs of one feature
    line_taps, pixel_taps = taps
    ring = period // line_stride
    outputs = out.shape[3]
    neurons = initial.shape[0]
    tokens = (lines - line_taps) // line_stride + 1
    weights = rows.ravel()
    # One line of sums has room on both sides for spikes at its ends.
    size = ((pixels - 1) // stride + span) * cell
    chunks = (tokens + CHUNK - 1) // CHUNK
    for task in prange(clips * chunks):
        clip = task // chunks
        begin = task % chunks * CHUNK
        end = min(begin + CHUNK, tokens)
        sums = np.zeros(slots * size, rows.dtype)
        currents = np.empty((slots, neurons), rows.dtype)
        potential = np.empty(neurons, np.int32)
        active = np.empty(channels, np.uint32)
        spikes = np.empty(8 * channels, np.uint32)
        for line in range(begin * line_stride, (end - 1) * line_stride + line_taps):
            if line % line_stride >= line_taps:
                continue  # between two kernels
            for pixel in range(pixels):
                phase = pixel % stride
                reached = (pixel_taps - phase + stride - 1) // stride
                start = (pixel // stride + span - reached) * cell
                block = (line % period * stride + phase) * channels
                row = (block * span + span - reached) * cell
                events = _events(image[clip, line, pixel], slots, active, spikes)
                for event in range(events):
                    slot, channel = spikes[event] & 7, spikes[event] >> 3
                    _add(
                        sums, np.uint64(slot * size + start),
                        weights, np.uint64(channel * span * cell + row), reached * cell,
                    )  # fmt: skip
            if (line - line_taps + 1) % line_stride != 0:
                continue  # not the last line of a token
            token = (line - line_taps + 1) // line_stride
            for slot in range(slots):
                for feature in range(neurons // outputs):
                    start = slot * size + (feature + span - 1) * cell + token % ring * outputs
                    _take(sums, np.uint64(start), currents[slot], feature * outputs, outputs)
            if token < begin:
                continue  # it belongs to another task
            if all_currents is not None:
                for slot in range(slots):
                    _scale(currents[slot], factor, all_currents[clip, token, slot])
                continue
            first = border[1] * outputs
            packed = out[clip, token + border[0]].ravel()[first : first + neurons]
            potential[:] = initial
            next_input = 0
            for slot in range(slots):
                while next_input < min(slot + delay, slots):
                    add_slot(potential, static_per_slot, factor, currents[next_input])
                    if extra is not None:
                        _join(potential, extra[clip, token, next_input])
                    next_input += 1
                decide(slot, potential, threshold, packed)


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def _scale(current, factor, out):  # type: ignore[no-untyped-def]
    for i in range(current.shape[0]):
        out[i] = factor[i] * np.int32(current[i])


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def _join(potential, current):  # type: ignore[no-untyped-def]
    for i in range(potential.shape[0]):
        potential[i] += current[i]


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def _events(train, slots, active, spikes):  # type: ignore[no-untyped-def]
    """List a pixel's spikes as 8 channel + slot; no branch that a processor could mispredict."""
    mask = np.uint8((1 << slots) - 1)
    n = np.uint64(0)
    for channel in range(train.shape[0]):
        active[n] = channel
        n += np.uint64((train[channel] & mask) != 0)
    events = np.uint64(0)
    for i in range(n):
        channel = active[i]
        byte = train[channel] & mask
        for k in range(np.uint64(8)):  # all places are written, as many kept as bits are set
            spikes[events + k] = (channel << 3) + _POSITIONS[byte, k]
        events += np.uint64(_COUNTS[byte])
    return events


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def _add(sums, start, weights, row, size):  # type: ignore[no-untyped-def]
    # Unsigned indices: no test for negative ones, so the loop becomes vector instructions.
    for i in range(np.uint64(size)):
        sums[start + i] += weights[row + i]


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def _take(sums, start, current, at, size):  # type: ignore[no-untyped-def]
    for i in range(np.uint64(size)):
        current[np.uint64(at) + i] = sums[start + i]
        sums[start + i] = 0
