"""A chip as it was made: the weights of a network in cells (`chip_cells`), and what reads them.

What is drawn is drawn once per chip, from its seed and the layer. All copies of a layer (the paper
maps each token to arrays of its own) have the same errors: real ones would average out between
tokens.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import frexp
from typing import NamedTuple

import torch
from torch import Tensor

from falcon_snn.hardware.profile import Profile
from falcon_snn.network.chip_cells import WrittenCells, weighted, written_cells
from falcon_snn.network.integer import Snn
from falcon_snn.network.parts import array_weights
from falcon_snn.neuron.analog import (
    AnalogArray,
    ReadNoise,
    exact_type,
    reach_of,
    row_groups,
    shortened,
)
from falcon_snn.neuron.analog_cells import UNIT
from falcon_snn.neuron.converter import Converter, convert, fraction_bits
from falcon_snn.neuron.counter_noise import counters, key_of, normals
from falcon_snn.neuron.wires import Wires

FIRST_CHIP = 1 << 20  # of training and searches: chips that are tested have small numbers
_LARGEST_VARIANCE = 2047  # of a weight, in the units that variances are counted in
Ranges = Mapping[str, float]  # layer to the range of its converters, in units of a slice


def sampled(
    snn: Snn, profile: Profile, seed: int, ranges: Ranges, *, qnn: bool = False,
    layers: Collection[str] | None = None,
) -> Snn:  # fmt: skip
    """The network on the chip of this seed; `layers` leaves all others ideal.

    A QNN drives its counts in bits, `input_bits` a pass, instead of slots of spikes.
    """
    asked: dict[str, _Asked] = {}
    for stage in snn.network.stages:
        for suffix, read, product in stage.products:
            name = f"{stage.name}.weight{suffix}"
            if layers is None or name in layers:
                one = replace(product, groups=1)  # pooled inputs are repeated, groups stay apart
                codes = array_weights(snn.tensors[name], one, snn.network.shapes[read][2])
                asked[name] = _Asked(
                    codes, key_of(seed, name), product.groups, ranges.get(name),
                    profile.input_bits if qnn else 0,
                )  # fmt: skip
    arrays = _arrays(list(asked.values()), profile, snn.network.weight_bits)
    return replace(snn, chip=dict(zip(asked, arrays, strict=True)))


class _Asked(NamedTuple):
    """One layer that a chip is to hold."""

    codes: Tensor  # [outputs, lines, pixels, channels]
    key: int
    arrays: int  # side by side
    span: float | None  # the range of its converters; None: sums are exact
    input_bits: int  # of a count that a pass takes; 0: slots of spikes


def sample_array(
    codes: Tensor, profile: Profile, key: int, *, bits: int, arrays: int = 1,
    span: float | None = None, input_bits: int = 0,
) -> AnalogArray:  # fmt: skip
    """One layer alone."""
    return _arrays([_Asked(codes, key, arrays, span, input_bits)], profile, bits)[0]


def _arrays(asked: Sequence[_Asked], profile: Profile, bits: int) -> list[AnalogArray]:
    """Layers of codes of so many bits as one chip holds them."""
    if not asked:
        return []
    top = (1 << (min(bits, profile.weight_bits) - 1)) - 1
    worth = ((1 << (bits - 1)) - 1) / top  # of a unit of the chip's weights, in codes
    weights = []
    for one in asked:
        rounded = one.codes.double() if worth == 1 else (one.codes.double() / worth).round()
        rounded = rounded.long().flatten(1).t()  # [row, output of all arrays]
        weights.append(torch.stack(rounded.chunk(one.arrays, dim=1)))  # [array, row, output]
    # A GPU takes long to start small steps; a CPU's caches hold the cells of one layer.
    together = len(asked) if weights[0].is_cuda else 1
    made = []
    for first in range(0, len(asked), together):
        some = slice(first, first + together)
        made += written_cells(weights[some], profile, [one.key for one in asked[some]])
    return [_array(one, cells, profile, worth) for one, cells in zip(asked, made, strict=True)]


def _array(asked: _Asked, cells: WrittenCells, profile: Profile, worth: float) -> AnalogArray:
    """The row groups of a layer, their noise and their converters.

    Without a range of converters sums are exact, and if wires have no resistance, row groups then
    make no difference: all rows are one group.
    """
    (codes, key, arrays, span, input_bits), inputs = asked, cells.weight.shape[2]
    parts = cells.parts
    wired = profile.column_ohm + profile.row_ohm > 0
    grouped = span is not None or wired
    rows = profile.tile_rows if grouped else inputs
    active = profile.active_rows if grouped else inputs

    def laid_out(x: Tensor) -> Tensor:
        """[..., part, array, row, output] as [..., group, row, column]."""
        x = row_groups(x.transpose(-1, -2), rows, active)  # [..., part, array, output, group, row]
        x = x.movedim((-4, -2, -1, -5, -3), (-5, -4, -3, -2, -1))
        return x.flatten(-2).flatten(-4, -3)

    noise = None
    largest = (1 << input_bits) - 1 if input_bits else 1
    if profile.read_noise == "independent":  # the same for all cells, on either side of zero
        one = profile.read_sigma**2 * sum(scale**2 for scale in cells.scales) * UNIT**2
        noise = ReadNoise(None, one, key_of(key, "read"))
    elif cells.variance is not None:
        squares = laid_out(cells.variance) * UNIT**2
        # Whole numbers of eleven bits, which a 16-bit float holds.
        unit = 2.0 ** frexp(float(squares.max()) / _LARGEST_VARIANCE)[1]
        noise = ReadNoise((squares / unit).round().float(), unit, key_of(key, "read"))
    weight = (laid_out(cells.weight) * UNIT).round()
    if not grouped and len(parts) > 1:  # nothing is converted: slices add up at once
        shape = (*weight.shape[:2], len(parts), -1)
        weight = weighted(weight.view(shape).movedim(2, 0), parts)
        squared = [part * part for part in parts]
        if noise is not None and noise.variance is None:
            noise = noise._replace(unit=noise.unit * sum(squared))
        elif noise is not None and noise.variance is not None:
            variance = weighted(noise.variance.view(shape).movedim(2, 0), squared)
            noise = noise._replace(variance=variance)
        parts = (1.0,)
    converter, dark, finer = None, None, 1.0
    reach = reach_of(weight, largest)
    if span is not None:  # cells are counted in parts of its step from here on
        low = -profile.largest_code if profile.sensing == "subtracted" else 0
        step, offset = max(1, round(span / profile.largest_code * UNIT)), None
        if profile.offset_steps:
            offset = _offsets(weight, len(parts), arrays, profile, key)
            reach += float(offset.abs().max()) * step
        sigma = 0.0 if noise is None else largest * noise.largest(active)
        bits = fraction_bits(reach / step, sigma / step, profile.largest_code - low)
        finer = 2.0**bits / step
        weight, grid = (weight * finer).round(), 1.0
        if profile.programming != "none":  # ideal cells keep all bits
            weight, grid = shortened(weight, bits)
        reach = reach * finer + weight.shape[1] * largest * grid  # more than rounding adds
        noise = None if noise is None else noise._replace(unit=noise.unit * finer**2)
        offset = None if offset is None else (offset * 2.0**bits).round().to(exact_type(reach))
        converter = Converter(step, low, profile.largest_code, offset, bits)
        if offset is not None and profile.offset_trim == "silent":
            silence = convert(offset, converter)
            dark = silence.view(arrays, -1, 1, weight.shape[2]).sum(dim=1).int()
    wires = None
    if wired:
        ohms = 1000 * profile.lrs_kohm
        wires = Wires(
            laid_out(cells.conductances), tuple(UNIT * finer * scale for scale in cells.scales),
            profile.column_ohm / ohms, profile.row_ohm / ohms,
        )  # fmt: skip
    if span is None and noise is not None and noise.variance is not None:
        variance = noise.variance.to(exact_type(reach_of(noise.variance, largest**2)))
        noise = noise._replace(variance=variance)
    return AnalogArray(
        weight.to(exact_type(reach)), tuple(worth * part for part in parts), arrays,
        codes.shape[3], rows, active, input_bits, converter, noise, wires, dark,
    )  # fmt: skip


def _offsets(weight: Tensor, parts: int, arrays: int, profile: Profile, key: int) -> Tensor:
    """Offsets [group, 1, column] in steps: `mux` columns of a tile share a converter."""
    groups, _, columns = weight.shape
    place = torch.arange(columns, device=weight.device)
    place = place % (columns // parts) * parts + place // (columns // parts)  # parts side by side
    converters = place // profile.mux
    tiles = torch.arange(groups, device=weight.device) % (groups // arrays)
    tiles = tiles // profile.tile_row_groups
    array = torch.arange(groups, device=weight.device) // (groups // arrays)
    shape = (arrays, int(tiles.max()) + 1, int(converters.max()) + 1)
    drawn = normals(counters(shape, key_of(key, "offset"), weight.device)).double()
    found = drawn[array[:, None], tiles[:, None], converters[None]]
    return (profile.offset_steps * found)[:, None]
