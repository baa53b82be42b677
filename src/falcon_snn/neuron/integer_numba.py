"""The integer firing rules on the CPU: one pass per row, vector instructions across its neurons."""

from typing import Any

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from falcon_snn.neuron.numba_backend import use_torch_threads


def call(kernel: Any, *arguments: Any) -> Tensor:
    """Run a kernel on tensors' memory and give its result as a tensor."""
    use_torch_threads()
    arrays = [a.contiguous().numpy() if isinstance(a, Tensor) else a for a in arguments]
    return torch.from_numpy(kernel(*arrays))


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def add_slot(potential, static_per_slot, factor, current):  # type: ignore[no-untyped-def]
    for i in range(potential.shape[0]):
        drive = factor[i] * np.int32(current[i])
        potential[i] += static_per_slot[i] + drive


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def decide(slot, potential, threshold, packed):  # type: ignore[no-untyped-def]
    bit = np.uint8(1 << slot)
    for i in range(potential.shape[0]):
        fires = potential[i] >= threshold[i]
        packed[i] |= bit if fires else np.uint8(0)
        potential[i] -= threshold[i] if fires else np.int32(0)


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def fire_integer(currents, delay, initial, static_per_slot, threshold, factor):  # type: ignore[no-untyped-def]
    slots, rows, neurons = currents.shape
    out = np.zeros((rows, neurons), np.uint8)
    for row in prange(rows):
        potential = initial.copy()
        packed = out[row]
        next_input = 0
        for slot in range(slots):
            while next_input < min(slot + delay, slots):
                add_slot(potential, static_per_slot, factor, currents[next_input, row])
                next_input += 1
            decide(slot, potential, threshold, packed)
    return out


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def residual_integer(  # type: ignore[no-untyped-def]
    a, b, delay, slots, factor_a, factor_b, initial, static_per_slot, threshold
):
    rows, neurons = a.shape
    out = np.zeros((rows, neurons), np.uint8)
    for row in prange(rows):
        potential = initial.copy()
        packed = out[row]
        a_row = a[row]
        b_row = b[row]
        next_input = 0
        for slot in range(slots):
            while next_input < min(slot + delay, slots):
                bit = np.uint8(1 << next_input)
                for i in range(neurons):
                    from_a = factor_a[i] if a_row[i] & bit else np.int32(0)
                    from_b = factor_b[i] if b_row[i] & bit else np.int32(0)
                    potential[i] += static_per_slot[i] + from_a + from_b
                next_input += 1
            decide(slot, potential, threshold, packed)
    return out


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def count_integer(total, slots, initial, static_per_slot, threshold, factor):  # type: ignore[no-untyped-def]
    rows, neurons = total.shape
    out = np.zeros((rows, neurons), np.uint8)
    for row in prange(rows):
        potential = np.empty(neurons, np.int32)
        packed = out[row]
        current = total[row]
        for i in range(neurons):
            drive = factor[i] * np.int32(current[i])
            potential[i] = initial[i] + slots * static_per_slot[i] + drive
        for slot in range(slots):
            decide(slot, potential, threshold, packed)
    return out
