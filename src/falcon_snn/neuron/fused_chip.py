"""A layer on a sampled chip with converters as two Triton kernels: packed spikes in, currents out.

What `analog` computes with a tensor of all sums of all row groups is computed here in registers, in
the same steps and with the same roundings, so both give the same bits. A sum is a product of 16-bit
floats: its cells are cut into pieces of eleven bits, and the tensor cores add up whole numbers
below 2^24 exactly. One cell is 1.5 * 2^23, so that the bits of a sum are a whole number, too.
What follows a sum is few instructions for two row groups at once: there are a hundred million sums
in a clip.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call,assignment,misc"
# Triton compiles these functions; their arguments are pointers and tiles, not Python values.

import triton
import triton.language as tl

from falcon_snn.neuron.fused_product import first_counts

# 1.5 * 2^52: adding it rounds a float64 to a whole number, which its lowest bits then hold.
_ROUND = tl.constexpr(6755399441055744.0)
_ZERO = tl.constexpr(0x47400000)  # the bits of 1.5 * 2^23 over the scale of cells
_LOWEST = tl.constexpr(-0x473F4740)  # less 0x4740 in both halves of a register


@triton.jit
def place_at(rows, lines, pixels, clip, line, pixel, start):
    """`place_of` with numbers that are not compiled in: one kernel serves all layers."""
    base = (rows // (lines * pixels)).to(tl.int64) * clip + start
    return base + (rows // pixels) % lines * line + rows % pixels * pixel


@triton.jit
def _mix(x):
    """`counter_noise.mix` of uint32."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit(do_not_specialize=["key", "again"])
