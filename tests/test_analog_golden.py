"""Golden vectors of CrossSim and AIHWKit: the chip's own functions give their codes and moments.

The vectors lie outside the project (`analog-reference.npz`; FALCON_REFERENCE names their folder),
each with its formula and tolerance.
"""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from falcon_snn.hardware.cells import coefficients
from falcon_snn.hardware.profile import Profile, load_profile
from falcon_snn.network.chip import sample_array
from falcon_snn.network.chip_cells import clamped, polynomial, stuck, written
from falcon_snn.neuron import layers
from falcon_snn.neuron.analog import AnalogArray, row_groups
from falcon_snn.neuron.analog_cells import UNIT
from falcon_snn.neuron.converter import FINEST, Converter, convert
from falcon_snn.neuron.counter_noise import counters, key_of, normals
from falcon_snn.neuron.packed import encode, pack, unpack
from falcon_snn.neuron.wires import Wires, wired_sums

Array = NDArray[np.float64]
FILE = "analog-reference.npz"
FOUND = Path(os.environ.get("FALCON_REFERENCE", "")) / FILE
pytestmark = pytest.mark.skipif(
    not FOUND.is_file(), reason=f"set FALCON_REFERENCE to a folder that holds {FILE}"
)


@cache
def vectors() -> Mapping[str, Any]:
    with np.load(FOUND) as file:
        return {name: file[name] for name in file}


def keys(family: str, last: str = "") -> list[str]:
    if not FOUND.is_file():
        return []
    return [name for name in vectors() if name.startswith(f"{family}__") and name.endswith(last)]


def chip(**changes: Any) -> Profile:
    """Nine rows on, 3-bit weights in one slice; no errors."""
    values = {"weight_bits": 3, "slice_bits": 2, "tile_rows": 9000} | changes
    return Profile(**{**vars(load_profile()), **values})


def wide(weights: str) -> dict[str, int]:
    """One slice that holds the weights of a family."""
    return {"weight_bits": 3, "slice_bits": 2} if "w3" in weights else {
        "weight_bits": 8, "slice_bits": 7}  # fmt: skip


def held(weights: NDArray[Any], profile: Profile, span: float) -> AnalogArray:
    codes = torch.tensor(weights.astype(np.int64)).t()[:, None, None]
    return sample_array(codes, profile, 1, bits=profile.weight_bits, span=span)


def codes_of(array: AnalogArray, x: NDArray[Any], offset: Tensor | None = None) -> Array:
    """Codes [part, input, group, output]."""
    assert array.converter is not None
    y = array.partial_sums(torch.tensor(x.astype(np.uint8)))
    found = convert(y if offset is None else y + offset, array.converter)
    return found.view(*y.shape[:2], len(array.parts), -1).permute(2, 1, 0, 3).double().numpy()


def parts_of(key: str) -> tuple[list[str], NDArray[Any], NDArray[Any], int, float]:
    """Words of a key, weights, inputs, bits, range."""
    words = key.split("__")
    weights = vectors()[f"W__{words[1]}"]
    kind = "cnt" if "cnt" in key else "bin"
    bits = next(int(word[1:]) for word in words if word[0] == "b" and word[1:].isdigit())
    span = next(float(word[1:]) for word in words if word[0] == "R" and word[1].isdigit())
    return words, weights, vectors()[f"X__{kind}_{len(weights)}"], bits, span


@pytest.mark.parametrize("key", keys("A", "codes"))
def test_codes_of_row_groups(key: str) -> None:
    words, weights, x, bits, span = parts_of(key)
    array = held(weights, chip(converter_levels=2**bits - 1, **wide(words[1])), span)
    assert np.array_equal(codes_of(array, x)[0], vectors()[key])


def test_a_layer_adds_up_its_groups() -> None:
    (key,) = keys("A", "total_tiled")
    _, weights, x, _, span = parts_of(key)
    array = held(weights, chip(converter_levels=15), span)
    sums = array.sums(torch.tensor(x.astype(np.uint8)), 1, None)[0] / UNIT
    assert np.array_equal(sums.numpy(), vectors()[key])


