"""SN_delta in int32: the rule of integer inference, which every fast kernel matches bit for bit.

A stage adds `static_per_slot + factor * current` per slot and compares with an integer threshold,
so the order of summation and the machine do not matter. Spikes are packed (see `packed`).
"""

import torch
from torch import Tensor

from falcon_snn.errors import FalconError
from falcon_snn.neuron.encoding import check_slots
from falcon_snn.neuron.parameters import check_delay


def fire_integer(
    currents: Tensor,
    delay: int,
    *,
    initial: Tensor,
    static_per_slot: Tensor,
    threshold: Tensor,
    factor: Tensor,
) -> Tensor:
    """Packed spikes `uint8 [M, N]` of currents `[T, M, N]`; the parameters are `int32 [N]`.

    V starts at `initial`; slot t' adds static_per_slot + factor I(t'); delay, decision V >=
    threshold and soft reset are those of Algorithm 1. Currents are int32, or float32 that holds
    integers below 2^24 (what a float product of spikes and integer weights gives, exactly).
    """
    if currents.ndim != 3 or currents.dtype not in (torch.int32, torch.float32):
        raise FalconError(
            f"currents are {currents.dtype} {tuple(currents.shape)}; give int32 or exact float32 "
            "of shape [T, M, N]"
        )
    slots, *shape = currents.shape
    delay = check_delay(delay, slots)
    check_parameters(shape[-1], slots, initial, static_per_slot, threshold, factor)
    potential = initial.expand(shape)
    packed = torch.zeros(shape, dtype=torch.uint8, device=currents.device)
    for slot in range(slots):
        first = slot + delay - 1 if slot else 0
        for current in currents[first : min(slot + delay, slots)].unbind(0):
            potential = potential + (static_per_slot + factor * current.to(torch.int32))
        fires = potential >= threshold
        packed |= fires.to(torch.uint8) << slot
        potential = potential - threshold * fires
    return packed


def count_integer(
    total: Tensor,
    *,
    slots: int,
    initial: Tensor,
    static_per_slot: Tensor,
    threshold: Tensor,
    factor: Tensor,
) -> Tensor:
    """`fire_integer` for delay = T from the currents' sum over the slots alone, `[M, N]`.

    All input is in before the first decision, so the first n slots fire,
    n = clip(floor((initial + T static_per_slot + factor total) / threshold), 0, T).
    """
    if total.ndim != 2 or total.dtype not in (torch.int32, torch.float32):
        raise FalconError(
            f"totals are {total.dtype} {tuple(total.shape)}; give int32 or exact float32 [M, N]"
        )
    check_parameters(total.shape[-1], slots, initial, static_per_slot, threshold, factor)
    potential = initial + slots * static_per_slot + factor * total.to(torch.int32)
    count = (potential // threshold).clamp(0, slots)
    return ((torch.ones_like(count) << count) - 1).to(torch.uint8)


def check_parameters(neurons: int, slots: int, *parameters: Tensor) -> None:
    """Refuse slots that do not fit a byte, and parameters other than one int32 per neuron."""
    check_slots(slots)
    for parameter in parameters:
        if parameter.dtype != torch.int32 or parameter.shape != (neurons,):
            raise FalconError(
                f"a parameter is {parameter.dtype} {tuple(parameter.shape)}; each must be int32 "
                f"({neurons},)"
            )
