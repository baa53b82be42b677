"""The two gradients of SN_delta, each with its definition; `firing.fire_train` applies them.

Both treat P(r) = V(-1) + sum over t' <= r of (I_0/T + I(t')), the input up to slot r, as the
quantity that spikes depend on. With theta the threshold, g(t) = dL/ds(t) and T slots:

Rate: each spike stands for its share of the count, s(t) ~ clip(P(T-1) / theta, 0, T) / T. So
    dL/dP = sum_t g(t) / (T theta)  where 0 <= P(T-1)/theta <= T, else 0,
the same for the current of every slot: one matrix product downstream instead of T.

Temporal: s(t) ~ H(u(t)) with u(t) = P(t_e) / theta - n(t) - 1, where n(t), the spikes before t, is
a constant (the reset passes no gradient), and H' is the triangle max(0, 1 - |u|). So
    dL/dI(t') = sum of g(t) H'(u(t)) / theta  over the decisions t that have seen slot t'.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from falcon_snn.neuron.parameters import Neurons

# (currents, delay, neurons, spikes to write, P(T-1) to write if wanted)
Forward = Callable[[Tensor, int, Neurons, Tensor, Tensor | None], None]
# (gradient, P(T-1), threshold) -> dL/dP
RateBackward = Callable[[Tensor, Tensor, Tensor], Tensor]
# (currents, delay, neurons, gradient) -> dL/dI
TemporalBackward = Callable[[Tensor, int, Neurons, Tensor], Tensor]
GRADIENTS = ("rate", "temporal")


class RateGradient(torch.autograd.Function):
    """Spikes forward, the count's straight-through gradient backward; keeps P(T-1) only."""

    @staticmethod
    def forward(
        ctx: Any, currents: Tensor, initial: Tensor, static: Tensor, threshold: Tensor,
        delay: int, forward: Forward, backward: RateBackward,
    ) -> Tensor:  # fmt: skip
        spikes = torch.empty_like(currents, memory_format=torch.contiguous_format)
        total = torch.empty_like(spikes[0])
        forward(currents, delay, Neurons(initial, static, threshold), spikes, total)
        ctx.rate_backward = backward
        ctx.save_for_backward(total, initial, static, threshold)
        return spikes

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        total, initial, static, threshold = ctx.saved_tensors
        slope = ctx.rate_backward(grad, total, threshold)
        to_threshold = -slope * total / threshold if ctx.needs_input_grad[3] else None
        return (
            slope.expand(grad.shape),
            slope.sum_to_size(initial.shape) if ctx.needs_input_grad[1] else None,
            len(grad) * slope.sum_to_size(static.shape) if ctx.needs_input_grad[2] else None,
            None if to_threshold is None else to_threshold.sum_to_size(threshold.shape),
            None,
            None,
            None,
        )


class TemporalGradient(torch.autograd.Function):
    """Spikes forward, the surrogate gradient through the slots backward."""

    @staticmethod
    def forward(
        ctx: Any, currents: Tensor, initial: Tensor, static: Tensor, threshold: Tensor,
        delay: int, forward: Forward, backward: TemporalBackward,
    ) -> Tensor:  # fmt: skip
        spikes = torch.empty_like(currents, memory_format=torch.contiguous_format)
        forward(currents, delay, Neurons(initial, static, threshold), spikes, None)
        ctx.delay, ctx.temporal_backward = delay, backward
        ctx.save_for_backward(currents, initial, static, threshold)
        return spikes

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        currents, *rest = ctx.saved_tensors
        neurons = Neurons(*rest)
        inputs = ctx.temporal_backward(currents, ctx.delay, neurons, grad)
        to_threshold = _to_threshold(currents, neurons, inputs) if ctx.needs_input_grad[3] else None
        return (
            inputs,
            inputs[0].sum_to_size(rest[0].shape) if ctx.needs_input_grad[1] else None,
            inputs.sum(0).sum_to_size(rest[1].shape) if ctx.needs_input_grad[2] else None,
            None if to_threshold is None else to_threshold.sum_to_size(rest[2].shape),
            None,
            None,
            None,
        )


def _to_threshold(currents: Tensor, neurons: Neurons, inputs: Tensor) -> Tensor:
    """dL/dtheta per neuron from dL/dI.

    u depends on theta as P / theta, and P is the sum of its inputs, so
    theta dL/dtheta = -(V(-1) dL/dV(-1) + sum_t (I_0/T + I(t)) dL/dI(t)).
    """
    product = neurons.initial * inputs[0]
    for current, slope in zip(currents.unbind(0), inputs.unbind(0), strict=True):
        product.addcmul_(neurons.static_per_slot + current, slope)
    return -product / neurons.threshold
