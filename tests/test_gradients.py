"""The two gradients against definitions written out with autograd, slot by slot."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from falcon_snn import fire, fire_train
from falcon_snn.errors import FalconError


class TriangleSpike(torch.autograd.Function):
    """H(u) forward, max(0, 1 - |u|) backward."""

    @staticmethod
    def forward(ctx: Any, u: Tensor) -> Tensor:
        ctx.save_for_backward(u)
        return (u >= 0).to(u.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (u,) = ctx.saved_tensors
        return grad * torch.relu(1 - u.abs())


def temporal_definition(
    currents: Tensor, delay: int, threshold: Tensor, offset: Tensor, static: Tensor
) -> Tensor:
    """s(t) = H(P(t_e)/theta - n(t) - 1), with the spikes n(t) before t held constant."""
    slots = currents.shape[0]
    fired = torch.zeros_like(currents[0])
    spikes = []
    for slot in range(slots):
        seen = min(slot + delay, slots)
        drive = 0.5 + offset + seen * static / slots + currents[:seen].sum(0)
        spike: Tensor = TriangleSpike.apply(drive / threshold - fired - 1)  # type: ignore[no-untyped-call]
        fired = fired + spike.detach()
        spikes.append(spike)
    return torch.stack(spikes)


def rate_definition(
    currents: Tensor, delay: int, threshold: Tensor, offset: Tensor, static: Tensor
) -> Tensor:
    """Each slot stands for a T-th of the clipped, unrounded count."""
    slots = currents.shape[0]
    count = ((0.5 + offset + static + currents.sum(0)) / threshold).clamp(0, slots)
    return (count / slots).expand(currents.shape)


DEFINITIONS = {"rate": rate_definition, "temporal": temporal_definition}


def leaves(slots: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(slots)
    shapes = [(slots, 4, 300), (300,), (4, 1), ()]
    values = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    values[1] = 0.4 + values[1].abs()
    values[2] = values[2] / 4
    return [value.requires_grad_() for value in values]


@pytest.mark.parametrize("backend", ["reference", "torch", "numba"])
@pytest.mark.parametrize("gradient", ["rate", "temporal"])
@pytest.mark.parametrize("slots", [1, 4, 7])
def test_gradients_equal_their_definition(backend: str, gradient: str, slots: int) -> None:
    for delay in range(1, slots + 1):
        upstream = torch.randn(slots, 4, 300, dtype=torch.float64)
        got, expected = leaves(slots), leaves(slots)
        spikes = fire_train(
            got[0], delay, threshold=got[1], offset=got[2], static=got[3],
            backend=backend, gradient=gradient,
        )  # fmt: skip
        plain = fire(got[0], delay, threshold=got[1], offset=got[2], static=got[3])
        assert torch.equal(spikes, plain.double())
        torch.autograd.backward(spikes, upstream)
        defined = DEFINITIONS[gradient](expected[0], delay, *expected[1:])
        torch.autograd.backward(defined, upstream)
        for mine, theirs in zip(got, expected, strict=True):
            assert theirs.grad is not None
            assert theirs.grad.abs().max() > 0
            torch.testing.assert_close(mine.grad, theirs.grad)


@pytest.mark.parametrize("gradient", ["rate", "temporal"])
def test_numba_and_torch_gradients_agree_in_float32(gradient: str) -> None:
    currents = torch.randn(7, 5000, generator=torch.Generator().manual_seed(1))
    grads = []
    for backend in ("torch", "numba"):
        leaf = currents.clone().requires_grad_()
        spikes = fire_train(leaf, 3, backend=backend, gradient=gradient)
        torch.autograd.backward(spikes.square().sum())
        grads.append(leaf.grad)
    torch.testing.assert_close(grads[0], grads[1])


def test_rate_gradient_of_the_count_is_one_over_the_threshold() -> None:
    currents = torch.tensor([[0.2, -3.0, 9.0]]).expand(5, 3).clone().requires_grad_()
    torch.autograd.backward(fire_train(currents, 2, threshold=0.5).sum())
    # 0.5 + 5 x 0.2 = 1.5 lies inside; the others are clipped at 0 and at T
    assert currents.grad is not None
    assert torch.equal(currents.grad, torch.tensor([2.0, 0.0, 0.0]).expand(5, 3))


def test_temporal_gradient_reaches_only_slots_that_a_decision_has_seen() -> None:
    currents = torch.full((5, 1), 0.1, requires_grad=True)
    spikes = fire_train(currents, 2, gradient="temporal")
    torch.autograd.backward(spikes[1].sum())  # decision 1 with delay 2 sees slots 0, 1, 2
    assert currents.grad is not None
    assert (currents.grad.flatten() != 0).tolist() == [True, True, True, False, False]


@pytest.mark.parametrize("gradient", ["rate", "temporal"])
def test_no_neurons_and_no_axis(gradient: str) -> None:
    for shape in ((3, 0, 2), (3,)):
        currents = torch.full(shape, 0.1, requires_grad=True)
        torch.autograd.backward(fire_train(currents, 2, gradient=gradient).sum())
        assert currents.grad is not None
        assert currents.grad.shape == shape


def test_bad_training_input_is_one_clear_error() -> None:
    with pytest.raises(FalconError, match="unknown gradient 'exact'"):
        fire_train(torch.ones(3, 2), 1, gradient="exact")
    with pytest.raises(FalconError, match="gradients need a tensor"):
        fire_train(np.ones((3, 2), np.float32), 1)  # type: ignore[arg-type]