def row_keys(clip_ptr, pass_ptr, out_ptr, rows, each, key, again, passes, BLOCK: tl.constexpr):
    """`AnalogArray.read_keys`, made odd: uint32 [pass, row], for `each` rows of a clip."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = row < rows
    place = _mix(_mix((row % each).to(tl.uint32) + key.to(tl.uint32)) ^ again.to(tl.uint32))
    clip = tl.load(clip_ptr + row // each, mask=inside, other=0).to(tl.uint32)
    one = _mix(clip ^ place)
    for number in range(passes):
        drawn = _mix(one ^ tl.load(pass_ptr + number).to(tl.uint32)) | 1
        tl.store(out_ptr + number * rows.to(tl.int64) + row, drawn, mask=inside)


@triton.jit
def mixed_bytes(rows, places):
    """The four random bytes of `counter_noise.fresh_bytes` for two odd keys."""
    wide = rows.to(tl.uint64) * places.to(tl.uint64)
    return (wide ^ (wide >> 32)).to(tl.int32)


@triton.jit
def weighted_bytes(mixed, weights):
    """The sum of four signed bytes, each with the byte of `weights` at its place."""
    total = (mixed << 24 >> 24) * (weights << 24 >> 24)
    total += (mixed << 16 >> 24) * (weights << 16 >> 24)
    total += (mixed << 8 >> 24) * (weights << 8 >> 24)
    return total + (mixed >> 24) * (weights >> 24)


@triton.jit
def plain_bytes(mixed, SECOND: tl.constexpr = False):
    """The same with weights 1, 1, -1 and -1, as a float; of the SECOND of two row groups."""
    total = (mixed << 24 >> 24) - (mixed >> 24)
    other = (mixed << 16 >> 24) - (mixed << 8 >> 24)
    return (total - other if SECOND else total + other).to(tl.float32)


@triton.jit
def group_inputs(
    x_ptr, at_ptr, out_ptr, square_ptr, rows, padded, groups, passes, first, lines, pixels,
    clip_at, line_at, pixel_at, start_at, always_on,
    INPUT_BITS: tl.constexpr, ACTIVE: tl.constexpr, FIELD: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """What drives each row group, bytes [group, input, row], whose bits are those of its passes.

    A pass takes one bit of a train of spikes, or INPUT_BITS of its count. `at_ptr` says where a
    group's inputs lie, counted from where a row begins, or -1 for none; inputs from ACTIVE on are
    `always_on`. For noise also the sums of squared inputs, FIELD bits for each pass, int32 [group,
    word, row]. A program takes several groups: where its rows lie takes longer than one of them.
    """
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tl.arange(0, BLOCK_K)
    row = tl.where(m < rows, m, 0)
    place = x_ptr + place_at(row, lines, pixels, clip_at, line_at, pixel_at, start_at)[None, :]
    out, long = out_ptr + (k[:, None] * padded + m[None, :]), padded.to(tl.int64)
    for group in range(tl.program_id(1), groups, tl.num_programs(1)):
        at = tl.load(at_ptr + group * BLOCK_K + k)[:, None]
        x = tl.load(place + at, mask=at >= 0, other=0)
        if INPUT_BITS:
            x = first_counts(x & ((1 << first) - 1), 8).to(tl.uint8)
        start = group * long
        driven = tl.where(k[:, None] >= ACTIVE, always_on, x).to(tl.uint8)
        tl.store(out + start * BLOCK_K, driven)
        if FIELD == 32:
            x, square = x.to(tl.int32), square_ptr + start * passes + m
            BITS: tl.constexpr = INPUT_BITS if INPUT_BITS else 1
            for number in range(passes):
                now = (x >> (number * BITS)) & ((1 << BITS) - 1)
                tl.store(square + number * padded, tl.sum(now * now, axis=0))
        elif FIELD == 4:  # spikes of eight passes are counted at once, each in four bits of its own
            x = x.to(tl.int32)
            x = (x | (x << 12)) & 0x000F000F
            x = (x | (x << 6)) & 0x03030303
            x = (x | (x << 3)) & 0x11111111
            tl.store(square_ptr + start + m, tl.sum(x, axis=0))


@triton.jit
def _driven(packed, number, INPUT_BITS: tl.constexpr, ASM: tl.constexpr):
    """What bytes [K, M] put into an array in a pass, as 16-bit floats."""
    BITS: tl.constexpr = INPUT_BITS if INPUT_BITS else 1
    if ASM:
        # Four at a time. A byte below 0x64 as the upper one is a 16-bit float, 1024 and that byte.
        # Not pure: else the compiler sees bytes behind the product and lays its operands out for
        # them, which takes a register move for every other conversion.
        return tl.inline_asm_elementwise(
            """{ .reg .b32 x, a, b; shr.b32 x, $2, $3; and.b32 x, x, $7;
            prmt.b32 a, x, 0x64646464, 0x4140; prmt.b32 b, x, 0x64646464, 0x4342;
            sub.f16x2 $0, a, $8; sub.f16x2 $1, b, $8; }""",
            "=r,=r,r,r,r,r,r,r,r,r",
            [
                packed,
                tl.zeros(packed.shape, tl.int32) + number * BITS,
                tl.full(packed.shape, (1 << BITS) - 1, tl.uint8),
                tl.full(packed.shape, 1024.0, tl.float16),
            ],
            dtype=tl.float16,
            is_pure=False,
            pack=4,
        )
    else:  # noqa: RET505 (Triton compiles one branch only if both are spelled out)
        return ((packed >> (number * BITS).to(tl.uint8)) & ((1 << BITS) - 1)).to(tl.float16)


@triton.jit
def _noise_of(squared, variance_ptr, cells, level, mixed, unit, SECOND: tl.constexpr):
    """What noise adds to the sums of a row group, in parts of a step."""
    if variance_ptr is None:
        return weighted_bytes(mixed, level)
    else:  # noqa: RET505
        sigma = tl.sqrt_rn(tl.dot(squared, tl.load(variance_ptr + cells)) * unit)
        drawn = sigma * plain_bytes(mixed, SECOND)
        return (drawn.to(tl.float64) + _ROUND).to(tl.int64, bitcast=True).to(tl.int32)


@triton.jit
def _code_of(y, noise, span, bits):
    """The code of sums, counted from the lowest."""
    parts = y.to(tl.int32, bitcast=True) - _ZERO + noise
    return tl.minimum(tl.maximum(parts >> bits, 0), span)


@triton.jit
def _both_codes(codes, y0, y1, keys, places, level0, level1, span, NOISE: tl.constexpr):
    """The codes of two row groups added to those before: one in the lower half, one in the upper.

    16 bits behind the point lie in the lower half of a sum's float and its code in the upper one,
    behind the float's exponent.
    """
    out = tl.zeros_like(codes)
    lowest, span = out + _LOWEST, out + span * 65537
    if NOISE:
        return tl.inline_asm_elementwise(
            """{ .reg .b64 wide; .reg .b32 low, high, a, b;
            mul.wide.u32 wide, $4, $5; mov.b64 {low, high}, wide; xor.b32 low, low, high;
            dp4a.s32.s32 a, low, $6, $2; dp4a.s32.s32 b, low, $7, $3;
            prmt.b32 a, a, b, 0x7632; add.s16x2 a, a, $8; min.s16x2.relu a, a, $9;
            add.s16x2 $0, a, $1; }""",
            "=r,r,r,r,r,r,r,r,r,r",
            [codes, y0, y1, keys, places, level0, level1, lowest, span],
            dtype=tl.int32,
            is_pure=True,
            pack=1,
        )
    else:  # noqa: RET505
        return tl.inline_asm_elementwise(
            """{ .reg .b32 a; prmt.b32 a, $2, $3, 0x7632; add.s16x2 a, a, $4;
            min.s16x2.relu a, a, $5; add.s16x2 $0, a, $1; }""",
            "=r,r,r,r,r,r",
            [codes, y0, y1, lowest, span],
            dtype=tl.int32,
            is_pure=True,
            pack=1,
        )


@triton.jit
def store_currents(
    out_ptr, factor_ptr, total, row, number, in_rows, array, n, in_outputs, rows, outputs, arrays,
    limit, INPUT_BITS: tl.constexpr,
):  # fmt: skip
    """Sums of an array, float64 [M, N], to what they add to the membrane, int32."""
    output = array * outputs + n
    factor = tl.load(factor_ptr + output, mask=in_outputs, other=0).to(tl.float64)
    total = tl.floor(total + 0.5)
    if INPUT_BITS:
        total *= (tl.zeros_like(row) + (1 << (number * INPUT_BITS))).to(tl.float64)[:, None]
    current = tl.floor(total * factor[None, :] * (1.0 / 65536))
    current = tl.minimum(tl.maximum(current, -limit), limit).to(tl.int32)
    at = (tl.zeros_like(row) + number).to(tl.int64) * rows + row
    out = out_ptr + at[:, None] * (arrays * outputs)
    tl.store(out + output[None, :], current, mask=in_rows[:, None] & in_outputs[None, :])


@triton.jit
def chip_product(
    x_ptr, high_ptr, low_ptr, variance_ptr, square_ptr, level_ptr, dark_ptr, row_ptr, place_ptr,
    factor_ptr, worth_ptr, out_ptr, rows, padded, outputs, width, groups, arrays, passes, span,
    least, bits, levels, unit, limit, across,
    INPUT_BITS: tl.constexpr, PARTS: tl.constexpr, PIECES: tl.constexpr, FIELD: tl.constexpr,
    NOISE: tl.constexpr, ASM: tl.constexpr, PACKED: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Currents of every pass, int32 [pass, row, output], from what drives each row group.

    Inputs are those of `group_inputs`, `padded` rows of them. Cells are [group, input of a group,
    part, output], `width` outputs of each part: `groups` of each of the arrays, an even number. A
    program has BLOCK_M rows in one pass and PIECES times BLOCK_N outputs, and takes two row groups
    at a time, which share their noise's bytes. Codes of both are PACKED into one register where 16
    bits hold them.
    """
    tile, place = tl.program_id(0) % (across * arrays), tl.program_id(0) // (across * arrays)
    array, number = tile // across, place % passes
    m = place // passes * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile % across * (PIECES * BLOCK_N) + tl.arange(0, BLOCK_N)
    in_rows = m < rows
    k = tl.arange(0, BLOCK_K)
    columns, long = PARTS * width, padded.to(tl.int64)
    at, cell = k[:, None] * padded + m[None, :], k[:, None] * columns + n[None, :]
    keys = 0
    if NOISE:
        keys = tl.load(row_ptr + number * rows + m, mask=in_rows, other=1)[:, None]
    zero = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    totals = ()
    for _ in tl.static_range(PIECES):
        totals = totals + (zero.to(tl.float64),)  # noqa: RUF005
    for part in tl.static_range(PARTS):
        codes = ()
        for _ in tl.static_range(PIECES):
            codes = codes + (zero,)  # noqa: RUF005
        for group in tl.range(array * groups, array * groups + groups, 2, num_stages=STAGES):
            start = group * long
            here = x_ptr + start * BLOCK_K + at
            x0 = tl.trans(_driven(tl.load(here), number, INPUT_BITS, ASM))
            x1 = tl.trans(_driven(tl.load(here + BLOCK_K * padded), number, INPUT_BITS, ASM))
            level0, level1, places = 0, 0, 0
            if FIELD:
                words = (passes * FIELD + 31) // 32
                square = square_ptr + start * words + number * FIELD // 32 * padded + m
                shift, mask = number * FIELD % 32, 15 if FIELD == 4 else -1
                square0 = (tl.load(square) >> shift) & mask
                square1 = (tl.load(square + words * padded) >> shift) & mask
                level0 = tl.load(level_ptr + square0)[:, None]
                level1 = tl.load(level_ptr + levels + square1)[:, None]
            # Pieces are added last, so that one address serves all of them.
            cells0 = group * (BLOCK_K * columns) + part * width
            cells1 = cells0 + BLOCK_K * columns
            high0, low0 = high_ptr + cells0 + cell, low_ptr + cells0 + cell
            high1, low1 = high_ptr + cells1 + cell, low_ptr + cells1 + cell
            added = ()
            for piece in tl.static_range(PIECES):
                aside = piece * BLOCK_N
                y0 = tl.dot(x0, tl.load(high0 + aside), tl.dot(x0, tl.load(low0 + aside)))
                y1 = tl.dot(x1, tl.load(high1 + aside), tl.dot(x1, tl.load(low1 + aside)))
                if NOISE:
                    hashes = place_ptr + (group // 2 * columns + part * width) + n
                    places = tl.load(hashes + aside)[None, :]
                if PACKED:
                    code = _both_codes(
                        codes[piece], y0, y1, keys, places, level0, level1, span, NOISE
                    )
                else:
                    noise0, noise1 = zero, zero
                    if NOISE:
                        mixed = mixed_bytes(keys, places)
                        noise0 = _noise_of(
                            x0 * x0, variance_ptr, cells0 + cell + aside, level0, mixed, unit,
                            SECOND=False,
                        )  # fmt: skip
                        noise1 = _noise_of(
                            x1 * x1, variance_ptr, cells1 + cell + aside, level1, mixed, unit,
                            SECOND=True,
                        )  # fmt: skip
                    code = codes[piece] + _code_of(y0, noise0, span, bits)
                    code += _code_of(y1, noise1, span, bits)
                added = added + (code,)  # noqa: RUF005
            codes = added
        worth = tl.load(worth_ptr + part)
        sums = ()
        for piece in tl.static_range(PIECES):
            code = codes[piece]
            if PACKED:
                code = (code & 0xFFFF) + ((code >> 16) & 0xFFFF)
            code += groups * least
            o = n + piece * BLOCK_N
            if dark_ptr is not None:
                dark = dark_ptr + (array * PARTS + part) * outputs + o
                code -= tl.load(dark, mask=o < outputs, other=0)[None, :]
            sums = sums + (totals[piece] + code.to(tl.float64) * worth,)  # noqa: RUF005
        totals = sums
    for piece in tl.static_range(PIECES):
        o = n + piece * BLOCK_N
        store_currents(
            out_ptr, factor_ptr, totals[piece], m, number, in_rows, array, o, o < outputs, rows,
            outputs, arrays, limit, INPUT_BITS,
        )  # fmt: skip
