"""Packed trains: bytes and slots hold the same spikes, encodings hold the count."""

import pytest
import torch

from falcon_snn.errors import FalconError
from falcon_snn.neuron import packed
from falcon_snn.neuron.encoding import ENCODINGS

EVERY_BYTE = torch.arange(256, dtype=torch.uint8)


@pytest.mark.parametrize("slots", range(1, 9))
def test_pack_and_unpack_are_inverse(slots: int) -> None:
    trains = EVERY_BYTE[: 1 << slots].reshape(2, -1)
    spikes = packed.unpack(trains, slots)
    assert spikes.shape == (slots, *trains.shape)
    assert torch.equal(packed.pack(spikes), trains)
    assert torch.equal(packed.pack(spikes.bool()), trains)
    assert torch.equal(packed.pack(spikes.float()), trains)


def test_bit_t_is_slot_t() -> None:
    assert packed.pack(torch.tensor([[1], [0], [1], [1]])).tolist() == [0b1101]


@pytest.mark.parametrize("first", range(9))
def test_count_of_a_prefix(first: int) -> None:
    expected = packed.unpack(EVERY_BYTE, 8)[:first].sum(0)
    assert torch.equal(packed.count(EVERY_BYTE, first=first).long(), expected)
    assert packed.count(EVERY_BYTE).tolist() == [n.bit_count() for n in range(256)]


@pytest.mark.parametrize("slots", range(1, 9))
@pytest.mark.parametrize("kind", ENCODINGS)
def test_encodings_hold_the_count(slots: int, kind: str) -> None:
    counts = torch.arange(slots + 1)
    trains = packed.encode(counts, slots, kind)
    assert torch.equal(packed.count(trains).long(), counts)
    for n, train in enumerate(packed.unpack(trains, slots).T.tolist()):
        if kind == "first":
            assert train == [1] * n + [0] * (slots - n)
        else:  # after t slots, the even train holds t n / T spikes, rounded down
            assert [sum(train[:t]) for t in range(slots + 1)] == [
                t * n // slots for t in range(slots + 1)
            ]


def test_bad_input_is_one_clear_error() -> None:
    with pytest.raises(FalconError, match="9 slots do not fit a byte"):
        packed.pack(torch.zeros(9, 2))
    with pytest.raises(FalconError, match="9 slots do not fit a byte"):
        packed.unpack(EVERY_BYTE, 9)
    with pytest.raises(FalconError, match="9 slots do not fit a byte"):
        packed.encode(torch.tensor([1]), 9)
    with pytest.raises(FalconError, match="0 slots do not fit a byte"):
        packed.pack(torch.tensor(1))
    with pytest.raises(FalconError, match=r"outside 0\.\.7"):
        packed.encode(torch.tensor([8]), 7)
    with pytest.raises(FalconError, match=r"outside 0\.\.7"):
        packed.encode(torch.tensor([-1]), 7)
    with pytest.raises(FalconError, match="must be integers"):
        packed.encode(torch.tensor([1.0]), 7)
    with pytest.raises(FalconError, match="unknown encoding 'late'"):
        packed.encode(torch.tensor([1]), 7, "late")
    with pytest.raises(FalconError, match="packed trains are uint8"):
        packed.count(torch.tensor([1]))
    with pytest.raises(FalconError, match="prefix of 9"):
        packed.count(EVERY_BYTE, first=9)
