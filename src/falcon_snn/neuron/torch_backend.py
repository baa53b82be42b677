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
