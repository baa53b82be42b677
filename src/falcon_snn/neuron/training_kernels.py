"""Quantisers of training as Triton kernels: what torch does in twenty passes over memory, in two.

    levels_*      batch norm, another input, quantisation: floor(clip(level, low, high)) with
                  level = (norm(y) + extra) / (alpha theta) + (1/2 + mu) / theta
    weights_*     weights on their grid, times a step
    sum_*         counts of one or two stages, each times its step
    spike_counts  packed spikes to counts

Values are [rows, channels]. Gradients are those of the same expressions with the rounding left out
(`network/quantise.py` is the definition). Sums over rows are made of parts in a fixed order, so the
same numbers come out each time.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call,assignment,misc"
# Triton compiles these functions; their arguments are pointers and tiles, not Python values.

import triton
import triton.language as tl

NO_NORM, BIAS, BATCH_NORM = 0, 1, 2


@triton.jit(do_not_specialize=["rows"])
def stats_parts(y_ptr, pivot_ptr, part_ptr, rows, channels,
                BLOCK_M: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """Sums of y - pivot and of its square, a part per program; a pivot near the mean keeps bits."""
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    pivot = tl.load(pivot_ptr + c, mask=c < channels, other=0.0)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_C), dtype=tl.float32)
    squares = tl.zeros((BLOCK_M, BLOCK_C), dtype=tl.float32)
    for first in range(tl.program_id(0) * BLOCK_M, rows, tl.num_programs(0) * BLOCK_M):
        m = first + tl.arange(0, BLOCK_M)
        inside = (m < rows)[:, None] & (c < channels)[None, :]
        at = m.to(tl.int64)[:, None] * channels + c[None, :]
        y = tl.load(y_ptr + at, mask=inside, other=0.0).to(tl.float32)
        far = tl.where(inside, y - pivot, 0.0)
        total += far
        squares += far * far
    out = part_ptr + tl.program_id(0) * 2 * channels + c
    tl.store(out, tl.sum(total, 0), mask=c < channels)
    tl.store(out + channels, tl.sum(squares, 0), mask=c < channels)


@triton.jit
def _sum_parts(part_ptr, parts, KIND: tl.constexpr, KINDS: tl.constexpr, c, channels,
               BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    total = tl.zeros((BLOCK_P, BLOCK_C), dtype=tl.float32)
    for first in range(0, parts, BLOCK_P):
        p = first + tl.arange(0, BLOCK_P)
        inside = (p < parts)[:, None] & (c < channels)[None, :]
        at = (p[:, None] * KINDS + KIND) * channels + c[None, :]
        total += tl.load(part_ptr + at, mask=inside, other=0.0)
    return tl.sum(total, 0)


@triton.jit(do_not_specialize=["parts", "rows"])
def stats_finish(part_ptr, running_mean_ptr, running_var_ptr, mean_ptr, rstd_ptr, parts, rows,
                 channels, MOMENTUM: tl.constexpr, EPS: tl.constexpr,
                 BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """Mean and deviation of a batch from the parts; the running ones follow."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = c < channels
    far = _sum_parts(part_ptr, parts, 0, 2, c, channels, BLOCK_P, BLOCK_C) / rows
    square = _sum_parts(part_ptr, parts, 1, 2, c, channels, BLOCK_P, BLOCK_C) / rows
    pivot = tl.load(running_mean_ptr + c, mask=inside, other=0.0)
    before = tl.load(running_var_ptr + c, mask=inside, other=0.0)
    var = tl.maximum(square - far * far, 0.0)
    tl.store(mean_ptr + c, pivot + far, mask=inside)
    tl.store(rstd_ptr + c, 1.0 / tl.sqrt(var + EPS), mask=inside)
    tl.store(running_mean_ptr + c, pivot + MOMENTUM * far, mask=inside)
    unbiased = var * (rows / (rows - 1.0))
    tl.store(running_var_ptr + c, before + MOMENTUM * (unbiased - before), mask=inside)


@triton.jit
def _channel(c, inside, mean_ptr, rstd_ptr, gamma_ptr, beta_ptr, log_step_ptr, offset_ptr,
             threshold_ptr, NORM: tl.constexpr):  # fmt: skip
    """Of each channel: mean and scale of the norm, its shift, and gain and bias of the level."""
    mean, scale, shift = 0.0 * c, 0.0 * c + 1.0, 0.0 * c
    if NORM > 0:
        shift = tl.load(beta_ptr + c, mask=inside, other=0.0)
    if NORM == 2:
        mean = tl.load(mean_ptr + c, mask=inside, other=0.0)
        rstd = tl.load(rstd_ptr + c, mask=inside, other=0.0)
        scale = rstd * tl.load(gamma_ptr + c, mask=inside, other=0.0)
    gain = 1.0 / tl.load(threshold_ptr + c, mask=inside, other=1.0)
    bias = (0.5 + tl.load(offset_ptr + c, mask=inside, other=0.0)) * gain
    return mean, scale, shift, gain / tl.exp(tl.load(log_step_ptr)), bias


