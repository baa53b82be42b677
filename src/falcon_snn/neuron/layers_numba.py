"""Spiking products on the CPU, driven by events: work is done for spikes only.

A linear layer is a 1x1 convolution of an image with one pixel per line, so one kernel serves both.
Each spike adds rows of weights to the sums of its slot, for every output that sees its pixel; no
window is copied and no current goes to memory. Sums of integers: equal to backend `torch`.
"""

from typing import TYPE_CHECKING

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from falcon_snn.neuron.integer_numba import add_slot, decide
from falcon_snn.neuron.numba_backend import use_torch_threads

if TYPE_CHECKING:
    from falcon_snn.neuron.layers import IntegerNeurons

CHUNK = 32  # output lines per task: their sums and events stay in the caches


def product(
    image: Tensor, weight: Tensor, neurons: "IntegerNeurons", slots: int, delay: int,
    stride: int = 1, *, border: bool = False,
) -> Tensor:  # fmt: skip
    """SN_delta of a convolution without padding, its stride along the pixels of a line.

    Packed image [clip, line, pixel, channel], int8 weights [outputs, lines, pixels, channel].
    """
    clips, lines, pixels, _ = image.shape
    outputs, line_taps, pixel_taps, _ = weight.shape
    tokens, features = lines - line_taps + 1, (pixels - pixel_taps) // stride + 1
    edge = int(border)
    shape = (clips, tokens + 2 * edge, features + 2 * edge, outputs)
    out = torch.zeros(shape, dtype=torch.uint8)
    per_line = [
        parameter.repeat(features).numpy()
        for parameter in (neurons.initial, neurons.static, neurons.threshold, neurons.factor)
    ]
    use_torch_threads()
    _product(
        image.contiguous().numpy(), _rows(weight, stride).numpy(), *per_line, slots, delay,
        outputs, edge, out.numpy(),
    )  # fmt: skip
    return out


def _rows(weight: Tensor, stride: int) -> Tensor:
    """What one spike adds, [pixel mod stride, line tap, channel, outputs it reaches side by side].

    Pixel p reaches the outputs f with stride f + tap = p, so neighbours in f have falling taps.
    16 bits where no sum of one slot can leave them, for twice the sums per instruction.
    """
    reach = int(weight.flatten(1).abs().sum(dim=1, dtype=torch.int64).max())
    outputs, line_taps, pixel_taps, channels = weight.shape
    span = -(-pixel_taps // stride)
    rows = weight.new_zeros(
        (stride, line_taps, channels, span, outputs),
        dtype=torch.int16 if reach < 1 << 15 else torch.int32,
    )
    for phase in range(min(stride, pixel_taps)):
        taps = weight[:, :, phase::stride].flip(2).permute(1, 3, 2, 0)
        rows[phase, :, :, span - taps.shape[2] :] = taps
    return rows.flatten(3)


def _bit_positions() -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    """The set bits of each byte, lowest first; the places behind them are never read."""
    positions = np.zeros((256, 8), np.uint32)
    for byte in range(256):
        bits = [bit for bit in range(8) if byte >> bit & 1]
        positions[byte, : len(bits)] = bits
    return positions


_POSITIONS = _bit_positions()
_COUNTS = np.array([byte.bit_count() for byte in range(256)], np.uint8)


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _product(  # type: ignore[no-untyped-def]
    image, rows, initial, static_per_slot, threshold, factor, slots, delay, outputs, edge, out
):
    clips, lines, pixels, channels = image.shape
    stride, line_taps, _, width = rows.shape
    span = width // outputs
    tokens = lines - line_taps + 1
    neurons = initial.shape[0]
    # Sums of a line of outputs, with room on both sides for spikes at its ends.
    line_size = ((pixels - 1) // stride + span) * outputs
    first_sum = (span - 1) * outputs
    weights = rows.ravel()
    slot_starts = _POSITIONS * np.uint32(line_taps * line_size)
    chunks = (tokens + CHUNK - 1) // CHUNK
    for task in prange(clips * chunks):
        clip = task // chunks
        begin = task % chunks * CHUNK
        end = min(begin + CHUNK, tokens)
        sums = np.zeros((slots, line_taps, line_size), rows.dtype)  # a ring of unfinished lines
        flat_sums = sums.ravel()
        potential = np.empty(neurons, np.int32)
        slot_start = np.empty(8 * channels, np.uint32)
        row_start = np.empty(8 * channels, np.uint32)
        for line in range(begin, end + line_taps - 1):
            for pixel in range(pixels):
                bytes_ = image[clip, line, pixel]
                events = _events(bytes_, slot_starts, width, slot_start, row_start)
                phase = pixel % stride
                at = pixel // stride * outputs
                for tap in range(max(0, line - end + 1), min(line_taps, line - begin + 1)):
                    to = np.uint64((line - tap) % line_taps * line_size + at)
                    of = np.uint64((phase * line_taps + tap) * channels * width)
                    for event in range(events):
                        add(flat_sums, slot_start[event] + to, weights, row_start[event] + of, np.uint64(width))
            token = line - line_taps + 1
            if token >= begin:
                ring = token % line_taps
                packed = out[clip, token + edge].ravel()[edge * outputs : edge * outputs + neurons]
                potential[:] = initial
                next_input = 0
                for slot in range(slots):
                    while next_input < min(slot + delay, slots):
                        current = sums[next_input, ring, first_sum : first_sum + neurons]
                        add_slot(potential, static_per_slot, factor, current)
                        next_input += 1
                    decide(slot, potential, threshold, packed)
                sums[:, ring] = 0


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def _events(bytes_, slot_starts, width, slot_start, row_start):  # type: ignore[no-untyped-def]
    """List the spikes of a pixel; branch-free, eight places are written and the set bits kept."""
    events = 0
    for channel in range(bytes_.shape[0]):
        byte = bytes_[channel]
        for k in range(8):
            slot_start[events + k] = slot_starts[byte, k]
            row_start[events + k] = channel * width
        events += _COUNTS[byte]
    return events

@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def add(sums, to, weights, of, width):
    for i in range(width):
        sums[to + i] += weights[of + i]
