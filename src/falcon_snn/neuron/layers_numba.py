"""Integer layers on the CPU; `layers` calls these for backend `numba`.

Products are driven by events: each spike adds its weights to the sums of its slot, for all outputs
that see it, so work follows the spikes, no window is copied and no current goes to memory. A linear
layer is a 1x1 convolution of an image with one pixel per line: one kernel serves both.
"""

from typing import TYPE_CHECKING

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from falcon_snn.neuron.integer_numba import add_slot, decide
from falcon_snn.neuron.numba_backend import use_torch_threads
from falcon_snn.neuron.parameters import check_delay

if TYPE_CHECKING:
    from falcon_snn.neuron.layers import IntegerNeurons

CHUNK = 32  # output lines per task: enough tasks for all threads even from one clip


def product(
    image: Tensor, weight: Tensor, neurons: "IntegerNeurons", slots: int, delay: int,
    stride: int = 1, *, border: bool = False,
) -> Tensor:  # fmt: skip
    """SN_delta of a convolution without padding, its stride along the pixels of a line.

    Packed image [clip, line, pixel, channel], int8 weights [outputs, lines, pixels, channel].
    """
    delay = check_delay(delay, slots)
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
        pixel_taps, edge, out.numpy(),
    )  # fmt: skip
    return out


def _rows(weight: Tensor, stride: int) -> Tensor:
    """What a spike adds: [line mod taps, pixel mod stride, channel, outputs it reaches].

    A spike on line l and pixel p reaches the outputs of lines l - tap, which lie in a ring of as
    many lines as there are taps, and of features f with stride f + tap = p. Sums have the order
    [feature, ring, output], so all that a spike adds lies side by side.
    16 bits where no sum of one slot can leave them: twice the sums per instruction.
    """
    outputs, line_taps, pixel_taps, channels = weight.shape
    reach = int(weight.flatten(1).int().abs().sum(dim=1).max())
    span = -(-pixel_taps // stride)
    rows = torch.zeros(
        (line_taps, stride, channels, span, line_taps, outputs),
        dtype=torch.int16 if reach < 1 << 15 else torch.int32,
    )
    for line in range(line_taps):
        ring = (line - torch.arange(line_taps)) % line_taps
        for phase in range(min(stride, pixel_taps)):
            taps = weight[:, ring, phase::stride].flip(2)  # neighbours in f have falling taps
            rows[line, phase, :, span - taps.shape[2] :] = taps.permute(3, 2, 1, 0)
    return rows.flatten(4)


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
    image, rows, initial, static_per_slot, threshold, factor, slots, delay, pixel_taps, edge, out
):
    clips, lines, pixels, channels = image.shape
    line_taps, stride, _, span, cell = rows.shape  # a cell: the outputs of one feature
    outputs = out.shape[3]
    neurons = initial.shape[0]
    tokens = lines - line_taps + 1
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
        for line in range(begin, end + line_taps - 1):
            for pixel in range(pixels):
                phase = pixel % stride
                reached = (pixel_taps - phase + stride - 1) // stride
                start = (pixel // stride + span - reached) * cell
                block = (line % line_taps * stride + phase) * channels
                row = (block * span + span - reached) * cell
                events = _events(image[clip, line, pixel], slots, active, spikes)
                for event in range(events):
                    slot, channel = spikes[event] & 7, spikes[event] >> 3
                    _add(
                        sums, np.uint64(slot * size + start),
                        weights, np.uint64(channel * span * cell + row), reached * cell,
                    )  # fmt: skip
            token = line - line_taps + 1
            for slot in range(slots):
                for feature in range(neurons // outputs):
                    start = slot * size + (feature + span - 1) * cell + token % line_taps * outputs
                    _take(sums, np.uint64(start), currents[slot], feature * outputs, outputs)
            if token >= begin:  # the lines before belong to another task
                packed = out[clip, token + edge].ravel()[edge * outputs : edge * outputs + neurons]
                potential[:] = initial
                next_input = 0
                for slot in range(slots):
                    while next_input < min(slot + delay, slots):
                        add_slot(potential, static_per_slot, factor, currents[next_input])
                        next_input += 1
                    decide(slot, potential, threshold, packed)


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


def encode(
    features: Tensor, weight: Tensor, lengths: Tensor, neurons: "IntegerNeurons",
    trains: tuple[int, ...],
) -> Tensor:  # fmt: skip
    """Source trains of int8 features [clip, token, feature], see `layers.encode`."""
    clips, tokens, bands = features.shape
    outputs = weight.shape[0]
    out = torch.zeros((clips, tokens + 2, bands // 2 + 2, outputs), dtype=torch.uint8)
    use_torch_threads()
    _encode(
        features.contiguous().numpy(), weight.int().numpy(), lengths.numpy(),
        neurons.initial.numpy(), neurons.static.numpy(), neurons.threshold.numpy(),
        neurons.factor.numpy(), np.array(trains, np.uint8), out.numpy(),
    )  # fmt: skip
    return out


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _encode(  # type: ignore[no-untyped-def]
    features, weight, lengths, initial, static_per_slot, threshold, factor, trains, out
):
    clips, tokens, bands = features.shape
    slots = trains.shape[0] - 1
    half = bands // 2
    for task in prange(clips * tokens):
        clip = task // tokens
        token = task % tokens
        if token >= lengths[clip]:
            continue
        seen = np.zeros((25, half), np.int32)  # per tap, the input of each output feature
        for tap in range(25):
            line = token + tap // 5 - 2
            if 0 <= line < lengths[clip]:
                for feature in range(half):
                    band = 2 * feature + tap % 5 - 2
                    if 0 <= band < bands:
                        seen[tap, feature] = features[clip, line, band]
        potential = np.empty(half, np.int32)
        count = np.empty(half, np.int32)
        for output in range(weight.shape[0]):
            potential[:] = 0
            count[:] = 0
            for line in range(5):
                taps = slice(5 * line, 5 * line + 5)
                _add_taps(potential, weight[output, taps], seen[taps])
            constant = initial[output] + slots * static_per_slot[output]
            level = threshold[output]
            for feature in range(half):
                potential[feature] = potential[feature] * factor[output] + constant
            for _ in range(slots):
                for feature in range(half):
                    fires = potential[feature] >= level
                    count[feature] += 1 if fires else 0
                    potential[feature] -= level if fires else np.int32(0)
            for feature in range(half):
                out[clip, token + 1, feature + 1, output] = trains[count[feature]]


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def _add_taps(total, weight, seen):  # type: ignore[no-untyped-def]
    """One line's five taps at a time, so that five products share a load and a store."""
    w0, w1, w2, w3, w4 = weight[0], weight[1], weight[2], weight[3], weight[4]
    x0, x1, x2, x3, x4 = seen[0], seen[1], seen[2], seen[3], seen[4]
    for i in range(total.shape[0]):
        low = w0 * x0[i] + w1 * x1[i] + w2 * x2[i]
        total[i] += low + w3 * x3[i] + w4 * x4[i]


def attention_codes(scores: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
    """Codes of the map for scores [clip, head, query, key], in their place; 0 for padded keys."""
    use_torch_threads()
    _attention_codes(scores.numpy(), table.numpy(), lengths.numpy())
    return scores


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _attention_codes(scores, table, lengths):  # type: ignore[no-untyped-def]
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
