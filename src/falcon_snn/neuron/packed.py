"""Packed spike trains: the T slots of a neuron in one byte, bit t is slot t (T <= 8)."""

from functools import cache

import torch
from torch import Tensor

from falcon_snn.errors import FalconError

MAX_SLOTS = 8
ENCODINGS = ("even", "first")


def pack(spikes: Tensor) -> Tensor:
    """Spikes `[T, ...]` (zero or not) to bytes `uint8 [...]`."""
    _check_slots(spikes.shape[0] if spikes.ndim else 0)
    packed = torch.zeros(spikes.shape[1:], dtype=torch.uint8, device=spikes.device)
    for slot, spike in enumerate(spikes.unbind(0)):
        packed |= (spike != 0).to(torch.uint8) << slot
    return packed


def unpack(packed: Tensor, slots: int) -> Tensor:
    """Bytes `[...]` to spikes `uint8 [T, ...]`."""
    _check_bytes(packed)
    _check_slots(slots)
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
def encoding_table(slots: int, kind: str) -> tuple[int, ...]:
    """The byte of each count n = 0, ..., T.

    `first`: s(t) = 1[t < n], the slots of the paper's proof.
    `even`: s(t) = 1[floor((t+1) n / T) > floor(t n / T)], as evenly spread as T slots allow.
    """
    _check_slots(slots)
    if kind == "first":
        return tuple((1 << n) - 1 for n in range(slots + 1))
    if kind == "even":
        return tuple(
            sum(((t + 1) * n // slots > t * n // slots) << t for t in range(slots))
            for n in range(slots + 1)
        )
    raise FalconError(f"unknown encoding '{kind}'; choose one of {', '.join(ENCODINGS)}")


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


def _check_slots(slots: int) -> None:
    if not 1 <= slots <= MAX_SLOTS:
        raise FalconError(f"{slots} slots do not fit a byte; packed trains have 1..{MAX_SLOTS}")


def _check_bytes(packed: Tensor) -> None:
    if packed.dtype != torch.uint8:
        raise FalconError(f"packed trains are uint8, not {packed.dtype}; use packed.pack first")
