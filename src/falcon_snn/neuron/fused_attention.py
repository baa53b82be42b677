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
def _codes(scores, slope, offset, table_ptr, head, ASM: tl.constexpr):
    """The map's codes of integer scores, less 128: the table's, though most never read it.

    The code is monotone in the score, and table[c] is the smallest score with code c or more. In
    real numbers it is guess = 2^(slope score - offset), rounded. Where the guess lies so near to
    the edge between two codes that errors may have moved it across, the edge of the upper one is
    read from the table and decides.

    How far it may move: only guesses of 1/4 and more can come near an edge, and those above _TOP
    are code 255, so the exponent lies in -2..8 and the product with the slope within
    B = |offset| + 8. Slope and offset are rounded three times each (stored, the constant, their
    product with it), their sum twice: the exponent is off by 8 B 2^-24 at the most, the guess by a
    share of ln 2 times that and 2^-22 for the exponential. What is added here to the nearest whole
    number to get the guess is exact, and the edges lie at 1/2: up to `sure` the guess is at least
    twice all that away from them.
    """
    share = (0.7 * (tl.abs(offset) + 8.0) + 0.5) * 0.00000095367431640625  # 2^-20
    exponent = tl.minimum(scores.to(tl.float32) * slope - offset, _TOP)
    if ASM:  # without the steps that keep numbers below 2^-126, which round to 0 anyway
        guess = tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=r,r", [exponent], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        guess = tl.exp2(exponent)
    rounded = guess + _LARGE  # its low bits are the whole number, the rest is a multiple of 256
    over = guess - (rounded - _LARGE)
    sure = (0.5 - 1e-4) - guess * share
    bits = rounded.to(tl.int32, bitcast=True)
    table = table_ptr + (head * 257 - _BITS)
    if ASM:
        # The same as below on four codes at a time, which end in one register. Where one of them
        # is not sure, which is rare, the table decides all four. (Tiles of loads would go through
        # shared memory.) Less 128 is the other top bit.
        return tl.inline_asm_elementwise(
            """{ .reg .pred p; .reg .b32 a, b, c, d, e; .reg .f32 f; .reg .b64 t;
            abs.f32 f, $9; setp.gt.f32 p, f, $13; abs.f32 f, $10; setp.gt.or.f32 p, f, $14, p;
            abs.f32 f, $11; setp.gt.or.f32 p, f, $15, p;
            abs.f32 f, $12; setp.gt.or.f32 p, f, $16, p;
            mov.b32 a, $5; mov.b32 b, $6; mov.b32 c, $7; mov.b32 d, $8;
            @!p bra SURE;
            set.gt.s32.f32 e, $9, 0f00000000; sub.s32 a, a, e;
            set.gt.s32.f32 e, $10, 0f00000000; sub.s32 b, b, e;
            set.gt.s32.f32 e, $11, 0f00000000; sub.s32 c, c, e;
            set.gt.s32.f32 e, $12, 0f00000000; sub.s32 d, d, e;
            mad.wide.s32 t, a, 4, $17; ld.global.nc.b32 e, [t];
            set.lt.s32.s32 e, $1, e; add.s32 a, a, e;
            mad.wide.s32 t, b, 4, $18; ld.global.nc.b32 e, [t];
            set.lt.s32.s32 e, $2, e; add.s32 b, b, e;
            mad.wide.s32 t, c, 4, $19; ld.global.nc.b32 e, [t];
            set.lt.s32.s32 e, $3, e; add.s32 c, c, e;
            mad.wide.s32 t, d, 4, $20; ld.global.nc.b32 e, [t];
            set.lt.s32.s32 e, $4, e; add.s32 d, d, e;
            SURE:
            prmt.b32 a, a, b, 0x0040; prmt.b32 c, c, d, 0x0040; prmt.b32 a, a, c, 0x5410;
            xor.b32 $0, a, 0x80808080; }""",
            "=r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,l,l,l,l",
            [scores, bits, over, sure, table.to(tl.int64)],
            dtype=tl.int8,
            is_pure=True,
            pack=4,
        )
    else:  # noqa: RET505
        unsure = tl.abs(over) > sure
        upper = bits + (unsure & (over > 0)).to(tl.int32)
        below = unsure & (scores < tl.load(table + upper, mask=unsure, other=0))
        return (upper - below.to(tl.int32) - 128).to(tl.int8)


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
        codes = _codes(scores, slope, offset, table_ptr, head, ASM)
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
