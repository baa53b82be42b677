"""Cells as one chip holds them, those of several layers in one go.

A weight is a sign and a magnitude, cut into slices of some bits; each bit of a slice has a cell in
the positive and one in the negative column, in low or high resistance (LRS, HRS). What is drawn
belongs to the chip, the layer and the cell.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from falcon_snn.hardware.cells import coefficients
from falcon_snn.hardware.profile import Profile
from falcon_snn.neuron.counter_noise import counters_of, key_of, normals


class WrittenCells(NamedTuple):
    """The cells of a layer.

    Positive and negative ones are bits of one part where their currents are subtracted, and parts
    where both are converted.
    """

    conductances: Tensor  # [bit, part, array, row, output], over that of LRS
    weight: Tensor  # [part, array, row, output]: the sum of its bits
    variance: Tensor | None  # the same of their read noise; None: that does not depend on the cell
    scales: tuple[float, ...]  # what each bit is worth in its part
    parts: tuple[float, ...]  # and each part in the weight


def written_cells(
    weights: Sequence[Tensor], profile: Profile, keys: Sequence[int]
) -> list[WrittenCells]:
    """The cells of layers [array, row, output] of whole weights, each layer with its key."""
    bits, slices, off = profile.slice_bits, profile.weight_slices, 1 / profile.on_off_ratio
    flat = torch.cat([one.flatten() for one in weights])
    places = [number * bits + bit for bit in range(bits) for number in range(slices)]
    there = (flat.abs() >> torch.tensor(places, device=flat.device)[:, None]) & 1 == 1
    on = torch.cat([there & (flat > 0), there & (flat < 0)])
    cells = torch.full(on.shape, off, dtype=torch.float64, device=on.device).masked_fill_(on, 1.0)
    sizes = [one.numel() for one in weights]

    def hashes(what: str) -> Tensor:
        return counters_of(sizes, len(cells), [key_of(key, what) for key in keys], cells.device)

    model = coefficients(profile.programming, profile.programming_sigma)
    if model:
        cells = written(cells, model, normals(hashes("programming")))
    if profile.stuck_hrs_rate + profile.stuck_lrs_rate > 0:
        cells = stuck(cells, hashes("stuck").double() / 2.0**32 + 0.5, profile)
    cells = cells.view(2, bits, slices, -1)
    scales = tuple(2.0**bit / (1 - off) for bit in range(bits))
    parts = tuple(2.0 ** (bits * number) for number in range(slices))
    if profile.sensing == "subtracted":
        cells, scales = cells.flatten(0, 1), (*scales, *(-scale for scale in scales))
    else:
        cells, parts = cells.transpose(0, 1).flatten(1, 2), (*parts, *(-part for part in parts))
    read, variance = coefficients(profile.read_noise, profile.read_sigma), None
    if read and profile.read_noise != "independent":
        cells, squares = clamped(cells, polynomial(read, cells))
        variance = weighted(squares, [scale * scale for scale in scales])
    weight = weighted(cells, scales)

    def split(x: Tensor) -> list[Tensor]:
        some = zip(torch.split(x, sizes, dim=-1), weights, strict=True)
        return [part.view(*part.shape[:-1], *one.shape) for part, one in some]

    variances = [None] * len(weights) if variance is None else split(variance)
    of_layers = zip(split(cells), split(weight), variances, strict=True)
    return [WrittenCells(*of_layer, scales, parts) for of_layer in of_layers]


def weighted(cells: Tensor, scales: Sequence[float]) -> Tensor:
    """The sum over bits, one after the other, so that every device rounds alike."""
    total = cells[0] * scales[0]
    for cell, scale in zip(cells[1:], scales[1:], strict=True):
        total = total + cell * scale
    return total


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