@triton.jit(do_not_specialize=["rows"])
def levels_forward(y_ptr, extra_ptr, out_ptr, mean_ptr, rstd_ptr, gamma_ptr, beta_ptr,
                   log_step_ptr, offset_ptr, threshold_ptr, rows, channels, LOW: tl.constexpr,
                   HIGH: tl.constexpr, NORM: tl.constexpr, EXTRA: tl.constexpr,
                   BLOCK_M: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mean, scale, shift, gain, bias = _channel(
        c, c < channels, mean_ptr, rstd_ptr, gamma_ptr, beta_ptr, log_step_ptr, offset_ptr,
        threshold_ptr, NORM,
    )  # fmt: skip
    inside = (m < rows)[:, None] & (c < channels)[None, :]
    at = m.to(tl.int64)[:, None] * channels + c[None, :]
    y = tl.load(y_ptr + at, mask=inside, other=0.0).to(tl.float32)
    total = (y - mean[None, :]) * scale[None, :] + shift[None, :]
    if EXTRA:
        total += tl.load(extra_ptr + at, mask=inside, other=0.0).to(tl.float32)
    level = total * gain[None, :] + bias[None, :]
    code = tl.floor(tl.minimum(tl.maximum(level, LOW), HIGH))
    tl.store(out_ptr + at, code.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["rows"])
def levels_reduce(grad_ptr, y_ptr, extra_ptr, grad_y_ptr, grad_extra_ptr, part_ptr, mean_ptr,
                  rstd_ptr, gamma_ptr, beta_ptr, log_step_ptr, offset_ptr, threshold_ptr, rows,
                  channels, LOW: tl.constexpr, HIGH: tl.constexpr, NORM: tl.constexpr,
                  EXTRA: tl.constexpr, BATCH: tl.constexpr, BLOCK_M: tl.constexpr,
                  BLOCK_C: tl.constexpr):  # fmt: skip
    """Sums of the level's gradient, alone and times y - mean and extra, a part per program.

    Where no gradient passes through a batch's statistics, those of y and extra need no sums.
    """
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mean, scale, shift, gain, bias = _channel(
        c, c < channels, mean_ptr, rstd_ptr, gamma_ptr, beta_ptr, log_step_ptr, offset_ptr,
        threshold_ptr, NORM,
    )  # fmt: skip
    slopes = tl.zeros((BLOCK_M, BLOCK_C), dtype=tl.float32)
    by_y = tl.zeros((BLOCK_M, BLOCK_C), dtype=tl.float32)
    by_extra = tl.zeros((BLOCK_M, BLOCK_C), dtype=tl.float32)
    for first in range(tl.program_id(0) * BLOCK_M, rows, tl.num_programs(0) * BLOCK_M):
        m = first + tl.arange(0, BLOCK_M)
        inside = (m < rows)[:, None] & (c < channels)[None, :]
        at = m.to(tl.int64)[:, None] * channels + c[None, :]
        far = tl.load(y_ptr + at, mask=inside, other=0.0).to(tl.float32) - mean[None, :]
        total = far * scale[None, :] + shift[None, :]
        if EXTRA:
            extra = tl.load(extra_ptr + at, mask=inside, other=0.0).to(tl.float32)
            total += extra
        level = total * gain[None, :] + bias[None, :]
        slope = tl.load(grad_ptr + at, mask=inside, other=0.0).to(tl.float32)
        slope = tl.where((level >= LOW) & (level <= HIGH), slope, 0.0)
        slopes += slope
        by_y += slope * far
        if EXTRA:
            by_extra += slope * extra
        if not BATCH:
            slope = slope * gain[None, :]
            to_y = slope * scale[None, :]
            tl.store(grad_y_ptr + at, to_y.to(grad_y_ptr.dtype.element_ty), mask=inside)
            if EXTRA:
                to_extra = slope.to(grad_extra_ptr.dtype.element_ty)
                tl.store(grad_extra_ptr + at, to_extra, mask=inside)
    out = part_ptr + tl.program_id(0) * 3 * channels + c
    tl.store(out, tl.sum(slopes, 0), mask=c < channels)
    tl.store(out + channels, tl.sum(by_y, 0), mask=c < channels)
    tl.store(out + 2 * channels, tl.sum(by_extra, 0), mask=c < channels)


@triton.jit(do_not_specialize=["parts", "rows"])
def levels_finish(part_ptr, out_ptr, mean_ptr, rstd_ptr, gamma_ptr, beta_ptr, log_step_ptr,
                  offset_ptr, threshold_ptr, parts, rows, channels, NORM: tl.constexpr,
                  BATCH: tl.constexpr, BLOCK_P: tl.constexpr,
                  BLOCK_C: tl.constexpr):  # fmt: skip
    """Gradients of gamma, beta, log step, offset, threshold, and what each y's gradient lacks.

    Rows of `out`: these five, then `pull` and `lean`: dL/dy = k slope - pull - lean (y - mean)
    where mean and deviation are those of the batch.
    """
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = c < channels
    _, scale, shift, gain, bias = _channel(
        c, inside, mean_ptr, rstd_ptr, gamma_ptr, beta_ptr, log_step_ptr, offset_ptr,
        threshold_ptr, NORM,
    )  # fmt: skip
    slopes = _sum_parts(part_ptr, parts, 0, 3, c, channels, BLOCK_P, BLOCK_C)
    by_y = _sum_parts(part_ptr, parts, 1, 3, c, channels, BLOCK_P, BLOCK_C)
    by_extra = _sum_parts(part_ptr, parts, 2, 3, c, channels, BLOCK_P, BLOCK_C)
    by_total = scale * by_y + shift * slopes + by_extra
    rstd = 0.0 * gain + 1.0
    if NORM == 2:
        rstd = tl.load(rstd_ptr + c, mask=inside, other=0.0)
    inverse = 1.0 / tl.load(threshold_ptr + c, mask=inside, other=1.0)
    tl.store(out_ptr + c, gain * rstd * by_y, mask=inside)
    tl.store(out_ptr + channels + c, gain * slopes, mask=inside)
    tl.store(out_ptr + 2 * channels + c, -gain * by_total, mask=inside)
    tl.store(out_ptr + 3 * channels + c, slopes * inverse, mask=inside)
    tl.store(out_ptr + 4 * channels + c, -(gain * by_total + bias * slopes) * inverse, mask=inside)
    if BATCH:
        lean = scale * gain * rstd * rstd * by_y / rows
        tl.store(out_ptr + 5 * channels + c, scale * gain * slopes / rows, mask=inside)
        tl.store(out_ptr + 6 * channels + c, lean, mask=inside)


@triton.jit(do_not_specialize=["rows"])
def levels_backward(grad_ptr, y_ptr, extra_ptr, grad_y_ptr, grad_extra_ptr, pull_ptr, lean_ptr,
                    mean_ptr, rstd_ptr, gamma_ptr, beta_ptr, log_step_ptr, offset_ptr,
                    threshold_ptr, rows, channels, LOW: tl.constexpr, HIGH: tl.constexpr,
                    NORM: tl.constexpr, EXTRA: tl.constexpr,
                    BLOCK_M: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """Gradients of y and extra behind the norm of a batch."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mean, scale, shift, gain, bias = _channel(
        c, c < channels, mean_ptr, rstd_ptr, gamma_ptr, beta_ptr, log_step_ptr, offset_ptr,
        threshold_ptr, NORM,
    )  # fmt: skip
    pull = tl.load(pull_ptr + c, mask=c < channels, other=0.0)[None, :]
    lean = tl.load(lean_ptr + c, mask=c < channels, other=0.0)[None, :]
    inside = (m < rows)[:, None] & (c < channels)[None, :]
    at = m.to(tl.int64)[:, None] * channels + c[None, :]
    far = tl.load(y_ptr + at, mask=inside, other=0.0).to(tl.float32) - mean[None, :]
    total = far * scale[None, :] + shift[None, :]
    if EXTRA:
        total += tl.load(extra_ptr + at, mask=inside, other=0.0).to(tl.float32)
    level = total * gain[None, :] + bias[None, :]
    slope = tl.load(grad_ptr + at, mask=inside, other=0.0).to(tl.float32)
    slope = tl.where((level >= LOW) & (level <= HIGH), slope * gain[None, :], 0.0)
    grad = slope * scale[None, :] - pull - lean * far
    tl.store(grad_y_ptr + at, grad.to(grad_y_ptr.dtype.element_ty), mask=inside)
    if EXTRA:
        tl.store(grad_extra_ptr + at, slope.to(grad_extra_ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["size"])
def weights_forward(weight_ptr, out_ptr, step_ptr, size, TOP: tl.constexpr, BLOCK: tl.constexpr):
    """One output's weights on their grid, times a step."""
    first = tl.program_id(0).to(tl.int64) * size
    largest = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, size, BLOCK):
        i = start + tl.arange(0, BLOCK)
        largest = tl.maximum(largest, tl.abs(tl.load(weight_ptr + first + i, i < size, 0.0)))
    scale = tl.div_rn(tl.maximum(tl.max(largest, 0), 1e-8), TOP + 0.0 * tl.max(largest, 0))
    step = tl.load(step_ptr)
    for start in range(0, size, BLOCK):
        i = start + tl.arange(0, BLOCK)
        weight = tl.load(weight_ptr + first + i, i < size, 0.0)
        code = tl.div_rn(weight, scale + 0.0 * weight)
        # Adding and taking away 1.5 * 2^23 rounds to the nearest whole number, ties to even.
        code = (code + 12582912.0) - 12582912.0
        tl.store(out_ptr + first + i, (code * scale * step).to(out_ptr.dtype.element_ty), i < size)


@triton.jit(do_not_specialize=["size"])
def weights_backward(grad_ptr, out_ptr, quantised_ptr, part_ptr, step_ptr, size,
                     BLOCK: tl.constexpr):  # fmt: skip
    """The gradient passes the grid; that of the step's logarithm comes in a part per output."""
    first = tl.program_id(0).to(tl.int64) * size
    step = tl.load(step_ptr)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, size, BLOCK):
        i = start + tl.arange(0, BLOCK)
        grad = tl.load(grad_ptr + first + i, i < size, 0.0).to(tl.float32)
        total += grad * tl.load(quantised_ptr + first + i, i < size, 0.0).to(tl.float32)
        tl.store(out_ptr + first + i, grad * step, i < size)
    tl.store(part_ptr + tl.program_id(0), tl.sum(total, 0) / step)


