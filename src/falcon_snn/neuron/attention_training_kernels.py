"""Attention of training as Triton kernels: scores, map and context of a head in one pass.

    A = clip(round(exp(factor Q K^T - offset)), 0, 255), zero at keys that are padding
    context = scale A V

A map without reductions needs no statistics of its row, so nothing of the size of the map is ever
written: the backward pass computes it again. One program does one head of one clip, in tiles of
BLOCK queries by BLOCK keys. Gradients are those of the same expressions with the rounding left out
(`network/quantise.py` is the definition).
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call,assignment,misc"
# Triton compiles these functions; their arguments are pointers and tiles, not Python values.

import triton
import triton.language as tl


@triton.jit
def _tile(ptr, first, line, d, lines, channels, size):
    """Lines of a head, [BLOCK, BLOCK_D]; what is outside is zero."""
    inside = (line < lines)[:, None] & (d < size)[None, :]
    return tl.load(ptr + first + line[:, None] * channels + d[None, :], mask=inside, other=0.0)


@triton.jit
def _map(q, k, query, key, real_ptr, lines, factor, offset, MASKED: tl.constexpr):
    """Scores of a tile, the map before it is rounded, and where it counts."""
    scores = tl.dot(q, tl.trans(k), input_precision="ieee")
    value = tl.exp(tl.minimum(scores * factor - offset, 8.0))
    real = key < lines
    if MASKED:
        real = real & (tl.load(real_ptr + key, mask=real, other=0) != 0)
    return scores, value, (query < lines)[:, None] & real[None, :]


@triton.jit
def _codes(value, counts):
    return tl.where(counts, tl.floor(tl.minimum(value, 255.0) + 0.5), 0.0)


@triton.jit(do_not_specialize=["lines"])
def context_forward(q_ptr, k_ptr, v_ptr, out_ptr, real_ptr, factor_ptr, offset_ptr, scale_ptr,
                    lines, heads, channels, size, MASKED: tl.constexpr, BLOCK: tl.constexpr,
                    BLOCK_D: tl.constexpr):  # fmt: skip
    clip, head = tl.program_id(0).to(tl.int64) // heads, tl.program_id(0) % heads
    first = clip * lines * channels + head * size
    factor, scale = tl.load(factor_ptr), tl.load(scale_ptr)
    offset = tl.load(offset_ptr + head)
    d = tl.arange(0, BLOCK_D)
    for start in range(0, lines, BLOCK):
        query = start + tl.arange(0, BLOCK)
        q = _tile(q_ptr, first, query, d, lines, channels, size)
        total = tl.zeros((BLOCK, BLOCK_D), dtype=tl.float32)
        for behind in range(0, lines, BLOCK):
            key = behind + tl.arange(0, BLOCK)
            k = _tile(k_ptr, first, key, d, lines, channels, size)
            v = _tile(v_ptr, first, key, d, lines, channels, size)
            _, value, counts = _map(
                q, k, query, key, real_ptr + clip * lines, lines, factor, offset, MASKED
            )
            total += tl.dot(_codes(value, counts).to(v.dtype), v, input_precision="ieee")
        inside = (query < lines)[:, None] & (d < size)[None, :]
        at = first + query[:, None] * channels + d[None, :]
        tl.store(out_ptr + at, (total * scale).to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _slopes(grad, q, k, v, query, key, real_ptr, lines, factor, offset, scale,
            MASKED: tl.constexpr):  # fmt: skip
    """Of a tile: codes, their gradient but for `scale`, scores, and the exponent's gradient."""
    scores, value, counts = _map(q, k, query, key, real_ptr, lines, factor, offset, MASKED)
    pull = tl.dot(grad, tl.trans(v), input_precision="ieee")
    slope = tl.where(counts & (value <= 255.0), scale * pull * value, 0.0)
    return _codes(value, counts), pull, scores, slope


