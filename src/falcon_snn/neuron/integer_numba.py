"""The integer firing rules on the CPU: one pass per row, vector instructions across its neurons.

numba widens sums of int32 to 64 bits; they are cut back at once, for twice the neurons a vector.
"""

from typing import Any

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from falcon_snn.neuron.numba_backend import use_torch_threads
from falcon_snn.neuron.vectors import count_bits

ROWS = 32  # of a task
_GROUP = (0, 0, 0, 0)  # decisions in one pass


def call(kernel: Any, *arguments: Any) -> Tensor:
    """Run a kernel on tensors' memory and give its result as a tensor."""
    use_torch_threads()
    arrays = [a.contiguous().numpy() if isinstance(a, Tensor) else a for a in arguments]
    return torch.from_numpy(kernel(*arrays))


@njit(cache=True, error_model="numpy", nogil=True)
def _drive(a, b, factor_a, factor_b, slot, row, i, static_per_slot):  # type: ignore[no-untyped-def]
    """What a slot adds: a is currents [slot, row, neuron], or a and b packed [1, row, neuron]."""
    if b is None:
        return np.int32(static_per_slot[i] + factor_a[i] * np.int32(a[slot, row, i]))
    bit = np.int32(1) << np.int32(slot)
    from_a = factor_a[i] if a[0, row, i] & bit else np.int32(0)
    from_b = factor_b[i] if b[0, row, i] & bit else np.int32(0)
    return np.int32(static_per_slot[i] + np.int32(from_a + from_b))


@njit(cache=True, error_model="numpy", nogil=True)
def _decide(  # type: ignore[no-untyped-def]
    group, first, a, b, factor_a, factor_b, row, delay, slots, static_per_slot, threshold,
    potential, packed,
):  # fmt: skip
    """As many decisions from slot `first` on as `group` has entries, in one pass over a row.

    The compiler knows that number, so potentials stay in registers; unsigned indices let it use
    vector instructions. Decisions after the last slot set bits that nobody keeps.
    """
    row = np.uint64(row)
    for i in range(np.uint64(potential.shape[0])):
        level = potential[i]
        theta = threshold[i]
        bits = np.int32(packed[i])
        for slot in range(first, first + len(group)):
            last = np.uint64(min(slot + delay, slots) - 1)
            drive = _drive(a, b, factor_a, factor_b, last, row, i, static_per_slot)
            level = np.int32(level + (drive if slot + delay <= slots else np.int32(0)))
            fires = level >= theta
            bits = np.int32(bits | (np.int32(1 << slot) if fires else np.int32(0)))
            level = np.int32(level - (theta if fires else np.int32(0)))
        potential[i] = level
        packed[i] = bits


@njit(cache=True, error_model="numpy", nogil=True)
def fire_row(  # type: ignore[no-untyped-def]
    a, b, factor_a, factor_b, row, delay, slots, initial, static_per_slot, threshold, potential,
    packed,
):  # fmt: skip
    """SN_delta of a row of inputs (see `_drive`); `potential` is room for one row."""
    for i in range(np.uint64(potential.shape[0])):  # array expressions take seconds to compile
        potential[i] = initial[i]
        packed[i] = 0
    for slot in range(delay - 1):
        for i in range(np.uint64(potential.shape[0])):
            drive = _drive(
                a, b, factor_a, factor_b, np.uint64(slot), np.uint64(row), i, static_per_slot
            )
            potential[i] = np.int32(potential[i] + drive)
    for first in range(0, slots, len(_GROUP)):
        _decide(
            _GROUP, first, a, b, factor_a, factor_b, row, delay, slots, static_per_slot, threshold,
            potential, packed,
        )  # fmt: skip
    mask = np.uint8((1 << slots) - 1)
    for i in range(np.uint64(packed.shape[0])):
        packed[i] &= mask


