"""SN_delta on the CPU: blocks of neurons that stay in the first cache, no branch per neuron."""

from typing import Any

import numba
import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from falcon_snn.neuron.parameters import Neurons, periodic
from falcon_snn.neuron.torch_backend import once_if_equal

BLOCK = 1024  # neurons: potential and parameters of a block take 16 KiB of float32


def run(currents: Tensor, delay: int, neurons: Neurons, out: Tensor, total: Tensor | None) -> bool:
    """Write the spikes of `currents` `[T, ...]` to `out`, and P(T-1) to `total` if there is one.

    Says whether the potentials stayed finite.
    """
    use_torch_threads()
    totals = out.new_empty(0, dtype=currents.dtype) if total is None else total.view(-1)
    broken = _fire(
        flat(currents), delay, *flat_parameters(neurons, currents), flat(out), totals.numpy()
    )
    return bool(broken == 0)


def use_torch_threads() -> None:
    """Take as many threads as torch does, so that one setting rules both."""
    threads = torch.get_num_threads()
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    if torch.get_num_threads() != threads:  # numba's start resets OpenMP, and so torch
        torch.set_num_threads(threads)


def flat(slots: Tensor) -> Any:
    """`[T, ...]` as a NumPy array `[T, neurons]` over the same memory where it is contiguous."""
    neurons = slots[0].numel()
    return slots.detach().contiguous().view(slots.shape[0], neurons).numpy()


def flat_parameters(neurons: Neurons, currents: Tensor) -> list[Any]:
    shape = currents.shape[1:]
    return [periodic(value.detach(), shape).contiguous().numpy() for value in neurons]


@njit(cache=True, error_model="numpy", nogil=True)
def fill(block, start, values):  # type: ignore[no-untyped-def]
    """block[i] = values[(start + i) mod period], copied run by run."""
    period = values.shape[0]
    if period == 1:
        block[:] = values[0]
        return
    position = start % period
    filled = 0
    while filled < block.shape[0]:
        run = min(period - position, block.shape[0] - filled)
        block[filled : filled + run] = values[position : position + run]
        filled += run
        position = 0


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _fire(currents, delay, initial, static_per_slot, threshold, out, total):  # type: ignore[no-untyped-def]
    """Spikes to `out`; returns how many neurons ended with NaN or infinity.

    NaN and infinity never leave a potential, so one look at its end covers all slots.
    """
    slots, neurons = currents.shape
    zero = currents.dtype.type(0)
    broken = 0
    for block in prange((neurons + BLOCK - 1) // BLOCK):
        start = block * BLOCK
        size = min(BLOCK, neurons - start)
        potential = np.empty(size, currents.dtype)
        static = np.empty(size, currents.dtype)
        theta = np.empty(size, currents.dtype)
        fill(potential, start, initial)
        fill(static, start, static_per_slot)
        fill(theta, start, threshold)
        sums = total[start : start + size]  # empty where nobody asked for it
        fill(sums, start, initial)
        next_input = 0
        for slot in range(slots):
            while next_input < min(slot + delay, slots):
                current = currents[next_input, start : start + size]
                for i in range(size):
                    potential[i] = potential[i] + static[i] + current[i]
                for i in range(sums.shape[0]):
                    sums[i] = sums[i] + static[i] + current[i]
                next_input += 1
            spikes = out[slot, start : start + size]
            for i in range(size):
                fires = potential[i] >= theta[i]
                spikes[i] = fires
                potential[i] -= theta[i] if fires else zero
        bad = 0
        for i in range(size):
            bad += potential[i] - potential[i] != zero
        broken += bad
    return broken


def rate_backward(grad: Tensor, total: Tensor, threshold: Tensor) -> Tensor:
    """`torch_backend.rate_backward` in one pass over the gradient."""
    use_torch_threads()
    slope = torch.empty_like(total)
    theta = periodic(threshold, total.shape).contiguous().numpy()
    _rate_backward(
        flat(once_if_equal(grad)), grad.shape[0], total.view(-1).numpy(), theta,
        slope.view(-1).numpy(),
    )  # fmt: skip
    return slope


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _rate_backward(grad, slots, total, threshold, slope):  # type: ignore[no-untyped-def]
    rows, neurons = grad.shape
    zero = total.dtype.type(0)
    most = total.dtype.type(slots)
    number = total.dtype.type(rows)
    for block in prange((neurons + BLOCK - 1) // BLOCK):
        start = block * BLOCK
        end = min(start + BLOCK, neurons)
        theta = np.empty(end - start, total.dtype)
        fill(theta, start, threshold)
        sums = slope[start:end]
        sums[:] = zero
        for row in range(rows):
            slot_grad = grad[row, start:end]
            for i in range(end - start):
                sums[i] += slot_grad[i]
        drive = total[start:end]
        for i in range(end - start):
            count = drive[i] / theta[i]
            inside = (count >= zero) & (count <= most)
            sums[i] = sums[i] / number / theta[i] if inside else zero


def temporal_backward(currents: Tensor, delay: int, neurons: Neurons, grad: Tensor) -> Tensor:
    """`torch_backend.temporal_backward` in one pass over currents and gradient."""
    use_torch_threads()
    inputs = torch.empty_like(currents, memory_format=torch.contiguous_format)
    _temporal_backward(
        flat(currents), delay, *flat_parameters(neurons, currents), flat(grad), flat(inputs)
    )
    return inputs


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _temporal_backward(  # type: ignore[no-untyped-def]
    currents, delay, initial, static_per_slot, threshold, grad, to_inputs
):
    slots, neurons = currents.shape
    zero = currents.dtype.type(0)
    one = currents.dtype.type(1)
    for block in prange((neurons + BLOCK - 1) // BLOCK):
        start = block * BLOCK
        size = min(BLOCK, neurons - start)
        end = start + size
        potential = np.empty(size, currents.dtype)
        static = np.empty(size, currents.dtype)
        theta = np.empty(size, currents.dtype)
        fill(potential, start, initial)
        fill(static, start, static_per_slot)
        fill(theta, start, threshold)
        inverse = one / theta
        slopes = np.empty((slots, size), currents.dtype)
        next_input = 0
        for slot in range(slots):
            while next_input < min(slot + delay, slots):
                current = currents[next_input, start:end]
                for i in range(size):
                    potential[i] = potential[i] + static[i] + current[i]
                next_input += 1
            slot_grad = grad[slot, start:end]
            slope = slopes[slot]
            # Two loops: with all these arrays in one, the compiler gives up on vectors.
            for i in range(size):
                height = one - abs(potential[i] * inverse[i] - one)
                height = height if height > zero else zero
                slope[i] = slot_grad[i] * height * inverse[i]
            for i in range(size):
                potential[i] -= theta[i] if potential[i] >= theta[i] else zero
        for slot in range(slots - 2, -1, -1):
            slope = slopes[slot]
            later = slopes[slot + 1]
            for i in range(size):
                slope[i] += later[i]
        for slot in range(slots):
            to_inputs[slot, start:end] = slopes[max(0, slot - delay + 1)]