@pytest.mark.parametrize("key", keys("B", "codes"))
def test_slices_are_converted_apart(key: str) -> None:
    words, weights, x, bits, span = parts_of(key)
    slices, slice_bits = map(int, words[3][1:].split("x"))
    profile = chip(weight_bits=8, slice_bits=slice_bits, weight_slices=slices,
                   converter_levels=2**bits - 1)  # fmt: skip
    array = held(weights, profile, span)
    codes = codes_of(array, x)
    assert np.array_equal(codes, vectors()[key])
    step = span / (2 ** (bits - 1) - 1)
    total = step * np.tensordot(np.array(array.parts), codes, axes=(0, 0))
    assert np.abs(total - vectors()[key.replace("codes", "sum")]).max() < 1e-4


@pytest.mark.parametrize("key", keys("C", "codes"))
def test_bits_of_a_count_in_passes(key: str) -> None:
    _, weights, x, bits, span = parts_of(key)
    array = held(weights, chip(converter_levels=2**bits - 1), span)
    serial = AnalogArray(**{**vars(array), "input_bits": 1})
    trains = encode(torch.tensor(x.astype(np.int64)), 3, "first")
    passes = list(serial.passes(trains, 3))
    assert [weight for _, weight in passes] == [1, 2]
    found = [codes_of(array, plane.numpy())[0] for plane, _ in passes]
    assert np.array_equal(np.stack(found), vectors()[key])


@pytest.mark.parametrize("key", keys("D"))
def test_an_unsigned_converter_with_a_digital_offset(key: str) -> None:
    _, weights, x, bits, span = parts_of(key)
    profile = chip(
        weight_bits=4, slice_bits=3, sensing="apart", converter_levels=2**bits
    )  # fmt: skip
    codes = codes_of(held(weights + 3, profile, span), x)[0]
    driven = row_groups(torch.tensor(x), 9, 9).sum(dim=2).numpy()[:, :, None]
    value = codes * span / (2**bits - 1) - 3 * driven
    assert np.abs(value - vectors()[key]).max() < 1e-9


@pytest.mark.parametrize("key", keys("E"))
def test_finite_on_off_ratio(key: str) -> None:
    words, weights, x, bits, span = parts_of(key)
    apart = words[3] == "posneg"
    profile = chip(
        on_off_ratio=20.0, sensing="apart" if apart else "subtracted",
        converter_levels=2**bits if apart else 2**bits - 1,
    )  # fmt: skip
    codes = codes_of(held(weights, profile, span / 0.95), x)
    step = span / 0.95 / (2**bits - 1 if apart else 2 ** (bits - 1) - 1)
    value = step * (codes[0] - codes[1] if apart else codes[0])
    assert np.abs(value - vectors()[key]).max() < 1e-9


@pytest.mark.parametrize("key", keys("F"))
def test_wires_with_resistance(key: str) -> None:
    words = key.split("__")
    weights, x = vectors()["W__w3_36x8"].astype(float), vectors()["X__bin_36"].astype(float)
    signs = [0.05 + 0.95 * np.maximum(sign * weights, 0) / 3 for sign in (1, -1)]
    cells = row_groups(torch.tensor(np.stack(signs)).transpose(1, 2), 9, 9).permute(0, 2, 3, 1)
    wires = Wires(
        cells, (3 / 0.95, -3 / 0.95), float(words[4][4:]) / 1e4, float(words[5][4:]) / 1e4
    )
    found = wired_sums(row_groups(torch.tensor(x), 9, 9).transpose(0, 1), wires)
    assert np.abs(found.transpose(0, 1).numpy() - vectors()[key]).max() < 1e-6


def test_stuck_cells() -> None:
    weights, map_of = vectors()["W__w3_36x8"].astype(int), vectors()["G__w3_36x8__stuck"]
    cells = [[(sign * weights > 0) & (abs(weights) >> bit & 1 == 1) for bit in (0, 1)]
             for sign in (1, -1)]  # fmt: skip
    drawn = np.select([map_of == 0, map_of == 1], [0.1, 0.9], 0.5)
    profile = chip(stuck_hrs_rate=0.2, stuck_lrs_rate=0.2)
    found = stuck(torch.tensor(np.array(cells)).double(), torch.tensor(drawn), profile).numpy()
    effective = (found[0, 0] - found[1, 0]) + 2 * (found[0, 1] - found[1, 1])
    assert np.array_equal(np.rint(effective), vectors()["G__w3_36x8__weff"])
    array = held(np.rint(effective), chip(), 7.0)
    assert np.array_equal(
        codes_of(array, vectors()["X__bin_36"])[0], vectors()["G__w3_36x8__bin__b4__R7__codes"]
    )


