"""The GPU's quantisers in Triton's interpreter against the definitions in torch, with gradients."""

import os

import pytest
import torch
from torch import Tensor

os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton")

from falcon_snn.network.operations import Attention
from falcon_snn.network.parts import Bias, Normalise
from falcon_snn.network.quantise import ConSmax, Counter, SignedCode, quantise_weight
from falcon_snn.neuron import fused_training as fused
from falcon_snn.neuron.attention_training import context
from falcon_snn.neuron.packed import count

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


# The definition runs on the CPU, the kernels where there is a GPU, or in the interpreter.
WAYS = (("cpu", False), (DEVICE, True))


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def leaf(values: Tensor, device: str) -> Tensor:
    return values.to(device).requires_grad_()


def close(found: Tensor | None, wanted: Tensor | None) -> None:
    assert (found is None) == (wanted is None)
    if found is not None and wanted is not None:
        torch.testing.assert_close(found.cpu(), wanted.cpu(), rtol=2e-4, atol=2e-5)


def norm_of(kind: str, channels: int) -> Normalise | Bias | None:
    if kind == "none":
        return None
    norm = Bias(channels) if kind == "bias" else Normalise(channels)
    with torch.no_grad():
        norm.bias.copy_(0.3 * random(channels, seed=1))
        if isinstance(norm, Normalise):
            norm.weight.copy_(1.0 + 0.4 * random(channels, seed=2))
            norm.weight[0] *= -1.0
            assert norm.running_mean is not None
            norm.running_mean.copy_(0.2 * random(channels, seed=3))
    return norm.train(kind == "batch")


@pytest.mark.parametrize("kind", ["none", "bias", "batch", "frozen"])
@pytest.mark.parametrize("with_extra", [False, True])
@pytest.mark.parametrize(("rows", "channels"), [((3, 7, 5), 33), ((5, 2), 160)])
def test_counts_and_gradients(
    kind: str, with_extra: bool, rows: tuple[int, ...], channels: int
) -> None:
    """Counts equal but for ties; gradients of input, norm, step, offset and threshold are close."""
    counter = Counter(channels, 7, 0.4)
    with torch.no_grad():
        counter.threshold.copy_(1.0 + 0.2 * random(channels, seed=4).clamp(-1, 1))
        counter.offset.copy_(0.1 * random(channels, seed=5))
    slope = random(*rows, channels, seed=6)
    found: list[list[Tensor | None]] = []
    for device, fused_ones in WAYS:
        norm = norm_of(kind, channels)
        norm = None if norm is None else norm.to(device)
        counter = counter.to(device)
        x = leaf(1.5 * random(*rows, channels, seed=7), device)
        extra = leaf(random(*rows, channels, seed=8), device) if with_extra else None
        counter.zero_grad()
        if fused_ones:
            own = None if norm is None else norm.fused(x, fused.batch_statistics)
            neurons = counter.offset, counter.threshold
            counts = fused.levels(x, extra, own, counter.step.log, *neurons, 0.5, 7.5)
        else:
            counts = counter(x, extra, norm)
        (counts * slope.to(device)).sum().backward()  # type: ignore[no-untyped-call]
        parts = [] if norm is None else list(norm.parameters())
        grads = [p.grad for p in (x, extra, *parts, *counter.parameters()) if p is not None]
        buffers = [norm.running_mean, norm.running_var] if isinstance(norm, Normalise) else []
        found.append([counts.detach(), *grads, *buffers])
    assert set(found[0][0].unique().tolist()) == set(range(8))  # type: ignore[union-attr]
    for plain, quick in zip(*found, strict=True):
        close(quick, plain)


@pytest.mark.parametrize("fused_ones", [False, True])
def test_given_counts_take_the_gradient_of_own_ones(fused_ones: bool) -> None:
    counter = Counter(20, 7, 0.4).to(DEVICE if fused_ones else "cpu")
    slope, device = random(40, 20, seed=6), counter.offset.device.type
    given = torch.arange(800, dtype=torch.uint8, device=device).view(40, 20) % 8
    found = []
    for put in (None, given):
        counter.zero_grad()
        x = leaf(1.5 * random(40, 20, seed=7), device)
        if fused_ones:
            neurons = counter.offset, counter.threshold
            counts = fused.levels(x, None, None, counter.step.log, *neurons, 0.5, 7.5, put)
        else:
            counts = counter(x, given=put)
        if put is not None:
            assert torch.equal(counts.to(torch.uint8), put)
        (counts * slope.to(device)).sum().backward()  # type: ignore[no-untyped-call]
        found.append([x.grad, *(parameter.grad for parameter in counter.parameters())])
    for own, other in zip(*found, strict=True):
        close(other, own)


