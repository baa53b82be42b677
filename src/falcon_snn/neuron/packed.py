"""Packed spike trains: the T slots of a neuron in one byte, bit t is slot t (T <= 8)."""

from functools import cache

import torch
from torch import Tensor

from falcon_snn.errors import FalconError
from falcon_snn.neuron.encoding import MAX_SLOTS, check_slots, encoding_table


def pack(spikes: Tensor) -> Tensor:
    """Spikes `[T, ...]` (zero or not) to bytes `uint8 [...]`."""
    check_slots(spikes.shape[0] if spikes.ndim else 0)
    packed = torch.zeros(spikes.shape[1:], dtype=torch.uint8, device=spikes.device)
    for slot, spike in enumerate(spikes.unbind(0)):
        packed |= (spike != 0).to(torch.uint8) << slot
    return packed


def unpack(packed: Tensor, slots: int) -> Tensor:
    """Bytes `[...]` to spikes `uint8 [T, ...]`."""
    _check_bytes(packed)
    check_slots(slots)
    return torch.stack([(packed >> slot) & 1 for slot in range(slots)])


def count(packed: Tensor, first: int = MAX_SLOTS) -> Tensor:
    """Spikes per neuron, as `uint8`; `first` counts the slots 0, ..., first-1 only (a prefix)."""
    _check_bytes(packed)
    if not 0 <= first <= MAX_SLOTS:
        raise FalconError(f"a prefix of {first} slots: it must lie in 0..{MAX_SLOTS}")
    bits = packed & ((1 << first) - 1)
    # Sums of neighbouring bits, then pairs, then nibbles: all eight bits in three steps.
    bits = bits - ((bits >> 1) & 0x55)
    bits = (bits & 0x33) + ((bits >> 2) & 0x33)
    return (bits + (bits >> 4)) & 0x0F


@cache
def encoding_tensor(slots: int, kind: str, device: torch.device) -> Tensor:
    """The table on a device, `uint8 [T + 1]`; kept, since a recorded CUDA graph cannot copy it."""
    return torch.tensor(encoding_table(slots, kind), dtype=torch.uint8, device=device)


def encode(counts: Tensor, slots: int, kind: str = "even") -> Tensor:
    """Integer counts 0..T `[...]` to packed trains `uint8 [...]` with that many spikes."""
    table = encoding_tensor(slots, kind, counts.device)
    if counts.is_floating_point() or counts.is_complex():
        raise FalconError(f"counts are {counts.dtype}; they must be integers")
    index = counts.long()
    if counts.numel() and not bool(((index >= 0) & (index <= slots)).all()):
        raise FalconError(f"a count lies outside 0..{slots}; clip the counts before encoding")
    return table[index]


def _check_bytes(packed: Tensor) -> None:
    if packed.dtype != torch.uint8:
        raise FalconError(f"packed trains are uint8, not {packed.dtype}; use packed.pack first")
