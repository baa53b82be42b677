"""SN_delta on whole tensors with torch, on any device."""

import torch
from torch import Tensor

from falcon_snn.neuron.parameters import Neurons


def run(currents: Tensor, delay: int, neurons: Neurons, out: Tensor) -> bool:
    """Write the spikes of `currents` `[T, ...]` to `out`; say whether the potentials are finite."""
    slots = currents.shape[0]
    inputs = currents.unbind(0)  # one view each: `currents[t]` would cost T times as much
    potential = neurons.initial.expand(currents.shape[1:]).clone()
    for slot, spike in enumerate(out.unbind(0)):
        first = slot + delay - 1 if slot else 0
        for current in inputs[first : min(slot + delay, slots)]:
            potential.add_(neurons.static_per_slot).add_(current)
        fires = potential >= neurons.threshold
        spike.copy_(fires)
        potential.sub_(neurons.threshold * fires)
    return bool(torch.isfinite(potential).all())


def total_input(currents: Tensor, neurons: Neurons, out: Tensor) -> None:
    """Write P(T-1), the potential if no spike were ever taken off."""
    torch.sum(currents, 0, out=out)
    out.add_(neurons.initial + currents.shape[0] * neurons.static_per_slot)


def rate_backward(grad: Tensor, total: Tensor, threshold: Tensor) -> Tensor:
    """dL/dP per neuron: the slots' mean gradient over theta where the count is not clipped."""
    count = total / threshold
    inside = (count >= 0) & (count <= grad.shape[0])
    return torch.where(inside, once_if_equal(grad).mean(0) / threshold, 0)


def once_if_equal(grad: Tensor) -> Tensor:
    """A loss on counts hands down one gradient for all slots: no need to read it T times."""
    return grad[:1] if grad.stride(0) == 0 else grad


def temporal_backward(currents: Tensor, delay: int, neurons: Neurons, grad: Tensor) -> Tensor:
    """dL/dI `[T, ...]`, whose slot 0 is also dL/dV(-1)."""
    slots = currents.shape[0]
    inputs = currents.unbind(0)
    theta = neurons.threshold
    potential = neurons.initial.expand(currents.shape[1:]).clone()
    by_decision = []
    for slot, slot_grad in enumerate(grad.unbind(0)):
        for current in inputs[slot + delay - 1 if slot else 0 : min(slot + delay, slots)]:
            potential.add_(neurons.static_per_slot).add_(current)
        height = (1 - (potential / theta - 1).abs()).clamp_(min=0)
        by_decision.append(slot_grad * height / theta)
        potential.sub_(theta * (potential >= theta))
    for slot in range(slots - 2, -1, -1):
        by_decision[slot] = by_decision[slot] + by_decision[slot + 1]
    return torch.stack([by_decision[max(0, t - delay + 1)] for t in range(slots)])
