"""A layer on a sampled chip without converters, and the firing behind any chip's currents.

Weights are cut into digits of eleven bits that 16-bit floats hold, so the tensor cores add up whole
numbers below 2^24 exactly, and float64 puts them together.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call,assignment,misc"
# Triton compiles these functions; their arguments are pointers and tiles, not Python values.

import triton
import triton.language as tl

from falcon_snn.neuron.fused_chip import (
    factors_of,
    mixed_bytes,
    place_at,
    plain_bytes,
    store_currents,
)
from falcon_snn.neuron.fused_product import first_counts


@triton.jit
def _own_tile(rows, outputs, arrays, passes, begin, across, BLOCK_M: tl.constexpr,
              BLOCK_N: tl.constexpr):  # fmt: skip
    """Of this program: its array and outputs, its rows with their passes, and which there are."""
    tile = tl.program_id(0) % (across * arrays)
    m = tl.program_id(0) // (across * arrays) * BLOCK_M + tl.arange(0, BLOCK_M)
    array = tile // across
    n = begin + tile % across * BLOCK_N + tl.arange(0, BLOCK_N)
    in_rows, in_outputs = m < rows * passes, n < outputs
    row, number = tl.where(in_rows, m // passes, 0), m % passes
    return array, n, in_outputs, row, number, in_rows


@triton.jit
def _driven(packed, number, first, INPUT_BITS: tl.constexpr):
    """What packed bytes [M, K] put into an array in pass `number` [M], as 16-bit floats."""
    if INPUT_BITS:
        count = first_counts(packed & ((1 << first) - 1), 8).to(tl.int32)
        count = count >> (number * INPUT_BITS)[:, None]
        return (count & ((1 << INPUT_BITS) - 1)).to(tl.float16)
    else:  # noqa: RET505
        # In 32 bits: the compiler would put bytes together, only to take them apart again.
        slot = (1 << number)[:, None]
        return tl.where((packed.to(tl.int32) & slot) != 0, 1.0, 0.0).to(tl.float16)


@triton.jit
def exact_product(
    x_ptr, at_ptr, digit_ptr, sigma_ptr, row_ptr, place_ptr, factor_ptr, worth_ptr, out_ptr, rows,
    outputs, width, inputs, padded, arrays, passes, first, lines, pixels, clip_at, line_at,
    pixel_at, start_at, unit, limit, begin, across,
    INPUT_BITS: tl.constexpr, DIGITS: tl.constexpr, NOISE: tl.constexpr, RUN: tl.constexpr,
    ASM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Currents of every pass, int32 [pass, row, output], for `across` tiles from output `begin` on.

    An array is one row group, its weights are up to three digits. A row of the product is a row in
    one pass; `at_ptr` says where inputs lie, counted from where a row begins.

    Digits are [digit, array, input, output], `padded` inputs of `width` outputs. Sums of a digit
    are exact in any order, and so is what float64 makes of them. RUN inputs lie side by side.
    """
    array, n, in_outputs, row, number, in_rows = _own_tile(
        rows, outputs, arrays, passes, begin, across, BLOCK_M, BLOCK_N
    )
    place = place_at(row, lines, pixels, clip_at, line_at, pixel_at, start_at)
    base = x_ptr + place[:, None]
    k = tl.arange(0, BLOCK_K)
    y = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    y1, y2 = y, y
    squares = tl.zeros((BLOCK_M, 16), dtype=tl.float32)
    for step in range(0, inputs, BLOCK_K):
        at = tl.load(at_ptr + array * padded + step + k)
        at = tl.max_contiguous(tl.multiple_of(at, RUN), RUN)
        x = _driven(tl.load(base + at[None, :]), number, first, INPUT_BITS)
        digit = digit_ptr + (array * padded + step + k)[:, None] * width + n[None, :]
        y = tl.dot(x, tl.load(digit), y)
        if DIGITS > 1:
            y1 = tl.dot(x, tl.load(digit + arrays * padded * width), y1)
        if DIGITS > 2:
            y2 = tl.dot(x, tl.load(digit + 2 * arrays * padded * width), y2)
        if NOISE:
            squared = x * x if INPUT_BITS else x
            ones = tl.where(step + k < inputs, 1.0, 0.0).to(tl.float16)[:, None]
            squares = tl.dot(squared, tl.broadcast_to(ones, (BLOCK_K, 16)), squares)
    total = y.to(tl.float64)
    if DIGITS > 1:
        total += y1.to(tl.float64) * 2048
    if DIGITS > 2:
        total += y2.to(tl.float64) * 4194304
    total *= unit
    if NOISE:
        sigma = tl.load(sigma_ptr + tl.max(squares, axis=1).to(tl.int32))[:, None]
        fresh = tl.load(row_ptr + number * rows + row)[:, None]
        places = tl.load(place_ptr + array * width + n)[None, :]
        # In the float that holds all sums of the layer, as torch does.
        drawn = sigma * plain_bytes(mixed_bytes(fresh, places)).to(sigma.dtype)
        total = (total.to(sigma.dtype) + drawn).to(tl.float64)
    output = array * outputs + n
    store_currents(
        out_ptr, factors_of(factor_ptr, output, in_outputs), total * tl.load(worth_ptr), row,
        number, in_rows, output, in_outputs, rows, arrays * outputs, limit, INPUT_BITS, ASM,
    )  # fmt: skip


