"""Kernels of sampled chips: the bits that torch gives, on CPUs and in Triton's interpreter."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.chip_parts import IDEAL, MACRO, NOISY, layer, spans
from tests.other_networks import CNN
from tests.random_networks import random_inputs, trained_like

from falcon_snn.hardware.effects import effects
from falcon_snn.hardware.profile import Profile
from falcon_snn.network.chip import sample_array, sampled
from falcon_snn.network.convert import convert
from falcon_snn.network.integer import Snn
from falcon_snn.neuron import chip_numba, fused, fused_tiles
from falcon_snn.neuron.layers import Term
from falcon_snn.neuron.layers_torch import chip_currents


@pytest.fixture
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's interpreter takes as long for 128 rows as for 32."""
    own, rows = fused_tiles.chip_tile, {"BLOCK_M": fused_tiles.GROUPED_ROWS}
    monkeypatch.setattr(fused_tiles, "chip_tile", lambda *asked: own(*asked) | rows)


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
