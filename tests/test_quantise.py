"""Quantisers: what the CPU does in one pass has the values and gradients of the written rule."""

from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

from falcon_snn.network.parts import Bias, Normalise
from falcon_snn.network.quantise import ConSmax, Counter, SignedCode, kept_as

FACTOR = 0.8  # of scores


def rule(part: nn.Module, x: Tensor) -> Tensor:
    """Each quantiser as it is defined, left to autograd; rounding passes gradients."""
    if isinstance(part, Counter):
        level = (x / part.step.log.exp() + 0.5 + part.offset) / part.threshold
        inside = level.clamp(0.5, part.slots + 0.5)
        exact = inside.floor()
    elif isinstance(part, SignedCode):
        inside = (x / part.step.log.exp()).clamp(-127, 127)
        exact = (inside + 0.5).floor()
    else:
        assert isinstance(part, ConSmax)
        offset = (part.beta + part.log_gamma + part.step.log).view(1, -1, 1, 1)
        inside = (FACTOR * x - offset).exp().clamp(0, 255)
        exact = (inside + 0.5).floor()
    return inside + (exact - inside).detach()


def ours(part: nn.Module, x: Tensor) -> Tensor:
    arguments = (torch.tensor(FACTOR),) if isinstance(part, ConSmax) else ()
    found: Tensor = part(x, *arguments)
    return found


@pytest.mark.parametrize(
    ("name", "shape"),
    [("counter", (3, 17, 5, 6)), ("given", (2, 9, 1, 40)), ("code", (4, 11, 1, 8)),
     ("map", (3, 2, 13, 13))],
)  # fmt: skip
@torch.enable_grad()
def test_one_pass_is_the_rule(name: str, shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(4)
    parts: dict[str, nn.Module] = {
        "counter": Counter(6, 7, 0.4),
        "given": Counter(40, 3, 1.0, tunable=False, learned=False),
        "code": SignedCode(0.02),
        "map": ConSmax(2, 13),
    }
    part = parts[name]
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.add_(0.3 * torch.rand(parameter.shape, generator=generator))
    x = (2 * torch.randn(shape, generator=generator)).requires_grad_()
    grad = torch.randn(shape, generator=generator)
    learned = [parameter for parameter in part.parameters() if parameter.requires_grad]
    found, wanted = (
        [out.detach(), *torch.autograd.grad(out, (x, *learned), grad)]
        for out in (ours(part, x), rule(part, x))
    )
    assert torch.equal(found[0], wanted[0])
    assert len(set(found[0].flatten().tolist())) > 3
    for one, other in zip(found[1:], wanted[1:], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    assert (found[1] == 0).any()  # clipped values learn nothing


@pytest.mark.parametrize("kind", ["batch", "frozen", "bias"])
@torch.enable_grad()
def test_a_norm_in_the_same_pass_is_the_norm_before_it(kind: str) -> None:
    """Counts, statistics and all gradients, held against torch's own batch norm."""
    generator = torch.Generator().manual_seed(5)
    x = (3 + 2 * torch.randn(4, 90, 3, 6, generator=generator)).requires_grad_()
    grad = torch.randn(x.shape, generator=generator)
    counter = Counter(6, 7, 0.2)
    found: list[list[Tensor]] = []
    for together in (True, False):
        norm = Bias(6) if kind == "bias" else Normalise(6).train(kind == "batch")
        with torch.no_grad():
            norm.bias.copy_(torch.linspace(-1, 1, 6))
            if isinstance(norm, Normalise):
                norm.weight.copy_(torch.linspace(-0.5, 2, 6))
        out = counter(x, None, norm) if together else rule(counter, norm(x))
        learned = (x, *norm.parameters(), *counter.parameters())
        found.append([out.detach(), *torch.autograd.grad(out, learned, grad), *norm.buffers()][:9])
    counts, *gradients = zip(*found, strict=True)
    assert (counts[0] != counts[1]).float().mean() < 1e-3  # a last digit may move a tie
    assert set(counts[0].flatten().tolist()) == set(range(8))
    for one, other in gradients:
        torch.testing.assert_close(one, other, rtol=2e-3, atol=2e-3)


@torch.enable_grad()
def test_what_is_kept_in_fewer_bytes_gives_the_same_gradients() -> None:
    generator = torch.Generator().manual_seed(6)
    counts = torch.randint(0, 9, (40, 12), generator=generator).float().requires_grad_()
    weight = torch.randn(5, 12, generator=generator, requires_grad=True)
    found = []
    for context in (kept_as(torch.int8, counts), nullcontext()):
        with context:
            out = nn.functional.linear(counts, weight)
        found.append(torch.autograd.grad(out.square().sum(), (counts, weight)))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)
