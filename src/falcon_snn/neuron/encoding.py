"""Counts as trains of spikes: what a source may do, without torch."""

from functools import cache

from falcon_snn.errors import FalconError

MAX_SLOTS = 8  # a neuron's slots are the bits of one byte
ENCODINGS = ("even", "first")


@cache
def encoding_table(slots: int, kind: str) -> tuple[int, ...]:
    """The byte of each count n = 0, ..., T.

    `first`: s(t) = 1[t < n], the slots of the paper's proof.
    `even`: s(t) = 1[floor((t+1) n / T) > floor(t n / T)], as evenly spread as T slots allow.
    """
    check_slots(slots)
    if kind == "first":
        return tuple((1 << n) - 1 for n in range(slots + 1))
    if kind == "even":
        return tuple(
            sum(((t + 1) * n // slots > t * n // slots) << t for t in range(slots))
            for n in range(slots + 1)
        )
    raise FalconError(f"unknown encoding '{kind}'; choose one of {', '.join(ENCODINGS)}")


def train_words(slots: int, kind: str) -> tuple[int, int]:
    """The bytes of the counts 0..3 and 4..7, each four as one number; beyond T they stay T's."""
    table = encoding_table(slots, kind)
    trains = [table[min(count, slots)] for count in range(8)]
    return int.from_bytes(trains[:4], "little"), int.from_bytes(trains[4:], "little")


def check_slots(slots: int) -> None:
    """Packed trains have up to eight slots."""
    if not 1 <= slots <= MAX_SLOTS:
        raise FalconError(f"{slots} slots do not fit a byte; packed trains have 1..{MAX_SLOTS}")
