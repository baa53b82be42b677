"""Quantisers with straight-through gradients: weights, counts, signed codes, the attention map.

Each forward value is what the integer network computes; each gradient is that of the same
expression with the rounding left out and zero where the value is clipped.
"""

import math

import torch
from torch import Tensor, nn


def straight_through(exact: Tensor, smooth: Tensor) -> Tensor:
    """The value of `exact`, the gradient of `smooth`."""
    return smooth + (exact - smooth).detach()


def weight_scale(weight: Tensor, bits: int) -> Tensor:
    """Per output channel: the step at which the largest weight takes the largest code."""
    largest = weight.detach().abs().flatten(1).amax(dim=1)
    return largest.clamp_min(1e-8) / (2 ** (bits - 1) - 1)


def quantise_weight(weight: Tensor, bits: int) -> Tensor:
    """Weights on their grid of signed `bits`-bit codes times a scale per output channel."""
    scale = weight_scale(weight, bits).view(-1, *[1] * (weight.dim() - 1))
    return straight_through((weight / scale).round() * scale, weight)


class StepSize(nn.Module):
    """A learned quantisation step alpha > 0, kept as its logarithm."""

    def __init__(self, initial: float) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.tensor(math.log(initial)))

    def forward(self) -> Tensor:
        return self.log.exp()

    def exact(self) -> Tensor:
        """In double: machines differ in the last bit of a float's exp, and conversion must not."""
        return self.log.double().exp()


class Counter(nn.Module):
    """An IF stage seen through its count: n = clip(floor((x/alpha + 1/2 + mu)/theta), 0, T).

    `x` has channels last. The decoded value of a count is alpha n.
    """

    top: Tensor

    def __init__(
        self, channels: int, slots: int, step: float, *, tunable: bool = True, learned: bool = True
    ) -> None:
        super().__init__()
        self.tunable, self.learned = tunable, learned
        self.step = StepSize(step)
        self.threshold = nn.Parameter(torch.ones(channels))
        self.offset = nn.Parameter(torch.zeros(channels))
        # A tensor, so that what is compiled for one number of slots serves all of them.
        self.register_buffer("top", torch.tensor(slots + 0.5), persistent=False)

        for parameter in self.fixed():
            parameter.requires_grad_(False)

    def fixed(self) -> list[nn.Parameter]:
        """What never moves: a source has no threshold to tune, counts as given no step."""
        neurons = [] if self.tunable else [self.threshold, self.offset]
        return neurons if self.learned else [*neurons, self.step.log]

    def forward(self, x: Tensor) -> Tensor:
        level = (x.float() / self.step() + 0.5 + self.offset) / self.threshold
        inside = torch.minimum(level.clamp_min(0.5), self.top)  # its floor is the clipped count
        return straight_through(inside.floor(), inside)

    def decode(self, count: Tensor) -> Tensor:
        return self.step() * count


class SignedCode(nn.Module):
    """Q and K: 8-bit signed codes, code = clip(round(x/alpha), -127, 127)."""

    def __init__(self, step: float) -> None:
        super().__init__()
        self.step = StepSize(step)

    def forward(self, x: Tensor) -> Tensor:
        inside = (x.float() / self.step()).clamp(-127, 127)
        return straight_through((inside + 0.5).floor(), inside)


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

    def forward(self, scores: Tensor) -> Tensor:
        """Codes of the map for real scores [batch, head, query, key]."""
        # The exponent is bounded so that a stray score cannot overflow; code 255 is clipped anyway.
        exponent = (scores.float() - self.log_offset().view(1, -1, 1, 1)).clamp(max=8.0)
        inside = exponent.exp().clamp(0, 255)
        return straight_through((inside + 0.5).floor(), inside)