@triton.jit
def _sum_of(at, size, mask, PASSES: tl.constexpr):
    """What all passes add, int64."""
    total = tl.load(at, mask=mask, other=0).to(tl.int64)
    for number in tl.static_range(1, PASSES):
        total += tl.load(at + number * size, mask=mask, other=0).to(tl.int64)
    return total


@triton.jit
def fire_currents(
    current_ptr, other_ptr, out_ptr, static_ptr, initial_ptr, threshold_ptr, rows, outputs, limit,
    lines, pixels, clip_at, line_at, pixel_at, start_at, PASSES: tl.constexpr,
    SLOTS: tl.constexpr, DELAY: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """SN_delta of the currents [pass, row, output] of one or two terms.

    Where DELAY is SLOTS all passes are added up first; else a pass is a slot. Inputs saturate
    where an int32 would overflow.
    """
    across = tl.cdiv(outputs, BLOCK_N)
    m = tl.program_id(0) // across * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) % across * BLOCK_N + tl.arange(0, BLOCK_N)
    inside, in_outputs = (m < rows)[:, None] & (n < outputs)[None, :], n < outputs
    static = tl.load(static_ptr + n, mask=in_outputs, other=0)[None, :]
    threshold = tl.load(threshold_ptr + n, mask=in_outputs, other=1 << 30)[None, :]
    initial = tl.load(initial_ptr + n, mask=in_outputs, other=0)[None, :]
    membrane = initial + tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    spikes = tl.zeros_like(membrane)
    at = m.to(tl.int64)[:, None] * outputs + n[None, :]
    size = rows.to(tl.int64) * outputs
    if DELAY == SLOTS:
        total = _sum_of(current_ptr + at, size, inside, PASSES[0])
        if other_ptr is not None:
            total += _sum_of(other_ptr + at, size, inside, PASSES[1])
        membrane += tl.minimum(tl.maximum(total, -limit), limit).to(tl.int32) + SLOTS * static
    for step in tl.static_range(SLOTS + DELAY - 1):  # one input, then one decision
        if step < SLOTS and DELAY < SLOTS:
            current = tl.load(current_ptr + at + step * size, mask=inside, other=0)
            if other_ptr is not None:
                current += tl.load(other_ptr + at + step * size, mask=inside, other=0)
            most = limit // SLOTS
            membrane += static + tl.minimum(tl.maximum(current, -most), most)
        if step >= DELAY - 1:
            fired = membrane >= threshold
            membrane -= tl.where(fired, threshold, 0)
            spikes |= tl.where(fired, 1 << (step - DELAY + 1), 0)
    place = place_at(m, lines, pixels, clip_at, line_at, pixel_at, start_at)
    out = out_ptr + place[:, None] + n[None, :]
    tl.store(out, spikes.to(tl.uint8), mask=inside)


@triton.jit
def code_currents(
    current_ptr, out_ptr, bias_ptr, shift_ptr, size, outputs, PASSES: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Codes of currents [pass, row, output], for Q and K."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    total = _sum_of(current_ptr + at, size, inside, PASSES)
    level = total + tl.load(bias_ptr + at % outputs)
    code = level >> tl.load(shift_ptr + at % outputs).to(tl.int64)
    code = tl.minimum(tl.maximum(code, -127), 127)
    tl.store(out_ptr + at, code.to(tl.int8), mask=inside)
