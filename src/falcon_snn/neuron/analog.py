"""The product of one layer on a sampled chip: row groups, noise, converters.

Cell values are whole multiples of 2^-16 of a unit, or of a small part of a converter's step, so
every sum in front of a converter is exact in any order and on every device: float32 holds them
below 2^24, float64 what is larger. Converters make codes of them (`converter.py`); codes and what
they are worth are again added up exactly, so the membrane stays an integer.

Two neighbouring row groups of an array share the four random bytes of their noise, in another
order: the signs of their weights are then orthogonal, and their noise is not correlated.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from falcon_snn.neuron.converter import Converter, convert
from falcon_snn.neuron.counter_noise import (
    BYTE_VARIANCE,
    PLAIN_WEIGHTS,
    byte_weights,
    counters,
    fresh_bytes,
    key_of,
    mix,
)
from falcon_snn.neuron.packed import count
from falcon_snn.neuron.wires import Wires, wired_sums

UNIT = 1 << 16  # of the grid, for the smallest weight of a slice
_EXACT = 1 << 24  # below this a float32 holds every integer
_SHORT = 11  # bits of whole numbers that a 16-bit float holds
_HALVES = 1 << (2 * _SHORT)
_SCALE = 1 << 8  # brings weights into its range
_FINE_ENOUGH = 8  # bits behind the point of a converter's step that cells need
_DIGIT = 1 << 10  # the largest of a balanced digit of eleven bits
CHIP_TILE = 64  # outputs of a tile of exact sums: padded to a multiple of it, none is masked
PIECE = 16  # outputs that the tensor cores take at once
SMALL_SQUARES = 16  # two sums of squared inputs below this share a byte
_SHARED = (1, 3, 0, 2)  # which weight each byte has in the second of two row groups
_TOGETHER = {"cpu": 1 << 20, "cuda": 1 << 27}  # sums that are formed together


class ReadNoise(NamedTuple):
    """Fresh noise of a row group: one draw with the variance of its independent cells.

    The variance of sum_i x_i n_i is sum_i x_i^2 sigma_i^2, in units of `unit`.
    """

    variance: Tensor | None  # whole numbers [group, row, column]; None: one for all
    unit: float
    key: int

    def largest(self, rows: int) -> float:
        """The deviation of a row group of so many rows, all with an input of one."""
        most = rows if self.variance is None else float(self.variance.sum(dim=1).max())
        return float(most * self.unit) ** 0.5


class Fresh(NamedTuple):
    """What a kernel needs for read noise."""

    places: Tensor  # odd hashes of places, uint32 [pair of groups, part, output], padded
    variance: Tensor | None  # float16, laid out like the cells; None: one for all
    levels: Tensor | None  # then: for each sum of squared inputs the deviation, or the weights of
    # four bytes in one int32: [group of two, sum]; small squares: [second sum, first sum, group]
    unit: float  # of variances


class Cells(NamedTuple):
    """Weights in two halves that 16-bit floats hold, high + low, all over _SCALE.

    Rows of a group are padded to a power of two. The first two after the inputs hold the
    converter's offset and how far the lowest code lies below zero, less half a step: a code is then
    what is left of a sum without its parts. The third is 1.5 * 2^23: added to a float that counts
    parts, its bits count them, too. Outputs lie in pieces: those of a row group are read at once.
    """

    high: Tensor  # float16 [group, part, piece, row, output of a piece], likewise low
    low: Tensor | None  # None: weights have eleven bits
    fresh: Fresh | None


class Digits(NamedTuple):
    """Weights that are added up exactly: their digits to the base of 2^11, the lowest first."""

    digits: Tensor  # float16 [digit, array, row, output], rows and outputs padded
    unit: float  # of the lowest digit
    fresh: Fresh | None


@dataclass(frozen=True)
class AnalogArray:
    """The weights of a layer as one chip holds them, and what reads them."""

    weight: Tensor  # whole numbers [group, row, column]; columns are [part of a weight, output].
    # They count parts of the converter's step; without one 1/UNIT of a weight's unit.
    parts: tuple[float, ...]  # what a sum of each part is worth in the layer's sum
    arrays: int  # side by side, each reads `channels` channels of its own
    channels: int
    tile_rows: int
    active_rows: int
    input_bits: int  # of a count that one pass takes; 0: a pass takes a slot of spikes
    converter: Converter | None = None  # None: sums are exact
    noise: ReadNoise | None = None
    wires: Wires | None = None
    dark: Tensor | None = None  # codes of silent inputs, int32 [array, 1, column]: subtracted

    def sums(self, rows: Tensor, first: int, clips: Tensor | None) -> Tensor:
        """Sums of packed inputs [row, input] in each pass, float64 [pass, row, output], whole.

        They are in units of 1/UNIT of a weight's unit. The first slots are read. Rows of a clip
        follow each other; `clips` are the clips' keys, for noise.
        """
        keys = self.read_keys(clips, len(rows), first)
        found = []
        for number, (x, weight) in enumerate(self.passes(rows, first)):
            fresh = None if keys is None else keys[number]
            piece = max(1, _TOGETHER[x.device.type] // self.weight[:, 0].numel())
            pieces = [
                self._sum(x[at : at + piece], None if fresh is None else fresh[at : at + piece])
                for at in range(0, len(x), piece)
            ]
            found.append(weight * torch.cat(pieces))
        return torch.stack(found)

    def read_keys(self, clips: Tensor | None, rows: int, first: int) -> Tensor | None:
        """A hash for each row in each pass, int32 [pass, row]; None without fresh noise.

        It is one of the row's clip, its place in the clip, the layer's key and the pass.
        """
        if self.noise is None:
            return None
        assert clips is not None
        places = counters((1, rows // len(clips)), self.noise.key, clips.device)
        keys = mix(clips[:, None] ^ places).flatten()
        return mix(keys ^ pass_keys(self.pass_count(first), clips.device)[:, None])

    @cached_property
    def place_keys(self) -> Tensor:
        """A hash for each group and column, int32: two groups of an array share theirs."""
        assert self.noise is not None
        groups, columns = len(self.weight) // self.arrays, self.weight.shape[2]
        shape = (self.arrays, -(-groups // 2), columns)
        keys = counters(shape, self.noise.key, self.weight.device)
        return keys.repeat_interleave(2, dim=1)[:, :groups].flatten(0, 1)

    @cached_property
    def worths(self) -> Tensor:
        """What a code of each part is worth in the layer's sum, float64 [part]."""
        step = 1 if self.converter is None else self.converter.step
        worths = [part * step for part in self.parts]
        return torch.tensor(worths, dtype=torch.float64, device=self.weight.device)

    @cached_property
    def cells(self) -> Cells | None:
        """The same for tensor cores; None where they would not be exact, or have nothing to do."""
        exact = self.weight.dtype == torch.float32 and self.weight.abs().max() <= _HALVES
        if self.converter is None or self.wires is not None or not exact:
            return None
        if not self.converter.bits:
            return None
        active = self.weight.shape[1]
        rows = max(16, 1 << (active + 2).bit_length())
        weight = F.pad(self.weight, (0, 0, 0, rows - active))
        if self.converter.offset is not None:
            weight[:, active] = self.converter.offset[:, 0]
        weight = self._even(self._wide(weight, PIECE))
        weight[:, active] += (0.5 - self.converter.low) * 2.0**self.converter.bits
        high = _upper(weight)
        weight[:, active + 1] = weight[:, active] - high[:, active]
        weight[:, active + 2] = 1.5 * 2.0**23
        weight[:, active] = high[:, active]
        high = _upper(weight)
        low = weight - high if (weight != high).any() else None
        return Cells(
            self._in_pieces((high / _SCALE).half()),
            None if low is None else self._in_pieces((low / _SCALE).half()),
            self._fresh_for(rows, PIECE),
        )

    def _in_pieces(self, x: Tensor) -> Tensor:
        """Cells [group, row, column] in the order of a kernel."""
        x = x.view(*x.shape[:2], len(self.parts), -1, PIECE)
        return x.permute(0, 2, 3, 1, 4).contiguous()

    @cached_property
    def digits(self) -> Digits | None:
        """The same where nothing is converted: an array is then one row group, summed in float32.

        Every sum of a digit stays below 2^24. Weights without errors are multiples of a unit and
        mostly need one digit, others three.
        """
        noise = self.noise
        apart = noise is not None and noise.variance is not None
        if self.converter is not None or self.wires is not None or apart:
            return None
        inputs, largest = self.weight.shape[1], (1 << max(self.input_bits, 1)) - 1
        if inputs * largest > _EXACT // _DIGIT or self.weight.abs().max() > _DIGIT**3:
            return None
        unit = UNIT if bool((self.weight % UNIT == 0).all()) else 1
        wide = self._wide(self.weight.double() / unit, CHIP_TILE)
        rest = F.pad(wide, (0, 0, 0, -inputs % CHIP_TILE))
        found: list[Tensor] = []
        while not found or bool(rest.any()):
            above = (rest / (2 * _DIGIT)).round()
            found.append((rest - above * (2 * _DIGIT)).half())
            rest = above
        return Digits(torch.stack(found), float(unit), self._fresh_for(inputs, CHIP_TILE))

    def _wide(self, x: Tensor, width: int) -> Tensor:
        """Columns [..., part, output] with their outputs padded to a multiple of `width`."""
        x = x.view(*x.shape[:-1], len(self.parts), -1)
        return F.pad(x, (0, -x.shape[-1] % width)).flatten(-2)

    def _even(self, x: Tensor) -> Tensor:
        """Row groups [group, ...] with a silent one more for each array that has an odd number."""
        if self.converter is None:
            return x
        x = x.view(self.arrays, -1, *x.shape[1:])
        return torch.cat([x, torch.zeros_like(x[:, : x.shape[1] % 2])], dim=1).flatten(0, 1)

    def _fresh_for(self, rows: int, width: int) -> Fresh | None:
        """Read noise in the units of a kernel, for cells of so many rows."""
        noise = self.noise
        if noise is None:
            return None
        active = self.weight.shape[1]
        places = self._even(self._wide(self.place_keys | 1, width)).view(torch.uint32)
        places = places if self.converter is None else places[::2].contiguous()
        if noise.variance is not None:
            variance = self._wide(F.pad(noise.variance, (0, 0, 0, rows - active)), width)
            variance = self._in_pieces(self._even(variance).half())
            return Fresh(places, variance, None, self._noise_unit)
        if self.converter is not None:
            both = torch.stack([self.noise_weights, self.noise_weights[:, list(_SHARED)]])
            words = both.to(torch.int8).view(torch.int32).squeeze(2)
            if self.small_squares:
                words = F.pad(words, (0, SMALL_SQUARES - words.shape[1]))
                first, second = (one.expand(SMALL_SQUARES, -1) for one in words)
                words = torch.stack([first, second.t()], dim=2)
            return Fresh(places, None, words.contiguous(), 0.0)
        squares = torch.arange(self.most_squares + 1, dtype=self.weight.dtype, device=places.device)
        return Fresh(places, None, squares.mul_(self._noise_unit).sqrt_(), 0.0)

    @property
    def small_squares(self) -> bool:
        """Whether the sums of squared inputs of two row groups share a byte."""
        return self.most_squares < SMALL_SQUARES

    @property
    def most_squares(self) -> int:
        """The largest sum of squared inputs of a row group."""
        return self.weight.shape[1] * ((1 << max(self.input_bits, 1)) - 1) ** 2

    @property
    def _noise_unit(self) -> float:
        """What the variance of a draw of plain bytes is multiplied with."""
        assert self.noise is not None
        return self.noise.unit / (4 * BYTE_VARIANCE)

    @cached_property
    def noise_weights(self) -> Tensor:
        """Weights of bytes for each sum of squared inputs, [sum, 4], in parts of a step."""
        assert self.noise is not None
        one = self.noise.unit
        found = [byte_weights(squares * one) for squares in range(self.most_squares + 1)]
        return torch.tensor(found, device=self.weight.device)

    def reads(self, inputs: int, rows: int) -> Tensor:
        """Which of a row's inputs each of so many rows reads, int32 [group, row]; -1 for none."""
        order = torch.arange(1, inputs + 1, dtype=torch.int32, device=self.weight.device)
        order = order.view(-1, self.arrays, self.channels).transpose(0, 1).flatten(1)
        found = row_groups(order, self.tile_rows, self.active_rows).flatten(0, 1)
        return self._even(F.pad(found, (0, rows - found.shape[1]))) - 1

    def pass_count(self, first: int) -> int:
        """The passes that counts or slots up to `first` take."""
        return -(-first.bit_length() // self.input_bits) if self.input_bits else first

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
        return wired_sums(x, self.wires).round().to(self.weight.dtype)

    def _sum(self, x: Tensor, keys: Tensor | None) -> Tensor:
        y, converter = self.partial_sums(x), self.converter
        noise = None if keys is None else self._fresh(x, keys)
        if converter is not None:
            y = convert(y if converter.offset is None else y + converter.offset, converter, noise)
        elif noise is not None:
            y += noise
        # The sum of all codes mostly fits a float32, which is added up sooner.
        most = _EXACT if converter is None else len(y) * max(-converter.low, converter.high)
        y = y.double() if most >= _EXACT else y
        y = y.view(self.arrays, -1, *y.shape[1:]).sum(dim=1)
        if self.dark is not None:
            y -= self.dark
        y = y.view(self.arrays, len(x), len(self.parts), -1).double()
        total: Any = 0
        for part, worth in enumerate(self.worths):
            total = total + y[:, :, part] * worth
        return (total + 0.5).floor().transpose(0, 1).flatten(1)

    def _fresh(self, x: Tensor, keys: Tensor) -> Tensor:
        """The noise of one pass: keys are those of the rows, hashed with group and column."""
        noise = self.noise
        assert noise is not None
        variance = noise.variance
        if variance is None:
            variance = torch.ones_like(self.weight[:, :, :1])
        squares = replace(self, weight=variance, wires=None).partial_sums(x * x)
        if self.converter is not None and noise.variance is None:
            weights = self.noise_weights[squares.squeeze(2).long()]
            return fresh_bytes(keys, self.place_keys, self.shared(weights))
        plain = self.shared(PLAIN_WEIGHTS.to(x.device).expand(len(self.weight), 1, 4))
        bytes_drawn = fresh_bytes(keys, self.place_keys, plain)
        drawn = squares.mul_(self._noise_unit).sqrt_() * bytes_drawn
        return drawn if self.converter is None else drawn.round_()

    def shared(self, weights: Tensor) -> Tensor:
        """Weights of bytes [group, row, 4], in another order for every second group of an array."""
        weights = weights.view(self.arrays, -1, *weights.shape[1:]).clone()
        weights[:, 1::2] = weights[:, 1::2][..., list(_SHARED)]
        return weights.flatten(0, 1)


def shortened(weight: Tensor, bits: int) -> tuple[Tensor, float]:
    """Whole weights with eleven bits, and their grid: where that is 2^-8 of a step or finer.

    A step has 2^`bits` parts, which weights count. Cells are far less exact than this.
    """
    grid = 2.0 ** max(0, (int(weight.abs().max()) - 1).bit_length() - _SHORT)
    if grid > 2.0 ** (bits - _FINE_ENOUGH):
        return weight, 1.0
    return (weight / grid).round() * grid, grid


def _upper(weight: Tensor) -> Tensor:
    """The part of whole weights that 16-bit floats over _SCALE hold."""
    return (weight / _SCALE).half().float() * _SCALE


def row_groups(x: Tensor, tile_rows: int, active_rows: int) -> Tensor:
    """Rows [..., row] cut into tiles, tiles into groups, [..., group, row]; padded with zeros."""
    inner = x.shape[-1]
    tile_rows = min(tile_rows, inner)
    active_rows = min(active_rows, tile_rows)
    tiles, rest = divmod(inner, tile_rows)
    x = F.pad(x, (0, -inner % tile_rows)).reshape(*x.shape[:-1], -1, tile_rows)
    x = F.pad(x, (0, -tile_rows % active_rows)).reshape(*x.shape[:-2], -1, active_rows)
    return x[..., : tiles * -(-tile_rows // active_rows) + -(-rest // active_rows), :]


def reach_of(weight: Tensor, largest: int) -> float:
    """The largest sum that inputs up to `largest` can make of weights [group, row, column]."""
    return float(weight.abs().sum(dim=1).max()) * largest


def exact_type(reach: float) -> torch.dtype:
    """The float that holds all whole sums up to `reach`."""
    return torch.float32 if reach < _EXACT else torch.float64


@cache
def pass_keys(passes: int, device: torch.device) -> Tensor:
    """A hash of each pass, int32."""
    keys = [key_of("pass", number) for number in range(passes)]
    return torch.tensor(keys, dtype=torch.int32, device=device)


def clip_keys(packed: Tensor) -> Tensor:
    """A hash of each clip's source spikes, int32: a clip is known by what it is, not by its place.

    Silent lines at the end do not count.
    """
    flat = packed.flatten(1)
    places = counters((flat.shape[1],), key_of("clip"), packed.device)
    return mix((flat * places).sum(dim=1, dtype=torch.int32))  # wraps