def test_codes_and_gradients() -> None:
    code = SignedCode(0.02)
    slope = random(40, 20, seed=6)
    found = []
    for device, fused_ones in WAYS:
        norm = norm_of("batch", 20)
        assert norm is not None
        norm, code = norm.to(device), code.to(device)
        x = leaf(random(40, 20, seed=7), device)
        neurons = torch.zeros(20, device=device), torch.ones(20, device=device)
        code.zero_grad()
        if fused_ones:
            own = norm.fused(x, fused.batch_statistics)
            codes = fused.levels(x, None, own, code.step.log, *neurons, -126.5, 127.5)
        else:
            codes = code(x, norm)
        (codes * slope.to(device)).sum().backward()  # type: ignore[no-untyped-call]
        found.append([codes.detach(), x.grad, code.step.log.grad, norm.bias.grad])
    assert found[0][0] is not None
    assert found[0][0].abs().max() == 127
    for plain, quick in zip(*found, strict=True):
        close(quick, plain)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("lines", "heads", "size"), [(9, 3, 4), (70, 2, 24)])
def test_attention_and_gradients(padded: bool, lines: int, heads: int, size: int) -> None:
    """One tile of lines and two; padded keys are not seen."""
    curve, shape = ConSmax(heads, lines), (2, lines, 1, heads * size)
    with torch.no_grad():
        curve.beta.copy_(torch.tensor([-2.0, 1.0, -5.5][:heads]))
    stage = Attention("context", "q", "k", "v", heads)
    slope = random(*shape, seed=6)
    found = []
    for device, fused_ones in WAYS:
        q, k = (leaf((20 * random(*shape, seed=seed)).round(), device) for seed in (7, 8))
        v = leaf(random(*shape, seed=9).abs().round(), device)
        factor, scale = (leaf(torch.tensor(value), device) for value in (0.005, 0.3))
        mask = torch.ones(2, lines, dtype=torch.bool, device=device)
        mask[1, lines - 3 :] = not padded
        curve = curve.to(device)
        curve.zero_grad()
        if fused_ones:
            real = mask if padded else None
            rows = q.flatten(2), k.flatten(2), v.flatten(2)
            mixed = context(*rows, real, heads, factor, curve.log_offset(), scale).view(shape)
        else:
            codes = curve(stage.split(q) @ stage.split(k).mT, factor) * mask[:, None, None, :]
            assert 200 < codes.max() <= 255
            mixed = (codes @ stage.split(v * scale)).transpose(1, 2).reshape(shape)
        (mixed * slope.to(device)).sum().backward()  # type: ignore[no-untyped-call]
        grads = [curve.beta.grad, curve.log_gamma.grad, curve.step.log.grad]
        found.append([mixed.detach(), q.grad, k.grad, v.grad, factor.grad, scale.grad, *grads])
    for plain, quick in zip(*found, strict=True):
        assert plain is not None
        assert quick is not None
        worst = float((plain.cpu() - quick.cpu()).abs().max() / plain.abs().max().cpu())
        assert worst < 1e-4


@pytest.mark.parametrize("bits", [3, 8])
def test_weights_and_gradients(bits: int) -> None:
    slope = random(6, 3, 3, 150, seed=6)
    found = []
    for device, fused_ones in WAYS:
        weight, step = leaf(random(6, 3, 3, 150, seed=7), device), leaf(torch.tensor(0.37), device)
        if fused_ones:
            codes = fused.weights_on_grid(weight, bits, step, torch.float32)
        else:
            codes = quantise_weight(weight, bits, step)
        (codes * slope.to(device)).sum().backward()  # type: ignore[no-untyped-call]
        found.append([codes.detach(), weight.grad, step.grad])
    for plain, quick in zip(*found, strict=True):
        close(quick, plain)


def test_spike_counts() -> None:
    packed = torch.arange(256, dtype=torch.uint8).view(4, 8, 8)
    assert torch.equal(fused.spike_counts(packed.to(DEVICE)).cpu(), count(packed))


@pytest.mark.parametrize("two", [False, True])
def test_sums_of_counts_and_gradients(two: bool) -> None:
    slope = random(5, 7, 33, seed=6)
    found = []
    for device, fused_ones in WAYS:
        a, b = (leaf(random(5, 7, 33, seed=seed).round(), device) for seed in (7, 8))
        steps = [leaf(torch.tensor(value), device) for value in (0.3, 0.7)]
        if fused_ones:
            total = fused.sum_of_counts(a, steps[0], *((b, steps[1]) if two else ()))
        else:
            total = steps[0] * a + (steps[1] * b if two else 0)
        (total * slope.to(device)).sum().backward()  # type: ignore[no-untyped-call]
        found.append([total.detach(), a.grad, b.grad, *(step.grad for step in steps)])
    for plain, quick in zip(*found, strict=True):
        close(quick, plain)
