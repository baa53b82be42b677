"""Membranes and spikes of Triton kernels: one decision after the other, or all at once."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call,assignment,misc"
# Triton compiles these functions; their arguments are pointers and tiles, not Python values.

import triton
import triton.language as tl


@triton.jit
def decide(missing, debt, threshold, spikes, DECISION: tl.constexpr, ASM: tl.constexpr):
    """One decision: a neuron that misses nothing spikes and owes one threshold more."""
    if ASM:
        # Four neurons at a time, their spikes in one register: each takes a comparison and two
        # predicated additions. The bit comes as four equal bytes.
        return tl.inline_asm_elementwise(
            """{ .reg .pred p, q, r, s; .reg .b32 a, b, c, d;
            setp.le.s32 p, $5, 0; setp.le.s32 q, $6, 0;
            setp.le.s32 r, $7, 0; setp.le.s32 s, $8, 0;
            and.b32 a, $18, 0xff; and.b32 b, $18, 0xff00;
            and.b32 c, $18, 0xff0000; and.b32 d, $18, 0xff000000;
            mov.b32 $0, $9; mov.b32 $1, $10; mov.b32 $2, $11; mov.b32 $3, $12; mov.b32 $4, $17;
            @p add.s32 $0, $0, $13; @q add.s32 $1, $1, $14;
            @r add.s32 $2, $2, $15; @s add.s32 $3, $3, $16;
            @p add.s32 $4, $4, a; @q add.s32 $4, $4, b;
            @r add.s32 $4, $4, c; @s add.s32 $4, $4, d; }""",
            "=&r,=&r,=&r,=&r,=&r,r,r,r,r,r,r,r,r,r,r,r,r,r,r",
            [missing, debt, threshold, spikes, tl.full(spikes.shape, 1 << DECISION, tl.uint8)],
            dtype=(tl.int32, tl.uint8),
            is_pure=True,
            pack=4,
        )
    else:  # noqa: RET505
        fired = missing <= 0
        return debt + tl.where(fired, threshold, 0), spikes | (fired.to(tl.uint8) << DECISION)


@triton.jit
def receive(debt, factor, packed, SLOT: tl.constexpr, ASM: tl.constexpr):
    """The debt, less the factor where the input spikes in this slot."""
    if ASM:
        # Four neurons at a time, whose packed spikes share a register: each takes a test and a
        # predicated subtraction. The bit comes as four equal bytes.
        return tl.inline_asm_elementwise(
            """{ .reg .pred p, q, r, s; .reg .b32 m, a, b, c, d;
            and.b32 m, $12, $13; and.b32 a, m, 0xff; and.b32 b, m, 0xff00;
            and.b32 c, m, 0xff0000; and.b32 d, m, 0xff000000;
            setp.ne.b32 p, a, 0; setp.ne.b32 q, b, 0; setp.ne.b32 r, c, 0; setp.ne.b32 s, d, 0;
            mov.b32 $0, $4; mov.b32 $1, $5; mov.b32 $2, $6; mov.b32 $3, $7;
            @p sub.s32 $0, $0, $8; @q sub.s32 $1, $1, $9;
            @r sub.s32 $2, $2, $10; @s sub.s32 $3, $3, $11; }""",
            "=&r,=&r,=&r,=&r,r,r,r,r,r,r,r,r,r,r",
            [debt, factor, packed, tl.full(packed.shape, 1 << SLOT, tl.uint8)],
            dtype=tl.int32,
            is_pure=True,
            pack=4,
        )
    else:  # noqa: RET505
        return debt - tl.where(((packed >> SLOT) & 1) != 0, factor, 0)


@triton.jit
def trains_of(
    level, threshold, SLOTS: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, ASM: tl.constexpr
):
    """The train of a neuron that knows all its input: of how many thresholds its level holds.

    LOW and HIGH are the trains of the counts 0..3 and 4..7 (`encoding.train_words`). The count is
    found by halving: are there four thresholds in the level, two in the rest, one? Of up to three
    slots all spike from three thresholds on, so four need not be asked for.

    Four thresholds may exceed an int32. Levels stay below 2^30 (`network/fixed_point.py`), so a
    number that no level reaches does as well: 2^31 - 4 where thresholds are 2^29 or more.
    """
    four = 4 * tl.minimum(threshold, (1 << 29) - 1)
    two = 2 * tl.minimum(threshold, (1 << 30) - 1)
    # Four neurons at a time: their counts are the digits of n, and the bytes that those name are
    # picked from the words in one instruction.
    if ASM and SLOTS < 4:
        return tl.inline_asm_elementwise(
            """{ .reg .pred p, q, r, s; .reg .b32 a, b, c, d, n;
            setp.ge.s32 p, $1, $5; setp.ge.s32 q, $2, $6;
            setp.ge.s32 r, $3, $7; setp.ge.s32 s, $4, $8;
            mov.b32 a, $1; mov.b32 b, $2; mov.b32 c, $3; mov.b32 d, $4; mov.b32 n, 0;
            @p sub.s32 a, a, $5; @q sub.s32 b, b, $6; @r sub.s32 c, c, $7; @s sub.s32 d, d, $8;
            @p add.s32 n, n, 0x2; @q add.s32 n, n, 0x20;
            @r add.s32 n, n, 0x200; @s add.s32 n, n, 0x2000;
            setp.ge.s32 p, a, $9; setp.ge.s32 q, b, $10;
            setp.ge.s32 r, c, $11; setp.ge.s32 s, d, $12;
            @p add.s32 n, n, 0x1; @q add.s32 n, n, 0x10;
            @r add.s32 n, n, 0x100; @s add.s32 n, n, 0x1000;
            prmt.b32 $0, $13, 0, n; }""",
            "=r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,r",
            [level, two, threshold, LOW],
            dtype=tl.uint8,
            is_pure=True,
            pack=4,
        )
    elif ASM and SLOTS < 8:  # noqa: RET505 (Triton compiles one branch only if all are spelled out)
        return tl.inline_asm_elementwise(
            """{ .reg .pred p, q, r, s; .reg .b32 a, b, c, d, n;
            setp.ge.s32 p, $1, $5; setp.ge.s32 q, $2, $6;
            setp.ge.s32 r, $3, $7; setp.ge.s32 s, $4, $8;
            mov.b32 a, $1; mov.b32 b, $2; mov.b32 c, $3; mov.b32 d, $4; mov.b32 n, 0;
            @p sub.s32 a, a, $5; @q sub.s32 b, b, $6; @r sub.s32 c, c, $7; @s sub.s32 d, d, $8;
            @p add.s32 n, n, 0x4; @q add.s32 n, n, 0x40;
            @r add.s32 n, n, 0x400; @s add.s32 n, n, 0x4000;
            setp.ge.s32 p, a, $9; setp.ge.s32 q, b, $10;
            setp.ge.s32 r, c, $11; setp.ge.s32 s, d, $12;
            @p sub.s32 a, a, $9; @q sub.s32 b, b, $10; @r sub.s32 c, c, $11; @s sub.s32 d, d, $12;
            @p add.s32 n, n, 0x2; @q add.s32 n, n, 0x20;
            @r add.s32 n, n, 0x200; @s add.s32 n, n, 0x2000;
            setp.ge.s32 p, a, $13; setp.ge.s32 q, b, $14;
            setp.ge.s32 r, c, $15; setp.ge.s32 s, d, $16;
            @p add.s32 n, n, 0x1; @q add.s32 n, n, 0x10;
            @r add.s32 n, n, 0x100; @s add.s32 n, n, 0x1000;
            prmt.b32 $0, $17, $21, n; }""",
            "=r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,r,r",
            [level, four, two, threshold, LOW, HIGH],
            dtype=tl.uint8,
            is_pure=True,
            pack=4,
        )
    else:
        count = 4 * (level >= four).to(tl.int32)
        level -= tl.where(count == 4, four, 0)
        more = 2 * (level >= two).to(tl.int32)
        level -= tl.where(more == 2, two, 0)
        one = level >= threshold
        count += more + one.to(tl.int32)
        train = tl.where(count < 4, LOW, HIGH).to(tl.uint32) >> (8 * (count % 4)).to(tl.uint32)
        if SLOTS == 8:  # an eighth threshold fills all slots
            train |= tl.where((count == 7) & (level - threshold >= threshold), 255, 0).to(tl.uint32)
        return train.to(tl.uint8)


@triton.jit
def spikes_at_once(level, threshold, SLOTS: tl.constexpr, ASM: tl.constexpr):
    """Spikes with full lookahead: as many as the level holds thresholds, from the first slot on."""
    ALL: tl.constexpr = 0x01010101 * ((1 << SLOTS) - 1)
    return trains_of(level, threshold, SLOTS, 0x07030100 & ALL, 0x7F3F1F0F & ALL, ASM)
