"""The fused spiking layer as a Triton kernel: packed spikes in, packed spikes out.

No current ever goes to memory. The matrix product runs on int8 and adds in int32, so its result
does not depend on the order of summation; the membrane is an int32 fixed-point number. A layer
needs T - delay + 1 products: the slots before the first decision are summed as counts.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call,assignment,misc"
# Triton compiles these functions; their arguments are pointers and tiles, not Python values.

import triton
import triton.language as tl

from falcon_snn.neuron.fused_firing import decide, spikes_at_once


@triton.jit
def slot_spikes(packed, SLOT: tl.constexpr, ASM: tl.constexpr):
    """The spikes of one slot, as int8: -1 where there is one, else 0."""
    if ASM:
        # Four neurons share a register, so two instructions serve all four: the slot's bit is
        # shifted to the top of its byte, and the byte is filled with its top bit. (That is where
        # the sign comes from. Shifting down and masking would take as many instructions, but both
        # on the unit that also does the comparisons.) The distance comes as four equal bytes.
        return tl.inline_asm_elementwise(
            "{ .reg .b32 s; and.b32 s, $2, 7; shl.b32 s, $1, s; prmt.b32 $0, s, 0, 0xba98; }",
            "=r,r,r",
            [packed, tl.full(packed.shape, 7 - SLOT, tl.uint8)],
            dtype=tl.int8,
            is_pure=True,
            pack=4,
        )
    else:  # noqa: RET505 (Triton compiles one branch only if both are spelled out)
        return -((packed >> SLOT) & 1).to(tl.int8)


@triton.jit
def first_counts(packed, FIRST: tl.constexpr, ASM: tl.constexpr = False):
    """How many of the first slots spiked, as int8."""
    if ASM:
        # The same steps as below on four neurons at a time; no byte carries into the next.
        return tl.inline_asm_elementwise(
            """{ .reg .b32 x, y; and.b32 x, $1, $2;
            shr.b32 y, x, 1; and.b32 y, y, 0x55555555; sub.s32 x, x, y;
            shr.b32 y, x, 2; and.b32 y, y, 0x33333333; and.b32 x, x, 0x33333333; add.s32 x, x, y;
            shr.b32 y, x, 4; add.s32 x, x, y; and.b32 $0, x, 0x0f0f0f0f; }""",
            "=r,r,r",
            [packed, tl.full(packed.shape, (1 << FIRST) - 1, tl.uint8)],
            dtype=tl.int8,
            is_pure=True,
            pack=4,
        )
    else:  # noqa: RET505
        x = packed & ((1 << FIRST) - 1)
        x = x - ((x >> 1) & 0x55)
        x = (x & 0x33) + ((x >> 2) & 0x33)
        return ((x + (x >> 4)) & 0x0F).to(tl.int8)


@triton.jit
def place_of(rows, MAP: tl.constexpr, AT: tl.constexpr):
    """Where rows begin in a buffer: row to clip, line and pixel of the output, then to its byte.

    MAP is (lines, pixels) of a clip, AT begins with the distances of clips, lines and pixels and
    the first byte. Rows without a map have MAP (1, 1): each is a clip, and nothing is divided.
    """
    base = (rows // (MAP[0] * MAP[1])).to(tl.int64) * AT[0] + AT[3]
    return base + (rows // MAP[1]) % MAP[0] * AT[1] + rows % MAP[1] * AT[2]


@triton.jit
def within(index, LIMIT: tl.constexpr, WHOLE: tl.constexpr):
    """Which indices lie below the limit; where all do, a constant, so that masks cost nothing."""
    return tl.full(index.shape, 1, tl.int1) if WHOLE else index < LIMIT


@triton.jit
def _inputs(
    CHUNK: tl.constexpr, INPUTS: tl.constexpr, BLOCK_K: tl.constexpr, TAIL: tl.constexpr
):  # fmt: skip
    """The inputs of one chunk, the last one of TAIL places, and which of them exist."""
    FULL: tl.constexpr = INPUTS // BLOCK_K
    k = CHUNK * BLOCK_K + tl.arange(0, BLOCK_K if CHUNK < FULL else TAIL)
    return k, within(k, INPUTS, CHUNK < FULL or FULL * BLOCK_K + TAIL == INPUTS)


@triton.jit
def weights_of(
    w_ptr, n, in_outputs, CHUNK: tl.constexpr, INPUTS: tl.constexpr, BLOCK_K: tl.constexpr,
    TAIL: tl.constexpr,
):  # fmt: skip
    """The weights of one chunk, from [outputs, INPUTS]."""
    k, inside = _inputs(CHUNK, INPUTS, BLOCK_K, TAIL)
    at = w_ptr + n[None, :] * INPUTS + k[:, None]
    return tl.load(at, mask=inside[:, None] & in_outputs[None, :], other=0)


@triton.jit
def chunk_of(
    x_ptrs, CHUNK: tl.constexpr, INPUTS: tl.constexpr, RUN: tl.constexpr, IN_LINE: tl.constexpr,
    BLOCK_K: tl.constexpr, TAIL: tl.constexpr, AGAIN: tl.constexpr,
):  # fmt: skip
    """The packed bytes of one chunk; AGAIN keeps the compiler from holding on to earlier ones."""
    k, inside = _inputs(CHUNK, INPUTS, BLOCK_K, TAIL)
    at = x_ptrs[:, None] + (k // RUN * IN_LINE + k % RUN)[None, :]
    return tl.load(at, mask=inside[None, :], other=0, volatile=AGAIN)


@triton.jit
def all_weights(
    w_ptr, n, in_outputs, IN: tl.constexpr, BLOCK_K: tl.constexpr, TAIL: tl.constexpr
):  # fmt: skip
    """The weights of all chunks; they stay in shared memory."""
    weights = ()
    for chunk in tl.static_range(IN[4] // BLOCK_K + (TAIL > 0)):
        w = weights_of(w_ptr, n, in_outputs, chunk, IN[4], BLOCK_K, TAIL)
        weights = weights + (w,)  # noqa: RUF005
    return weights


@triton.jit
def _all_bytes(x_ptrs, IN: tl.constexpr, BLOCK_K: tl.constexpr, TAIL: tl.constexpr):
    """The packed bytes of all chunks; they stay in registers."""
    packed = ()
    for chunk in tl.static_range(IN[4] // BLOCK_K + (TAIL > 0)):
        x = chunk_of(x_ptrs, chunk, IN[4], IN[5], IN[6], BLOCK_K, TAIL, False)
        packed = packed + (x,)  # noqa: RUF005
    return packed


@triton.jit
def _add_slots(
    totals, packed, x_ptrs, weights, DECISION: tl.constexpr, DELAY: tl.constexpr,
    IN: tl.constexpr, PIECES: tl.constexpr, BLOCK_K: tl.constexpr, TAIL: tl.constexpr,
    KEPT: tl.constexpr, ASM: tl.constexpr,
):  # fmt: skip
    """The running sums with the slots that this decision adds, with the wrong sign."""
    for chunk in tl.static_range(IN[4] // BLOCK_K + (TAIL > 0)):
        if KEPT:
            x = packed[chunk]
        else:
            x = chunk_of(x_ptrs, chunk, IN[4], IN[5], IN[6], BLOCK_K, TAIL, True)
        if DECISION == 0 and DELAY > 1:
            spiked = first_counts(x, DELAY, ASM)
        else:
            spiked = slot_spikes(x, DECISION + DELAY - 1, ASM)
        added = ()
        for i in tl.static_range(len(PIECES)):
            total = tl.dot(spiked, weights[i][chunk], totals[i], out_dtype=tl.int32)
            added = added + (total,)  # noqa: RUF005
        totals = added
    if DECISION == 0 and DELAY > 1:
        added = ()
        for i in tl.static_range(len(PIECES)):
            added = added + (-totals[i],)  # noqa: RUF005
        totals = added
    return totals


@triton.jit
def _none(BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, KIND: tl.constexpr):
    return tl.zeros((BLOCK_M, BLOCK_N), dtype=KIND)


@triton.jit
def no_sums(BLOCK_M: tl.constexpr, PIECES: tl.constexpr):
    """Zeros for each piece."""
    totals = ()
    for i in tl.static_range(len(PIECES)):
        totals = totals + (_none(BLOCK_M, PIECES[i], tl.int32),)  # noqa: RUF005
    return totals


@triton.jit
def _spiking_rows(
    x_ptr, extra_ptr, out_ptr, weights, extra_weights, columns, m, rows,
    MAP: tl.constexpr, IN: tl.constexpr, EXTRA_IN: tl.constexpr, OUT: tl.constexpr,
    EXTRA: tl.constexpr, SLOTS: tl.constexpr, DELAY: tl.constexpr, ASM: tl.constexpr,
    BLOCK_M: tl.constexpr, PIECES: tl.constexpr, BLOCK_K: tl.constexpr, TAIL: tl.constexpr,
    EXTRA_TAIL: tl.constexpr, KEPT: tl.constexpr,
):  # fmt: skip
    """A tile of rows, from packed bytes to packed bytes."""
    m += tl.arange(0, BLOCK_M)
    in_rows = m < rows
    row = tl.where(in_rows, m, 0)
    x_ptrs = x_ptr + place_of(row, MAP, IN)
    out_ptrs = out_ptr + place_of(row, MAP, OUT)
    packed, extra_packed = (), ()
    if KEPT:
        packed = _all_bytes(x_ptrs, IN, BLOCK_K, TAIL)
    totals = no_sums(BLOCK_M, PIECES)
    if EXTRA > 0:
        extra_ptrs = extra_ptr + place_of(row, MAP, EXTRA_IN)
    if EXTRA == 2:
        extra_totals = no_sums(BLOCK_M, PIECES)
        if KEPT:
            extra_packed = _all_bytes(extra_ptrs, EXTRA_IN, BLOCK_K, EXTRA_TAIL)
    debts, trains, extras = (), (), ()
    for i in tl.static_range(len(PIECES)):
        n, in_outputs, _, extra_factor, _, _, first_debt = columns[i]
        debt = totals[i] + first_debt
        if EXTRA == 1:
            mask = in_rows[:, None] & in_outputs[None, :]
            extra = tl.load(extra_ptrs[:, None] + n[None, :], mask=mask, other=0)
            extras = extras + (extra,)  # noqa: RUF005
            debt -= extra_factor * first_counts(extra, DELAY).to(tl.int32)
        debts = debts + (debt,)  # noqa: RUF005
        trains = trains + (_none(BLOCK_M, PIECES[i], tl.uint8),)  # noqa: RUF005

    for decision in tl.static_range(SLOTS if DELAY < SLOTS else 1):
        if decision < SLOTS - DELAY + 1:
            totals = _add_slots(
                totals, packed, x_ptrs, weights, decision, DELAY, IN, PIECES, BLOCK_K, TAIL, KEPT,
                ASM,
            )  # fmt: skip
            if EXTRA == 2:
                extra_totals = _add_slots(
                    extra_totals, extra_packed, extra_ptrs, extra_weights, decision, DELAY,
                    EXTRA_IN, PIECES, BLOCK_K, EXTRA_TAIL, KEPT, ASM,
                )  # fmt: skip
        owed, fired = (), ()
        for i in tl.static_range(len(PIECES)):
            _, _, factor, extra_factor, static, threshold, _ = columns[i]
            debt = debts[i]
            if decision > 0 and decision < SLOTS - DELAY + 1:
                debt -= static
                if EXTRA == 1:
                    slot = (extras[i] >> (decision + DELAY - 1)) & 1
                    debt -= extra_factor * slot.to(tl.int32)
            missing = totals[i] * factor + debt
            if EXTRA == 2:
                missing += extra_totals[i] * extra_factor
            if DELAY == SLOTS:
                spikes = spikes_at_once(threshold - missing, threshold, SLOTS, ASM)
            else:
                thresholds = tl.zeros_like(debt) + threshold
                debt, spikes = decide(missing, debt, thresholds, trains[i], decision, ASM)
            owed = owed + (debt,)  # noqa: RUF005
            fired = fired + (spikes,)  # noqa: RUF005
        debts, trains = owed, fired

    for i in tl.static_range(len(PIECES)):
        mask = in_rows[:, None] & columns[i][1][None, :]
        tl.store(out_ptrs[:, None] + columns[i][0][None, :], trains[i], mask=mask)


@triton.jit
def _spiking_columns(
    x_ptr, w_ptr, extra_ptr, extra_w_ptr, out_ptr, factor_ptr, extra_factor_ptr, static_ptr,
    initial_ptr, threshold_ptr, rows, m, step, n,
    MAP: tl.constexpr, IN: tl.constexpr, EXTRA_IN: tl.constexpr, OUT: tl.constexpr,
    EXTRA: tl.constexpr, OUTPUTS: tl.constexpr, SLOTS: tl.constexpr, DELAY: tl.constexpr,
    ASM: tl.constexpr, BLOCK_M: tl.constexpr, PIECES: tl.constexpr, BLOCK_K: tl.constexpr,
    TAIL: tl.constexpr, EXTRA_TAIL: tl.constexpr, WHOLE: tl.constexpr, STAGES: tl.constexpr,
    KEPT: tl.constexpr,
):  # fmt: skip
    """Some outputs, in pieces: what is theirs is loaded once and serves every tile of rows."""
    weights, extra_weights, columns = (), (), ()
    for i in tl.static_range(len(PIECES)):
        at = n + tl.arange(0, PIECES[i])
        n += PIECES[i]
        in_outputs = within(at, OUTPUTS, WHOLE or i < len(PIECES) - 1)  # the others are full
        w = all_weights(w_ptr, at, in_outputs, IN, BLOCK_K, TAIL)
        weights = weights + (w,)  # noqa: RUF005
        factor = tl.load(factor_ptr + at, mask=in_outputs, other=0)[None, :]
        static = tl.load(static_ptr + at, mask=in_outputs, other=0)[None, :]
        threshold = tl.load(threshold_ptr + at, mask=in_outputs, other=1 << 30)[None, :]
        initial = tl.load(initial_ptr + at, mask=in_outputs, other=0)[None, :]
        first_debt = threshold - initial - DELAY * static
        extra_factor = factor
        if EXTRA > 0:
            extra_factor = tl.load(extra_factor_ptr + at, mask=in_outputs, other=0)[None, :]
        if EXTRA == 2:
            w = all_weights(extra_w_ptr, at, in_outputs, EXTRA_IN, BLOCK_K, EXTRA_TAIL)
            extra_weights = extra_weights + (w,)  # noqa: RUF005
        column = (at, in_outputs, factor, extra_factor, static, threshold, first_debt)
        columns = columns + (column,)  # noqa: RUF005
    for row in tl.range(m, rows, step, num_stages=STAGES):
        _spiking_rows(
            x_ptr, extra_ptr, out_ptr, weights, extra_weights, columns, row, rows, MAP, IN,
            EXTRA_IN, OUT, EXTRA, SLOTS, DELAY, ASM, BLOCK_M, PIECES, BLOCK_K, TAIL, EXTRA_TAIL,
            KEPT,
        )  # fmt: skip


@triton.jit(do_not_specialize=["rows"])
def spiking_matmul(
    x_ptr, w_ptr, extra_ptr, extra_w_ptr, out_ptr, factor_ptr, extra_factor_ptr, static_ptr,
    initial_ptr, threshold_ptr, rows,
    MAP: tl.constexpr, IN: tl.constexpr, EXTRA_IN: tl.constexpr, OUT: tl.constexpr,
    EXTRA: tl.constexpr, OUTPUTS: tl.constexpr, SLOTS: tl.constexpr, DELAY: tl.constexpr,
    ASM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    PIECES: tl.constexpr, LAST: tl.constexpr, WHOLE: tl.constexpr, TAIL_K: tl.constexpr,
    EXTRA_TAIL_K: tl.constexpr, STAGES: tl.constexpr, KEPT: tl.constexpr,
):  # fmt: skip
    """Rows of packed spikes times int8 weights, then SN_delta.

    A row is what one output pixel sees: some runs of bytes, one per line of the kernel. Buffers
    include their padding, so nothing has to be masked. IN is `fused.Patches`: where a row begins,
    its number of inputs, the length of a run and the distance from one to the next. Weights are
    [outputs, inputs].

    EXTRA is what else a neuron receives: nothing (0), the packed spikes of another stage (1) or a
    second product (2), each with a factor of its own; EXTRA_IN says where it lies.

    Slots are taken one after the other, and one running sum serves them all, since the membrane
    is linear in the sum of all slots so far: it is factor * sum + initial + slots * static, less
    the thresholds of the spikes. The product is compared with the debt, which is all the rest and
    the next threshold. So a neuron needs little more than two registers, which leaves room for
    large tiles: they unpack the spikes less often. Weights stay in shared memory, packed bytes in
    registers if KEPT; else they are read again for every slot. The sum has the wrong sign, see
    `slot_spikes`, and so fits the debt.

    A debt alone may wrap around; what is missing cannot (`network/fixed_point.py`): spikes follow
    the highest sum so far, and from there the sum falls by no more than its reach.

    Sizes are powers of two: inputs come in chunks of BLOCK_K and one of TAIL_K. A program has
    BLOCK_N outputs, or fewer if it is the last, and takes them in pieces: PIECES or LAST, which is
    WHOLE if it has no room. The spikes of a chunk are unpacked once for all of them.
    """
    FULL_N: tl.constexpr = OUTPUTS // BLOCK_N
    ACROSS: tl.constexpr = FULL_N + (len(LAST) > 0)
    m = tl.program_id(0) // ACROSS * BLOCK_M
    step = tl.num_programs(0) // ACROSS * BLOCK_M
    tile = tl.program_id(0) % ACROSS
    if tile < FULL_N:
        _spiking_columns(
            x_ptr, w_ptr, extra_ptr, extra_w_ptr, out_ptr, factor_ptr, extra_factor_ptr,
            static_ptr, initial_ptr, threshold_ptr, rows, m, step, tile * BLOCK_N, MAP, IN,
            EXTRA_IN, OUT, EXTRA, OUTPUTS, SLOTS, DELAY, ASM, BLOCK_M, PIECES, BLOCK_K, TAIL_K,
            EXTRA_TAIL_K, True, STAGES, KEPT,
        )  # fmt: skip
    elif len(LAST) > 0:
        _spiking_columns(
            x_ptr, w_ptr, extra_ptr, extra_w_ptr, out_ptr, factor_ptr, extra_factor_ptr,
            static_ptr, initial_ptr, threshold_ptr, rows, m, step, FULL_N * BLOCK_N, MAP, IN,
            EXTRA_IN, OUT, EXTRA, OUTPUTS, SLOTS, DELAY, ASM, BLOCK_M, LAST, BLOCK_K, TAIL_K,
            EXTRA_TAIL_K, WHOLE, STAGES, KEPT,
        )  # fmt: skip
