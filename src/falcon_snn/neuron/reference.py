"""SN_delta as the paper's Algorithm 1 writes it: slot by slot, for any kind of number."""

from collections.abc import Sequence
from typing import Any


def integrate_and_fire(
    currents: Sequence[Any], delay: int, threshold: Any, initial: Any, static_per_slot: Any
) -> tuple[list[Any], Any]:
    """The output slots s(0), ..., s(T-1) of SN_delta, and the potential that is left.

    A slot's current, and each parameter, is one number (int, Fraction, float) or an array of
    them; what `+`, `-`, `*` and `>=` mean for it is all that this function relies on.
    """
    slots = len(currents)
    potential = initial
    next_input = 0
    spikes = []
    for slot in range(slots):
        last_input = min(slot + delay - 1, slots - 1)
        while next_input <= last_input:
            potential = potential + static_per_slot + currents[next_input]
            next_input += 1
        spike = potential >= threshold
        potential = potential - threshold * spike
        spikes.append(spike)
    return spikes, potential
