"""The quantisers of training on a GPU, with gradients: launching `training_kernels`.

Each function has the value and the gradient of its definition in `network/quantise.py`, in few
passes over memory and without anything to compile per network: a kernel serves every size.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from falcon_snn.neuron import training_kernels as kernels
from falcon_snn.neuron.parameters import Norm

_PROGRAMS = 512  # that sum up rows side by side: about four on each processor of a large GPU
_ELEMENTS = 4096  # of a program
_PARTS = {"BLOCK_P": 64, "BLOCK_C": 16}


def _tile(channels: int) -> dict[str, int]:
    """Two widths serve all layers: every further one would be compiled for itself."""
    width = 32 if channels <= 32 else 64
    return {"BLOCK_M": _ELEMENTS // width, "BLOCK_C": width}


def _parts(rows: int, channels: int, tile: dict[str, int]) -> tuple[int, int]:
    """Programs along the rows and along the channels."""
    across = -(-channels // tile["BLOCK_C"])
    return min(-(-rows // tile["BLOCK_M"]), max(1, _PROGRAMS // across)), across


def batch_statistics(
    y: Tensor, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float
) -> tuple[Tensor, Tensor]:
    """Mean and inverse deviation per channel (the last axis); the running ones follow in place."""
    y = y.detach().contiguous()
    channels = y.shape[-1]
    rows = y.numel() // channels
    tile = _tile(channels)
    grid = _parts(rows, channels, tile)
    part = torch.empty(grid[0], 2, channels, device=y.device)
    mean, rstd = torch.empty(2, channels, device=y.device)
    kernels.stats_parts[grid](y, running_mean, part, rows, channels, **tile)
    kernels.stats_finish[(-(-channels // _PARTS["BLOCK_C"]),)](
        part, running_mean, running_var, mean, rstd, grid[0], rows, channels,
        MOMENTUM=momentum, EPS=eps, **_PARTS,
    )  # fmt: skip
    return mean, rstd


def levels(
    y: Tensor, extra: Tensor | None, norm: Norm | None, log_step: Tensor, offset: Tensor,
    threshold: Tensor, low: float, high: float, given: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """floor(clip(l, low, high)), l = (norm(y) + extra) / (alpha theta) + (1/2 + mu) / theta.

    Offsets mu and thresholds theta are per channel, like the norm. What is given takes the place
    of the result, with the same gradient.
    """
    norm_parts = (None, None, None, None) if norm is None else norm[:4]
    batch = norm is not None and norm.batch
    found: Tensor = _Levels.apply(  # type: ignore[no-untyped-call]
        y, extra, *norm_parts, log_step, offset, threshold, low, high, batch, given
    )
    return found


class _Levels(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, y: Tensor, extra: Tensor | None, beta: Tensor | None, mean: Tensor | None,
        rstd: Tensor | None, gamma: Tensor | None, log_step: Tensor, offset: Tensor,
        threshold: Tensor, low: float, high: float, batch: bool, given: Tensor | None,
    ) -> Tensor:  # fmt: skip
        y = y.contiguous()
        extra = None if extra is None else extra.contiguous()
        ctx.save_for_backward(y, extra, mean, rstd, gamma, beta, log_step, offset, threshold)
        ctx.range, ctx.batch = (low, high), batch
        norm = kernels.NO_NORM if beta is None else kernels.BIAS
        ctx.flags = {"NORM": kernels.BATCH_NORM if mean is not None else norm}
        if given is not None:
            return given.to(y.dtype)
        channels = y.shape[-1]
        rows, tile = y.numel() // channels, _tile(channels)
        out = torch.empty_like(y)
        kernels.levels_forward[(-(-rows // tile["BLOCK_M"]), -(-channels // tile["BLOCK_C"]))](
            y, extra, out, mean, rstd, gamma, beta, log_step, offset, threshold, rows, channels,
            LOW=low, HIGH=high, EXTRA=extra is not None, **ctx.flags, **tile,
        )  # fmt: skip
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        y, extra, *channel_parts = ctx.saved_tensors
        grad, (low, high) = grad.contiguous(), ctx.range
        channels = y.shape[-1]
        rows, tile = y.numel() // channels, _tile(channels)
        grid = _parts(rows, channels, tile)
        shape = {"LOW": low, "HIGH": high, "EXTRA": extra is not None, **ctx.flags, **tile}
        part = torch.empty(grid[0], 3, channels, device=y.device)
        grad_y = torch.empty_like(y)
        grad_extra = None if extra is None else torch.empty_like(extra)
        kernels.levels_reduce[grid](
            grad, y, extra, grad_y, grad_extra, part, *channel_parts, rows, channels,
            BATCH=ctx.batch, **shape,
        )  # fmt: skip
        sums = torch.empty(7, channels, device=y.device)
        kernels.levels_finish[(-(-channels // _PARTS["BLOCK_C"]),)](
            part, sums, *channel_parts, grid[0], rows, channels, BATCH=ctx.batch, **ctx.flags,
            **_PARTS,
        )  # fmt: skip
        if ctx.batch:
            kernels.levels_backward[(-(-rows // tile["BLOCK_M"]), grid[1])](
                grad, y, extra, grad_y, grad_extra, sums[5], sums[6], *channel_parts, rows,
                channels, **shape,
            )  # fmt: skip
        gamma, beta, step, offset, threshold = sums[:5]
        wanted = ctx.needs_input_grad
        return (
            grad_y, grad_extra, beta if wanted[2] else None, None, None,
            gamma if wanted[5] else None, step.sum() if wanted[6] else None,
            offset if wanted[7] else None, threshold if wanted[8] else None, None, None, None, None,
        )  # fmt: skip


def weights_on_grid(weight: Tensor, bits: int, step: Tensor, dtype: torch.dtype) -> Tensor:
    """Weights [outputs, ...] on their grid, times a step; the gradient passes the grid."""
    found: Tensor = _OnGrid.apply(weight, step, bits, dtype)  # type: ignore[no-untyped-call]
    return found


class _OnGrid(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, step: Tensor, bits: int, dtype: torch.dtype) -> Tensor:
        out = torch.empty_like(weight, dtype=dtype)
        kernels.weights_forward[(len(weight),)](
            weight.contiguous(), out, step, weight[0].numel(), TOP=2 ** (bits - 1) - 1, BLOCK=1024
        )
        ctx.save_for_backward(out, step)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        quantised, step = ctx.saved_tensors
        out = torch.empty_like(quantised, dtype=torch.float32)
        part = torch.empty(len(quantised), device=grad.device)
        kernels.weights_backward[(len(quantised),)](
            grad.contiguous(), out, quantised, part, step, quantised[0].numel(), BLOCK=1024
        )
        return out, part.sum(), None, None


def sum_of_counts(
    a: Tensor, step_a: Tensor, b: Tensor | None = None, step_b: Tensor | None = None
) -> Tensor:
    """step_a a + step_b b of counts of one shape; without b, of a alone."""
    found: Tensor = _SumOfCounts.apply(a, step_a, b, step_b)  # type: ignore[no-untyped-call]
    return found


class _SumOfCounts(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, a: Tensor, step_a: Tensor, b: Tensor | None, step_b: Tensor | None
    ) -> Tensor:
        a, b = a.contiguous(), None if b is None else b.contiguous()
        ctx.save_for_backward(a, step_a, b, step_b)
        out = torch.empty_like(a)
        kernels.sum_forward[(-(-a.numel() // 2048),)](
            a, b, out, step_a, step_a if step_b is None else step_b, a.numel(), TWO=b is not None,
            BLOCK=2048,
        )  # fmt: skip
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, step_a, b, step_b = ctx.saved_tensors
        grad_a, grad_b = torch.empty_like(a), None if b is None else torch.empty_like(b)
        part = torch.empty(min(2 * _PROGRAMS, -(-a.numel() // 2048)), 2, device=a.device)
        kernels.sum_backward[(len(part),)](
            grad.contiguous(), a, b, grad_a, grad_b, part, step_a,
            step_a if step_b is None else step_b, a.numel(), TWO=b is not None, BLOCK=2048,
        )  # fmt: skip
        sums = part.sum(dim=0)
        return grad_a, sums[0], grad_b, None if b is None else sums[1]


def spike_counts(packed: Tensor, dtype: torch.dtype = torch.uint8) -> Tensor:
    """Spikes per neuron of packed trains."""
    packed = packed.contiguous()
    out = torch.empty_like(packed, dtype=dtype)
    kernels.spike_counts[(-(-packed.numel() // 4096),)](packed, out, packed.numel(), BLOCK=4096)
    return out
