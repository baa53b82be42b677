"""The other stages as Triton kernels, on packed spikes and integers: Q and K, residuals, the
encoder, pooling. Attention has a file of its own.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call,assignment,misc"
# Triton compiles these functions; their arguments are pointers and tiles, not Python values.

import triton
import triton.language as tl

from falcon_snn.neuron.fused_firing import decide, receive, trains_of
from falcon_snn.neuron.fused_product import (
    all_weights,
    chunk_of,
    first_counts,
    no_sums,
    place_of,
    within,
)


@triton.jit(do_not_specialize=["rows"])
def quantised_matmul(
    x_ptr, w_ptr, out_ptr, factor_ptr, bias_ptr, shift_ptr, rows,
    IN: tl.constexpr, OUTPUTS: tl.constexpr, FIRST: tl.constexpr, ASM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PIECES: tl.constexpr,
    TAIL: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Q and K: counts of the first slots times weights, codes (factor S + bias) >> shift.

    IN is `fused.Patches`. As in `spiking_matmul`, a program's weights serve many tiles of rows, and
    counts serve all PIECES of its BLOCK_N outputs.
    """
    ACROSS: tl.constexpr = (OUTPUTS + BLOCK_N - 1) // BLOCK_N
    begin = tl.program_id(0) % ACROSS * BLOCK_N
    weights, columns = (), ()
    for i in tl.static_range(len(PIECES)):
        n = begin + tl.arange(0, PIECES[i])
        begin += PIECES[i]
        in_outputs = within(n, OUTPUTS, OUTPUTS % BLOCK_N == 0)
        w = all_weights(w_ptr, n, in_outputs, IN, BLOCK_K, TAIL)
        weights = weights + (w,)  # noqa: RUF005
        factor = tl.load(factor_ptr + n, mask=in_outputs, other=0)[None, :]
        bias = tl.load(bias_ptr + n, mask=in_outputs, other=0)[None, :]
        shift = tl.load(shift_ptr + n, mask=in_outputs, other=0)[None, :]
        columns = columns + ((n, in_outputs, factor, bias, shift),)  # noqa: RUF005
    first = tl.program_id(0) // ACROSS * BLOCK_M
    for at in tl.range(first, rows, tl.num_programs(0) // ACROSS * BLOCK_M, num_stages=STAGES):
        m = at + tl.arange(0, BLOCK_M)
        x_ptrs = x_ptr + tl.where(m < rows, m, 0).to(tl.int64) * IN[0]
        totals = no_sums(BLOCK_M, PIECES)
        for chunk in tl.static_range(IN[4] // BLOCK_K + (TAIL > 0)):
            x = chunk_of(x_ptrs, chunk, IN[4], IN[5], IN[6], BLOCK_K, TAIL, False)
            counts, added = first_counts(x, FIRST, ASM), ()
            for i in tl.static_range(len(PIECES)):
                total = tl.dot(counts, weights[i][chunk], totals[i], out_dtype=tl.int32)
                added = added + (total,)  # noqa: RUF005
            totals = added
        for i in tl.static_range(len(PIECES)):
            n, in_outputs, factor, bias, shift = columns[i]
            code = (totals[i] * factor + bias) >> shift
            code = tl.minimum(tl.maximum(code, -127), 127)
            out = out_ptr + m.to(tl.int64)[:, None] * OUTPUTS + n[None, :]
            tl.store(out, code.to(tl.int8), mask=(m < rows)[:, None] & in_outputs[None, :])


@triton.jit(do_not_specialize=["rows"])
def residual(
    a_ptr, b_ptr, out_ptr, factor_a_ptr, factor_b_ptr, static_ptr, initial_ptr, threshold_ptr,
    rows, MAP: tl.constexpr, A: tl.constexpr, B: tl.constexpr, OUT: tl.constexpr,
    OUTPUTS: tl.constexpr, SLOTS: tl.constexpr, DELAY: tl.constexpr, ASM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Two packed streams, slot by slot, each with its integer factor, then SN_delta.

    A, B and OUT say where rows lie, see `place_of`. The debt is what the membrane lacks to the
    threshold. What belongs to a channel is loaded once and serves many tiles of rows.
    """
    ACROSS: tl.constexpr = (OUTPUTS + BLOCK_N - 1) // BLOCK_N
    n = tl.program_id(0) % ACROSS * BLOCK_N + tl.arange(0, BLOCK_N)
    in_outputs = within(n, OUTPUTS, OUTPUTS % BLOCK_N == 0)
    factor_a = tl.load(factor_a_ptr + n, mask=in_outputs, other=0)[None, :]
    factor_b = tl.load(factor_b_ptr + n, mask=in_outputs, other=0)[None, :]
    static = tl.load(static_ptr + n, mask=in_outputs, other=0)[None, :]
    threshold = tl.load(threshold_ptr + n, mask=in_outputs, other=1 << 30)[None, :]
    initial = tl.load(initial_ptr + n, mask=in_outputs, other=0)[None, :]
    zero = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    factor_a, factor_b, thresholds = zero + factor_a, zero + factor_b, zero + threshold
    first = tl.program_id(0) // ACROSS * BLOCK_M
    for at in tl.range(first, rows, tl.num_programs(0) // ACROSS * BLOCK_M, num_stages=1):
        m = at + tl.arange(0, BLOCK_M)
        inside = (m < rows)[:, None] & in_outputs[None, :]
        a = tl.load(a_ptr + place_of(m, MAP, A)[:, None] + n[None, :], mask=inside, other=0)
        b = tl.load(b_ptr + place_of(m, MAP, B)[:, None] + n[None, :], mask=inside, other=0)
        debt = thresholds - initial
        spikes = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.uint8)
        for slot in tl.static_range(SLOTS + DELAY - 1):
            if slot < SLOTS:
                debt = receive(debt - static, factor_a, a, slot, ASM)
                debt = receive(debt, factor_b, b, slot, ASM)
            if slot >= DELAY - 1:
                debt, spikes = decide(debt, debt, thresholds, spikes, slot - DELAY + 1, ASM)
        out = out_ptr + place_of(m, MAP, OUT)[:, None] + n[None, :]
        tl.store(out, spikes, mask=inside)


@triton.jit(do_not_specialize=["rows"])
def encode(
    x_ptr, w_ptr, out_ptr, factor_ptr, static_ptr, initial_ptr, threshold_ptr, lengths_ptr, rows,
    MAP: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, OUTPUTS: tl.constexpr,
    SLOTS: tl.constexpr, TRAINS: tl.constexpr, NEEDS: tl.constexpr, PADDED: tl.constexpr,
    ASM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    TAIL: tl.constexpr,
):  # fmt: skip
    """Convolution of int8 features, then the train of its count.

    Features include their padding, so nothing has to be masked; IN is `fused.Patches`, MAP and OUT
    say where outputs lie, see `place_of`. TRAINS is `encoding.train_words`. Output line l is real
    if it NEEDS[0] l + NEEDS[1] lines at most.
    """
    ACROSS: tl.constexpr = (OUTPUTS + BLOCK_N - 1) // BLOCK_N
    n = tl.program_id(0) % ACROSS * BLOCK_N + tl.arange(0, BLOCK_N)
    in_outputs = within(n, OUTPUTS, OUTPUTS % BLOCK_N == 0)
    weights = all_weights(w_ptr, n, in_outputs, IN, BLOCK_K, TAIL)
    factor = tl.load(factor_ptr + n, mask=in_outputs, other=0)[None, :]
    static = tl.load(static_ptr + n, mask=in_outputs, other=0)[None, :]
    initial = tl.load(initial_ptr + n, mask=in_outputs, other=0)[None, :]
    threshold = tl.load(threshold_ptr + n, mask=in_outputs, other=1 << 30)[None, :]
    first = tl.program_id(0) // ACROSS * BLOCK_M
    for at in tl.range(first, rows, tl.num_programs(0) // ACROSS * BLOCK_M, num_stages=1):
        m = at + tl.arange(0, BLOCK_M)
        in_rows = m < rows
        row = tl.where(in_rows, m, 0)
        x_ptrs = x_ptr + place_of(row, MAP, IN)
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
        for chunk in tl.static_range(IN[4] // BLOCK_K + (TAIL > 0)):
            x = chunk_of(x_ptrs, chunk, IN[4], IN[5], IN[6], BLOCK_K, TAIL, False)
            total = tl.dot(x, weights[chunk], total, out_dtype=tl.int32)
        level = total * factor + (initial + SLOTS * static)
        train = trains_of(level, threshold, SLOTS, TRAINS[0], TRAINS[1], ASM)
        if PADDED:
            length = tl.load(lengths_ptr + row // (MAP[0] * MAP[1])).to(tl.int32)
            real = row // MAP[1] % MAP[0] * NEEDS[0] + NEEDS[1] <= length
            train = tl.where(real[:, None], train, 0).to(tl.uint8)
        out = out_ptr + place_of(row, MAP, OUT)[:, None] + n[None, :]
        tl.store(out, train, mask=in_rows[:, None] & in_outputs[None, :])


@triton.jit
def silence_border(
    out_ptr, SIZE: tl.constexpr, BORDER: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr
):
    """Zeros around the map of each clip; SIZE is (lines, pixels, channels) with the border."""
    WIDTH: tl.constexpr = SIZE[1]
    ABOVE: tl.constexpr = BORDER[0] * WIDTH  # pixels, as many as below
    SIDES: tl.constexpr = 2 * BORDER[1]
    INNER: tl.constexpr = SIZE[0] - 2 * BORDER[0]  # lines
    start = tl.program_id(0).to(tl.int64) * (SIZE[0] * WIDTH * SIZE[2])
    place = tl.program_id(1) * BLOCK_P + tl.arange(0, BLOCK_P)
    # First what lies above, then below, then the sides of one line after the other.
    pixel = tl.where(place < ABOVE, place, place + INNER * WIDTH)
    if SIDES > 0:
        side = place - 2 * ABOVE
        column = side % SIDES + tl.where(side % SIDES < BORDER[1], 0, WIDTH - SIDES)
        pixel = tl.where(side < 0, pixel, ABOVE + side // SIDES * WIDTH + column)
    c = tl.arange(0, BLOCK_C)
    inside = (place < 2 * ABOVE + SIDES * INNER)[:, None] & (c < SIZE[2])[None, :]
    zero = tl.zeros((BLOCK_P, BLOCK_C), dtype=tl.uint8)
    tl.store(out_ptr + start + pixel[:, None] * SIZE[2] + c[None, :], zero, mask=inside)


@triton.jit
def round_inputs(x_ptr, out_ptr, zero, levels, largest, size, BLOCK: tl.constexpr):
    """Integers (x - zero) * levels, rounded half to even, as int8.

    Adding 1.5 * 2^23 rounds like that; the product must not be fused with it.
    """
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = (tl.load(x_ptr + at, mask=at < size, other=0.0) - zero) * levels
    x = tl.minimum(tl.maximum(x, -largest), largest)
    tl.store(out_ptr + at, ((x + 12582912.0) - 12582912.0).to(tl.int8), mask=at < size)


@triton.jit
def pad_features(
    x_ptr, out_ptr, lengths_ptr, SIZE: tl.constexpr, PADDING: tl.constexpr, PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Zeros around the features of a clip and in place of its lines from the length on.

    SIZE is (lines, bytes of a line), PADDING how much of each there is on each side.
    """
    LINES: tl.constexpr = SIZE[0] + 2 * PADDING[0]
    WIDTH: tl.constexpr = SIZE[1] + 2 * PADDING[1]
    clip = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    line, byte = place // WIDTH - PADDING[0], place % WIDTH - PADDING[1]
    length = SIZE[0]
    if PADDED:
        length = tl.minimum(tl.load(lengths_ptr + clip), SIZE[0]).to(tl.int32)
    inside = (line >= 0) & (line < length) & (byte >= 0) & (byte < SIZE[1])
    x = tl.load(x_ptr + clip * (SIZE[0] * SIZE[1]) + line * SIZE[1] + byte, mask=inside, other=0)
    tl.store(out_ptr + clip * (LINES * WIDTH) + place, x, mask=place < LINES * WIDTH)


@triton.jit
def pool_counts(
    x_ptr, out_ptr, lengths_ptr, tokens, channels,
    PADDED: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Spikes per channel over the real tokens: [clip, token, channel] to [clip, channel]."""
    clip = tl.program_id(0).to(tl.int64)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    t = tl.arange(0, BLOCK_T)
    length = tokens
    if PADDED:
        length = tl.load(lengths_ptr + clip).to(tl.int32)
    inside = (t < length)[:, None] & (n < channels)[None, :]
    x = tl.load(x_ptr + (clip * tokens + t[:, None]) * channels + n[None, :], mask=inside, other=0)
    sums = tl.sum(first_counts(x, 8).to(tl.int32), axis=0)
    tl.store(out_ptr + clip * channels + n, sums, mask=n < channels)
