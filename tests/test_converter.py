"""Converters count in whole parts of a step: rounding, room for noise, noise of the right size."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from falcon_snn.hardware.profile import load_profile
from falcon_snn.network.calibrate import chosen_range
from falcon_snn.network.chip import sample_array
from falcon_snn.neuron.analog_cells import UNIT
from falcon_snn.neuron.converter import FINEST, Converter, convert, fraction_bits, nearest_codes
from falcon_snn.neuron.counter_noise import (
    BYTE_VARIANCE,
    byte_weights,
    counters,
    fresh_bytes,
    weighted_bytes,
)

MACRO = load_profile("xue2020")


@given(st.integers(-(1 << 23), 1 << 23), st.integers(1, FINEST))
def test_the_code_is_the_nearest_step(total: int, bits: int) -> None:
    code = int(convert(torch.tensor([float(total)]), Converter(1, -7, 7, bits=bits)))
    exact = total / 2**bits
    assert -7 <= code <= 7
    if abs(exact) < 7.5:
        assert abs(code - exact) <= 0.5
    else:
        assert code == (7 if exact > 0 else -7)


@given(st.integers(0, 1000), st.integers(1, FINEST), st.booleans(), st.booleans())
def test_codes_in_one_pass_are_those_of_torch(
    seed: int, bits: int, noisy: bool, double: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(-(1 << 22), 1 << 22, (3, 50), generator=generator)
    sums = y.double() if double else y.float()
    noise = torch.randint(-9000, 9000, y.shape, generator=generator).float() if noisy else None
    converter = Converter(1, -7, 7, bits=bits)
    found = convert(sums, converter, noise)
    assert torch.equal(found, nearest_codes(sums, converter, noise))
    assert found.dtype == torch.float32


def test_a_sum_in_the_middle_takes_the_higher_code() -> None:
    converter = Converter(step=8, low=-7, high=7, bits=3)
    sums = torch.tensor([-12.0, -4.0, 4.0, 12.0, 60.0])  # steps of -1.5, -0.5, 0.5, 1.5 and 7.5
    for codes in (convert(sums, converter), nearest_codes(sums, converter, None)):
        assert codes.tolist() == [-1, 0, 1, 2, 7]


@given(st.floats(0, 4 * 127**2 * BYTE_VARIANCE))
def test_weights_of_bytes_give_a_variance(variance: float) -> None:
    weights = byte_weights(variance)
    assert all(-127 <= weight <= 127 for weight in weights)
    found = sum(weight**2 for weight in weights) * BYTE_VARIANCE
    low = (variance / BYTE_VARIANCE / 4) ** 0.5  # neighbours differ by 2 low + 1
    assert abs(found - variance) <= (low + 1) * BYTE_VARIANCE
    assert abs(sum(weights)) <= 1  # their mean is half of that


@given(st.floats(0.01, 1e7), st.floats(0, 1e5), st.integers(1, 1 << 16))
def test_parts_of_a_step_leave_room(reach: float, sigma: float, levels: int) -> None:
    bits = fraction_bits(reach, sigma, levels)
    assert 0 <= bits <= FINEST
    if bits:
        assert (reach + 3.5 * sigma + levels) * 2**bits < 1 << 22
        assert max(map(abs, byte_weights((sigma * 2**bits) ** 2))) <= 127


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 5), (3, 5)])
def test_noise_in_one_pass_is_that_of_torch(shape: tuple[int, int]) -> None:
    """On a CPU and on a GPU; weights for all, or for each group and row."""
    generator = torch.Generator().manual_seed(1)

    def hashes(*size: int) -> torch.Tensor:
        return torch.randint(-(2**31), 2**31, size, generator=generator).int()

    rows, places = hashes(5), hashes(3, 70)
    weights = torch.randint(-127, 128, (*shape, 4), generator=generator)
    found = fresh_bytes(rows, places, weights)
    assert torch.equal(found, weighted_bytes(rows, places, weights))
    assert torch.equal(fresh_bytes(rows[1:3], places, weights[:, :1]),
                       fresh_bytes(rows, places, weights[:, :1])[:, 1:3])  # fmt: skip


@pytest.mark.parametrize("variance", [1e6, 1.2e6, 3.3e6, 4e7])
def test_two_row_groups_that_share_their_bytes_know_nothing_of_each_other(variance: float) -> None:
    """Nor do rows, slots and columns; noise has the moments of four bytes."""
    profile = replace(MACRO, read_noise="independent", read_sigma=0.03, converter_levels=4095)
    array = sample_array(torch.ones(40, 1, 1, 40), profile, 5, bits=3, span=350.0)
    weights = torch.tensor(byte_weights(variance)).expand(len(array.weight), 1, 4)
    keys = array.read_keys(counters((50,), 9, torch.device("cpu")), 2000, 2)
    assert keys is not None
    found = torch.stack([fresh_bytes(k, array.place_keys, array.shared(weights)) for k in keys])
    found = found.double() / (weights[0, 0].double().square().sum() * BYTE_VARIANCE) ** 0.5
    assert abs(float(found.mean())) < 0.01
    assert abs(float(found.var()) - 1) < 0.02
    assert abs(float((found**4).mean()) - 2.7) < 0.05

    def common(one: torch.Tensor, other: torch.Tensor) -> float:
        return abs(float((one * other).mean()))

    assert len(array.weight) == 5
    for first in range(4):
        for second in range(first + 1, 5):
            assert common(found[:, first], found[:, second]) < 0.01
    for part in found.unbind(1):
        assert common(part[..., 1:], part[..., :-1]) < 0.01
        assert common(part[:, 1:], part[:, :-1]) < 0.01
        assert common(part[0], part[1]) < 0.015


def test_noise_takes_room_too() -> None:
    assert fraction_bits(47.4, 0.0, 14) == 16
    assert fraction_bits(47.4, 0.2, 14) == 15  # it reaches 0.7 steps further


@pytest.mark.parametrize("rows_on", [1, 4, 9])
def test_noise_behind_a_converter_has_the_variance_of_its_cells(rows_on: int) -> None:
    """Seen through steps much smaller than itself, it is what it is without a converter."""
    codes = torch.tensor([[1, -2, 3, 0, 1, 2, -3, 1, -1]]).repeat(16, 1)[:, None, None]
    profile = replace(
        MACRO, read_noise="independent", read_sigma=0.03, on_off_ratio=1e12, converter_levels=4095
    )
    array = sample_array(codes, profile, 5, bits=3, span=35.0)
    rows = torch.zeros(2000, 9, dtype=torch.uint8)
    rows[:, :rows_on] = 1
    found = array.sums(rows, 1, counters((2000,), 9, torch.device("cpu")))[0] / UNIT
    exact = float(codes[0, 0, 0, :rows_on].sum())
    variance = rows_on * 10 * 0.03**2  # two sides of two cells, one of them worth two
    assert abs(float(found.mean()) - exact) < 5 * (variance / found.numel()) ** 0.5
    assert abs(float(found.var()) / variance - 1) < 0.05


def test_no_range_puts_whole_sums_between_two_codes() -> None:
    """Steps of two units would fit these sums best, but every odd sum would be rounded up."""
    tally = np.zeros(16 * 15, dtype=np.int64)
    tally[16 * np.arange(2, 15, 2)] = 1000
    step = chosen_range(tally, 7, "least-squares") / 7
    assert step % 2 != 0
    assert 1.8 < step < 2.2