@pytest.mark.parametrize("key", keys("S", "codes"))
def test_sense_offsets(key: str) -> None:
    _, weights, x, bits, span = parts_of(key)
    array = held(weights, chip(converter_levels=2**bits - 1), span)
    assert array.converter is not None
    finer = 2.0**array.converter.bits * UNIT / array.converter.step
    offset = torch.tensor(np.rint(vectors()["S__offset"] * finer)).to(array.weight.dtype)
    assert np.array_equal(codes_of(array, x, offset)[0], vectors()[key])


@pytest.mark.parametrize("key", [*keys("H", "__spikes"), *keys("H", "spikes_ideal")])
def test_neurons_behind_converters(key: str) -> None:
    weights, slots = vectors()["W__w3_160x16"], vectors()["H__slots"]
    ideal = key == "H__spikes_ideal"
    _, _, _, bits, span = parts_of("H__w3_160x16__b4__R7__spikes" if ideal else key)
    codes = torch.tensor(weights.astype(np.int8)).t()[:, None, None].contiguous()
    profile = chip(converter_levels=2**bits - 1)
    array = sample_array(codes, profile, 1, bits=3, span=None if ideal else span)
    number = torch.full((16,), 1, dtype=torch.int32)
    packed = pack(torch.tensor(slots))[None, None, None]
    term = layers.Term(packed, 60_000 * number, codes, chip=(array, None))
    neurons = layers.IntegerNeurons(0 * number, 500_000 * number, 1_000_000 * number)
    spikes = unpack(layers.fire([term], neurons, 7, 1, "torch"), 7)
    assert np.array_equal(spikes.numpy().reshape(7, 16), vectors()[key])


@pytest.mark.parametrize("key", keys("L", "__y"))
def test_ranges_of_lightning(key: str) -> None:
    words, weights, x, bits, _ = parts_of(key + "__R1")
    largest = {"bin": 1, "cnt": 3}[words[2]]
    profile = chip(converter_levels=2**bits - 1, **wide(words[1]))
    total = np.zeros((8, 8))
    top = 2 ** (bits - 1) - 1
    for group in range(4):
        bound = largest * float(words[4][5:]) * np.abs(weights[9 * group : 9 * group + 9]).max()
        array = held(weights, profile, bound)
        assert array.converter is not None
        y = array.partial_sums(torch.tensor(x.astype(np.uint8)))[group]
        total += convert(y, array.converter).double().numpy() * bound / top
    assert np.abs(total - vectors()[key]).max() < 1e-9


DRAWS = 2000


def drawn(shape: tuple[int, ...], name: str) -> Tensor:
    return normals(counters(shape, key_of("golden", name), torch.device("cpu"))).double()


def demand_moments(key: str, mean: Array, std: Array, draws: int) -> None:
    """Ours beside theirs: both are of some draws."""
    golden = vectors()[f"{key}__std"]
    room = 5 * golden * np.sqrt(1 / draws + 1 / DRAWS)
    assert (np.abs(mean - vectors()[f"{key}__mean"]) <= room + 1e-12).all()
    assert (np.abs(std - golden) <= 0.08 * golden + 1e-12).all()


@pytest.mark.parametrize(
    ("key", "wmax", "off", "model"),
    [
        ("M__prog__indep0.05__w3_36x8", 3, 0.0, coefficients("independent", 0.05)),
        ("M__prog__prop0.10__w3_36x8", 3, 0.0, coefficients("proportional", 0.10)),
        ("M__prog__prop0.10__w8_36x8", 127, 0.0, coefficients("proportional", 0.10)),
        ("M__prog__RRAMWan__onoff40__w8_36x8", 127, 1 / 40,
         tuple(c * (1e6 / 25500) ** (n - 1)
               for n, c in enumerate((1.053, 2.374e-1, -1.167e-2, 1.536e-4)))),
    ],
)  # fmt: skip
def test_moments_of_written_cells(
    key: str, wmax: int, off: float, model: tuple[float, ...]
) -> None:
    weights = torch.tensor(vectors()["W__" + key.split("__")[-1]]).double()
    x = torch.tensor(vectors()["X__bin_36"][[0, 2, 3]]).double()
    sums: Any = 0
    for sign in (1, -1):
        cells = off + (1 - off) * (sign * weights).clamp_min(0) / wmax
        cells = written(cells.expand(DRAWS, 36, 8), model, drawn((DRAWS, 36, 8), f"{key}{sign}"))
        sums = sums + sign * wmax / (1 - off) * (x @ cells)
    demand_moments(key, sums.mean(0).numpy(), sums.std(0).numpy(), DRAWS)


