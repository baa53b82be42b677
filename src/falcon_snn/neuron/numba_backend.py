"""SN_delta on the CPU: blocks of neurons that stay in the first cache, no branch per neuron."""

from typing import Any

import numba
import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from falcon_snn.neuron.compiling import watch_numba
from falcon_snn.neuron.parameters import Neurons, periodic
from falcon_snn.neuron.torch_backend import once_if_equal

watch_numba()

BLOCK = 1024  # neurons: potential and parameters of a block take 12 KiB of float32


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
    """Take as many threads as torch does, so that one setting controls both."""
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


@njit(cache=True, error_model="numpy", nogil=True)
def _decide(  # type: ignore[no-untyped-def]
    group, first, currents, delay, start, potential, static, theta, spikes, grad, slopes
):
    """As many decisions from `first` on as `group` has entries, in one pass over a block.

    The compiler knows that number, so it unrolls the group and keeps potentials in registers. It
    gives up on vectors where an index might be negative, so indices are unsigned.
    """
    slots = np.int64(currents.shape[0])
    zero = currents.dtype.type(0)
    one = currents.dtype.type(1)
    for i in range(np.uint64(potential.shape[0])):
        neuron = np.uint64(start) + i
        level = potential[i]
        for decision in range(first, first + len(group)):
            slot = np.uint64(decision)
            more = decision + delay <= slots
            current = currents[np.uint64(min(decision + delay, slots) - 1), neuron]
            level = level + (static[i] if more else zero) + (current if more else zero)
            fires = level >= theta[i]
            if spikes is not None:
                spikes[slot, neuron] = fires
            if slopes is not None:
                inverse = one / theta[i]
                height = one - abs(level * inverse - one)
                height = height if height > zero else zero
                slopes[slot, neuron] = grad[slot, neuron] * height * inverse
            level -= theta[i] if fires else zero
        potential[i] = level


@njit(cache=True, error_model="numpy", nogil=True)
def _run_block(  # type: ignore[no-untyped-def]
    currents, delay, start, size, initial, static_per_slot, threshold, spikes, grad, slopes
):
    """SN_delta for `size` neurons from `start`: writes their spikes, or g(t) H'(u(t)) / theta.

    What is None is not written. Returns the potential that is left and the block's I_0/T.
    """
    slots = currents.shape[0]
    potential = np.empty(size, currents.dtype)
    static = np.empty(size, currents.dtype)
    theta = np.empty(size, currents.dtype)
    fill(potential, start, initial)
    fill(static, start, static_per_slot)
    fill(theta, start, threshold)
    for slot in range(delay - 1):
        current = currents[slot, start : start + size]
        for i in range(size):
            potential[i] = potential[i] + static[i] + current[i]
    threes = slots - slots % 3
    for slot in range(0, threes, 3):
        _decide(
            (0, 0, 0), slot, currents, delay, start, potential, static, theta, spikes, grad, slopes
        )
    for slot in range(threes, slots):
        _decide((0,), slot, currents, delay, start, potential, static, theta, spikes, grad, slopes)
    return potential, static


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
        potential, static = _run_block(
            currents, delay, start, size, initial, static_per_slot, threshold, out, None, None
        )
        sums = total[start : start + size]  # empty where nobody asked for it
        fill(sums, start, initial)
        for slot in range(slots):
            current = currents[slot, start : start + size]
            for i in range(sums.shape[0]):
                sums[i] = sums[i] + static[i] + current[i]
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
    """Slot t of `to_inputs` holds the slope of decision t, until dL/dI(t) replaces it."""
    slots, neurons = currents.shape
    for block in prange((neurons + BLOCK - 1) // BLOCK):
        start = block * BLOCK
        size = min(BLOCK, neurons - start)
        end = start + size
        _run_block(
            currents, delay, start, size, initial, static_per_slot, threshold, None, grad, to_inputs
        )
        sums = np.zeros(size, currents.dtype)
        for slot in range(slots - 1, -1, -1):
            slope = to_inputs[slot, start:end]
            for i in range(size):
                sums[i] += slope[i]
            if slot + delay <= slots:
                to_inputs[slot + delay - 1, start:end] = sums
        for slot in range(delay - 1):
            to_inputs[slot, start:end] = sums
