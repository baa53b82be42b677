"""The product of one layer on a sampled chip: row groups, noise, converters.

Cell values are whole multiples of 2^-16 of a unit, so every sum in front of a converter is exact in
any order and on every device: float32 holds them below 2^24, float64 what is larger. A code is the
nearest whole number of steps, which takes one multiplication; codes and what they are worth are
again added up exactly, so the membrane stays an integer.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from falcon_snn.neuron.counter_noise import counters, key_of, mix, normals
from falcon_snn.neuron.packed import count

UNIT = 1 << 16  # of the grid, for the smallest weight of a slice
_ROUNDS = 16  # of the voltages, until they agree with the currents
_EXACT = 1 << 24  # below this a float32 holds every integer
_PIECE = {"cpu": 1 << 20, "cuda": 1 << 27}  # sums that are formed together


class Converter(NamedTuple):
    """Codes low..high of `step` each; `offset` [group, 1, column] adds to what it senses."""

    step: int  # in the grid's units
    low: int
    high: int
    offset: Tensor | None = None


class ReadNoise(NamedTuple):
    """Fresh noise of a row group: one Gaussian with the variance of its independent cells.

    The variance of sum_i x_i n_i is sum_i x_i^2 sigma_i^2; `variance` is in units of `unit`.
    """

    variance: Tensor  # whole numbers [group, row, column]
    unit: float
    key: int


class Wires(NamedTuple):
    """Cells one by one, because wires make what flows through one depend on the others."""

    cells: Tensor  # conductances over LRS, float64 [bit, group, row, column]
    scales: tuple[float, ...]  # what the current of each bit is worth
    column: float  # resistance from one cell to the next over that of LRS
    row: float


@dataclass(frozen=True)
class AnalogArray:
    """The weights of a layer as one chip holds them, and what reads them."""

    weight: Tensor  # whole numbers [group, row, column]; columns are [part of a weight, output]
    parts: tuple[float, ...]  # what a sum of each part is worth in the layer's sum
    arrays: int  # side by side, each reads `channels` channels of its own
    channels: int
    tile_rows: int
    active_rows: int
    input_bits: int  # of a count that one pass takes; 0: a pass takes a slot of spikes
    converter: Converter | None = None  # None: sums are exact
    noise: ReadNoise | None = None
    wires: Wires | None = None

    def sums(self, rows: Tensor, first: int, clips: Tensor | None) -> Tensor:
        """Sums of packed inputs [row, input] in each pass, float64 [pass, row, output], whole.

        They are in units of 1/UNIT of a weight's unit. The first slots are read. Rows of a clip
        follow each other; `clips` are the clips' keys, for noise.
        """
        keys = None
        if self.noise is not None:
            assert clips is not None
            keys = _row_keys(clips, len(rows), self.noise.key)
        found = []
        for number, (x, weight) in enumerate(self.passes(rows, first)):
            fresh = None if keys is None else mix(keys ^ key_of("pass", number))
            piece = max(1, _PIECE[x.device.type] // self.weight[:, 0].numel())
            pieces = [
                self._sum(x[at : at + piece], None if fresh is None else fresh[at : at + piece])
                for at in range(0, len(x), piece)
            ]
            found.append(weight * torch.cat(pieces))
        return torch.stack(found)

    def passes(self, rows: Tensor, first: int) -> Iterator[tuple[Tensor, int]]:
        """What goes into the array, pass after pass, uint8 [row, input], and what it is worth."""
        if not self.input_bits:
            for slot in range(first):
                yield (rows >> slot) & 1, 1
            return
        counts, largest = count(rows, first), (1 << self.input_bits) - 1
        for shift in range(0, first.bit_length(), self.input_bits):
            yield (counts >> shift) & largest, 1 << shift

    def partial_sums(self, x: Tensor) -> Tensor:
        """Sums of inputs [row, input] per row group, whole numbers [group, row, column]."""
        x = x.view(len(x), -1, self.arrays, self.channels).transpose(1, 2).flatten(2)
        x = row_groups(x.to(self.weight.dtype), self.tile_rows, self.active_rows)
        x = x.permute(1, 2, 0, 3).flatten(0, 1)  # [group, row, input]
        if self.wires is None:
            return torch.bmm(x, self.weight)
        return (UNIT * wired_sums(x, self.wires)).round().to(self.weight.dtype)

    def _sum(self, x: Tensor, keys: Tensor | None) -> Tensor:
        y = self.partial_sums(x)
        if keys is not None:
            y += self._fresh(x, keys)
        y = y.double() if self.converter is None else convert(y, self.converter)
        y = y.view(self.arrays, -1, *y.shape[1:]).sum(dim=1)
        y = y.view(self.arrays, len(x), len(self.parts), -1).double()
        worth = 1 if self.converter is None else self.converter.step
        total: Any = 0
        for part, counts in enumerate(self.parts):
            total = total + y[:, :, part] * (counts * worth)
        return total.round().transpose(0, 1).flatten(1)

    def _fresh(self, x: Tensor, keys: Tensor) -> Tensor:
        """The noise of one pass: keys are those of the rows, hashed with group and column."""
        noise = self.noise
        assert noise is not None
        squares = replace(self, weight=noise.variance, wires=None).partial_sums(x * x)
        groups, _, columns = self.weight.shape
        places = counters((groups, 1, columns), noise.key, keys.device)
        sigma = squares.mul_(noise.unit).sqrt_()
        return sigma.mul_(normals(mix(places ^ keys[:, None]))).round_()


def convert(y: Tensor, converter: Converter) -> Tensor:
    """Codes of exact sums: the nearest step; overwrites its argument."""
    if converter.offset is not None:
        y += converter.offset
    return y.mul_(1.0 / converter.step).round_().clamp_(converter.low, converter.high)


def row_groups(x: Tensor, tile_rows: int, active_rows: int) -> Tensor:
    """Rows [..., row] cut into tiles, tiles into groups, [..., group, row]; padded with zeros."""
    inner = x.shape[-1]
    tile_rows = min(tile_rows, inner)
    active_rows = min(active_rows, tile_rows)
    tiles, rest = divmod(inner, tile_rows)
    x = F.pad(x, (0, -inner % tile_rows)).reshape(*x.shape[:-1], -1, tile_rows)
    x = F.pad(x, (0, -tile_rows % active_rows)).reshape(*x.shape[:-2], -1, active_rows)
    return x[..., : tiles * -(-tile_rows // active_rows) + -(-rest // active_rows), :]


def wired_sums(x: Tensor, wires: Wires) -> Tensor:
    """Sums where wires have resistance: inputs [group, row, input], float64 [group, row, column].

    The voltage at cell i of n is v_i = 1 - sum_k (c (n - max(i, k)) + r (min(i, k) + 1)) g_k x_k
    v_k, in which the first sum runs along the column to its foot, the second along the row wire.
    """
    total: Any = 0
    for cells, scale in zip(wires.cells, wires.scales, strict=True):
        driven = cells[:, None] * x[..., None]
        voltage = torch.ones_like(driven)
        for _ in range(_ROUNDS):
            current = driven * voltage
            before = current.cumsum(dim=2)
            behind = current + before[:, :, -1:] - before
            drop = wires.column * (before.flip(2).cumsum(dim=2).flip(2))
            drop += wires.row * behind.cumsum(dim=2)
            voltage = voltage / (voltage + drop)
        total = total + scale * (driven * voltage).sum(dim=2)
    return total


def exact_type(weight: Tensor, largest: int, more: float = 0.0) -> torch.dtype:
    """The float that holds all sums of inputs up to `largest` times whole weights."""
    reach = float(weight.abs().sum(dim=1).max()) * largest + more
    return torch.float32 if reach < _EXACT else torch.float64


def _row_keys(clips: Tensor, rows: int, key: int) -> Tensor:
    """A hash for each row: of its clip, its place in the clip and the layer's key."""
    places = counters((1, rows // len(clips)), key, clips.device)
    return mix(clips[:, None] ^ places).flatten()


def clip_keys(packed: Tensor) -> Tensor:
    """A hash of each clip's source spikes, int32: a clip is known by what it is, not by its place.

    Silent lines at the end do not count.
    """
    flat = packed.flatten(1)
    places = counters((flat.shape[1],), key_of("clip"), packed.device)
    return mix((flat * places).sum(dim=1).to(torch.int32))
