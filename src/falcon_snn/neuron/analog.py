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

from falcon_snn.neuron.analog_cells import (
    EXACT,
    SHARED,
    SHORT,
    SMALL_SQUARES,
    Cells,
    Digits,
    LookUps,
    byte_digits,
    exact_digits,
    look_ups,
    tensor_cells,
)
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
from falcon_snn.neuron.int8_product import int8_product
from falcon_snn.neuron.packed import count
from falcon_snn.neuron.wires import Wires, wired_sums

_FINE_ENOUGH = 8  # bits behind the point of a converter's step that cells need
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
        """The weights for tensor cores, where sums are converted."""
        return tensor_cells(self)

    @cached_property
    def digits(self) -> Digits | None:
        """The weights for tensor cores, where sums are exact."""
        return exact_digits(self)

    @cached_property
    def bytes(self) -> Tensor | None:
        """The weights for a CPU, where sums are exact."""
        return byte_digits(self)

    @cached_property
    def look_ups(self) -> LookUps | None:
        """The weights for a CPU, where sums are converted."""
        return look_ups(self)

    def even(self, x: Tensor) -> Tensor:
        """Row groups [group, ...] with a silent one more for each array that has an odd number."""
        if self.converter is None:
            return x
        x = x.view(self.arrays, -1, *x.shape[1:])
        return torch.cat([x, torch.zeros_like(x[:, : x.shape[1] % 2])], dim=1).flatten(0, 1)

    @property
    def small_squares(self) -> bool:
        """Whether the sums of squared inputs of two row groups share a byte."""
        return self.most_squares < SMALL_SQUARES

    @property
    def most_squares(self) -> int:
        """The largest sum of squared inputs of a row group."""
        return self.weight.shape[1] * ((1 << max(self.input_bits, 1)) - 1) ** 2

    @property
    def noise_unit(self) -> float:
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
        return self.even(F.pad(found, (0, rows - found.shape[1]))) - 1

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
        if self.bytes is not None:
            return self._exact_sums(x.to(torch.int8))
        x = row_groups(x.to(self.weight.dtype), self.tile_rows, self.active_rows)
        x = x.permute(1, 2, 0, 3).flatten(0, 1)  # [group, row, input]
        if self.wires is None:
            return torch.bmm(x, self.weight)
        return wired_sums(x, self.wires).round().to(self.weight.dtype)

    def _exact_sums(self, x: Tensor) -> Tensor:
        """The same of one row group per array, for inputs [row, array, input], digit by digit."""
        assert self.bytes is not None
        found = torch.zeros_like(self.weight[:, :1]).expand(-1, len(x), -1).contiguous()
        for place, digit in enumerate(self.bytes):
            for array, weight in enumerate(digit):
                sums = int8_product(x[:, array].contiguous(), weight)
                found[array].add_(sums, alpha=256.0**place)
        return found

    def _sum(self, x: Tensor, keys: Tensor | None) -> Tensor:
        y, converter = self.partial_sums(x), self.converter
        noise = None if keys is None else self._fresh(x, keys)
        if converter is not None:
            y = convert(y if converter.offset is None else y + converter.offset, converter, noise)
        elif noise is not None:
            y += noise
        # The sum of all codes mostly fits a float32, which is added up sooner.
        most = EXACT if converter is None else len(y) * max(-converter.low, converter.high)
        y = y.double() if most >= EXACT else y
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
        drawn = squares.mul_(self.noise_unit).sqrt_() * bytes_drawn
        return drawn if self.converter is None else drawn.round_()

    def shared(self, weights: Tensor) -> Tensor:
        """Weights of bytes [group, row, 4], in another order for every second group of an array."""
        weights = weights.view(self.arrays, -1, *weights.shape[1:]).clone()
        weights[:, 1::2] = weights[:, 1::2][..., list(SHARED)]
        return weights.flatten(0, 1)


def shortened(weight: Tensor, bits: int) -> tuple[Tensor, float]:
    """Whole weights with eleven bits, and their grid: where that is 2^-8 of a step or finer.

    A step has 2^`bits` parts, which weights count. Cells are far less exact than this.
    """
    grid = 2.0 ** max(0, (int(weight.abs().max()) - 1).bit_length() - SHORT)
    if grid > 2.0 ** (bits - _FINE_ENOUGH):
        return weight, 1.0
    return (weight / grid).round() * grid, grid


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
    return torch.float32 if reach < EXACT else torch.float64


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
