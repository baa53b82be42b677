"""Quantisers with straight-through gradients: weights, counts, signed codes, the attention map.

Each forward value is what the integer network computes; each gradient is that of the same
expression with the rounding left out and zero where the value is clipped. On a GPU
`neuron/fused_training.py` and `neuron/attention_training.py` do the same in few passes over memory,
on a CPU `neuron/quantise_numba.py`.
"""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from falcon_snn.neuron.parameters import Norm


class StraightThrough(torch.autograd.Function):
    """`straight_through` without a pass of its own."""

    @staticmethod
    def forward(ctx: Any, exact: Tensor, smooth: Tensor) -> Tensor:
        return exact.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, grad


def straight_through(exact: Tensor, smooth: Tensor) -> Tensor:
    """The value of `exact`, the gradient of `smooth`."""
    value: Tensor = StraightThrough.apply(exact, smooth)  # type: ignore[no-untyped-call]
    return value


def kept_as(dtype: torch.dtype, whole: Tensor) -> AbstractContextManager[Any]:
    """Within it, what autograd keeps of `whole`, a tensor of integers, is kept in this type.

    Only on a CPU; elsewhere everything stays as it is.
    """
    if whole.device.type != "cpu" or not whole.is_floating_point():
        return nullcontext()
    memory, own = whole.untyped_storage().data_ptr(), whole.dtype

    def keep(saved: Tensor) -> Tensor:
        return saved.to(dtype) if saved.untyped_storage().data_ptr() == memory else saved

    def give(kept: Tensor) -> Tensor:
        return kept.to(own) if kept.dtype == dtype else kept

    return torch.autograd.graph.saved_tensors_hooks(keep, give)


def mixed_type(otherwise: torch.dtype) -> torch.dtype:
    """What products on a GPU take in mixed precision; without it, the type that is given."""
    return torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else otherwise


class FloorClipped(torch.autograd.Function):
    """floor(clip((norm(x)/step + offset) / threshold, low, high)), or what is given in its place.

    Only `x` is kept.

    The norm (see `Norm`), offset and threshold are per channel.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, beta: Tensor | None, mean: Tensor | None, rstd: Tensor | None,
        gamma: Tensor | None, step: Tensor, offset: Tensor, threshold: Tensor, low: float,
        high: float, batch: bool, given: Tensor | None,
    ) -> Tensor:  # fmt: skip
        from falcon_snn.neuron import quantise_numba

        ctx.save_for_backward(x, beta, mean, rstd, gamma, step, offset, threshold)
        ctx.limits, ctx.batch = (low, high), batch
        if given is not None:
            return given.to(x.dtype)
        norm = None if beta is None else Norm(beta, mean, rstd, gamma, batch)
        return quantise_numba.floor_clipped(x, norm, float(step), offset, threshold, low, high)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from falcon_snn.neuron import quantise_numba

        x, beta, mean, rstd, gamma, step, offset, threshold = ctx.saved_tensors
        norm = None if beta is None else Norm(beta, mean, rstd, gamma, ctx.batch)
        to_x, to_beta, to_gamma, *others = quantise_numba.floor_clipped_backward(
            grad, x, norm, float(step), offset, threshold, *ctx.limits
        )
        return to_x, to_beta, None, None, to_gamma, *others, None, None, None, None


class RoundedExp(torch.autograd.Function):
    """The map's codes round(exp(factor scores - offset)), clipped at 255; offset per head."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, factor: Tensor, offset: Tensor) -> Tensor:
        inside = (scores * factor).sub_(offset.view(1, -1, 1, 1)).exp_().clamp_(max=255)
        ctx.save_for_backward(inside, factor, offset)
        return (inside + 0.5).floor_()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inside, factor, offset = ctx.saved_tensors
        slope = (grad * inside).masked_fill_(inside == 255, 0)
        # What the scores were follows from what they gave, so they need not be kept.
        scaled = inside.clamp_min(1e-30).log_().add_(offset.view(1, -1, 1, 1))
        to_factor = torch.dot(slope.flatten(), scaled.flatten()) / factor
        return slope * factor, to_factor, -slope.sum(dim=(0, 2, 3))


def weight_scale(weight: Tensor, bits: int) -> Tensor:
    """Per output channel: the step at which the largest weight takes the largest code."""
    largest = weight.detach().abs().flatten(1).amax(dim=1)
    return largest.clamp_min(1e-8) / (2 ** (bits - 1) - 1)


def quantise_weight(weight: Tensor, bits: int, step: Tensor) -> Tensor:
    """Weights on their grid of signed `bits`-bit codes, times the step of the counts they meet.

    The grid has a scale per output channel.
    """
    if weight.is_cuda:
        from falcon_snn.neuron.fused_training import weights_on_grid

        return weights_on_grid(weight, bits, step, mixed_type(weight.dtype))
    scale = weight_scale(weight, bits).view(-1, *[1] * (weight.dim() - 1))
    return straight_through((weight / scale).round() * scale, weight) * step


