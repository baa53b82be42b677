"""A layer on a sampled chip with converters as two Triton kernels: packed spikes in, currents out.

What `analog` computes with a tensor of all sums of all row groups is computed here in registers, in
the same steps and with the same roundings, so both give the same bits. A sum is a product of 16-bit
floats: cells of more than eleven bits are cut in two, and the tensor cores add up whole numbers
below 2^24 exactly. One cell is 1.5 * 2^23, so that the bits of a sum are a whole number, too.
What follows a sum is few instructions for two row groups at once: there are a hundred million sums
in a clip.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call,assignment,misc"
# mypy: disable-error-code="var-annotated"
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
    x_ptr, at_ptr, out_ptr, square_ptr, rows, padded, groups, first, lines, pixels, clip_at,
    line_at, pixel_at, start_at, always_on,
    INPUT_BITS: tl.constexpr, PASSES: tl.constexpr, ACTIVE: tl.constexpr, FIELD: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """What drives each row group, int16 [group, row, input], as `_driven` takes it.

    A pass takes one bit of a train of spikes, or INPUT_BITS of its count. `at_ptr` says where a
    group's inputs lie, counted from where a row begins, or -1 for none; inputs from ACTIVE on are
    `always_on`. For noise also the sums of squared inputs of two groups at once: bytes for each
    pass, the first sum below 16 times the second, int32 [pair, word, row]; or, where they are
    larger, FIELD = 32 bits each, [pair, first or second, pass, row]. A program takes several pairs:
    where its rows lie takes longer than one of them.
    """
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tl.arange(0, BLOCK_K)
    row = tl.where(m < rows, m, 0)
    place = x_ptr + place_at(row, lines, pixels, clip_at, line_at, pixel_at, start_at)[:, None]
    out, long = out_ptr + (m[:, None] * BLOCK_K + k[None, :]), padded.to(tl.int64)
    for pair in range(tl.program_id(1), groups // 2, tl.num_programs(1)):
        low = tl.zeros((BLOCK_M, BLOCK_K), tl.int32)
        high = low
        for half in tl.static_range(2):
            group = pair * 2 + half
            at = tl.load(at_ptr + group * BLOCK_K + k)[None, :]
            x = tl.load(place + at, mask=at >= 0, other=0)
            if INPUT_BITS:
                x = first_counts(x & ((1 << first) - 1), 8).to(tl.uint8)
            x = x.to(tl.int32)
            if FIELD == 32:
                square = square_ptr + group * long * PASSES + m
                for number in tl.static_range(PASSES):
                    now = x >> (number * INPUT_BITS if INPUT_BITS else number)
                    now = now & ((1 << INPUT_BITS) - 1 if INPUT_BITS else 1)
                    tl.store(square + number * long, tl.sum(now * now, axis=1))
            elif FIELD == 8:  # four spikes at once, each to the lowest bit of a byte
                low += ((x & 15) * 0x204081 & 0x01010101) << (4 * half)
                high += ((x >> 4) * 0x204081 & 0x01010101) << (4 * half)
            x = tl.where(k[None, :] >= ACTIVE, always_on, x)
            if not INPUT_BITS:
                x = ((x & 31) << 10) | (x >> 5)
            tl.store(out + group * long * BLOCK_K, x.to(tl.int16))
        if FIELD == 8:
            square = square_ptr + pair * long * ((PASSES + 3) // 4) + m
            tl.store(square, tl.sum(low, axis=1))
            if PASSES > 4:
                tl.store(square + long, tl.sum(high, axis=1))


@triton.jit
def _driven(x, number: tl.constexpr, INPUT_BITS: tl.constexpr, ASM: tl.constexpr):
    """Inputs of a pass as 16-bit floats: counts, or spikes of 2^power.

    A spike is one bit of a float's exponent: five passes have one each, from bit 10 on, the others
    share the highest. A spike's float is never one without exponent: tensor cores lose bits of
    sums of those. Two inputs take few instructions.
    """
    SHIFT: tl.constexpr = number * INPUT_BITS if INPUT_BITS else (19 - number if number > 4 else 0)
    MASK: tl.constexpr = (1 << INPUT_BITS) - 1 if INPUT_BITS else 1 << min(10 + number, 14)
    mask, shift = tl.full(x.shape, MASK, tl.int16), tl.full(x.shape, SHIFT, tl.int32)
    if not ASM:
        if INPUT_BITS:
            return ((x >> SHIFT) & mask).to(tl.float16)
        else:  # noqa: RET505 (Triton compiles one branch only if both are spelled out)
            return ((x << SHIFT) & mask).to(tl.float16, bitcast=True)
    elif INPUT_BITS:  # behind 0x6400 a whole number is part of a float, which is 1024 and that
        return tl.inline_asm_elementwise(
            """{ .reg .b32 a; shr.b32 a, $1, $2; and.b32 a, a, $4; or.b32 a, a, $5;
            sub.f16x2 $0, a, $5; }""",
            "=r,r,r,r,r,r",
            [x, shift, mask, tl.full(x.shape, 1024.0, tl.float16)],
            dtype=tl.float16,
            is_pure=True,
            pack=2,
        )
    else:
        return tl.inline_asm_elementwise(
            "{ .reg .b32 a; shl.b32 a, $1, $2; and.b32 $0, a, $4; }",
            "=r,r,r,r,r",
            [x, shift, mask],
            dtype=tl.float16,
            is_pure=True,
            pack=2,
        )


@triton.jit
def _levels_of(word, level_ptr, number: tl.constexpr, ASM: tl.constexpr):
    """The weights of noise's bytes for two row groups, from the byte of their pass in a word."""
    if ASM:  # else the compiler would lay out the table in shared memory for every pass
        return tl.inline_asm_elementwise(
            """{ .reg .b32 i; .reg .b64 a; shf.r.wrap.b32 i, $2, $2, $3; and.b32 i, i, 0x7F8;
            cvt.u64.u32 a, i; add.s64 a, a, $4; ld.global.nc.v2.b32 {$0, $1}, [a]; }""",
            "=r,=r,r,r,l",
            [
                word,
                tl.zeros_like(word) + (number % 4 * 8 + 29) % 32,
                tl.zeros_like(word).to(tl.int64) + level_ptr.to(tl.int64, bitcast=True),
            ],
            dtype=(tl.int32, tl.int32),
            is_pure=True,
            pack=1,
        )
    else:  # noqa: RET505
        both = level_ptr + ((word >> (number % 4 * 8)) & 255) * 2
        return tl.load(both), tl.load(both + 1)


