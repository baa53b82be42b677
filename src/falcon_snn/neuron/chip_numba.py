"""A layer on a sampled chip with converters on the CPU: packed spikes in, currents out.

What `analog` computes with a tensor of all sums of all row groups stays in registers and the first
caches here, in the same steps, so both give the same bits. A row group's sum is looked up: the
spikes of five inputs choose one of the 32 sums that their cells can make, and a group of nine takes
two of those. Sums, noise and codes are int32; two row groups share the hashes of their noise.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from falcon_snn.neuron.analog_cells import LOOKED_UP, UNIT
from falcon_snn.neuron.layers_torch import LARGEST_INPUT, rows_of
from falcon_snn.neuron.layers_torch import chip_currents as torch_currents
from falcon_snn.neuron.numba_backend import use_torch_threads
from falcon_snn.neuron.vectors import LANES
from falcon_snn.neuron.vectors_chip import SUMS, add_codes

if TYPE_CHECKING:
    from falcon_snn.neuron.layers import Term

_TOGETHER = 512  # rows times passes of a task: their codes stay in the second cache
_WIDEST = 4 * LANES  # columns that are looked up together
_PLANES = 8  # bits of a packed input, or of its count, one in each byte of a word


def chip_currents(term: "Term", first: int) -> Tensor:
    """What a term adds to the membrane in each pass, int32 [pass, row, output]."""
    cells = None if term.chip is None else term.chip[0].look_ups
    if term.chip is None or cells is None:
        return torch_currents(term, first)
    array, clips = term.chip
    converter, x = array.converter, rows_of(term)
    assert converter is not None
    rows, inputs = x.shape
    passes = array.pass_count(first)
    keys = array.read_keys(clips, rows, first)
    dark = torch.zeros(cells.start.shape[1], dtype=torch.int32).expand(array.arrays, -1)
    if array.dark is not None:
        dark = array.dark[:, 0]
    out = torch.empty((passes, rows, len(term.factor)), dtype=torch.int32)
    use_torch_threads()
    _currents(
        x.contiguous().numpy(),
        *_words_of_bytes(first, array.input_bits), max(array.input_bits, 1), passes,
        array.reads(inputs, cells.weight.shape[1]).numpy(), cells.weight.numpy(),
        cells.start.numpy(), None if keys is None else keys.numpy(),
        None if cells.places is None else cells.places.view(-1).numpy(),
        None if cells.levels is None else cells.levels.view(-1).numpy(),
        converter.bits, converter.low, converter.high, array.arrays, dark.contiguous().numpy(),
        array.worths.numpy(), term.factor.double().numpy(), array.input_bits, 1 / UNIT,
        float(LARGEST_INPUT), out.numpy(),
    )  # fmt: skip
    return out


@cache
def _words_of_bytes(first: int, input_bits: int) -> tuple[Any, Any]:
    """For each packed input its bits, or those of its count, in the lowest bits of eight bytes.

    And in the same way what a pass takes of it, squared.
    """
    packed = np.arange(256) & ((1 << first) - 1)
    values = np.array([int(one).bit_count() for one in packed]) if input_bits else packed
    bits, squares = (np.zeros((256, _PLANES), np.uint8) for _ in range(2))
    for place in range(_PLANES):
        bits[:, place] = (values >> place) & 1
        taken = (values >> (place * max(input_bits, 1))) & ((1 << max(input_bits, 1)) - 1)
        squares[:, place] = taken**2
    return bits.view(np.uint64)[:, 0], squares.view(np.uint64)[:, 0]


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _currents(  # type: ignore[no-untyped-def]
    x, bits, squares, input_bits, passes, reads, weight, start, keys, places, levels, shift, low,
    high, arrays, dark, worths, factor, power, unit, limit, out,
):  # fmt: skip
    """Tasks of some rows each: the codes of all row groups, then what they are worth."""
    groups, _, columns = weight.shape
    groups //= arrays
    words = reads.shape[1] // LOOKED_UP  # inputs that are looked up together, of a row group
    entries = words * input_bits
    each = max(1, _TOGETHER // passes)
    for task in prange((x.shape[0] + each - 1) // each):
        begin, end = task * each, min((task + 1) * each, x.shape[0])
        where = np.empty(entries, np.int64)  # the byte of a table's index in those of a row group
        for bit in range(input_bits):
            for word in range(words):
                where[bit * words + word] = word * _PLANES + bit
        index = np.empty(2 * each * words, np.uint64)
        squared = np.empty((2, each), np.uint64)
        tables = np.empty(2 * entries * SUMS * _WIDEST, np.int32)
        codes = np.empty(each * passes * columns, np.int32)
        for array in range(arrays):
            codes[:] = 0
            for group in range(array * groups, (array + 1) * groups, 2):
                for half in range(2):
                    _look(x, begin, end, reads[group + half], bits, squares,
                          index[half * each * words :], squared[half])  # fmt: skip
                for at in range(0, columns, _WIDEST):
                    width = min(columns - at, _WIDEST)
                    for half in range(2):
                        _fill(weight[group + half], start[group + half], at, width, input_bits,
                              tables[half * entries * SUMS * width :])  # fmt: skip
                    _convert(
                        tables, index.view(np.uint8), each * words * _PLANES, words, where,
                        entries, input_bits, places, (group // 2) * columns + at, keys, begin,
                        end, passes, levels, squared.view(np.uint8), shift, low, high, codes,
                        at, columns, width,
                    )  # fmt: skip
            _finish(codes, columns, begin, end, passes, array, dark, worths, factor, power, unit,
                    limit, out)  # fmt: skip


@njit(cache=True, error_model="numpy", nogil=True)
def _look(x, begin, end, reads, bits, squares, index, squared):  # type: ignore[no-untyped-def]
    """The indices of the tables for each row and pass, and the sums of squared inputs."""
    words = reads.shape[0] // LOOKED_UP
    for row in range(begin, end):
        total = np.uint64(0)
        for word in range(words):
            found = np.uint64(0)
            for place in range(LOOKED_UP):
                at = reads[word * LOOKED_UP + place]
                if at >= 0:
                    packed = x[row, at]
                    found |= bits[packed] << np.uint64(place)
                    total += squares[packed]
            index[(row - begin) * words + word] = found
        squared[row - begin] = total


@njit(cache=True, error_model="numpy", nogil=True)
def _fill(weight, start, at, width, input_bits, tables):  # type: ignore[no-untyped-def]
    """All sums of five inputs' weights; those of the first begin with `start`."""
    words = weight.shape[0] // LOOKED_UP
    to = 0
    for bit in range(input_bits):
        for word in range(words):
            for i in range(np.uint64(width)):
                tables[np.uint64(to) + i] = start[np.uint64(at) + i] if to == 0 else np.int32(0)
            for one in range(1, SUMS):
                place = 0
                while not one >> place & 1:
                    place += 1
                before = np.uint64(to + (one & (one - 1)) * width)
                after = np.uint64(to + one * width)
                row = weight[word * LOOKED_UP + place]
                for i in range(np.uint64(width)):
                    added = np.int32(row[np.uint64(at) + i] << np.int32(bit))
                    tables[after + i] = np.int32(tables[before + i] + added)
            to += SUMS * width


