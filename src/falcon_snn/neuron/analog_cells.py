"""The cells of a sampled layer in the order and the units in which kernels take them.

Tensor cores take 16-bit floats, in one or two halves where sums are converted and as digits where
they are not; a CPU takes whole numbers. All have read noise beside them, by row groups in pairs.
"""

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from falcon_snn.neuron.encoding import MAX_SLOTS
from falcon_snn.neuron.int8_product import multiplies_bytes

if TYPE_CHECKING:
    from falcon_snn.neuron.analog import AnalogArray

CHIP_TILE = 64  # outputs of a tile of exact sums: padded to a multiple of it, none is masked
PIECE = 16  # outputs that the tensor cores take at once
SMALL_SQUARES = 16  # two sums of squared inputs below this share a byte
SHARED = (1, 3, 0, 2)  # which weight each byte of noise has in the second of two row groups
LOOKED_UP = 5  # inputs whose sum a CPU looks up
SHORT = 11  # bits of whole numbers that a 16-bit float holds
EXACT = 1 << 24  # below this a float32 holds every integer
UNIT = 1 << 16  # of the grid of cells, for the smallest weight of a slice
_HALVES = 1 << (2 * SHORT)
_SCALE = 1 << 8  # brings weights into the range of a 16-bit float
_DIGIT = 1 << 10  # the largest of a balanced digit of eleven bits


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


class LookUps(NamedTuple):
    """What a CPU needs to look up sums: whole numbers, row groups in pairs."""

    weight: Tensor  # int32 [group, row, column], rows and columns padded
    start: Tensor  # int32 [group, column]: what a sum begins with, half a step included
    places: Tensor | None  # odd hashes of places, uint32 [pair of groups, column]; None: no noise
    levels: Tensor | None  # for each sum of squared inputs the weights of bytes: int32 [sum, 4],
    # those of bytes 0 and 2 in one word, of 1 and 3 in the next, then of the second group


def tensor_cells(array: "AnalogArray") -> Cells | None:
    """Cells for tensor cores; None where they would not be exact, or have nothing to do."""
    converter, weight = array.converter, array.weight
    exact = weight.dtype == torch.float32 and weight.abs().max() <= _HALVES
    if converter is None or array.wires is not None or not exact or not converter.bits:
        return None
    active = weight.shape[1]
    rows = max(16, 1 << (active + 2).bit_length())
    weight = F.pad(weight, (0, 0, 0, rows - active))
    if converter.offset is not None:
        weight[:, active] = converter.offset[:, 0]
    weight = array.even(_wide(array, weight, PIECE))
    weight[:, active] += (0.5 - converter.low) * 2.0**converter.bits
    high = _upper(weight)
    weight[:, active + 1] = weight[:, active] - high[:, active]
    weight[:, active + 2] = 1.5 * 2.0**23
    weight[:, active] = high[:, active]
    high = _upper(weight)
    low = weight - high if (weight != high).any() else None
    return Cells(
        _in_pieces(array, (high / _SCALE).half()),
        None if low is None else _in_pieces(array, (low / _SCALE).half()),
        _fresh_for(array, rows, PIECE),
    )


def exact_digits(array: "AnalogArray") -> Digits | None:
    """Cells where nothing is converted: an array is then one row group, summed in float32.

    Every sum of a digit stays below 2^24. Weights without errors are multiples of a unit and
    mostly need one digit, others three.
    """
    noise = array.noise
    apart = noise is not None and noise.variance is not None
    if array.converter is not None or array.wires is not None or apart:
        return None
    inputs, largest = array.weight.shape[1], (1 << max(array.input_bits, 1)) - 1
    if inputs * largest > EXACT // _DIGIT or array.weight.abs().max() > _DIGIT**3:
        return None
    unit = UNIT if bool((array.weight % UNIT == 0).all()) else 1
    wide = _wide(array, array.weight.double() / unit, CHIP_TILE)
    rest = F.pad(wide, (0, 0, 0, -inputs % CHIP_TILE))
    found: list[Tensor] = []
    while not found or bool(rest.any()):
        above = (rest / (2 * _DIGIT)).round()
        found.append((rest - above * (2 * _DIGIT)).half())
        rest = above
    return Digits(torch.stack(found), float(unit), _fresh_for(array, inputs, CHIP_TILE))