@triton.jit
def _noise_of(now, variance_ptr, cells, level, mixed, unit, SECOND: tl.constexpr,
              INPUT_BITS: tl.constexpr):  # fmt: skip
    """What noise adds to the sums of a row group, in parts of a step."""
    if variance_ptr is None:
        return weighted_bytes(mixed, level)
    else:  # noqa: RET505
        squared = now * now if INPUT_BITS else tl.where(now != 0, 1.0, 0.0).to(tl.float16)
        sigma = tl.sqrt_rn(tl.dot(squared, tl.load(variance_ptr + cells)) * unit)
        drawn = sigma * plain_bytes(mixed, SECOND)
        return (drawn.to(tl.float64) + _ROUND).to(tl.int64, bitcast=True).to(tl.int32)


@triton.jit
def _code_of(y, noise, span, bits, power: tl.constexpr):
    """The code of sums, counted from the lowest."""
    parts = y.to(tl.int32, bitcast=True) - (_ZERO + power * (1 << 23)) + noise
    return tl.minimum(tl.maximum(parts >> bits, 0), span)


@triton.jit
def _both_codes(codes, y0, y1, keys, places, level0, level1, span, power: tl.constexpr,
                NOISE: tl.constexpr):  # fmt: skip
    """The codes of two row groups added to those before: one in the lower half, one in the upper.

    16 bits behind the point lie in the lower half of a sum's float and its code in the upper one,
    behind the float's exponent.
    """
    out = tl.zeros_like(codes)
    lowest, span = out + (_LOWEST - power * 0x00800080), out + span * 65537
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
def factors_of(factor_ptr, output, in_outputs):
    """What turns sums of outputs into currents, float64."""
    factor = tl.load(factor_ptr + output, mask=in_outputs, other=0)
    return factor.to(tl.float64) * (1.0 / 65536)