@triton.jit
def sum_forward(a_ptr, b_ptr, out_ptr, step_a_ptr, step_b_ptr, size, TWO: tl.constexpr,
                BLOCK: tl.constexpr):  # fmt: skip
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(a_ptr + i, mask=i < size, other=0.0).to(tl.float32) * tl.load(step_a_ptr)
    if TWO:
        b = tl.load(b_ptr + i, mask=i < size, other=0.0).to(tl.float32)
        total += b * tl.load(step_b_ptr)
    tl.store(out_ptr + i, total.to(out_ptr.dtype.element_ty), mask=i < size)


@triton.jit
def sum_backward(grad_ptr, a_ptr, b_ptr, grad_a_ptr, grad_b_ptr, part_ptr, step_a_ptr, step_b_ptr,
                 size, TWO: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Gradients of the counts, and of the steps a part per program."""
    by_a = tl.zeros((BLOCK,), dtype=tl.float32)
    by_b = tl.zeros((BLOCK,), dtype=tl.float32)
    step_a, step_b = tl.load(step_a_ptr), tl.load(step_b_ptr)
    first = tl.program_id(0).to(tl.int64) * BLOCK
    for start in range(first, size, tl.num_programs(0) * BLOCK):
        i = start + tl.arange(0, BLOCK)
        grad = tl.load(grad_ptr + i, mask=i < size, other=0.0).to(tl.float32)
        by_a += grad * tl.load(a_ptr + i, mask=i < size, other=0.0).to(tl.float32)
        grad_a = grad * step_a
        tl.store(grad_a_ptr + i, grad_a.to(grad_a_ptr.dtype.element_ty), mask=i < size)
        if TWO:
            by_b += grad * tl.load(b_ptr + i, mask=i < size, other=0.0).to(tl.float32)
            grad_b = grad * step_b
            tl.store(grad_b_ptr + i, grad_b.to(grad_b_ptr.dtype.element_ty), mask=i < size)
    tl.store(part_ptr + tl.program_id(0) * 2, tl.sum(by_a, 0))
    tl.store(part_ptr + tl.program_id(0) * 2 + 1, tl.sum(by_b, 0))


@triton.jit
def spike_counts(packed_ptr, out_ptr, size, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(packed_ptr + i, mask=i < size, other=0)
    x = x - ((x >> 1) & 0x55)
    x = (x & 0x33) + ((x >> 2) & 0x33)
    x = (x + (x >> 4)) & 0x0F
    tl.store(out_ptr + i, x.to(out_ptr.dtype.element_ty), mask=i < size)
