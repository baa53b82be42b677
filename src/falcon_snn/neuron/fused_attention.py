"""Attention as a Triton kernel: codes of Q and K and packed values in, packed spikes out."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call,assignment,misc"
# Triton compiles these functions; their arguments are pointers and tiles, not Python values.

import triton
import triton.language as tl

from falcon_snn.neuron.fused_firing import spikes_at_once
from falcon_snn.neuron.fused_product import first_counts

_BITS = tl.constexpr(0x4B400000)  # of 1.5 * 2^23: adding to it rounds to whole numbers
_LARGE = tl.constexpr(12582912.0)
_LOG2_E = tl.constexpr(1.4426950408889634)
_TOP = tl.constexpr(7.9957)  # 2^7.9957 = 255.24, which is certainly code 255


@triton.jit
def _codes(scores, slope, offset, table_ptr, head, SIZE: tl.constexpr, ASM: tl.constexpr):
    """The map's codes of integer scores, less 128: the table's, though most never read it.

    The code is monotone in the score, and table[c] is the smallest score with code c or more. In
    real numbers it is guess = 2^(slope score - offset), rounded. The edge that lies nearest to the
    guess is that of code c = round(guess + 1/2), so the code is c or c - 1, and the side of the
    edge decides. Where rounding may have moved the guess across, the table is asked instead.

    How far it may move: only guesses of 1/4 and more can come near an edge, and those above _TOP
    are code 255, so the exponent lies in -2..8 and the product with the slope within
    B = |offset| + 8. Slope and offset are rounded three times each (stored, the constant, their
    product with it), their sum twice: the exponent is off by 8 B 2^-24 at the most, the guess by a
    share of ln 2 times that and 2^-22 for the exponential, and the sum with 1/2 by 2^-16. `doubt`
    is at least twice all that.
    """
    share = (0.7 * (tl.abs(offset) + 8.0) + 0.5) * 0.00000095367431640625  # 2^-20
    if SIZE <= 256:  # sums of products up to 127^2 stay below 2^22: two plain additions convert
        score = (scores + _BITS).to(tl.float32, bitcast=True) - _LARGE
    else:
        score = scores.to(tl.float32)
    exponent = tl.minimum(score * slope - offset, _TOP)
    if ASM:  # without the steps that keep numbers below 2^-126, which round to 0 anyway
        guess = tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=r,r", [exponent], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        guess = tl.exp2(exponent)
    shifted = guess + 0.5
    rounded = shifted + _LARGE  # its low bits are c, the rest is a multiple of 256
    over = shifted - (rounded - _LARGE)
    doubt = guess * share + 1e-4
    bits = rounded.to(tl.int32, bitcast=True)
    table = table_ptr + (head * 257 - _BITS)
    if ASM:
        # The same as below on four codes at a time, which end in one register. Where one of them
        # is in doubt, which is rare, the table decides all four. (Tiles of loads would go through
        # shared memory.) Less 128 is the other top bit.
        return tl.inline_asm_elementwise(
            """{ .reg .pred p; .reg .b32 a, b, c, d; .reg .f32 f; .reg .b64 t;
            abs.f32 f, $9; setp.lt.f32 p, f, $13; abs.f32 f, $10; setp.lt.or.f32 p, f, $14, p;
            abs.f32 f, $11; setp.lt.or.f32 p, f, $15, p;
            abs.f32 f, $12; setp.lt.or.f32 p, f, $16, p;
            shr.s32 a, $9, 31; shr.s32 b, $10, 31; shr.s32 c, $11, 31; shr.s32 d, $12, 31;
            @!p bra SURE;
            mad.wide.s32 t, $5, 4, $17; ld.global.nc.b32 a, [t];
            mad.wide.s32 t, $6, 4, $18; ld.global.nc.b32 b, [t];
            mad.wide.s32 t, $7, 4, $19; ld.global.nc.b32 c, [t];
            mad.wide.s32 t, $8, 4, $20; ld.global.nc.b32 d, [t];
            set.lt.s32.s32 a, $1, a; set.lt.s32.s32 b, $2, b;
            set.lt.s32.s32 c, $3, c; set.lt.s32.s32 d, $4, d;
            SURE:
            add.s32 a, a, $5; add.s32 b, b, $6; add.s32 c, c, $7; add.s32 d, d, $8;
            prmt.b32 a, a, b, 0x0040; prmt.b32 c, c, d, 0x0040; prmt.b32 a, a, c, 0x5410;
            xor.b32 $0, a, 0x80808080; }""",
            "=r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,l,l,l,l",
            [scores, bits, over, doubt, table.to(tl.int64)],
            dtype=tl.int8,
            is_pure=True,
            pack=4,
        )
    else:  # noqa: RET505
        unsure = tl.abs(over) < doubt
        edge = tl.load(table + bits, mask=unsure, other=0)
        below = tl.where(unsure, scores < edge, over < 0)
        return (bits - below.to(tl.int32) - 128).to(tl.int8)


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, out_ptr, lengths_ptr, slope_ptr, offset_ptr, table_ptr,
    factor_ptr, static_ptr, initial_ptr, threshold_ptr, tokens,
    HEADS: tl.constexpr, SIZE: tl.constexpr, SLOTS: tl.constexpr, PADDED: tl.constexpr,
    ASM: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """One head of one clip: A = codes(Q K^T), context = SN_T(A V), all in integers."""
    clip = tl.program_id(0).to(tl.int64) // HEADS
    head = tl.program_id(0) % HEADS
    query = tl.program_id(1) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    d = tl.arange(0, BLOCK_D)  # a power of two; what is beyond the head's size is zero
    inside = d < SIZE
    start = clip * tokens * (HEADS * SIZE) + head * SIZE
    length = tokens
    if PADDED:
        length = tl.load(lengths_ptr + clip).to(tl.int32)
    slope = tl.load(slope_ptr + head) * _LOG2_E
    offset = tl.load(offset_ptr + head) * _LOG2_E
    q_at = query[:, None] * (HEADS * SIZE) + d[None, :]
    mine = (query < tokens)[:, None] & inside[None, :]
    q = tl.load(q_ptr + start + q_at, mask=mine, other=0)
    mixed = tl.zeros((BLOCK_Q, BLOCK_D), dtype=tl.int32)
    total = mixed
    # One stage: the compiler cannot load ahead where an address depends on a product.
    for first in tl.range(0, length, BLOCK_T, num_stages=1):
        key = first + tl.arange(0, BLOCK_T)
        k_at = key[None, :] * (HEADS * SIZE) + d[:, None]
        k = tl.load(k_ptr + start + k_at, mask=(key < length)[None, :] & inside[:, None], other=0)
        v_at = key[:, None] * (HEADS * SIZE) + d[None, :]
        v = tl.load(v_ptr + start + v_at, mask=(key < length)[:, None] & inside[None, :], other=0)
        scores = tl.dot(q, k, out_dtype=tl.int32)
        codes = _codes(scores, slope, offset, table_ptr, head, SIZE, ASM)
        counts = first_counts(v, SLOTS, ASM)  # 0 beyond the length, so codes may be anything there
        mixed = tl.dot(codes, counts, mixed, out_dtype=tl.int32)
        ones = tl.full((BLOCK_Q, BLOCK_T), 1, tl.int8)
        total = tl.dot(ones, counts, total, out_dtype=tl.int32)
    mixed += 128 * total  # codes reach 255; less 128 they fit the signed product

    channel = head * SIZE + d
    factor = tl.load(factor_ptr + channel, mask=inside, other=0)
    static = tl.load(static_ptr + channel, mask=inside, other=0)
    initial = tl.load(initial_ptr + channel, mask=inside, other=0)
    threshold = tl.load(threshold_ptr + channel, mask=inside, other=1 << 30)
    level = mixed * factor[None, :] + (initial + SLOTS * static)[None, :]
    spikes = spikes_at_once(level, threshold[None, :], SLOTS, ASM)
    tl.store(out_ptr + start + q_at, spikes, mask=mine)
