"""AdamW with a rate of its own for each group of parameters.

The arithmetic is torch's own function. The class that torch puts around it loads torch's whole
compiler first, only to be left out of what is compiled: a second or more at every start.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

_BETAS, _EPS = (0.9, 0.999), 1e-8


@dataclass
class Group:
    """Parameters that share a rate and the decay of their weights."""

    parameters: list[nn.Parameter]
    peak: float  # the highest rate
    decay: float
    rate: float | Tensor = 0.0  # of the next step


class Moments(NamedTuple):
    """What the steps so far left behind of a parameter."""

    steps: Tensor
    first: Tensor
    second: Tensor


class AdamW:
    """Moves parameters by their gradients; on a GPU a recorded step reads its rates anew."""

    def __init__(self, groups: list[Group], device: torch.device) -> None:
        self.groups = groups
        self.on_gpu = device.type == "cuda"
        if self.on_gpu:
            for group in groups:
                group.rate = torch.zeros((), device=device)
        self.moments = {
            parameter: Moments(
                torch.zeros((), device=device),
                torch.zeros_like(parameter, requires_grad=False),
                torch.zeros_like(parameter, requires_grad=False),
            )
            for group in groups
            for parameter in group.parameters
        }

    def set_rates(self, part: float) -> None:
        """The rates of the next step, as a part of the highest."""
        for group in self.groups:
            if isinstance(group.rate, Tensor):
                group.rate.fill_(group.peak * part)
            else:
                group.rate = group.peak * part

    @torch.no_grad()
    def step(self) -> None:
        """Follow the gradients, then forget them."""
        for group in self.groups:
            moving = [p for p in group.parameters if p.grad is not None]
            moments = [self.moments[parameter] for parameter in moving]
            adamw(
                [*moving], [p.grad for p in moving if p.grad is not None],
                [each.first for each in moments], [each.second for each in moments], [],
                [each.steps for each in moments], amsgrad=False, beta1=_BETAS[0], beta2=_BETAS[1],
                lr=group.rate, weight_decay=group.decay, eps=_EPS, maximize=False,
                capturable=self.on_gpu, fused=self.on_gpu,
            )  # fmt: skip
            for parameter in group.parameters:
                parameter.grad = None
