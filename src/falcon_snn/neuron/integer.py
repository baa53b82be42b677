"""SN_delta in int32: the rule of integer inference, which every fast kernel matches bit for bit.

A stage adds `static_per_slot + factor * current` per slot and compares with an integer threshold,
so the order of summation and the machine do not matter. Spikes are packed (see `packed`).
"""

from typing import Any

import torch
from torch import Tensor

from falcon_snn.errors import FalconError
from falcon_snn.neuron.encoding import MAX_SLOTS
from falcon_snn.neuron.parameters import check_delay


def fire_integer(
    currents: Tensor,
    delay: int,
    *,
    initial: Tensor,
    static_per_slot: Tensor,
    threshold: Tensor,
    factor: Tensor,
    backend: str = "torch",
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
    delay = check_delay(delay, currents.shape[0])
    parameters = check_parameters(
        currents.shape[-1], currents.shape[0], initial, static_per_slot, threshold, factor
    )
    if _on_numba(backend, currents):
        return _numba_call("fire_integer", currents, delay, *parameters)
    initial, static_per_slot, threshold, factor = parameters
    slots = [static_per_slot + factor * slot.to(torch.int32) for slot in currents.unbind(0)]
    return _decide(slots, delay, initial.expand(currents.shape[1:]), threshold)


def residual_integer(
    a: Tensor,
    b: Tensor,
    delay: int,
    *,
    slots: int,
    factor_a: Tensor,
    factor_b: Tensor,
    initial: Tensor,
    static_per_slot: Tensor,
    threshold: Tensor,
    backend: str = "torch",
) -> Tensor:
    """Packed spikes of the sum of two packed streams `[M, N]`, each with its integer factor.

    Slot t adds static_per_slot + factor_a a(t) + factor_b b(t); the rest is `fire_integer`.
    """
    if a.ndim != 2 or a.shape != b.shape or a.dtype != torch.uint8 or b.dtype != torch.uint8:
        raise FalconError(
            f"streams are {a.dtype} {tuple(a.shape)} and {b.dtype} {tuple(b.shape)}; give two "
            "packed uint8 streams of one shape [M, N]"
        )
    delay = check_delay(delay, slots)
    parameters = check_parameters(
        a.shape[-1], slots, factor_a, factor_b, initial, static_per_slot, threshold
    )
    if _on_numba(backend, a):
        return _numba_call("residual_integer", a, b, delay, slots, *parameters)
    factor_a, factor_b, initial, static_per_slot, threshold = parameters
    currents = [
        static_per_slot + factor_a * ((a >> slot) & 1) + factor_b * ((b >> slot) & 1)
        for slot in range(slots)
    ]
    return _decide(currents, delay, initial.expand(a.shape), threshold)


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
    parameters = check_parameters(
        total.shape[-1], slots, initial, static_per_slot, threshold, factor
    )
    initial, static_per_slot, threshold, factor = parameters
    potential = initial + slots * static_per_slot + factor * total.to(torch.int32)
    return _decide([torch.zeros_like(potential)] * slots, slots, potential, threshold)


def _decide(currents: list[Tensor], delay: int, initial: Tensor, threshold: Tensor) -> Tensor:
    slots = len(currents)
    potential = initial
    packed = torch.zeros(initial.shape, dtype=torch.uint8, device=initial.device)
    for slot in range(slots):
        first = slot + delay - 1 if slot else 0
        for current in currents[first : min(slot + delay, slots)]:
            potential = potential + current
        fires = potential >= threshold
        packed |= fires.to(torch.uint8) << slot
        potential = potential - threshold * fires
    return packed


def check_parameters(neurons: int, slots: int, *parameters: Tensor) -> tuple[Tensor, ...]:
    """The parameters, if slots fit a byte and there is one int32 per neuron."""
    if not 1 <= slots <= MAX_SLOTS:
        raise FalconError(f"{slots} slots do not fit a byte; packed trains have 1..{MAX_SLOTS}")
    for parameter in parameters:
        if parameter.dtype != torch.int32 or parameter.shape != (neurons,):
            raise FalconError(
                f"a parameter is {parameter.dtype} {tuple(parameter.shape)}; each must be int32 "
                f"({neurons},)"
            )
    return parameters


def _on_numba(backend: str, tensor: Tensor) -> bool:
    if backend not in ("torch", "numba"):
        raise FalconError(f"unknown integer backend '{backend}'; choose torch or numba")
    if backend == "numba" and tensor.device.type != "cpu":
        raise FalconError(f"backend 'numba' runs on the CPU; the input is on '{tensor.device}'")
    return backend == "numba"


def _numba_call(kernel: str, *arguments: Any) -> Tensor:
    from falcon_snn.neuron import integer_numba

    return integer_numba.call(getattr(integer_numba, kernel), *arguments)
