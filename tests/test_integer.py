"""The integer rules equal Algorithm 1 on Python integers, on every backend."""

from typing import Any

import pytest
import torch
from torch import Tensor

from falcon_snn.errors import FalconError
from falcon_snn.neuron.integer import count_integer, fire_integer
from falcon_snn.neuron.layers import IntegerNeurons, Term, fire
from falcon_snn.neuron.reference import integrate_and_fire

ROWS, NEURONS = 13, 37


def integers(low: int, high: int, *shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, high, shape, generator=generator, dtype=torch.int32)


def parameters() -> dict[str, Any]:
    return {
        "initial": integers(-20_000, 60_000, NEURONS, seed=1),
        "static_per_slot": integers(-9_000, 9_000, NEURONS, seed=2),
        "threshold": integers(1, 60_000, NEURONS, seed=3),
        "factor": integers(1, 200, NEURONS, seed=4),
    }


def on_python_integers(drives: Tensor, delay: int, threshold: Tensor, initial: Tensor) -> Tensor:
    """Packed spikes of `drives` `[T, M, N]`, one neuron after the other, without torch or int32."""
    packed = torch.zeros(drives.shape[1:], dtype=torch.uint8)
    for row in range(drives.shape[1]):
        for neuron in range(drives.shape[2]):
            spikes, _ = integrate_and_fire(
                drives[:, row, neuron].tolist(), delay, int(threshold[neuron]),
                int(initial[neuron]), 0,
            )  # fmt: skip
            packed[row, neuron] = sum(spike << slot for slot, spike in enumerate(spikes))
    return packed


@pytest.mark.parametrize("slots", range(1, 9))
def test_currents(slots: int) -> None:
    p = parameters()
    currents = integers(-300, 400, slots, ROWS, NEURONS)
    drives = p["static_per_slot"].long() + p["factor"].long() * currents.long()
    for delay in range(1, slots + 1):
        expected = on_python_integers(drives, delay, p["threshold"], p["initial"])
        for given in (currents, currents.float()):
            assert torch.equal(fire_integer(given, delay, **p), expected)
    total = currents.sum(0, dtype=torch.int32)
    for given in (total, total.float()):
        packed = count_integer(given, slots=slots, **p)
        assert torch.equal(packed, expected)  # of the last delay, T


@pytest.mark.parametrize("slots", [1, 5, 7, 8])
def test_residual(slots: int) -> None:
    p = parameters()
    neurons = IntegerNeurons(p["static_per_slot"], p["initial"], p["threshold"])
    factors = [integers(-3_000, 30_000, NEURONS, seed=seed) for seed in (5, 6)]
    streams = [integers(0, 1 << slots, ROWS, NEURONS, seed=seed).to(torch.uint8) for seed in (7, 8)]
    terms = [
        Term(stream.view(1, ROWS, 1, NEURONS), factor)
        for stream, factor in zip(streams, factors, strict=True)
    ]
    drives = torch.stack(
        [
            neurons.static + factors[0] * (streams[0] >> t & 1) + factors[1] * (streams[1] >> t & 1)
            for t in range(slots)
        ]
    )
    for delay in range(1, slots + 1):
        expected = on_python_integers(drives, delay, neurons.threshold, neurons.initial)
        for backend in ("torch", "numba"):
            got = fire(terms, neurons, slots, delay, backend)
            assert torch.equal(got.view(ROWS, NEURONS), expected)


@pytest.mark.parametrize(
    ("currents", "delay", "change", "message"),
    [
        (integers(0, 2, 9, 1, NEURONS), 1, {}, "9 slots do not fit a byte"),
        (integers(0, 2, 7, 1, NEURONS), 8, {}, "delay is 8"),
        (integers(0, 2, 7, NEURONS), 1, {}, "shape \\[T, M, N\\]"),
        (integers(0, 2, 7, 1, NEURONS).long(), 1, {}, "torch.int64"),
        (integers(0, 2, 7, 1, NEURONS), 1, {"threshold": integers(1, 2, 3)}, "each must be int32"),
        (integers(0, 2, 7, 1, NEURONS), 1, {"factor": torch.ones(NEURONS)}, "each must be int32"),
    ],
)
def test_bad_input_is_one_clear_error(
    currents: Tensor, delay: int, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(FalconError, match=message):
        fire_integer(currents, delay, **{**parameters(), **change})


def test_bad_totals() -> None:
    with pytest.raises(FalconError, match="give int32 or exact float32 \\[M, N\\]"):
        count_integer(torch.ones(3), slots=7, **parameters())
