"""A chip as it was made: the weights of a network in slices and binary cells, with their errors.

A weight is a sign and a magnitude, cut into slices of some bits; each bit of a slice has a cell in
the positive and one in the negative column, in low or high resistance (LRS, HRS). What is drawn is
drawn once per chip, from its seed, the layer and the cell. All copies of a layer (the paper maps
each token to arrays of its own) have the same errors: real ones would average out between tokens.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import frexp

import torch
from torch import Tensor

from falcon_snn.hardware.cells import coefficients
from falcon_snn.hardware.profile import Profile
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
    chip = {}
    for stage in snn.network.stages:
        for suffix, read, product in stage.products:
            name = f"{stage.name}.weight{suffix}"
            if layers is None or name in layers:
                one = replace(product, groups=1)  # pooled inputs are repeated, groups stay apart
                codes = array_weights(snn.tensors[name], one, snn.network.shapes[read][2])
                chip[name] = sample_array(
                    codes, profile, key_of(seed, name), bits=snn.network.weight_bits,
                    arrays=product.groups, span=ranges.get(name),
                    input_bits=profile.input_bits if qnn else 0,
                )  # fmt: skip
    return replace(snn, chip=chip)


def sample_array(
    codes: Tensor, profile: Profile, key: int, *, bits: int, arrays: int = 1,
    span: float | None = None, input_bits: int = 0,
) -> AnalogArray:  # fmt: skip
    """Weights [outputs, lines, pixels, channels] as one chip holds them.

    `span` is the range of the converters; without one sums are exact, and if wires have no
    resistance, row groups then make no difference: all rows are one group.
    """
    top = (1 << (min(bits, profile.weight_bits) - 1)) - 1
    worth = ((1 << (bits - 1)) - 1) / top  # of a unit of the chip's weights, in codes
    rounded = codes.double() if worth == 1 else (codes.double() / worth).round()
    rounded = rounded.long().flatten(1).t()  # [row, output of all arrays]
    rounded = torch.stack(rounded.chunk(arrays, dim=1))  # [array, row, output]
    wired = profile.column_ohm + profile.row_ohm > 0
    grouped = span is not None or wired
    rows = profile.tile_rows if grouped else rounded.shape[1]
    active = profile.active_rows if grouped else rounded.shape[1]

    def laid_out(x: Tensor) -> Tensor:
        """[..., part, array, row, output] as [..., group, row, column]."""
        x = row_groups(x.transpose(-1, -2), rows, active)  # [..., part, array, output, group, row]
        x = x.movedim((-4, -2, -1, -5, -3), (-5, -4, -3, -2, -1))
        return x.flatten(-2).flatten(-4, -3)

    conductances, scales, parts = _cells(rounded, profile, key)
    noise, read = None, coefficients(profile.read_noise, profile.read_sigma)
    largest = (1 << input_bits) - 1 if input_bits else 1
    if profile.read_noise == "independent":  # the same for all cells, on either side of zero
        one = profile.read_sigma**2 * sum(scale**2 for scale in scales) * UNIT**2
        noise = ReadNoise(None, one, key_of(key, "read"))
    elif read:
        conductances, variance = clamped(conductances, polynomial(read, conductances))
        squares = laid_out(_weighted(variance, [s * s for s in scales])) * UNIT**2
        # Whole numbers of eleven bits, which a 16-bit float holds.
        unit = 2.0 ** frexp(float(squares.max()) / _LARGEST_VARIANCE)[1]
        noise = ReadNoise((squares / unit).round().float(), unit, key_of(key, "read"))
    weight = (laid_out(_weighted(conductances, scales)) * UNIT).round()
    if not grouped and len(parts) > 1:  # nothing is converted: slices add up at once
        shape = (*weight.shape[:2], len(parts), -1)
        weight = _weighted(weight.view(shape).movedim(2, 0), parts)
        squared = [part * part for part in parts]
        if noise is not None and noise.variance is None:
            noise = noise._replace(unit=noise.unit * sum(squared))
        elif noise is not None and noise.variance is not None:
            variance = _weighted(noise.variance.view(shape).movedim(2, 0), squared)
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
        ohms, worths = 1000 * profile.lrs_kohm, tuple(UNIT * finer * scale for scale in scales)
        cells = laid_out(conductances)
        wires = Wires(cells, worths, profile.column_ohm / ohms, profile.row_ohm / ohms)
    if span is None and noise is not None and noise.variance is not None:
        variance = noise.variance.to(exact_type(reach_of(noise.variance, largest**2)))
        noise = noise._replace(variance=variance)
    return AnalogArray(
        weight.to(exact_type(reach)), tuple(worth * part for part in parts), arrays,
        codes.shape[3], rows, active, input_bits, converter, noise, wires, dark,
    )  # fmt: skip


def _cells(
    weights: Tensor, profile: Profile, key: int
) -> tuple[Tensor, tuple[float, ...], tuple[float, ...]]:
    """Conductances [bit, part, array, row, output] of written cells, over that of LRS.

    Also what each bit is worth in its part, and each part in the weight: positive and negative
    cells are bits of one part where their currents are subtracted, and parts where both are
    converted.
    """
    bits, slices, off = profile.slice_bits, profile.weight_slices, 1 / profile.on_off_ratio
    on = torch.stack([
        (sign * weights > 0) & ((weights.abs() >> (number * bits + bit)) & 1 == 1)
        for sign in (1, -1)
        for bit in range(bits)
        for number in range(slices)
    ])  # fmt: skip
    cells = torch.full(on.shape, off, dtype=torch.float64, device=on.device)
    cells[on] = 1.0
    model = coefficients(profile.programming, profile.programming_sigma)
    if model:
        drawn = normals(counters(tuple(cells.shape), key_of(key, "programming"), cells.device))
        cells = written(cells, model, drawn)
    if profile.stuck_hrs_rate + profile.stuck_lrs_rate > 0:
        draw = counters(tuple(cells.shape), key_of(key, "stuck"), cells.device)
        cells = stuck(cells, draw.double() / 2.0**32 + 0.5, profile)
    cells = cells.view(2, bits, slices, *weights.shape)
    scales = [2.0**bit / (1 - off) for bit in range(bits)]
    parts = [2.0 ** (bits * number) for number in range(slices)]
    if profile.sensing == "subtracted":
        both = (*scales, *(-scale for scale in scales))
        return cells.flatten(0, 1), both, tuple(parts)
    apart = cells.transpose(0, 1).flatten(1, 2)
    return apart, tuple(scales), (*parts, *(-part for part in parts))


def _weighted(cells: Tensor, scales: Sequence[float]) -> Tensor:
    """The sum over bits, one after the other, so that every device rounds alike."""
    total = cells[0] * scales[0]
    for cell, scale in zip(cells[1:], scales[1:], strict=True):
        total = total + cell * scale
    return total


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


def polynomial(factors: tuple[float, ...], x: Tensor) -> Tensor:
    """sum_i factors_i x^i."""
    value = torch.zeros_like(x)
    for factor in reversed(factors):
        value = value * x + factor
    return value


def written(conductance: Tensor, model: tuple[float, ...], drawn: Tensor) -> Tensor:
    """Conductances with the error of a model, never below zero; `drawn` are standard normal."""
    return (conductance + polynomial(model, conductance) * drawn).clamp_min(0)


def stuck(conductance: Tensor, drawn: Tensor, profile: Profile) -> Tensor:
    """Some cells in HRS and some in LRS, whatever was written; `drawn` are uniform in [0, 1)."""
    off = 1 / profile.on_off_ratio
    found = torch.where(drawn < profile.stuck_hrs_rate, off, conductance)
    return torch.where(drawn >= 1 - profile.stuck_lrs_rate, 1.0, found)


def clamped(conductance: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of max(g + sigma N(0, 1), 0): what a noisy cell gives over many reads."""
    sigma = sigma.clamp_min(1e-12)
    z = conductance / sigma
    below = torch.special.erfc(z / 2**0.5) / 2
    density = torch.exp(-z * z / 2) / (2 * torch.pi) ** 0.5
    mean = conductance * (1 - below) + sigma * density
    square = (conductance**2 + sigma**2) * (1 - below) + conductance * sigma * density
    return mean, (square - mean**2).clamp_min(0)
