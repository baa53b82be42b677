"""A layer on a sampled chip as one Triton kernel: packed spikes in, currents out.

What `analog` computes with a tensor of all sums of all row groups is computed here in registers, in
the same steps and with the same roundings, so both give the same bits. A sum is a product of 16-bit
floats: its cells are cut into pieces of eleven bits, and the tensor cores add up whole numbers
below 2^24 exactly.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call,assignment,misc"
# Triton compiles these functions; their arguments are pointers and tiles, not Python values.

import triton
import triton.language as tl

from falcon_snn.neuron.counter_noise import BYTES_MEAN
from falcon_snn.neuron.fused_product import first_counts

# 1.5 * 2^23: adding it rounds a float to a whole number, which its lowest bits then hold.
_ROUND = tl.constexpr(12582912.0)
_ROUND_BITS = tl.constexpr(0x4B400000)
_BYTES = tl.constexpr(12582912.0 + BYTES_MEAN)


@triton.jit
def _fresh(rows, places, ASM: tl.constexpr):
    """`counter_noise.fresh_bytes` of row keys [M, 1] and place keys [1, N], which are odd."""
    if ASM:
        # The sum of four bytes, added to the bits of a float that then is that much larger. In one
        # piece, since the compiler would add a zero to the product's upper half.
        found = tl.inline_asm_elementwise(
            """{ .reg .b64 wide; .reg .b32 low, high; mul.wide.u32 wide, $1, $2;
            mov.b64 {low, high}, wide; xor.b32 low, low, high;
            dp4a.u32.u32 $0, low, 0x01010101, 0x4B400000; }""", "=r,r,r", [rows, places],
            dtype=tl.uint32, is_pure=True, pack=1,
        )  # fmt: skip
        return found.to(tl.float32, bitcast=True) - _BYTES
    else:  # noqa: RET505 (Triton compiles one branch only if both are spelled out)
        wide = rows.to(tl.uint64) * places.to(tl.uint64)
        mixed = (wide ^ (wide >> 32)).to(tl.uint32)
        pairs = (mixed & 0xFF00FF) + ((mixed >> 8) & 0xFF00FF)
        return ((pairs + (pairs >> 16)) & 0x7FF).to(tl.float32) + (_ROUND - _BYTES)


@triton.jit
def _place(rows, lines, pixels, clip, line, pixel, start):
    """`place_of` with numbers that are not compiled in: one kernel serves all layers."""
    base = (rows // (lines * pixels)).to(tl.int64) * clip + start
    return base + (rows // pixels) % lines * line + rows % pixels * pixel


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
def _store_currents(
    out_ptr, factor_ptr, total, row, number, in_rows, array, n, in_outputs, rows, outputs, arrays,
    limit, INPUT_BITS: tl.constexpr,
):  # fmt: skip
    """Sums of an array, float64 [M, N], to what they add to the membrane, int32."""
    output = array * outputs + n
    factor = tl.load(factor_ptr + output, mask=in_outputs, other=0).to(tl.float64)
    total = tl.floor(total + 0.5)
    if INPUT_BITS:
        total *= (1 << (number * INPUT_BITS)).to(tl.float64)[:, None]
    current = tl.floor(total * factor[None, :] * (1.0 / 65536))
    current = tl.minimum(tl.maximum(current, -limit), limit).to(tl.int32)
    out = out_ptr + (number.to(tl.int64) * rows + row)[:, None] * (arrays * outputs)
    tl.store(out + output[None, :], current, mask=in_rows[:, None] & in_outputs[None, :])


@triton.jit
def _bytes_of(base, at_ptr, group, k, BLOCK_K: tl.constexpr):
    """The packed inputs of a row group, [M, K]; zero where there is none."""
    at = tl.load(at_ptr + group * BLOCK_K + k)
    return tl.load(base + at[None, :], mask=(at >= 0)[None, :], other=0)


@triton.jit
def _inputs_of(
    packed, number, first, INPUT_BITS: tl.constexpr, ACTIVE: tl.constexpr, OFFSET: tl.constexpr
):  # fmt: skip
    """The inputs of a row group [M, K], with the one of the converter's offset."""
    x = _driven(packed, number, first, INPUT_BITS)
    if OFFSET:
        x = tl.where(tl.arange(0, x.shape[1])[None, :] == ACTIVE, 1.0, x).to(tl.float16)
    return x


