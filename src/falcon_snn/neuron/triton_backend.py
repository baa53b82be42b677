"""SN_delta as one Triton kernel: a current is read once, the potential stays in registers."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from falcon_snn.neuron.parameters import Neurons, periodic

BLOCK = 1024


def run(currents: Tensor, delay: int, neurons: Neurons, out: Tensor) -> bool:
    """Write the spikes of `currents` `[T, ...]` to `out`; say whether the potentials are finite."""
    slots = currents.shape[0]
    size = currents.numel() // slots
    initial, static, theta = (periodic(value, currents.shape[1:]) for value in neurons)
    broken = torch.zeros(1, dtype=torch.int32, device=currents.device)
    _fire[(triton.cdiv(size, BLOCK),)](
        currents.contiguous(), out, initial, static, theta, broken,
        size, initial.numel(), static.numel(), theta.numel(),
        SLOTS=slots, DELAY=delay, BLOCK=BLOCK,
    )  # fmt: skip
    return not bool(broken.item())


@triton.jit  # type: ignore[untyped-decorator]
def _fire(  # type: ignore[no-untyped-def]
    currents, out, initial, static, theta, broken,
    size, initial_period, static_period, theta_period,
    SLOTS: tl.constexpr, DELAY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    neuron = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = neuron < size
    potential = tl.load(initial + neuron % initial_period, inside, 0.0)
    per_slot = tl.load(static + neuron % static_period, inside, 0.0)
    threshold = tl.load(theta + neuron % theta_period, inside, 1.0)
    read = neuron
    write = neuron
    for step in tl.static_range(SLOTS + DELAY - 1):  # one input, then one decision, per step
        if step < SLOTS:
            potential = potential + per_slot + tl.load(currents + read, inside, 0.0)
            read += size
        if step >= DELAY - 1:
            fires = potential >= threshold
            tl.store(out + write, fires.to(out.dtype.element_ty), inside)
            potential = potential - tl.where(fires, threshold, 0.0)
            write += size
    finite = tl.abs(potential) < float("inf")
    bad = 1 - tl.min(finite.to(tl.int32), 0)
    tl.atomic_max(broken, bad, mask=bad > 0)