@triton.jit(do_not_specialize=["lines"])
def context_backward(grad_ptr, q_ptr, k_ptr, v_ptr, grad_q_ptr, grad_k_ptr, grad_v_ptr, part_ptr,
                     real_ptr, factor_ptr, offset_ptr, scale_ptr, lines, heads, channels, size,
                     MASKED: tl.constexpr, BLOCK: tl.constexpr,
                     BLOCK_D: tl.constexpr):  # fmt: skip
    """Gradients of Q, K and V; of factor, offset and scale a part per head and clip."""
    clip, head = tl.program_id(0).to(tl.int64) // heads, tl.program_id(0) % heads
    first, real = clip * lines * channels + head * size, real_ptr + clip * lines
    factor, scale = tl.load(factor_ptr), tl.load(scale_ptr)
    offset = tl.load(offset_ptr + head)
    d = tl.arange(0, BLOCK_D)
    by_factor = tl.zeros((BLOCK,), dtype=tl.float32)
    by_offset = tl.zeros((BLOCK,), dtype=tl.float32)
    by_scale = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, lines, BLOCK):
        query = start + tl.arange(0, BLOCK)
        q = _tile(q_ptr, first, query, d, lines, channels, size)
        grad = _tile(grad_ptr, first, query, d, lines, channels, size)
        to_q = tl.zeros((BLOCK, BLOCK_D), dtype=tl.float32)
        for behind in range(0, lines, BLOCK):
            key = behind + tl.arange(0, BLOCK)
            k = _tile(k_ptr, first, key, d, lines, channels, size)
            v = _tile(v_ptr, first, key, d, lines, channels, size)
            codes, pull, scores, slope = _slopes(
                grad, q, k, v, query, key, real, lines, factor, offset, scale, MASKED
            )
            by_factor += tl.sum(slope * scores, 1)
            by_offset -= tl.sum(slope, 1)
            by_scale += tl.sum(codes * pull, 1)
            to_q += tl.dot((slope * factor).to(k.dtype), k, input_precision="ieee")
        inside = (query < lines)[:, None] & (d < size)[None, :]
        at = first + query[:, None] * channels + d[None, :]
        tl.store(grad_q_ptr + at, to_q.to(grad_q_ptr.dtype.element_ty), mask=inside)
    for behind in range(0, lines, BLOCK):
        key = behind + tl.arange(0, BLOCK)
        k = _tile(k_ptr, first, key, d, lines, channels, size)
        v = _tile(v_ptr, first, key, d, lines, channels, size)
        to_k = tl.zeros((BLOCK, BLOCK_D), dtype=tl.float32)
        to_v = tl.zeros((BLOCK, BLOCK_D), dtype=tl.float32)
        for start in range(0, lines, BLOCK):
            query = start + tl.arange(0, BLOCK)
            q = _tile(q_ptr, first, query, d, lines, channels, size)
            grad = _tile(grad_ptr, first, query, d, lines, channels, size)
            codes, pull, scores, slope = _slopes(
                grad, q, k, v, query, key, real, lines, factor, offset, scale, MASKED
            )
            to_k += tl.dot(tl.trans((slope * factor).to(q.dtype)), q, input_precision="ieee")
            to_v += tl.dot(tl.trans(codes.to(grad.dtype)), grad, input_precision="ieee")
        inside = (key < lines)[:, None] & (d < size)[None, :]
        at = first + key[:, None] * channels + d[None, :]
        tl.store(grad_k_ptr + at, to_k.to(grad_k_ptr.dtype.element_ty), mask=inside)
        tl.store(grad_v_ptr + at, (to_v * scale).to(grad_v_ptr.dtype.element_ty), mask=inside)
    tl.store(part_ptr + tl.program_id(0) * 3, tl.sum(by_factor, 0))
    tl.store(part_ptr + tl.program_id(0) * 3 + 1, tl.sum(by_offset, 0))
    tl.store(part_ptr + tl.program_id(0) * 3 + 2, tl.sum(by_scale, 0))
