"""Sampled chips: they are what the words say, and depend on nothing but their seed and the clip."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.other_networks import CNN
from tests.random_networks import networks, random_inputs, schedules, trained_like
from tests.slow_chip import SlowChip, key

from falcon_snn.hardware.effects import effects
from falcon_snn.hardware.profile import Profile, load_profile
from falcon_snn.network.calibrate import calibrate, chosen_range
from falcon_snn.network.chip import sample_array, sampled
from falcon_snn.network.chip_cells import written_cells
from falcon_snn.network.convert import convert
from falcon_snn.network.description import Network
from falcon_snn.network.integer import Snn
from falcon_snn.neuron import chip_numba, fused, fused_tiles
from falcon_snn.neuron.analog import AnalogArray
from falcon_snn.neuron.analog_cells import UNIT
from falcon_snn.neuron.counter_noise import counters, normals
from falcon_snn.neuron.layers import Term
from falcon_snn.neuron.layers_torch import chip_currents
from falcon_snn.neuron.packed import count

IDEAL, MACRO, NOISY = (load_profile(name) for name in ("paper", "xue2020", "noisy"))
FINE: Any = {"converter_levels": 4095, "slice_bits": 2, "weight_slices": 4, "weight_bits": 8}
SEEDS = st.integers(0, 1000)


@pytest.fixture
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's interpreter takes as long for 128 rows as for 32."""
    own, rows = fused_tiles.chip_tile, {"BLOCK_M": fused_tiles.GROUPED_ROWS}
    monkeypatch.setattr(fused_tiles, "chip_tile", lambda *asked: own(*asked) | rows)


@st.composite
def scheduled(draw: st.DrawFn) -> tuple[Network, dict[str, int]]:
    network = draw(networks())
    return network, draw(schedules(network))


def spans(snn: Snn, span: float) -> dict[str, float]:
    return {name: span for name in snn.tensors if ".weight" in name}


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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("profile", [NOISY, replace(NOISY, weight_bits=8, weight_slices=4)])
def test_a_gpu_gives_the_spikes_of_the_cpu(profile: Profile) -> None:
    snn, x = convert(trained_like(CNN, 3)), random_inputs(CNN, 64, 3)
    delays = dict.fromkeys(CNN.boundaries, 1)
    found = []
    for device in ("cpu", "cuda"):
        here = snn.to(device)
        chip = sampled(here, profile, 7, spans(here, 7.0))
        found.append({n: s.cpu() for n, s in chip.streams(x.to(device), None, delays).items()})
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


@pytest.mark.parametrize("qnn", [False, True])
@pytest.mark.parametrize(
    "profile",
    [
        MACRO,
        NOISY,
        replace(NOISY, weight_bits=8, weight_slices=4),
        replace(NOISY, sensing="apart", active_rows=20, tile_rows=50),
        replace(NOISY, read_noise="proportional", read_sigma=0.2),
    ],
)
def test_kernels_give_the_spikes_of_the_chip(profile: Profile, qnn: bool) -> None:
    """In one kernel without a tensor of partial sums, and in torch with one."""
    snn, x = convert(trained_like(CNN, 3)), random_inputs(CNN, 2, 3)
    chip = sampled(snn, profile, 7, spans(snn, 6.0), qnn=qnn)
    looked_up = profile.read_noise != "proportional"
    for array in chip.chip.values():
        assert array.cells is not None
        assert (array.look_ups is not None) == looked_up
    for delay in (CNN.slots,) if qnn else (1, CNN.slots):
        delays = dict.fromkeys(CNN.boundaries, delay)
        same_in_kernels(chip, x, delays)


def same_in_kernels(chip: Snn, x: torch.Tensor, delays: dict[str, int]) -> None:
    plain = chip.streams(x, None, delays, "torch")
    for backend in ("triton", "numba"):
        found = chip.streams(x, None, delays, backend)
        assert all(torch.equal(plain[name], found[name]) for name in plain), backend


@pytest.mark.usefixtures("few_programs")
@pytest.mark.parametrize("qnn", [False, True])
@pytest.mark.parametrize("name", list(effects(NOISY, 8)))
def test_every_effect_alone_is_the_same_in_a_kernel(name: str, qnn: bool) -> None:
    snn, x = convert(trained_like(CNN, 3)), random_inputs(CNN, 2, 3)
    profile = effects(NOISY, 8)[name]
    ranges = {} if profile.converter_range == "exact" else spans(snn, 6.0)
    chip = sampled(snn, profile, 7, ranges, qnn=qnn)
    assert all(array.cells or array.digits for array in chip.chip.values())
    delays = dict.fromkeys(CNN.boundaries, CNN.slots if qnn else 1)
    same_in_kernels(chip, x, delays)


