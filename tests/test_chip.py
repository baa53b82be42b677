"""Sampled chips: they are what the words say, and depend on nothing but their seed and the clip."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.chip_parts import FINE, IDEAL, MACRO, NOISY, layer, spans
from tests.other_networks import CNN
from tests.random_networks import networks, random_inputs, schedules, trained_like
from tests.slow_chip import SlowChip, key

from falcon_snn.hardware.profile import Profile
from falcon_snn.network.calibrate import calibrate, chosen_range
from falcon_snn.network.chip import sample_array, sampled
from falcon_snn.network.chip_cells import written_cells
from falcon_snn.network.convert import convert
from falcon_snn.network.description import Network
from falcon_snn.neuron.analog import AnalogArray
from falcon_snn.neuron.analog_cells import UNIT
from falcon_snn.neuron.counter_noise import counters, normals
from falcon_snn.neuron.packed import count

SEEDS = st.integers(0, 1000)


@st.composite
def scheduled(draw: st.DrawFn) -> tuple[Network, dict[str, int]]:
    network = draw(networks())
    return network, draw(schedules(network))


@settings(max_examples=25)
@given(scheduled(), SEEDS, st.integers(1, 40), st.integers(1, 12), st.booleans())
def test_a_perfect_chip_is_the_integer_network(
    case: tuple[Network, dict[str, int]], seed: int, tile: int, active: int, apart: bool
) -> None:
    """Slices, cells, row groups of any size, converters of one unit a step: the same spikes."""
    network, delays = case
    snn, x = convert(trained_like(network, seed)), random_inputs(network, 3, seed)
    ideal = snn.streams(x, None, delays, "numba")
    profile = replace(
        IDEAL, **FINE, tile_rows=tile, active_rows=active,
        sensing="apart" if apart else "subtracted",
    )  # fmt: skip
    chips = {
        "exact sums": sampled(snn, replace(IDEAL, on_off_ratio=20.0), seed, {}),
        "converted": sampled(snn, profile, seed, spans(snn, 4094.0 if apart else 2047.0)),
    }
    for name, chip in chips.items():
        assert len(chip.chip) == sum(len(stage.products) for stage in network.stages)
        found = chip.streams(x, None, delays)
        assert all(torch.equal(found[stage], ideal[stage]) for stage in ideal), name
        assert torch.equal(chip.scores(found, None), snn.scores(ideal, None))


@settings(max_examples=15)
@given(networks(), SEEDS, st.integers(1, 3))
def test_counts_driven_in_bits_are_the_qnn(network: Network, seed: int, bits: int) -> None:
    snn = convert(trained_like(network.with_prefix(None), seed))
    x = random_inputs(network, 3, seed)
    full = dict.fromkeys(network.boundaries, network.slots)
    ideal = snn.streams(x, None, full, "numba")
    profile = replace(IDEAL, **FINE, input_bits=bits)
    chip = sampled(snn, profile, seed, spans(snn, 2047.0), qnn=True)
    found = chip.streams(x, None, full)
    assert all(torch.equal(found[stage], ideal[stage]) for stage in ideal)


@settings(max_examples=10)
@given(scheduled(), SEEDS)
def test_a_noisy_chip_depends_on_its_seed_and_the_clip_alone(
    case: tuple[Network, dict[str, int]], seed: int
) -> None:
    network, delays = case
    snn, x = convert(trained_like(network, seed)), random_inputs(network, 4, seed)
    chip = sampled(snn, NOISY, seed, spans(snn, 7.0))
    together = chip.streams(x, None, delays)
    order = [2, 0, 3, 1]
    shuffled = sampled(snn, NOISY, seed, spans(snn, 7.0)).streams(x[order], None, delays)
    for name, stream in together.items():
        assert torch.equal(stream[order], shuffled[name]), name
        alone = chip.streams(x[1:2], None, delays)
        assert torch.equal(alone[name][0], stream[1]), name
    for stage in network.inner_stages[1:]:  # a search starts in the middle
        again = chip.resume(together, stage.name, None, delays)
        assert all(torch.equal(again[name], stream) for name, stream in together.items())


@pytest.mark.parametrize(
    ("profile", "span", "bits"),
    [
        (NOISY, 7.0, 8),
        (NOISY, 4.5, 3),
        (replace(NOISY, tile_rows=10, active_rows=4, mux=3), 7.0, 3),
        (replace(NOISY, weight_bits=8, weight_slices=4, mux=7), 10.5, 8),
        (replace(NOISY, stuck_hrs_rate=0.2, stuck_lrs_rate=0.1), None, 3),
        (replace(NOISY, read_noise="none", read_sigma=0.0, offset_steps=0.0), 7.0, 3),
        (MACRO, 5.0, 3),
    ],
)
@pytest.mark.parametrize("input_bits", [0, 2])
def test_the_chip_is_what_a_slow_one_computes(
    profile: Profile, span: float | None, bits: int, input_bits: int
) -> None:
    codes = layer(top=2 ** (bits - 1) - 1)
    array = sample_array(codes, profile, 77, bits=bits, span=span, input_bits=input_bits)
    parts = 1 << array.converter.bits if array.converter else 1
    slow = SlowChip(codes[:, 0, 0].t().numpy(), profile, 77, bits, span, parts)
    generator = torch.Generator().manual_seed(1)
    packed = torch.randint(0, 128, (4, 23), dtype=torch.uint8, generator=generator)
    packed[0] = 127 if input_bits else 1  # for the largest input, which sets the grid of variances
    clips = torch.tensor([key("one"), key("two")], dtype=torch.int32)
    found = array.sums(packed, 7, clips) / UNIT
    for row in range(4):
        trains = packed[row].long()
        for number in range(len(found)):
            if input_bits:
                x = (count(packed[row], 7).long() >> (2 * number)) & 3
            else:
                x = (trains >> number) & 1
            if not input_bits or int(x.max()) == 3:
                weight = 4**number if input_bits else 1
                wanted = slow.sums(x.numpy(), int(clips[row // 2]), row % 2, number)
                assert (found[number, row] / weight).tolist() == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("sensing", ["subtracted", "apart"])
def test_cells_of_several_layers_are_those_of_each_alone(sensing: str) -> None:
    profile = replace(
        NOISY, sensing=sensing, slice_bits=2, weight_slices=2, weight_bits=5,
        read_noise="proportional", stuck_hrs_rate=0.1, stuck_lrs_rate=0.1,
    )  # fmt: skip
    weights = [layer(rows, top=15)[:, 0, 0].t()[None] for rows in (23, 1, 40)]
    keys = [7, -5, 2**31 - 1]
    together = written_cells(weights, profile, keys)
    for weight, one, cells in zip(weights, keys, together, strict=True):
        [alone] = written_cells([weight], profile, [one])
        assert alone.conductances.shape[2:] == weight.shape
        for found, wanted in zip(cells, alone, strict=True):
            if isinstance(found, torch.Tensor) and isinstance(wanted, torch.Tensor):
                assert torch.equal(found, wanted)
            else:
                assert found == wanted


def test_fresh_noise_has_the_variance_of_its_cells() -> None:
    """Per cell 1 % of LRS; other in each slot; none where no row is on."""
    codes = layer(rows=9, outputs=64, top=3)
    profile = replace(MACRO, read_noise="independent", read_sigma=0.01, on_off_ratio=1e12)
    array = sample_array(codes, profile, 5, bits=3)
    rows = torch.full((2000, 9), 0b11, dtype=torch.uint8)
    rows[:, 4:] = 0
    keys = counters((2000,), 9, torch.device("cpu"))
    noise = array.sums(rows, 3, keys) / UNIT
    exact = codes[:, 0, 0, :4].sum(dim=1).double()
    assert torch.equal(noise[2], torch.zeros_like(noise[2]))  # a silent slot
    assert not torch.equal(noise[0], noise[1])
    variance = 4 * 10 * 0.01**2  # four rows of two sides of two cells, one of them worth two
    found = noise[:2].flatten(0, 1)
    assert (found.var(dim=0) / variance - 1).abs().max() < 0.12
    assert abs(float(found.var(dim=0).mean()) / variance - 1) < 0.02
    assert (found.mean(dim=0) - exact).abs().max() < 5 * variance**0.5 / 60
    left = (found - exact) / variance**0.5
    between = torch.corrcoef(left.t()) - torch.eye(64)
    assert between.abs().max() < 5 / 4000**0.5  # columns know nothing of each other


def test_trimmed_columns_give_nothing_without_spikes() -> None:
    """Offsets of half a step and more give codes in silent row groups; a trimmed chip has none."""
    worse = replace(NOISY, offset_steps=2.0, read_noise="none", read_sigma=0.0, mux=2)
    silent = torch.zeros(1, 23, dtype=torch.uint8)
    spikes = torch.full((1, 23), 1, dtype=torch.uint8)
    found = {}
    for trim in ("none", "silent"):
        profile = replace(worse, offset_trim=trim)
        array = sample_array(layer(top=3), profile, 9, bits=3, span=70.0)
        found[trim] = [array.sums(one, 1, None)[0, 0] for one in (silent, spikes)]
    dark, lit = found["none"]
    assert dark.abs().max() > 0
    assert torch.equal(found["silent"][0], torch.zeros_like(dark))
    assert torch.equal(found["silent"][1], lit - dark)


def test_normal_numbers_are_normal() -> None:
    drawn = normals(counters((200_000,), 3, torch.device("cpu"))).double()
    assert abs(float(drawn.mean())) < 0.01
    assert abs(float(drawn.std()) - 1) < 0.01
    assert abs(float((drawn**4).mean()) - 3) < 0.1
    pairs = drawn.view(-1, 2)
    assert abs(float((pairs[:, 0] * pairs[:, 1]).mean())) < 0.012


def test_wires_weaken_far_cells_and_spare_ideal_ones() -> None:
    codes = torch.full((1, 1, 1, 9), 3)
    x = torch.ones(1, 9, dtype=torch.uint8)

    def total(**ohms: Any) -> float:
        return float(sample_array(codes, replace(MACRO, **ohms), 1, bits=3).partial_sums(x)) / UNIT

    assert total() == 27.0
    # Two wires of 5 ohm, cells of 10 kohm: sum of 9 x 9 paths, 2 x 285 x 5e-4 of 3 units.
    assert total(column_ohm=5.0, row_ohm=5.0) == pytest.approx(27 - 0.87, abs=0.03)
    assert total(column_ohm=50.0) < total(column_ohm=5.0) < 27.0


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [("quantile", 6.0), ("least-squares", 7.0)],
)
def test_ranges_of_a_known_distribution(rule: str, wanted: float) -> None:
    tally = np.zeros(200, dtype=np.int64)
    tally[[0, 16, 32, 48, 96]] = [10**6, 5000, 4000, 1000, 100]  # sums of 0, 1, 2, 3 and 6 units
    tally[160] = 5  # and few of 10
    assert chosen_range(tally, 7, rule) == wanted


def test_calibrated_ranges_are_near_the_sums() -> None:
    snn, x = convert(trained_like(CNN, 3)), random_inputs(CNN, 8, 3)
    delays = dict.fromkeys(snn.network.boundaries, 1)
    for rule in ("least-squares", "quantile"):
        found = calibrate(snn, replace(MACRO, converter_range=rule), x, None, delays)
        assert set(found) == {"first.weight", "body.weight", "sum.weight", "sum.weight2"}
        assert all(0 < span <= 27.0 for span in found.values())
    # Cells of three units each: so many times three units flow.
    full = {name: torch.full_like(snn.tensors[name], 127) for name in found}
    threes = replace(snn, tensors={**snn.tensors, **full})
    for qnn, most in ((False, 27.0), (True, 81.0)):
        profile = replace(MACRO, converter_range="quantile")
        spans = calibrate(threes, profile, x, None, delays, qnn=qnn).values()
        assert {span % 3 for span in spans} == {0.0}
        assert 3 <= max(spans) <= most
    assert calibrate(snn, IDEAL, x, None, delays) == {}
    unit = calibrate(snn, replace(MACRO, converter_range="unit"), x, None, delays)
    assert set(unit.values()) == {7.0}


def test_an_array_on_its_own_is_frozen() -> None:
    first, second, other = (
        sample_array(layer(), NOISY, chip, bits=8, span=7.0) for chip in (1, 1, 2)
    )
    assert torch.equal(first.weight, second.weight)
    assert not torch.equal(first.weight, other.weight)
    assert isinstance(first, AnalogArray)
