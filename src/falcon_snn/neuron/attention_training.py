"""Attention of training on a GPU, with gradients: launching `attention_training_kernels`."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from falcon_snn.neuron import attention_training_kernels as kernels

_BLOCK = 64  # queries and keys of a tile: its map, scores and gradients fit the registers


def context(
    q: Tensor, k: Tensor, v: Tensor, real: Tensor | None, heads: int, factor: Tensor,
    offset: Tensor, scale: Tensor,
) -> Tensor:  # fmt: skip
    """scale A V, A = clip(round(exp(factor Q K^T - offset)), 0, 255).

    Q, K, V are [clip, line, channel], of one type; offset is per head. Keys that are not `real`,
    bool [clip, line], get nothing.
    """
    found: Tensor = _Context.apply(  # type: ignore[no-untyped-call]
        q, k, v, real, heads, factor, offset, scale
    )
    return found


class _Context(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, real: Tensor | None, heads: int, factor: Tensor,
        offset: Tensor, scale: Tensor,
    ) -> Tensor:  # fmt: skip
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        clips, lines, channels = q.shape
        # Without padding the kernel reads no mask, so any address will do.
        mask = q if real is None else real.contiguous().view(torch.uint8)
        size = channels // heads
        ctx.save_for_backward(q, k, v, mask, factor, offset, scale)
        ctx.tile = {
            "MASKED": real is not None, "BLOCK": _BLOCK,
            "BLOCK_D": max(16, 1 << (size - 1).bit_length()),
        }  # fmt: skip
        ctx.heads = heads
        out = torch.empty_like(q)
        kernels.context_forward[(clips * heads,)](
            q, k, v, out, mask, factor, offset, scale, lines, heads, channels, size, **ctx.tile
        )
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, mask, factor, offset, scale = ctx.saved_tensors
        clips, lines, channels = q.shape
        to_q, to_k, to_v = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        part = torch.empty(clips, ctx.heads, 3, device=q.device)
        kernels.context_backward[(clips * ctx.heads,)](
            grad.contiguous(), q, k, v, to_q, to_k, to_v, part, mask, factor, offset, scale, lines,
            ctx.heads, channels, channels // ctx.heads, **ctx.tile,
        )  # fmt: skip
        sums = part.sum(dim=0)
        by_factor, by_scale = sums[:, ::2].sum(dim=0)
        return to_q, to_k, to_v, None, None, by_factor, sums[:, 1], by_scale