def byte_digits(array: "AnalogArray") -> Tensor | None:
    """Digits of cells where nothing is converted, to the base of 256, the lowest first.

    int8 [digit, array, column, row]; None where a processor has no products of bytes.
    """
    weight = array.weight
    if array.converter is not None or array.wires is not None or weight.is_cuda:
        return None
    if not multiplies_bytes() or weight.abs().max() >= 1 << 31:
        return None
    found: list[Tensor] = []
    rest = weight.long().transpose(1, 2)
    while not found or bool(rest.any()):
        digit = (rest + 128) % 256 - 128
        found.append(digit.to(torch.int8))
        rest = (rest - digit) // 256
    return torch.stack(found)


def look_ups(array: "AnalogArray") -> LookUps | None:
    """Cells for a CPU; None where sums are not converted or would not be exact."""
    converter, weight, noise = array.converter, array.weight, array.noise
    if converter is None or array.wires is not None or weight.dtype != torch.float32:
        return None
    if noise is not None and (noise.variance is not None or array.most_squares > 255):
        return None
    if not converter.bits or array.input_bits > MAX_SLOTS // 2:
        return None
    active, columns = weight.shape[1:]
    rows, unused = active + -active % LOOKED_UP, -columns % PIECE
    start = torch.full((len(weight), columns), 1 << (converter.bits - 1), device=weight.device)
    if converter.offset is not None:
        start += converter.offset[:, 0].int()
    start = array.even(F.pad(start, (0, unused)))
    weight = array.even(F.pad(weight, (0, unused, 0, rows - active)))
    places, levels = None, None
    if noise is not None:
        places = array.even(F.pad(array.place_keys | 1, (0, unused)))[::2].contiguous()
        both = torch.stack([array.noise_weights, array.noise_weights[:, list(SHARED)]], dim=1)
        words = both[..., [0, 2, 1, 3]].to(torch.int16).contiguous()
        levels = words.view(torch.int32).flatten(1)
    return LookUps(weight.int(), start.int(), places, levels)


def _in_pieces(array: "AnalogArray", x: Tensor) -> Tensor:
    """Cells [group, row, column] in the order of a kernel."""
    x = x.view(*x.shape[:2], len(array.parts), -1, PIECE)
    return x.permute(0, 2, 3, 1, 4).contiguous()


def _wide(array: "AnalogArray", x: Tensor, width: int) -> Tensor:
    """Columns [..., part, output] with their outputs padded to a multiple of `width`."""
    x = x.view(*x.shape[:-1], len(array.parts), -1)
    return F.pad(x, (0, -x.shape[-1] % width)).flatten(-2)


def _fresh_for(array: "AnalogArray", rows: int, width: int) -> Fresh | None:
    """Read noise in the units of a kernel, for cells of so many rows."""
    noise = array.noise
    if noise is None:
        return None
    active = array.weight.shape[1]
    places = array.even(_wide(array, array.place_keys | 1, width)).view(torch.uint32)
    places = places if array.converter is None else places[::2].contiguous()
    if noise.variance is not None:
        variance = _wide(array, F.pad(noise.variance, (0, 0, 0, rows - active)), width)
        variance = _in_pieces(array, array.even(variance).half())
        return Fresh(places, variance, None, array.noise_unit)
    if array.converter is not None:
        both = torch.stack([array.noise_weights, array.noise_weights[:, list(SHARED)]])
        words = both.to(torch.int8).view(torch.int32).squeeze(2)
        if array.small_squares:
            words = F.pad(words, (0, SMALL_SQUARES - words.shape[1]))
            first, second = (one.expand(SMALL_SQUARES, -1) for one in words)
            words = torch.stack([first, second.t()], dim=2)
        return Fresh(places, None, words.contiguous(), 0.0)
    squares = torch.arange(array.most_squares + 1, dtype=array.weight.dtype, device=places.device)
    return Fresh(places, None, squares.mul_(array.noise_unit).sqrt_(), 0.0)


def _upper(weight: Tensor) -> Tensor:
    """The part of whole weights that 16-bit floats over _SCALE hold."""
    return (weight / _SCALE).half().float() * _SCALE