READ: Any = {"read_noise": "independent", "read_sigma": 0.05}


@pytest.mark.usefixtures("few_programs")
@pytest.mark.parametrize("input_bits", [0, 2, 3])
@pytest.mark.parametrize(
    ("profile", "span"),
    [
        (replace(IDEAL, on_off_ratio=20.0), None),
        (replace(IDEAL, on_off_ratio=20.0, **READ), None),
        (replace(MACRO, **READ), None),
        (replace(NOISY, weight_bits=8, weight_slices=4), None),
        (replace(NOISY, active_rows=5, tile_rows=25), 7.0),
        (replace(NOISY, offset_steps=0.0), 5.0),
    ],
)
@pytest.mark.parametrize(
    ("channels", "outputs", "arrays", "kernel"),
    [
        (3, 2, 1, (1, 1)),
        (3, 5, 1, (2, 3)),
        (16, 70, 1, (1, 1)),
        (16, 7, 3, (3, 1)),
        (19, 17, 2, (1, 3)),
    ],
)
def test_kernels_take_layers_of_any_shape(
    profile: Profile, span: float | None, input_bits: int, channels: int, outputs: int,
    arrays: int, kernel: tuple[int, int],
) -> None:  # fmt: skip
    """Currents, bit for bit: outputs and inputs that fill no tile, arrays side by side, counts."""
    generator = torch.Generator().manual_seed(channels)

    def drawn(low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=generator)

    codes = drawn(-127, 128, outputs * arrays, *kernel, channels)
    array = sample_array(
        codes, profile, 77, bits=8, arrays=arrays, span=span, input_bits=input_bits
    )
    packed = drawn(0, 128, 2, 4, 5, channels * arrays).to(torch.uint8)
    packed[:, :, 0] = 0  # silent in all slots
    whole = torch.zeros(outputs * arrays, *kernel, channels * arrays, dtype=torch.int8)
    term = Term(
        packed, drawn(1, 100, outputs * arrays).int(), whole, (1, 2), (0, 1), (0, 1),
        chip=(array, drawn(-(2**31), 2**31, 2).int()),
    )  # fmt: skip
    wanted = chip_currents(term, 7)
    assert array.digits is not None if span is None else array.cells is not None
    assert torch.equal(fused.chip_currents_of(term, 7), wanted)
    looked_up = span is not None and (array.noise is None or array.most_squares < 256)
    assert (array.look_ups is not None) == looked_up
    assert torch.equal(chip_numba.chip_currents(term, 7), wanted)


@pytest.mark.parametrize("columns", range(16, 161, 16))
def test_a_processor_looks_up_any_number_of_columns(columns: int) -> None:
    """Steps of 64 columns and what is left of them, rows of several tasks, no byte of noise."""
    generator = torch.Generator().manual_seed(columns)
    for profile in (NOISY, MACRO):
        codes = layer(30, columns)
        array = sample_array(codes.clamp(-3, 3), profile, 77, bits=3, span=5.0)
        assert array.look_ups is not None
        assert array.look_ups.weight.shape[2] == columns
        packed = torch.randint(0, 128, (200, 1, 1, 30), dtype=torch.uint8, generator=generator)
        clips = torch.arange(200, dtype=torch.int32)
        term = Term(packed, torch.full((columns,), 70, dtype=torch.int32),
                    codes.to(torch.int8), chip=(array, clips))  # fmt: skip
        assert torch.equal(chip_numba.chip_currents(term, 7), chip_currents(term, 7))


def test_sums_that_no_kernel_holds_are_left_to_torch() -> None:
    wide = torch.zeros(1, 1, 1, 20_000)
    assert sample_array(wide, IDEAL, 1, bits=8).digits is None
    proportional = replace(NOISY, read_noise="proportional", read_sigma=0.1)
    assert sample_array(layer(), proportional, 1, bits=8).digits is None
    assert sample_array(layer(), replace(NOISY, column_ohm=1.0), 1, bits=8).digits is None
    many = replace(NOISY, active_rows=128, tile_rows=128)
    assert sample_array(layer(100), many, 1, bits=8, span=7.0).cells is not None
    assert sample_array(layer(100), many, 1, bits=8, span=1e-5).cells is None


def layer(rows: int = 23, outputs: int = 5, top: int = 127) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rows)
    return torch.randint(-top, top + 1, (outputs, 1, 1, rows), generator=generator)


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