class StepSize(nn.Module):
    """A learned quantisation step alpha > 0, kept as its logarithm."""

    def __init__(self, initial: float) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.tensor(math.log(initial)))

    def forward(self) -> Tensor:
        return self.log.exp()


def _levels(
    x: Tensor, extra: Tensor | None, norm: Any, step: StepSize, offset: Tensor, threshold: Tensor,
    low: float, high: float, given: Tensor | None,
) -> Tensor:  # fmt: skip
    """floor(clip(((norm(x) + extra) / alpha + 1/2 + mu) / theta, low, high)).

    With `given`, that in its place, with the gradient that it would have had.
    """
    if x.is_cuda:
        from falcon_snn.neuron import fused_training as fused

        own = None if norm is None else norm.fused(x, fused.batch_statistics)
        return fused.levels(x, extra, own, step.log, offset, threshold, low, high, given)
    from falcon_snn.neuron.quantise_numba import batch_statistics

    x = x.float()
    if extra is not None:
        x, norm = x + extra if norm is None else norm(x) + extra, None
    own = None if norm is None else norm.fused(x, batch_statistics)
    norm_parts = (None, None, None, None) if own is None else own[:4]
    found: Tensor = FloorClipped.apply(  # type: ignore[no-untyped-call]
        x, *norm_parts, step(), 0.5 + offset, threshold, low, high, own is not None and own.batch,
        given,
    )  # fmt: skip
    return found


class Counter(nn.Module):
    """An IF stage seen through its count: n = clip(floor((x/alpha + 1/2 + mu)/theta), 0, T).

    `x` has channels last. The decoded value of a count is alpha n.
    """

    def __init__(
        self, channels: int, slots: int, step: float, *, tunable: bool = True, learned: bool = True
    ) -> None:
        super().__init__()
        self.slots, self.tunable, self.learned = slots, tunable, learned
        self.step = StepSize(step)
        self.threshold = nn.Parameter(torch.ones(channels))
        self.offset = nn.Parameter(torch.zeros(channels))
        for parameter in self.fixed():
            parameter.requires_grad_(False)

    def fixed(self) -> list[nn.Parameter]:
        """What never moves: a source has no threshold to tune, counts as given no step."""
        neurons = [] if self.tunable else [self.threshold, self.offset]
        return neurons if self.learned else [*neurons, self.step.log]

    def forward(
        self, x: Tensor, extra: Tensor | None = None, norm: Any = None, given: Tensor | None = None
    ) -> Tensor:
        """Counts of norm(x) + extra, or those given; what is left out is not there."""
        # From 1/2 on up, the floor is the clipped count.
        high = self.slots + 0.5
        return _levels(x, extra, norm, self.step, self.offset, self.threshold, 0.5, high, given)

    def restore(self, threshold: Tensor, initial: Tensor) -> None:
        """Take these thresholds, and the initial membranes that are given in parts of them."""
        self.threshold.copy_(threshold)
        self.offset.copy_(initial * threshold - 0.5)

    def decode(self, count: Tensor, step: Tensor) -> Tensor:
        """The values of counts, for the value of the step."""
        if count.is_cuda and count.is_floating_point():
            from falcon_snn.neuron.fused_training import sum_of_counts

            return sum_of_counts(count, step)
        with kept_as(torch.int8, count):
            return step * count


class SignedCode(nn.Module):
    """Q and K: 8-bit signed codes, code = clip(round(x/alpha), -127, 127)."""

    def __init__(self, step: float) -> None:
        super().__init__()
        self.step = StepSize(step)

    def forward(self, x: Tensor, norm: Any = None, given: Tensor | None = None) -> Tensor:
        """Codes of norm(x), of x itself without one; or those given."""
        none, one = (torch.full((x.shape[-1],), value, device=x.device) for value in (0.0, 1.0))
        return _levels(x, None, norm, self.step, none, one, -126.5, 127.5, given)


class ConSmax(nn.Module):
    """Attention without reductions: A = clip(round(exp(s - beta) / (gamma alpha)), 0, 255).

    beta and gamma are learned per head; the step alpha of the map is one for all heads.
    """

    def __init__(self, heads: int, tokens: int) -> None:
        super().__init__()
        self.beta = nn.Parameter(torch.zeros(heads))
        self.log_gamma = nn.Parameter(torch.full((heads,), math.log(tokens)))
        self.step = StepSize(0.2 / tokens)

    def log_offset(self) -> Tensor:
        """beta + ln(gamma alpha) per head: the score at which the map's code is one."""
        return self.beta + self.log_gamma + self.step.log

    def forward(self, scores: Tensor, factor: Tensor) -> Tensor:
        """Codes of the map for scores [batch, head, query, key], which are real times a factor."""
        codes: Tensor = RoundedExp.apply(  # type: ignore[no-untyped-call]
            scores.float(), factor, self.log_offset()
        )
        return codes