@njit(cache=True, error_model="numpy", nogil=True)
def _steps(slots):  # type: ignore[no-untyped-def]
    """Spikes that `count_row` decides on together: half of those left, until all are decided."""
    four = (slots + 1) // 2
    two = (slots - four + 1) // 2
    one = (slots - four - two + 1) // 2
    return np.int32(four), np.int32(two), np.int32(one), np.int32(slots - four - two - one)


@njit(cache=True, error_model="numpy", nogil=True)
def lookahead(slots, factor, initial, static_per_slot, threshold, pixels):  # type: ignore[no-untyped-def]
    """What `count_row` needs of each neuron of `pixels` equal groups.

    Its factor, its membrane before any input, and the thresholds of the steps.
    """
    neurons = factor.shape[0]
    each = np.empty((6, pixels * neurons), np.int32)
    for i in range(pixels * neurons):
        of = i % neurons
        each[0, i] = factor[of]
        each[1, i] = initial[of] + slots * static_per_slot[of]
        for step, spikes in enumerate(_steps(slots)):  # no membrane reaches the largest int32
            each[2 + step, i] = min(np.int64(spikes) * threshold[of], np.int64((1 << 31) - 1))
    return each


@njit(cache=True, error_model="numpy", nogil=True)
def count_row(total, slots, each, packed):  # type: ignore[no-untyped-def]
    """SN_T of the currents' sum over all slots; `each` is `lookahead`'s.

    All spikes come at once, so their number is found by halving.
    """
    zero = np.int32(0)
    four, two, one, last = _steps(slots)
    factor, start = each[0], each[1]
    of_four, of_two, of_one, of_last = each[2], each[3], each[4], each[5]
    for i in range(np.uint64(packed.shape[0])):
        level = np.int32(start[i] + np.int32(factor[i] * np.int32(total[i])))
        fires = level >= of_four[i]
        level = np.int32(level - (of_four[i] if fires else zero))
        spikes = four if fires else zero
        fires = level >= of_two[i]
        level = np.int32(level - (of_two[i] if fires else zero))
        spikes = np.int32(spikes + (two if fires else zero))
        fires = level >= of_one[i]
        spikes = np.int32(spikes + (one if fires else zero))
        if last:
            level = np.int32(level - (of_one[i] if fires else zero))
            spikes = np.int32(spikes + (last if level >= of_last[i] else zero))
        packed[i] = np.int32(np.int32(1) << (spikes & np.int32(15))) - np.int32(1)


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def count_streams(  # type: ignore[no-untyped-def]
    a, b, slots, factor_a, factor_b, initial, static_per_slot, threshold
):
    """Full lookahead from two packed streams: their counts say all."""
    rows, neurons = a.shape
    out = np.empty((rows, neurons), np.uint8)
    mask = np.uint8((1 << slots) - 1)
    one = np.ones(neurons, np.int32)
    each = lookahead(slots, one, initial, static_per_slot, threshold, 1)
    for task in prange((rows + ROWS - 1) // ROWS):
        total = np.empty(neurons, np.int32)
        for row in range(task * ROWS, min((task + 1) * ROWS, rows)):
            for i in range(np.uint64(neurons)):
                of_a = np.int32(count_bits(np.uint64(a[row, i] & mask)))
                of_b = np.int32(count_bits(np.uint64(b[row, i] & mask)))
                total[i] = np.int32(factor_a[i] * of_a + factor_b[i] * of_b)
            count_row(total, slots, each, out[row])
    return out


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def fire_rows(  # type: ignore[no-untyped-def]
    a, b, factor_a, factor_b, rows, delay, slots, initial, static_per_slot, threshold
):
    """SN_delta of rows of inputs (see `_drive`), packed."""
    neurons = initial.shape[0]
    out = np.empty((rows, neurons), np.uint8)
    for task in prange((rows + ROWS - 1) // ROWS):
        potential = np.empty(neurons, np.int32)
        for row in range(task * ROWS, min((task + 1) * ROWS, rows)):
            fire_row(
                a, b, factor_a, factor_b, row, delay, slots, initial, static_per_slot, threshold,
                potential, out[row],
            )  # fmt: skip
    return out