@triton.jit
def _noise_of(
    x, variance_ptr, sigma_ptr, cells, rows, places, unit, INPUT_BITS: tl.constexpr,
    OFFSET: tl.constexpr, ASM: tl.constexpr,
):  # fmt: skip
    """The read noise of a row group; the offset's input has none."""
    squared = x * x if INPUT_BITS else x
    if variance_ptr is None:
        # A product with ones leaves each sum where its row of the other product is.
        ones = tl.full((x.shape[1], 16), 1.0, dtype=tl.float16)
        squares = tl.max(tl.dot(squared, ones), axis=1)
        sigma = tl.load(sigma_ptr + (squares.to(tl.int32) - OFFSET))[:, None]
    else:
        sigma = tl.sqrt_rn(tl.dot(squared, tl.load(variance_ptr + cells)) * unit)
    return sigma * _fresh(rows, tl.load(places)[None, :], ASM)


@triton.jit
def _codes_of(y, inverse, least, span, RELU: tl.constexpr):
    """Codes of sums, counted from the lowest.

    Sums stay below 2^22 steps, so that the lowest bits hold the nearest whole number.
    """
    code = (y * inverse + _ROUND).to(tl.int32, bitcast=True)
    if RELU:
        # One instruction cuts off at both ends.
        return tl.inline_asm_elementwise(
            "{ .reg .s32 t; add.s32 t, $1, $2; min.relu.s32 $0, t, $3; }", "=r,r,r,r",
            [code, tl.zeros_like(code) - (_ROUND_BITS + least), tl.zeros_like(code) + span],
            dtype=tl.int32, is_pure=True, pack=1,
        )  # fmt: skip
    else:  # noqa: RET505
        return tl.minimum(tl.maximum(code - (_ROUND_BITS + least), 0), span)