_add_4, _add_3, _add_2, _add_1 = (add_codes(vectors) for vectors in (4, 3, 2, 1))


@njit(cache=True, error_model="numpy", nogil=True)
def _convert(  # type: ignore[no-untyped-def]
    tables, index, other, words, where, entries, input_bits, places, place, keys, begin, end,
    passes, levels, squared, shift, low, high, codes, column, columns, width,
):  # fmt: skip
    """The codes of two row groups, `width` columns of them, for all rows and passes."""
    for row in range(end - begin):
        for number in range(passes):
            key = _key(keys, number, begin + row)
            at = row * words * _PLANES + number * input_bits
            one = np.int64(squared[0, row * _PLANES + number]) * 4
            two = np.int64(squared[1, row * _PLANES + number]) * 4
            to = (row * passes + number) * columns + column
            if width == 4 * LANES:
                _add_4(tables, index, at, at + other, where, entries, places, place, key, levels,
                       one, two, shift, low, high, codes, to)  # fmt: skip
            elif width == 3 * LANES:
                _add_3(tables, index, at, at + other, where, entries, places, place, key, levels,
                       one, two, shift, low, high, codes, to)  # fmt: skip
            elif width == 2 * LANES:
                _add_2(tables, index, at, at + other, where, entries, places, place, key, levels,
                       one, two, shift, low, high, codes, to)  # fmt: skip
            else:
                _add_1(tables, index, at, at + other, where, entries, places, place, key, levels,
                       one, two, shift, low, high, codes, to)  # fmt: skip


@njit(cache=True, error_model="numpy", nogil=True)
def _key(keys, number, row):  # type: ignore[no-untyped-def]
    return None if keys is None else np.uint64(np.uint32(keys[number, row]) | np.uint32(1))


@njit(cache=True, error_model="numpy", nogil=True)
def _finish(  # type: ignore[no-untyped-def]
    codes, columns, begin, end, passes, array, dark, worths, factor, power, unit, limit, out
):
    """`AnalogArray._sum` and `layers_torch.chip_currents` of codes that are added up."""
    outputs = factor.shape[0] // dark.shape[0]
    first = np.uint64(array * outputs)
    totals = np.empty(outputs, np.float64)
    for row in range(end - begin):
        for number in range(passes):
            scale = np.float64(1 << (number * power))
            for part in range(worths.shape[0]):
                worth, column = worths[part], np.uint64(part * outputs)
                at = np.uint64((row * passes + number) * columns) + column
                for i in range(np.uint64(outputs)):
                    code = np.int32(codes[at + i] - dark[array, column + i])
                    before = 0.0 if part == 0 else totals[i]
                    totals[i] = before + np.float64(code) * worth
            to = out[number, begin + row]
            for i in range(np.uint64(outputs)):
                current = np.floor(factor[first + i] * (np.floor(totals[i] + 0.5) * scale) * unit)
                to[first + i] = np.int32(min(max(current, -limit), limit))
