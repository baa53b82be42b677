"""A quantiser's value and gradients on the CPU, each in one pass over the activations."""

from typing import Any

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from falcon_snn.neuron.numba_backend import use_torch_threads
from falcon_snn.neuron.parameters import Norm

_ROWS = 64  # of a task; it adds up its gradients in float32, the tasks' sums are added in double


def batch_statistics(
    y: Tensor, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float
) -> tuple[Tensor, Tensor]:
    """Mean and inverse deviation per channel (the last axis); the running ones follow in place."""
    rows = y.detach().reshape(-1, y.shape[-1])
    mean, variance = torch.batch_norm_update_stats(rows, running_mean, running_var, momentum)
    return mean, torch.rsqrt(variance + eps)


def floor_clipped(
    x: Tensor, norm: Norm | None, step: float, offset: Tensor, threshold: Tensor, low: float,
    high: float,
) -> Tensor:  # fmt: skip
    """floor(clip((norm(x)/step + offset) / threshold, low, high)), parameters per last axis."""
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    use_torch_threads()
    each = _per_row(x, *_scaling(x, norm), offset, threshold)
    _forward(_rows(x), each, np.float32(step), np.float32(low), np.float32(high), _rows(out))
    return out


def floor_clipped_backward(
    grad: Tensor, x: Tensor, norm: Norm | None, step: float, offset: Tensor, threshold: Tensor,
    low: float, high: float,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Gradients of x, the norm's beta and gamma, step, offset and threshold.

    The floor passes them, clipped values do not.
    """
    to_x = torch.empty_like(x, memory_format=torch.contiguous_format)
    rows = _rows(x)
    scale, shift = _scaling(x, norm)
    mean = torch.zeros_like(scale) if norm is None or norm.mean is None else norm.mean
    parts = np.empty((-(-rows.shape[0] // _ROWS), 4, rows.shape[1]), np.float32)
    each = _per_row(x, scale, shift, offset, threshold, mean)
    use_torch_threads()
    _backward(
        _rows(grad), rows, each, np.float32(step), np.float32(low), np.float32(high), _rows(to_x),
        parts,
    )  # fmt: skip
    sums = torch.from_numpy(parts).sum(dim=0, dtype=torch.float64)
    to_step, to_offset, to_threshold, moved = sums.view(4, -1, x.shape[-1]).sum(dim=1)
    found = (-to_step.sum() / step).float(), to_offset.float(), -to_threshold.float() / threshold
    if norm is None:
        return to_x, None, None, *found
    to_beta = to_offset / step
    if norm.mean is None or norm.rstd is None:
        return to_x, to_beta.float(), None, *found
    to_gamma = moved / step * norm.rstd
    if norm.batch:  # what x changes through the batch's mean and deviation
        clips = x.numel() // x.shape[-1]
        slope = -scale * norm.rstd * to_gamma / clips
        level = -scale * to_beta / clips - slope * mean
        _add_line(rows, _per_row(x, slope, level), _rows(to_x))
    return to_x, to_beta.float(), to_gamma.float(), *found


def _scaling(x: Tensor, norm: Norm | None) -> tuple[Tensor, Tensor]:
    """The norm as y = scale x + shift."""
    one = torch.ones(x.shape[-1])
    if norm is None:
        return one, torch.zeros_like(one)
    if norm.mean is None or norm.rstd is None or norm.gamma is None:
        return one, norm.beta
    scale = norm.gamma * norm.rstd
    return scale, norm.beta - norm.mean * scale


def _rows(x: Tensor) -> Any:
    """The last two axes in a row: enough for vectors even where channels are few."""
    return x.detach().contiguous().view(-1, x.shape[-2] * x.shape[-1]).numpy()


def _per_row(x: Tensor, *values: Tensor) -> Any:
    """Values per channel as those of a row, [value, column]."""
    return torch.stack([value.detach() for value in values]).float().repeat(1, x.shape[-2]).numpy()


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _forward(x, each, step, low, high, out):  # type: ignore[no-untyped-def]
    rows, size = x.shape
    scale, shift, offset, threshold = each[0], each[1], each[2], each[3]
    for task in prange((rows + _ROWS - 1) // _ROWS):
        for row in range(task * _ROWS, min((task + 1) * _ROWS, rows)):
            for i in range(size):
                level = ((x[row, i] * scale[i] + shift[i]) / step + offset[i]) / threshold[i]
                out[row, i] = np.floor(min(max(level, low), high))


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _backward(grad, x, each, step, low, high, to_x, parts):  # type: ignore[no-untyped-def]
    rows, size = x.shape
    scale, shift, offset, threshold, mean = each[0], each[1], each[2], each[3], each[4]
    zero = np.float32(0)
    slope = np.float32(1) / step
    for task in prange((rows + _ROWS - 1) // _ROWS):
        sums = parts[task]
        sums[:] = 0
        for row in range(task * _ROWS, min((task + 1) * _ROWS, rows)):
            for i in range(size):
                value = (x[row, i] * scale[i] + shift[i]) / step
                level = (value + offset[i]) / threshold[i]
                inside = (level >= low) & (level <= high)
                passed = grad[row, i] if inside else zero
                scaled = passed / threshold[i]
                to_x[row, i] = scaled * slope * scale[i]
                sums[0, i] += scaled * value
                sums[1, i] += scaled
                sums[2, i] += passed * level
                sums[3, i] += scaled * (x[row, i] - mean[i])


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _add_line(x, each, out):  # type: ignore[no-untyped-def]
    slope, level = each[0], each[1]
    for row in prange(x.shape[0]):
        for i in range(x.shape[1]):
            out[row, i] += slope[i] * x[row, i] + level[i]