def test_moments_of_the_macros_four_cells() -> None:
    key = "M__prog__prop0.10__macro__onoff20__w3_36x8"
    profile = chip(on_off_ratio=20.0, programming="proportional", programming_sigma=0.1)
    codes = torch.tensor(vectors()["W__w3_36x8"].astype(np.int64)).t()[:, None, None]
    x = torch.tensor(vectors()["X__bin_36"][[0, 2, 3]].astype(np.uint8))
    sums = torch.stack([
        sample_array(codes, profile, seed, bits=3).partial_sums(x)[0] / UNIT for seed in range(500)
    ]).double()  # fmt: skip
    demand_moments(key, sums.mean(0).numpy(), sums.std(0).numpy(), 500)


@pytest.mark.parametrize(
    ("key", "model"),
    [
        ("M__read__indep0.01__w3_36x8", coefficients("independent", 0.01)),
        ("M__read__prop0.02__w3_36x8", coefficients("proportional", 0.02)),
    ],
)
def test_moments_of_reading(key: str, model: tuple[float, ...]) -> None:
    """The formula that stands for fresh noise of every cell: theirs were drawn."""
    weights = torch.tensor(vectors()["W__w3_36x8"]).double()
    x = torch.tensor(vectors()["X__bin_36"][[0, 2, 3]]).double()
    total: Any = 0
    variance: Any = 0
    for sign in (1, -1):
        cells = (sign * weights).clamp_min(0) / 3
        mean, square = clamped(cells, polynomial(model, cells))
        total, variance = total + sign * 3 * (x @ mean), variance + 9 * (x**2 @ square)
    demand_moments(key, total.numpy(), variance.sqrt().numpy(), 10**9)


def test_moments_behind_the_converter() -> None:
    key = "M__prog__prop0.10__adc_b4_R7__w3_36x8"
    weights = torch.tensor(vectors()["W__w3_36x8"]).double()
    x = torch.tensor(vectors()["X__bin_36"][[0, 2, 3]]).double()
    model = coefficients("proportional", 0.1)
    cells = [
        written((sign * weights).clamp_min(0).expand(DRAWS, 36, 8), model,
                drawn((DRAWS, 36, 8), f"adc{sign}"))
        for sign in (1, -1)
    ]  # fmt: skip
    groups = row_groups((cells[0] - cells[1]).transpose(1, 2), 9, 9)  # [draw, output, group, row]
    y = torch.einsum("mgr,dogr->dmgo", row_groups(x, 9, 9), groups)
    total = convert((y * 2**FINEST).round(), Converter(UNIT, -7, 7)).sum(dim=2)
    golden = vectors()[f"{key}__std"]
    assert (np.abs(total.mean(0).numpy() - vectors()[f"{key}__mean"]) < 0.16 * golden + 0.02).all()
    assert (np.abs(total.std(0).numpy() - golden) < 0.12 * golden + 0.02).all()


@pytest.mark.parametrize("key", [name for name in keys("R", "mean") if "gmax40" in name])
def test_measured_reram(key: str) -> None:
    model = {"t1": "wan2022-1s", "t86400": "wan2022-1d", "t172800": "wan2022-2d"}
    name = key.removesuffix("__mean")
    factors = coefficients(model[name.split("__")[-1]], 0.0)
    weights = torch.tensor(vectors()["R__w"]).double()
    values: Any = 0
    for sign in (1, -1):
        cells = (sign * weights).clamp_min(0).expand(20_000, 41)
        values = values + sign * written(cells, factors, drawn((20_000, 41), f"{name}{sign}"))
    golden = vectors()[f"{name}__std"]
    assert (np.abs(values.mean(0).numpy() - vectors()[key]) < 5 * golden / 100).all()
    assert (np.abs(values.std(0).numpy() / golden - 1) < 0.03).all()