@triton.jit
def chip_product(
    x_ptr, at_ptr, high_ptr, low_ptr, variance_ptr, sigma_ptr, dark_ptr, row_ptr, place_ptr,
    factor_ptr, worth_ptr, out_ptr, rows, outputs, width, groups, arrays, passes, first, lines,
    pixels, clip_at, line_at, pixel_at, start_at, inverse, least, span, unit, limit, begin, across,
    INPUT_BITS: tl.constexpr, PARTS: tl.constexpr, ACTIVE: tl.constexpr, OFFSET: tl.constexpr,
    NOISE: tl.constexpr, ASM: tl.constexpr, RELU: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Currents of every pass, int32 [pass, row, output], for `across` tiles from output `begin` on.

    Cells are [group, input of a group, part, output], `width` outputs of each part: `groups` of
    each of the arrays, an even number; `at_ptr` says where a group's inputs lie, counted from
    where a row begins (`place_of`), or -1 for none; with an OFFSET input ACTIVE of a group is
    always on. A row of the product is a row in one pass. Two groups are worked on side by side,
    and the inputs of the next two are on their way meanwhile.
    """
    array, n, in_outputs, row, number, in_rows = _own_tile(
        rows, outputs, arrays, passes, begin, across, BLOCK_M, BLOCK_N
    )
    place = _place(row, lines, pixels, clip_at, line_at, pixel_at, start_at)
    base = x_ptr + place[:, None]
    columns = PARTS * width
    k = tl.arange(0, BLOCK_K)
    cell = k[:, None] * columns + n[None, :]
    if NOISE:
        keys = tl.load(row_ptr + number * rows + row)[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float64)
    for part in tl.static_range(PARTS):
        codes = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32) + groups * least
        if dark_ptr is not None:
            dark = dark_ptr + (array * PARTS + part) * outputs + n
            codes -= tl.load(dark, mask=in_outputs, other=0)[None, :]
        start = array * groups
        x0 = _bytes_of(base, at_ptr, start, k, BLOCK_K)
        x1 = _bytes_of(base, at_ptr, start + 1, k, BLOCK_K)
        x0 = _inputs_of(x0, number, first, INPUT_BITS, ACTIVE, OFFSET)
        x1 = _inputs_of(x1, number, first, INPUT_BITS, ACTIVE, OFFSET)
        for group in range(start, start + groups, 2):
            ahead = tl.minimum(group + 2, start + groups - 2)
            packed0 = _bytes_of(base, at_ptr, ahead, k, BLOCK_K)
            packed1 = _bytes_of(base, at_ptr, ahead + 1, k, BLOCK_K)
            cells0 = group * (BLOCK_K * columns) + part * width + cell
            cells1 = cells0 + BLOCK_K * columns
            y0 = tl.dot(x0, tl.load(high_ptr + cells0), tl.dot(x0, tl.load(low_ptr + cells0)))
            y1 = tl.dot(x1, tl.load(high_ptr + cells1), tl.dot(x1, tl.load(low_ptr + cells1)))
            if NOISE:
                places = place_ptr + group * columns + part * width + n
                y0 += _noise_of(
                    x0, variance_ptr, sigma_ptr, cells0, keys, places, unit, INPUT_BITS, OFFSET,
                    ASM,
                )  # fmt: skip
                y1 += _noise_of(
                    x1, variance_ptr, sigma_ptr, cells1, keys, places + columns, unit, INPUT_BITS,
                    OFFSET, ASM,
                )  # fmt: skip
            codes += _codes_of(y0, inverse, least, span, RELU)
            codes += _codes_of(y1, inverse, least, span, RELU)
            x0 = _inputs_of(packed0, number, first, INPUT_BITS, ACTIVE, OFFSET)
            x1 = _inputs_of(packed1, number, first, INPUT_BITS, ACTIVE, OFFSET)
        worth = tl.load(worth_ptr + part)
        total += codes.to(tl.float64) * worth
    _store_currents(
        out_ptr, factor_ptr, total, row, number, in_rows, array, n, in_outputs, rows, outputs,
        arrays, limit, INPUT_BITS,
    )  # fmt: skip


@triton.jit
def exact_product(
    x_ptr, at_ptr, digit_ptr, sigma_ptr, row_ptr, place_ptr, factor_ptr, worth_ptr, out_ptr, rows,
    outputs, width, inputs, padded, arrays, passes, first, lines, pixels, clip_at, line_at,
    pixel_at, start_at, unit, limit, begin, across,
    INPUT_BITS: tl.constexpr, DIGITS: tl.constexpr, NOISE: tl.constexpr, ASM: tl.constexpr,
    RUN: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The same without converters: an array is one row group, its weights are up to three digits.

    Digits are [digit, array, input, output], `padded` inputs of `width` outputs. Sums of a digit
    are exact in any order, and so is what float64 makes of them. RUN inputs lie side by side.
    """
    array, n, in_outputs, row, number, in_rows = _own_tile(
        rows, outputs, arrays, passes, begin, across, BLOCK_M, BLOCK_N
    )
    place = _place(row, lines, pixels, clip_at, line_at, pixel_at, start_at)
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
        drawn = sigma * _fresh(fresh, places, ASM).to(sigma.dtype)
        total = (total.to(sigma.dtype) + drawn).to(tl.float64)
    _store_currents(
        out_ptr, factor_ptr, total * tl.load(worth_ptr), row, number, in_rows, array, n,
        in_outputs, rows, outputs, arrays, limit, INPUT_BITS,
    )  # fmt: skip


@triton.jit
def fire_currents(
    current_ptr, out_ptr, static_ptr, initial_ptr, threshold_ptr, rows, outputs, limit,
    lines, pixels, clip_at, line_at, pixel_at, start_at, SLOTS: tl.constexpr, DELAY: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """SN_delta of currents [slot, row, output]; of one sum over all slots where DELAY is SLOTS."""
    across = tl.cdiv(outputs, BLOCK_N)
    m = tl.program_id(0) // across * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) % across * BLOCK_N + tl.arange(0, BLOCK_N)
    inside, in_outputs = (m < rows)[:, None] & (n < outputs)[None, :], n < outputs
    static = tl.load(static_ptr + n, mask=in_outputs, other=0)[None, :]
    threshold = tl.load(threshold_ptr + n, mask=in_outputs, other=1 << 30)[None, :]
    initial = tl.load(initial_ptr + n, mask=in_outputs, other=0)[None, :]
    membrane = initial + tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    spikes = tl.zeros_like(membrane)
    at = current_ptr + m.to(tl.int64)[:, None] * outputs + n[None, :]
    slot_size = rows.to(tl.int64) * outputs
    for step in tl.static_range(SLOTS + DELAY - 1):  # one input, then one decision
        if step < SLOTS:
            membrane += static
            if step == 0 or DELAY < SLOTS:
                current = tl.load(at + step * slot_size, mask=inside, other=0)
                membrane += tl.minimum(tl.maximum(current, -limit), limit)
        if step >= DELAY - 1:
            fired = membrane >= threshold
            membrane -= tl.where(fired, threshold, 0)
            spikes |= tl.where(fired, 1 << (step - DELAY + 1), 0)
    place = _place(m, lines, pixels, clip_at, line_at, pixel_at, start_at)
    out = out_ptr + place[:, None] + n[None, :]
    tl.store(out, spikes.to(tl.uint8), mask=inside)