@triton.jit
def store_currents(
    out_ptr, factor, total, row, number, in_rows, output, in_outputs, rows, wide, limit,
    INPUT_BITS: tl.constexpr, ASM: tl.constexpr,
):  # fmt: skip
    """Sums, float64 [M, N], to what they add to the membrane, int32 [pass, row, `wide` outputs]."""
    exact = tl.floor(total + 0.5) * factor[None, :]
    if INPUT_BITS:
        exact *= (tl.zeros_like(row) + (1 << (number * INPUT_BITS))).to(tl.float64)[:, None]
    if ASM:  # saturates, and so needs no comparison of 64 bits
        current = tl.inline_asm_elementwise(
            "cvt.rmi.s32.f64 $0, $1;", "=r,d", [exact], dtype=tl.int32, is_pure=True, pack=1
        )
        current = tl.minimum(tl.maximum(current, -limit), limit)
    else:
        most = tl.zeros_like(exact) + limit
        current = tl.floor(tl.minimum(tl.maximum(exact, -most), most)).to(tl.int32)
    at = (tl.zeros_like(row) + number).to(tl.int64) * rows + row
    out = out_ptr + at[:, None] * wide
    tl.store(out + output[None, :], current, mask=in_rows[:, None] & in_outputs[None, :])


@triton.jit
def _sum_of_halves(codes, least):
    """The codes of all row groups, and what the lowest ones are, from PACKED ones."""
    return tl.inline_asm_elementwise(
        "dp2a.lo.u32.u32 $0, $1, $3, $2;", "=r,r,r,r",
        [codes, least, tl.full(codes.shape, 0x0101, tl.int32)],
        dtype=tl.int32, is_pure=True, pack=1,
    )  # fmt: skip


