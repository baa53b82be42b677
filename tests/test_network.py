"""The network: conversion is exact, its grid cannot overflow, training sees the spikes' counts."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from falcon_snn.config import FalconConfig
from falcon_snn.errors import FalconError
from falcon_snn.network.convert import check, conversion_report, convert
from falcon_snn.network.fixed_point import neurons_on_grid
from falcon_snn.network.integer import IntegerFalcon
from falcon_snn.network.model import Falcon, Normalise, with_slots
from falcon_snn.network.quantise import Counter, Step

CONFIG = FalconConfig(
    blocks=1, features=12, tokens=10, classes=4, hidden=32, heads=2, ffn=48, encoder_channels=4,
    stem_channels=4,
)  # fmt: skip
INT32 = 2**31


def trained_like(config: FalconConfig, seed: int) -> Falcon:
    """A network whose batch norms have statistics, gains of both signs, and odd neurons."""
    torch.manual_seed(seed)
    model = Falcon(config)
    with torch.no_grad():
        for _ in range(3):
            model(torch.randn(16, config.tokens, config.features))
        for name, parameter in model.named_parameters():
            if name.endswith("_fire.threshold") and not name.startswith("encoder"):
                parameter.uniform_(0.5, 2.0)
            if name.endswith("_fire.offset") and not name.startswith("encoder"):
                parameter.uniform_(-0.5, 0.5)
        for module in model.modules():
            if isinstance(module, Normalise):
                module.weight.uniform_(-1.5, 1.5)
                module.bias.normal_(0.0, 0.3)
    return model.eval()


@settings(max_examples=20)
@given(
    slots=st.integers(1, 8), seed=st.integers(0, 99), padded=st.booleans(), bits=st.integers(2, 8)
)
def test_full_lookahead_is_the_qnn(slots: int, seed: int, padded: bool, bits: int) -> None:
    config = replace(CONFIG, slots=slots, weight_bits=bits)
    network = convert(trained_like(config, seed))
    x = torch.randn(5, 10, 12)
    lengths = torch.tensor([10, 1, 4, 9, 10]) if padded else None
    assert check(network, x, lengths).shape == (5,)


def test_a_fault_is_named_by_its_stage() -> None:
    class Skewed(IntegerFalcon):
        """One stage counts a spike too many."""

        @staticmethod
        def decode(name: str, stream: Tensor) -> Tensor:
            counts = IntegerFalcon.decode(name, stream)
            return (counts + 1) if name == "block0.ffn1" else counts

    network = convert(trained_like(CONFIG, 1))
    x = torch.randn(4, 10, 12)
    with pytest.raises(FalconError, match=r"stage block0\.ffn1: 1920 of 1920 counts differ"):
        check(Skewed(CONFIG, network.tensors), x, None)


@given(
    gain=st.floats(1e-9, 1e4), reach=st.integers(1, 10**6), static=st.floats(-1e4, 1e4),
    initial=st.floats(-1, 2), threshold=st.floats(0.01, 100), slots=st.integers(1, 8),
)  # fmt: skip
def test_the_grid_cannot_overflow(
    gain: float, reach: int, static: float, initial: float, threshold: float, slots: int
) -> None:
    one = [
        torch.tensor([value], dtype=torch.float64) for value in (gain, static, initial, threshold)
    ]
    neurons, _ = neurons_on_grid((one[0],), (float(reach),), one[1], one[2], one[3], slots)
    factor, per_slot = int(neurons.factor), int(neurons.static)
    start, fires_at = int(neurons.initial), int(neurons.threshold)
    largest = abs(factor) * reach + slots * abs(per_slot) + abs(start)
    assert largest + fires_at < INT32  # the sum, and the level one spike above it
    assert fires_at >= 1


def test_precision_is_kept_where_it_counts() -> None:
    gain = torch.tensor([3.7e-4], dtype=torch.float64)
    static, initial, one = (torch.tensor([x], dtype=torch.float64) for x in (0.2, 0.5, 1.0))
    neurons, _ = neurons_on_grid((gain,), (150_000.0,), static, initial, one, 7)
    assert float(neurons.factor / neurons.threshold) == pytest.approx(3.7e-4, rel=1e-6)


def test_conversion_does_not_hang_on_the_last_bit_of_exp(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU's float32 exp may end in another bit than a CPU's; the integers must not."""
    network = trained_like(CONFIG, seed=3)
    here = convert(network).tensors
    ordinary = Step.forward

    def elsewhere(self: Step) -> Tensor:
        value = ordinary(self)
        return torch.nextafter(value, 2 * value)

    monkeypatch.setattr(Step, "forward", elsewhere)
    for name, tensor in convert(network).tensors.items():
        assert torch.equal(tensor, here[name]), name


def test_conversion_reports_every_stage_and_refuses_other_inputs() -> None:
    network = convert(trained_like(CONFIG, 2))
    rows = conversion_report(network)
    assert [row.name for row in rows] == list(network.stages)
    assert {row.kind for row in rows} == {
        "source", "conv", "linear", "code", "context", "residual"
    }  # fmt: skip
    with pytest.raises(FalconError, match="takes 12 features and at most 20 tokens"):
        network.predict(torch.randn(1, 10, 16), None, dict.fromkeys(CONFIG.boundaries, 1))


def test_training_sees_the_counts_of_the_spikes() -> None:
    model = trained_like(CONFIG, 3)
    x = torch.randn(6, 10, 12)
    delays = dict.fromkeys(CONFIG.boundaries, 1)
    spikes = convert(model).counts(x, None, delays)
    scores, counts = model.execute(x, None, spikes)
    for name, values in spikes.items():
        assert torch.equal(counts[name].detach().round().long(), values.long()), name
    moving = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for gradient in torch.autograd.grad(scores.sum(), moving):  # all of them are reached
        assert torch.isfinite(gradient).all()
    qnn_scores = model(x)
    assert not torch.allclose(scores, qnn_scores)  # delay 1 is not the QNN


def test_other_slots_keep_the_range_of_every_stage() -> None:
    model = trained_like(CONFIG, 5)
    fine = with_slots(model, 255)
    x = torch.randn(4, 10, 12)
    same = with_slots(fine, CONFIG.slots)
    torch.testing.assert_close(same(x), model(x))
    for part, other in zip(model.modules(), fine.modules(), strict=True):
        if isinstance(part, Counter) and isinstance(other, Counter):
            largest = part.decode(part(torch.full((1, len(part.offset)), 1e6)))
            assert torch.allclose(largest, other.decode(other(torch.full_like(largest, 1e6))))
    with pytest.raises(FalconError, match=r"slots is 255; a spiking network has 1\.\.8"):
        convert(fine)


def test_a_shorter_prefix_reads_fewer_slots() -> None:
    model = trained_like(CONFIG, 4)
    x = torch.randn(3, 10, 12)
    delays = dict.fromkeys(CONFIG.boundaries, 1)
    whole, short = convert(model), convert(model, qk_prefix=2)
    assert short.config.prefix == 2
    a, b = (each.streams(x, None, delays) for each in (whole, short))
    assert torch.equal(a["stem.fc2"], b["stem.fc2"])
    assert not torch.equal(a["block0.q"], b["block0.q"])
    with pytest.raises(FalconError, match=r"Q/K prefix is 9; it must lie in 1\.\.7"):
        convert(model, qk_prefix=9)
