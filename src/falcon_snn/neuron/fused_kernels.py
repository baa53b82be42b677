"""The other stages as Triton kernels, on packed spikes and integers: Q and K, residuals, attention,
the encoder, pooling.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call,assignment,misc"
# Triton compiles these functions; their arguments are pointers and tiles, not Python values.

import triton
import triton.language as tl

from falcon_snn.neuron.fused_product import chunk_of, first_counts, place_of, weights_of


@triton.jit
def _tile_of(columns, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Rows and columns of this program; one axis, since only the first has no limit of 65,535."""
    across = tl.cdiv(columns, BLOCK_N)
    m = tl.program_id(0) // across * BLOCK_M + tl.arange(0, BLOCK_M)
    return m, tl.program_id(0) % across * BLOCK_N + tl.arange(0, BLOCK_N)


@triton.jit(do_not_specialize=["rows"])
def quantised_matmul(
    x_ptr, w_ptr, out_ptr, factor_ptr, bias_ptr, shift_ptr, rows, outputs,
    WIDTH: tl.constexpr, FIRST: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, TAIL: tl.constexpr,
):  # fmt: skip
    """Q and K: counts of the first slots times weights, codes (factor S + bias) >> shift."""
    m, n = _tile_of(outputs, BLOCK_M, BLOCK_N)
    in_rows, in_outputs = m < rows, n < outputs
    x_ptrs = x_ptr + tl.where(in_rows, m, 0).to(tl.int64) * WIDTH
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for chunk in tl.static_range(WIDTH // BLOCK_K + (TAIL > 0)):
        x = chunk_of(x_ptrs, chunk, WIDTH, WIDTH, WIDTH, BLOCK_K, TAIL, False)
        w = weights_of(w_ptr, n, in_outputs, chunk, WIDTH, BLOCK_K, TAIL)
        total = tl.dot(first_counts(x, FIRST), w, total, out_dtype=tl.int32)
    factor = tl.load(factor_ptr + n, mask=in_outputs, other=0)[None, :]
    bias = tl.load(bias_ptr + n, mask=in_outputs, other=0)[None, :]
    shift = tl.load(shift_ptr + n, mask=in_outputs, other=0)[None, :]
    code = (total * factor + bias) >> shift
    code = tl.minimum(tl.maximum(code, -127), 127)
    out = out_ptr + m.to(tl.int64)[:, None] * outputs + n[None, :]
    tl.store(out, code.to(tl.int8), mask=in_rows[:, None] & in_outputs[None, :])


@triton.jit(do_not_specialize=["rows"])
def residual(
    a_ptr, b_ptr, out_ptr, factor_a_ptr, factor_b_ptr, static_ptr, initial_ptr, threshold_ptr,
    rows, channels, MAP: tl.constexpr, A: tl.constexpr, B: tl.constexpr, OUT: tl.constexpr,
    SLOTS: tl.constexpr, DELAY: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Two packed streams, slot by slot, each with its integer factor, then SN_delta.

    A, B and OUT say where rows lie, see `place_of`.
    """
    m, n = _tile_of(channels, BLOCK_M, BLOCK_N)
    inside = (m < rows)[:, None] & (n < channels)[None, :]
    a_at = place_of(m, MAP, A)[:, None] + n[None, :]
    b_at = place_of(m, MAP, B)[:, None] + n[None, :]
    a = tl.load(a_ptr + a_at, mask=inside, other=0).to(tl.int32)
    b = tl.load(b_ptr + b_at, mask=inside, other=0).to(tl.int32)
    in_channels = n < channels
    factor_a = tl.load(factor_a_ptr + n, mask=in_channels, other=0)[None, :]
    factor_b = tl.load(factor_b_ptr + n, mask=in_channels, other=0)[None, :]
    static = tl.load(static_ptr + n, mask=in_channels, other=0)[None, :]
    threshold = tl.load(threshold_ptr + n, mask=in_channels, other=1 << 30)[None, :]
    membrane = tl.load(initial_ptr + n, mask=in_channels, other=0)[None, :] + tl.zeros_like(a)
    spikes = tl.zeros_like(a)
    for slot in tl.static_range(SLOTS):
        membrane += static + ((a >> slot) & 1) * factor_a + ((b >> slot) & 1) * factor_b
        if slot >= DELAY - 1:
            fired = membrane >= threshold
            membrane -= tl.where(fired, threshold, 0)
            spikes |= tl.where(fired, 1 << (slot - DELAY + 1), 0)
    for decision in tl.static_range(SLOTS - DELAY + 1, SLOTS):
        fired = membrane >= threshold
        membrane -= tl.where(fired, threshold, 0)
        spikes |= tl.where(fired, 1 << decision, 0)
    out = out_ptr + place_of(m, MAP, OUT)[:, None] + n[None, :]
    tl.store(out, spikes.to(tl.uint8), mask=inside)


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, out_ptr, lengths_ptr, slope_ptr, offset_ptr, table_ptr,
    factor_ptr, static_ptr, initial_ptr, threshold_ptr, tokens,
    HEADS: tl.constexpr, SIZE: tl.constexpr, SLOTS: tl.constexpr, PADDED: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """One head of one clip: A = table(Q K^T), context = SN_T(A V), all in integers.

    The map's code is monotone in the integer score, so a table of the smallest score per code
    defines it. A float guess gives nearly all codes; where it lies so near to an edge that rounding
    may have moved it across, two look-ups decide.
    """
    clip = tl.program_id(0).to(tl.int64) // HEADS
    head = tl.program_id(0) % HEADS
    query = tl.program_id(1) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    key = tl.arange(0, BLOCK_T)
    d = tl.arange(0, BLOCK_D)  # a power of two; what is beyond the head's size is zero
    inside = d < SIZE
    start = clip * tokens * (HEADS * SIZE) + head * SIZE
    length = tokens
    if PADDED:
        length = tl.load(lengths_ptr + clip).to(tl.int32)
    q_at = start + query[:, None] * (HEADS * SIZE) + d[None, :]
    mine = (query < tokens)[:, None] & inside[None, :]
    q = tl.load(q_ptr + q_at, mask=mine, other=0)
    k_at = start + key[None, :] * (HEADS * SIZE) + d[:, None]
    k = tl.load(k_ptr + k_at, mask=(key < length)[None, :] & inside[:, None], other=0)
    scores = tl.dot(q, k, out_dtype=tl.int32)

    slope = tl.load(slope_ptr + head)
    offset = tl.load(offset_ptr + head)
    scaled = scores.to(tl.float32) * slope
    guess = tl.exp(tl.minimum(scaled - offset, 6.0))
    code = tl.minimum((guess + 0.5).to(tl.int32), 255)
    # Twice what four roundings of the exponent and the exponential itself can add up to.
    doubt = guess * (4e-7 * (tl.abs(scaled) + tl.abs(offset)) + 1e-6) + 1e-3
    over = guess + 0.5 - code.to(tl.float32)
    unsure = (over < doubt) | (over > 1.0 - doubt)
    table = table_ptr + head * 257 + code
    code += (scores >= tl.load(table + 1, mask=unsure, other=2147483647)).to(tl.int32)
    code -= (scores < tl.load(table, mask=unsure, other=-2147483648)).to(tl.int32)
    code = tl.where((key < length)[None, :], code, 0)

    v_at = start + key[:, None] * (HEADS * SIZE) + d[None, :]
    v = tl.load(v_ptr + v_at, mask=(key < length)[:, None] & inside[None, :], other=0)
    counts = first_counts(v, SLOTS)
    # Codes reach 255; shifted by 128 they fit the signed product, and the shift is added back.
    mixed = tl.dot((code - 128).to(tl.int8), counts, out_dtype=tl.int32)
    mixed += 128 * tl.sum(counts.to(tl.int32), axis=0)[None, :]

    channel = head * SIZE + d
    membrane = (
        mixed * tl.load(factor_ptr + channel, mask=inside)[None, :]
        + (
            tl.load(initial_ptr + channel, mask=inside)
            + SLOTS * tl.load(static_ptr + channel, mask=inside)
        )[None, :]
    )
    threshold = tl.load(threshold_ptr + channel, mask=inside)[None, :]
    spikes = tl.zeros_like(membrane)
    for slot in tl.static_range(SLOTS):
        fired = membrane >= threshold
        membrane -= tl.where(fired, threshold, 0)
        spikes |= tl.where(fired, 1 << slot, 0)
    tl.store(out_ptr + q_at, spikes.to(tl.uint8), mask=mine)


@triton.jit(do_not_specialize=["rows"])
def encode(
    x_ptr, w_ptr, out_ptr, factor_ptr, static_ptr, initial_ptr, threshold_ptr, train_ptr,
    lengths_ptr, rows, outputs,
    SIZE: tl.constexpr, KERNEL: tl.constexpr, STRIDE: tl.constexpr, PADDING: tl.constexpr,
    MAP: tl.constexpr, OUT: tl.constexpr, SLOTS: tl.constexpr, PADDED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Convolution of int8 features, then the train of its count.

    Input [clip, line, pixel, channel] of SIZE (lines, pixels, channels), without padding, so all
    that a tap would see outside is masked. MAP and OUT say where outputs lie, see `place_of`.
    """
    CHANNELS: tl.constexpr = SIZE[2]
    RUN: tl.constexpr = KERNEL[1] * CHANNELS
    TAPS: tl.constexpr = KERNEL[0] * RUN
    m, n = _tile_of(outputs, BLOCK_M, BLOCK_N)
    in_rows, in_outputs = m < rows, n < outputs
    clip = (m // (MAP[0] * MAP[1])).to(tl.int64)
    top = (m // MAP[1]) % MAP[0] * STRIDE[0] - PADDING[0]
    left = m % MAP[1] * STRIDE[1] - PADDING[1]
    length = tl.zeros_like(top) + SIZE[0]
    if PADDED:
        length = tl.load(lengths_ptr + clip, mask=in_rows, other=0).to(tl.int32)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for chunk in tl.static_range((TAPS + BLOCK_K - 1) // BLOCK_K):
        tap = chunk * BLOCK_K + tl.arange(0, BLOCK_K)
        line = top[:, None] + (tap // RUN)[None, :]
        pixel = left[:, None] + (tap % RUN // CHANNELS)[None, :]
        seen = in_rows[:, None] & (tap < TAPS)[None, :]
        seen = seen & (line >= 0) & (line < length[:, None]) & (pixel >= 0) & (pixel < SIZE[1])
        at = (clip[:, None] * SIZE[0] + line) * SIZE[1] + pixel
        x = tl.load(x_ptr + at * CHANNELS + (tap % CHANNELS)[None, :], mask=seen, other=0)
        weighs = (tap < TAPS)[:, None] & in_outputs[None, :]
        w = tl.load(w_ptr + n[None, :] * TAPS + tap[:, None], mask=weighs, other=0)
        total = tl.dot(x, w, total, out_dtype=tl.int32)
    factor = tl.load(factor_ptr + n, mask=in_outputs, other=0)[None, :]
    static = tl.load(static_ptr + n, mask=in_outputs, other=0)
    initial = tl.load(initial_ptr + n, mask=in_outputs, other=0)
    threshold = tl.load(threshold_ptr + n, mask=in_outputs, other=1 << 30)[None, :]
    membrane = total * factor + (initial + SLOTS * static)[None, :]
    # The quotient in float is off by one at the most; what is left over says so.
    count = (membrane.to(tl.float32) / threshold.to(tl.float32)).to(tl.int32)
    count = tl.minimum(tl.maximum(count, 0), SLOTS)
    left = membrane - count * threshold
    count += ((left >= threshold) & (count < SLOTS)).to(tl.int32)
    count -= ((left < 0) & (count > 0)).to(tl.int32)
    train = tl.load(train_ptr + count)
    train = tl.where((top + KERNEL[0] <= length + PADDING[0])[:, None], train, 0)
    out = out_ptr + place_of(m, MAP, OUT)[:, None] + n[None, :]
    tl.store(out, train, mask=in_rows[:, None] & in_outputs[None, :])


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
