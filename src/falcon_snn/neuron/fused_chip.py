"""A layer on a sampled chip as one Triton kernel: packed spikes in, currents out.

What `analog` computes with a tensor of all sums of all row groups is computed here in registers, in
the same steps and with the same roundings, so both give the same bits. A sum is a product of 16-bit
floats: its cells are cut into two of eleven bits, and the tensor cores add up whole numbers below
2^24 exactly.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call,assignment,misc"
# Triton compiles these functions; their arguments are pointers and tiles, not Python values.

import triton
import triton.language as tl

from falcon_snn.neuron.counter_noise import BYTES_MEAN
from falcon_snn.neuron.fused_product import first_counts

# 1.5 * 2^23: adding it rounds a float to a whole number, which its lowest bits then hold.
_ROUND = tl.constexpr(12582912.0)
_BYTES = tl.constexpr(12582912.0 + BYTES_MEAN)


@triton.jit
def _fresh(rows, places, ASM: tl.constexpr):
    """`counter_noise.fresh_bytes` of row keys [M, 1] and place keys [1, N], which are odd."""
    wide = rows.to(tl.uint64) * places.to(tl.uint64)
    mixed = (wide ^ (wide >> 32)).to(tl.uint32)
    if ASM:
        # The sum of four bytes, added to the bits of a float that then is that much larger.
        found = tl.inline_asm_elementwise(
            "dp4a.u32.u32 $0, $1, 0x01010101, 0x4B400000;", "=r,r", [mixed],
            dtype=tl.uint32, is_pure=True, pack=1,
        )  # fmt: skip
        return found.to(tl.float32, bitcast=True) - _BYTES
    else:  # noqa: RET505 (Triton compiles one branch only if both are spelled out)
        pairs = (mixed & 0xFF00FF) + ((mixed >> 8) & 0xFF00FF)
        return ((pairs + (pairs >> 16)) & 0x7FF).to(tl.float32) + (_ROUND - _BYTES)


@triton.jit
def _place(rows, lines, pixels, clip, line, pixel, start):
    """`place_of` with numbers that are not compiled in: one kernel serves all layers."""
    base = (rows // (lines * pixels)).to(tl.int64) * clip + start
    return base + (rows // pixels) % lines * line + rows % pixels * pixel


@triton.jit
def chip_product(
    x_ptr, at_ptr, high_ptr, low_ptr, variance_ptr, dark_ptr, row_ptr, place_ptr, factor_ptr,
    worth_ptr, out_ptr, rows, outputs, groups, arrays, passes, first, lines, pixels, clip_at,
    line_at, pixel_at, start_at, begin, inverse, least, most, unit, limit,
    INPUT_BITS: tl.constexpr, PARTS: tl.constexpr, ACTIVE: tl.constexpr, NOISE: tl.constexpr,
    ASM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Currents of every pass, int32 [pass, row, output].

    Cells are [group, input of a group, part, output]: `groups` of each of the arrays; `at_ptr`
    says where a group's inputs lie, counted from where a row begins (`place_of`), or -1 for none;
    input ACTIVE of a group is always on. A row of the product is a row in one pass. Codes are
    added up as the bits of floats, beginning with what that adds too much.
    """
    across = tl.cdiv(outputs, BLOCK_N)
    tile = tl.program_id(0) % (across * arrays)
    m = tl.program_id(0) // (across * arrays) * BLOCK_M + tl.arange(0, BLOCK_M)
    array = tile // across
    n = tile % across * BLOCK_N + tl.arange(0, BLOCK_N)
    in_rows, in_outputs = m < rows * passes, n < outputs
    row, number = tl.where(in_rows, m // passes, 0), m % passes
    place = _place(row, lines, pixels, clip_at, line_at, pixel_at, start_at)
    base = x_ptr + place[:, None]
    columns = PARTS * outputs
    k = tl.arange(0, BLOCK_K)
    cell = k[:, None] * columns + n[None, :]
    slot = (1 << number).to(tl.uint8)[:, None]
    if NOISE:
        fresh = tl.load(row_ptr + number * rows + row)[:, None]
    ones = tl.full((BLOCK_K, 16), 1.0, dtype=tl.float16)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float64)
    for part in tl.static_range(PARTS):
        codes = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32) + begin
        if dark_ptr is not None:
            dark = dark_ptr + array * columns + part * outputs + n
            codes -= tl.load(dark, mask=in_outputs, other=0)[None, :]
        for step in range(groups):
            group = array * groups + step
            at = tl.load(at_ptr + group * BLOCK_K + k)
            packed = tl.load(base + at[None, :], mask=(at >= 0)[None, :], other=0)
            if INPUT_BITS:
                count = first_counts(packed & ((1 << first) - 1), 8).to(tl.int32)
                count = count >> (number * INPUT_BITS)[:, None]
                x = (count & ((1 << INPUT_BITS) - 1)).to(tl.float16)
            else:
                x = tl.where((packed & slot) != 0, 1.0, 0.0).to(tl.float16)
            driven = tl.where(k[None, :] == ACTIVE, 1.0, x).to(tl.float16)  # the offset's row
            column = group * columns + part * outputs
            cells = group * (BLOCK_K * columns) + part * outputs + cell
            low = tl.load(low_ptr + cells, mask=in_outputs[None, :], other=0.0)
            high = tl.load(high_ptr + cells, mask=in_outputs[None, :], other=0.0)
            y = tl.dot(driven, high, tl.dot(driven, low))
            if NOISE:
                if variance_ptr is None:
                    # A product with ones leaves each sum where its row of `y` is.
                    squares = tl.max(tl.dot(x * x, ones), axis=1)[:, None]
                else:
                    variance = tl.load(variance_ptr + cells, mask=in_outputs[None, :], other=0.0)
                    squares = tl.dot(x * x, variance)
                places = tl.load(place_ptr + column + n, mask=in_outputs, other=1)[None, :]
                y += tl.sqrt_rn(squares * unit) * _fresh(fresh, places, ASM)
            code = tl.minimum(tl.maximum(y * inverse, least), most) + _ROUND
            codes += code.to(tl.int32, bitcast=True)
        worth = tl.load(worth_ptr + part)
        total += codes.to(tl.float64) * worth
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