@triton.jit
def chip_product(
    x_ptr, high_ptr, low_ptr, variance_ptr, square_ptr, level_ptr, dark_ptr, row_ptr, place_ptr,
    factor_ptr, worth_ptr, out_ptr, rows, padded, outputs, groups, arrays, span, least, bits,
    levels, unit, limit, across,
    INPUT_BITS: tl.constexpr, PASSES: tl.constexpr, PARTS: tl.constexpr, PIECES: tl.constexpr,
    FIELD: tl.constexpr, NOISE: tl.constexpr, ASM: tl.constexpr, PACKED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Currents of every pass, int32 [pass, row, output], from what drives each row group.

    Inputs and sums of their squares are those of `group_inputs`, `padded` rows of them. Cells are
    [group, part, piece, input of a group, output of a piece], `groups` of each of the arrays, an
    even number. A program has BLOCK_M rows in all passes and PIECES times BLOCK_N outputs, so
    that it reads cells once, and takes two row groups at a time, which share their noise's bytes.
    Codes of both are PACKED into one register where 16 bits hold them.
    """
    CELLS: tl.constexpr = BLOCK_K * BLOCK_N
    tile, place = tl.program_id(0) % (across * arrays), tl.program_id(0) // (across * arrays)
    array, begin, pieces = tile // across, tile % across * PIECES, across * PIECES
    m, n, k = place * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    in_rows, long = m < rows, padded.to(tl.int64)
    at, cell = m[:, None] * BLOCK_K + k[None, :], k[:, None] * BLOCK_N + n[None, :]
    keys, totals = (), ()
    for number in tl.static_range(PASSES):
        key = 0
        if NOISE:
            key = tl.load(row_ptr + number * rows + m, mask=in_rows, other=1)[:, None]
        keys = keys + (key,)  # noqa: RUF005
    zero = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for part in tl.static_range(PARTS):
        codes = ()
        for _ in tl.static_range(PASSES * PIECES):
            codes = codes + (zero,)  # noqa: RUF005
        for group in tl.range(array * groups, array * groups + groups, 2, num_stages=STAGES):
            here = x_ptr + group * long * BLOCK_K + at
            x0, x1 = tl.load(here), tl.load(here + long * BLOCK_K)
            first = (group * PARTS + part) * pieces + begin
            places = ((group // 2 * PARTS + part) * pieces + begin) * BLOCK_N + n
            high0, low0, high1, low1, hashes, words = (), (), (), (), (), ()
            for piece in tl.static_range(PIECES):
                cells = (first + piece) * CELLS + cell
                other = cells + PARTS * pieces * CELLS
                high0 = high0 + (tl.load(high_ptr + cells),)  # noqa: RUF005
                high1 = high1 + (tl.load(high_ptr + other),)  # noqa: RUF005
                if low_ptr is not None:
                    low0 = low0 + (tl.load(low_ptr + cells),)  # noqa: RUF005
                    low1 = low1 + (tl.load(low_ptr + other),)  # noqa: RUF005
                if NOISE:
                    hashes = hashes + (tl.load(place_ptr + places + piece * BLOCK_N)[None, :],)  # noqa: RUF005
            if FIELD == 8:
                for word in tl.static_range((PASSES + 3) // 4):
                    square = square_ptr + (group // 2 * ((PASSES + 3) // 4) + word) * long
                    words = words + (tl.load(square + m),)  # noqa: RUF005
            added = ()
            for number in tl.static_range(PASSES):
                # Of `_driven`: bit 10 + number alone is an exponent of 2^number.
                power = 0 if INPUT_BITS else ((1 << number) - 15 if number < 5 else 1)
                level0, level1, spot = 0, 0, 0
                if FIELD == 8:
                    level0, level1 = _levels_of(words[number // 4], level_ptr, number, ASM)
                    level0, level1 = level0[:, None], level1[:, None]
                elif FIELD == 32:
                    square = square_ptr + (group * PASSES + number) * long + m
                    level0 = tl.load(level_ptr + tl.load(square))[:, None]
                    level1 = tl.load(level_ptr + levels + tl.load(square + PASSES * long))[:, None]
                now0 = _driven(x0, number, INPUT_BITS, ASM)
                now1 = _driven(x1, number, INPUT_BITS, ASM)
                for piece in tl.static_range(PIECES):
                    y0, y1 = zero.to(tl.float32), zero.to(tl.float32)
                    if low_ptr is not None:
                        y0, y1 = tl.dot(now0, low0[piece]), tl.dot(now1, low1[piece])
                    y0, y1 = tl.dot(now0, high0[piece], y0), tl.dot(now1, high1[piece], y1)
                    code = codes[number * PIECES + piece]
                    if NOISE:
                        spot = hashes[piece]
                    if PACKED:
                        code = _both_codes(
                            code, y0, y1, keys[number], spot, level0, level1, span, power, NOISE
                        )
                    else:
                        noise0, noise1 = zero, zero
                        if NOISE:
                            mixed = mixed_bytes(keys[number], spot)
                            cells = (first + piece) * CELLS + cell
                            other = cells + PARTS * pieces * CELLS
                            noise0 = _noise_of(now0, variance_ptr, cells, level0, mixed, unit,
                                               False, INPUT_BITS)  # fmt: skip
                            noise1 = _noise_of(now1, variance_ptr, other, level1, mixed, unit,
                                               True, INPUT_BITS)  # fmt: skip
                        code += _code_of(y0, noise0, span, bits, power)
                        code += _code_of(y1, noise1, span, bits, power)
                    added = added + (code,)  # noqa: RUF005
            codes = added
        worth = tl.load(worth_ptr + part)
        sums = ()
        for one in tl.static_range(PASSES * PIECES):
            o = (begin + one % PIECES) * BLOCK_N + n
            lowest = tl.zeros_like(n) + groups * least
            if dark_ptr is not None:
                dark = dark_ptr + (array * PARTS + part) * outputs + o
                lowest -= tl.load(dark, mask=o < outputs, other=0)
            lowest = tl.broadcast_to(lowest[None, :], (BLOCK_M, BLOCK_N))
            code = _sum_of_halves(codes[one], lowest) if PACKED else codes[one] + lowest
            total = code.to(tl.float64) * worth
            if part:
                total += totals[one]
            sums = sums + (total,)  # noqa: RUF005
        totals = sums
    factors = ()
    for piece in tl.static_range(PIECES):
        o = (begin + piece) * BLOCK_N + n
        factors = factors + (factors_of(factor_ptr, array * outputs + o, o < outputs),)  # noqa: RUF005
    for one in tl.static_range(PASSES * PIECES):
        o = (begin + one % PIECES) * BLOCK_N + n
        store_currents(
            out_ptr, factors[one % PIECES], totals[one], m, one // PIECES, in_rows,
            array * outputs + o, o < outputs, rows, arrays * outputs, limit, INPUT_BITS, ASM,
        )  # fmt: skip
