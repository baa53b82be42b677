"""The network: conversion is exact, its grid cannot overflow, training sees the spikes' counts."""

from dataclasses import replace
from itertools import product
from math import exp
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.network_oracle import convolve as oracle_convolve
from tests.random_networks import trained_like
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from falcon_snn.errors import FalconError
from falcon_snn.hardware.energy import Operations
from falcon_snn.hardware.profile import load_profile
from falcon_snn.network.activity import schedule_energy
from falcon_snn.network.convert import check, conversion_report, convert
from falcon_snn.network.description import Network
from falcon_snn.network.falcon import FalconConfig, architecture, falcon, falcon_config
from falcon_snn.network.fixed_point import grid_exponent, neurons_on_grid, to_int32
from falcon_snn.network.integer import Snn
from falcon_snn.network.operations import Attention, Code, Fire, FireTerm, Readout, Source
from falcon_snn.network.parts import convolve
from falcon_snn.network.product import Product
from falcon_snn.network.qnn import Qnn, with_slots
from falcon_snn.network.quantise import Counter, StepSize
from falcon_snn.pipeline.timing import time_snn

CONFIG = FalconConfig(
    "small", blocks=1, features=12, tokens=10, classes=4, hidden=32, heads=2, ffn=48,
    encoder_channels=4, stem_channels=4,
)  # fmt: skip
NETWORK = falcon(CONFIG)
INT32 = 2**31


@settings(max_examples=20)
@given(
    slots=st.integers(1, 8), seed=st.integers(0, 99), padded=st.booleans(), bits=st.integers(2, 8)
)
def test_full_lookahead_is_the_qnn(slots: int, seed: int, padded: bool, bits: int) -> None:
    network = falcon(replace(CONFIG, slots=slots, weight_bits=bits))
    snn = convert(trained_like(network, seed))
    x = torch.randn(5, 10, 12)
    lengths = torch.tensor([10, 1, 4, 9, 10]) if padded else None
    assert check(snn, x, lengths).shape == (5,)


def test_a_code_of_the_attention_map_begins_at_its_edge() -> None:
    """The definition in doubles, at every edge and one score below it."""
    model = trained_like(NETWORK, 4)
    table = convert(model).tensors["block0.context.curve.table"].tolist()
    steps = [
        float(model.part(f"block0.{name}").code.step.log.detach().double().exp()) for name in "qk"
    ]
    map_of = model.part("block0.context").consmax
    slope = steps[0] * steps[1] / (CONFIG.hidden / CONFIG.heads) ** 0.5
    tried = 0
    for head in range(CONFIG.heads):
        terms = (map_of.beta[head], map_of.log_gamma[head], map_of.step.log)
        offset = sum(float(term.detach()) for term in terms)
        for code in range(1, 256):
            edge = table[head][code]
            below, above = (exp(slope * score - offset) + 0.5 for score in (edge - 1, edge))
            assert below < code + 1e-4
            assert above > code - 1e-4
            tried += above > code + 1e-4  # a score below the edge is told from one at it
    assert tried > 400


class Arithmetic(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations that compute something."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        views = ("split", "view", "expand", "slice", "select", "unbind", "empty", "alias", "detach")
        self.count += not any(view in str(operation) for view in views)
        return operation(*args, **(kwargs or {}))


def test_conversion_works_on_all_stages_at_once() -> None:
    """On a GPU every operation has its price, and conversion is a part of a training step."""
    counts = []
    for blocks in (1, 4):
        model = trained_like(falcon(replace(CONFIG, blocks=blocks)), 2)
        with Arithmetic() as arithmetic:
            snn = convert(model)
        counts.append(arithmetic.count)
        starts = [tensor.untyped_storage().data_ptr() for tensor in snn.tensors.values()]
        assert len(set(starts)) == len(starts)  # each has memory of its own
    # The rest asks of every curve whether it is finite, which a recorded step does not.
    assert counts[1] - counts[0] <= 50
    assert counts[0] < 400


def test_a_fault_is_named_by_its_stage() -> None:
    class Skewed(Snn):
        """One stage counts a spike too many."""

        def decode(self, name: str, stream: Tensor) -> Tensor:
            counts = super().decode(name, stream)
            return (counts + 1) if name == "block0.ffn1" else counts

    snn = convert(trained_like(NETWORK, 1))
    x = torch.randn(4, 10, 12)
    with pytest.raises(FalconError, match=r"stage block0\.ffn1: 1920 of 1920 counts differ"):
        check(Skewed(NETWORK, snn.tensors), x, None)


@given(
    gains=st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=2), reach=st.integers(1, 10**6),
    other=st.integers(1, 10**6), static=st.floats(-1e4, 1e4), initial=st.floats(-1, 2),
    threshold=st.floats(0.01, 100), slots=st.integers(1, 8),
)  # fmt: skip
def test_the_grid_cannot_overflow(
    gains: list[float], reach: int, other: int, static: float, initial: float, threshold: float,
    slots: int,
) -> None:  # fmt: skip
    one = [torch.tensor([value], dtype=torch.float64) for value in (static, initial, threshold)]
    reaches = (float(reach), float(other))[: len(gains)]
    neurons, factors = neurons_on_grid(
        tuple(torch.tensor([gain], dtype=torch.float64) for gain in gains), reaches,
        one[0], one[1], one[2], slots,
    )  # fmt: skip
    start, fires_at, per_slot = (
        int(each) for each in (neurons.initial, neurons.threshold, neurons.static)
    )
    largest = slots * abs(per_slot) + abs(start)
    for factor, bound in zip(factors, (reach, other), strict=False):
        largest += abs(int(factor)) * bound
    assert largest + fires_at < INT32  # the sum, and the level one spike above it
    assert fires_at >= 1


@given(gain=st.floats(1e-9, 1e4), reach=st.integers(1, 10**6), static=st.floats(-1e4, 1e4))
def test_a_single_small_gain_cannot_overflow(gain: float, reach: int, static: float) -> None:
    half, one = (torch.tensor([value], dtype=torch.float64) for value in (0.5, 1.0))
    neurons, (factor,) = neurons_on_grid(
        (gain * one,), (float(reach),), static * one, half, one, 7
    )  # fmt: skip
    largest = abs(int(factor)) * reach + 7 * abs(int(neurons.static)) + abs(int(neurons.initial))
    assert largest + int(neurons.threshold) < INT32


@pytest.mark.parametrize(("gain", "reach"), [(3.7e-4, 150_000.0), (1.1e-9, 100.0)])
def test_precision_is_kept_where_it_counts(gain: float, reach: float) -> None:
    """The second gain is a single step of the finest grid: a coarser rounding would leave it."""
    static, initial, one = (torch.tensor([x], dtype=torch.float64) for x in (0.2, 0.5, 1.0))
    neurons, (factor,) = neurons_on_grid((gain * one,), (reach,), static, initial, one, 7)
    assert float(factor / neurons.threshold) == pytest.approx(gain, rel=1e-6)
    assert float(neurons.initial / neurons.threshold) == pytest.approx(0.5, rel=1e-6)
    assert float(7 * neurons.static / neurons.threshold) == pytest.approx(0.2, rel=1e-5)


def test_constants_are_rounded_to_the_nearest_and_the_grid_is_as_fine_as_it_may_be() -> None:
    assert to_int32(torch.tensor([0.4, 0.6, -0.6, 2.0**40], dtype=torch.float64)).tolist() == [
        0,
        1,
        -1,
        2**30 - 1,
    ]
    largest, rounding = torch.tensor([1.0, 100.0, 2.0**31], dtype=torch.float64), 3.0
    exponent = grid_exponent(largest, rounding)
    assert exponent.tolist() == [24, 23, 0]
    assert float(2 ** exponent[1] * largest[1] + rounding) < 2**30


def test_conversion_does_not_hang_on_the_last_bit_of_exp(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU's float32 exp may end in another bit than a CPU's; the integers must not."""
    model = trained_like(NETWORK, seed=3)
    here = convert(model).tensors
    ordinary = StepSize.forward

    def elsewhere(self: StepSize) -> Tensor:
        value = ordinary(self)
        return torch.nextafter(value, 2 * value)

    monkeypatch.setattr(StepSize, "forward", elsewhere)
    for name, tensor in convert(model).tensors.items():
        assert torch.equal(tensor, here[name]), name


def test_conversion_reports_every_stage_and_refuses_other_inputs() -> None:
    model = trained_like(NETWORK, 2)
    snn = convert(model)
    rows = conversion_report(snn)
    assert [row.name for row in rows] == [stage.name for stage in NETWORK.inner_stages]
    assert {row.kind for row in rows} == {"source", "fire", "code", "attention"}
    with torch.no_grad():
        model.part("stem.fc2").fire.threshold.mul_(2)
    before, after = (
        next(row for row in some if row.name == "stem.fc2")
        for some in (rows, conversion_report(convert(model)))
    )
    assert after.scale == pytest.approx([value / 2 for value in before.scale])  # in thresholds
    delays = dict.fromkeys(NETWORK.boundaries, 1)
    with pytest.raises(FalconError, match="samples are 10 x 16, this network takes 10 x 12 x 1"):
        snn.predict(torch.randn(1, 10, 16), None, delays)
    assert snn.predict(torch.randn(1, 20, 12), None, delays).shape == (1,)
    with pytest.raises(FalconError, match="inputs of 21 lines; this network takes up to 20"):
        snn.predict(torch.randn(1, 21, 12), None, delays)


def test_attention_may_mix_the_spikes_of_the_source() -> None:
    network = Network("direct", 4, (
        Source("source", (6, 1, 8)), Code("q", "source", Product(8)),
        Code("k", "source", Product(8)), Attention("context", "q", "k", "source", 2),
        Fire("out", (FireTerm("context", Product(8)),)), Readout("classes", "out", 3),
    ))  # fmt: skip
    snn, x, profile = convert(trained_like(network, 1)), torch.rand(2, 6, 1, 8), load_profile()
    assert check(snn, x, None).shape == (2,)
    assert time_snn(network.graph, {"out": 1}, profile).core_us > 0
    energy, _ = schedule_energy(snn, [(x, None)], {"out": 1}, profile)
    assert energy.operations["context.av"] == Operations(macs_8x4=2 * 6 * 6 * 4)


def test_a_clip_shorter_than_a_kernel_is_one_without_spikes() -> None:
    stages = (
        Source("source", (10, 1, 8)), Fire("out", (FireTerm("source", Product(8, (5, 1))),)),
        Readout("classes", "out", 3),
    )  # fmt: skip
    model = trained_like(Network("valid", 4, stages), 1)
    x, lengths = torch.rand(2, 10, 1, 8), torch.tensor([10, 4])
    bias = model.part("classes").linear.bias
    assert torch.equal(model(x, lengths)[1], bias)
    snn = convert(model)
    assert check(snn, x, lengths)[1] == bias.argmax()
    logits = snn.logits(snn.streams(x, lengths, {"out": 1}), lengths)
    assert torch.allclose(logits[1].float(), bias, atol=1e-4)


def test_training_sees_the_counts_of_the_spikes() -> None:
    model = trained_like(NETWORK, 3)
    x = torch.randn(6, 10, 12)
    snn = convert(model)
    spikes = snn.counts(snn.streams(x, None, dict.fromkeys(NETWORK.boundaries, 1)))
    scores, counts = model.execute(x, None, spikes)
    for name, values in spikes.items():
        assert torch.equal(counts[name].detach().round().long(), values.long()), name
    moving = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for gradient in torch.autograd.grad(scores.sum(), moving):  # all of them are reached
        assert torch.isfinite(gradient).all()
    qnn_scores = model(x)
    assert not torch.allclose(scores, qnn_scores)  # delay 1 is not the QNN


def test_other_slots_keep_the_range_of_every_stage() -> None:
    model = trained_like(NETWORK, 5)
    fine = with_slots(model, 255)
    x = torch.randn(4, 10, 12)
    same = with_slots(fine, NETWORK.slots)
    torch.testing.assert_close(same(x), model(x))
    for part, other in zip(model.modules(), fine.modules(), strict=True):
        if isinstance(part, Counter) and isinstance(other, Counter):
            many = torch.full((1, len(part.offset)), 1e6)
            one, two = (each.decode(each(many), each.step()) for each in (part, other))
            assert torch.allclose(one, two)
    with pytest.raises(FalconError, match=r"slots is 255; a spiking network has 1\.\.8"):
        convert(fine)


def test_a_shorter_prefix_reads_fewer_slots() -> None:
    model = trained_like(NETWORK, 4)
    x = torch.randn(3, 10, 12)
    delays = dict.fromkeys(NETWORK.boundaries, 1)
    whole, short = convert(model), convert(model, NETWORK.with_prefix(2))
    assert short.network.prefix == 2
    a, b = (each.streams(x, None, delays) for each in (whole, short))
    assert torch.equal(a["stem.fc2"], b["stem.fc2"])
    assert not torch.equal(a["block0.q"], b["block0.q"])
    with pytest.raises(FalconError, match=r"Q/K prefix is 9; it must lie in 1\.\.7"):
        convert(model, NETWORK.with_prefix(9))


def test_convolutions_on_small_maps() -> None:
    """A library's fast path has been wrong on maps of few pixels: every tap, written out."""
    torch.manual_seed(0)
    sizes = ((1, 1), (1, 2), (2, 1), (2, 3), (3, 2), (4, 5), (5, 8))
    kernels = ((1, 1), (1, 3), (2, 2), (3, 2), (3, 4), (4, 1))
    for size, kernel, stride, padding, channels in product(
        sizes, kernels, ((1, 1), (1, 2), (2, 1), (3, 3)), ((0, 0), (1, 1), (2, 0), (0, 2)), (1, 2)
    ):
        layer = Product(3, kernel, stride, padding)
        if min(s + 2 * p - k for s, p, k in zip(size, padding, kernel, strict=True)) < 0 or any(
            p >= k for p, k in zip(padding, kernel, strict=True)
        ):
            continue
        x, weight = torch.randn(2, *size, channels), torch.randn(3, *kernel, channels)
        wanted = oracle_convolve(x.double().numpy(), weight.double().numpy(), layer)
        found = convolve(x, weight, layer).double().numpy()
        assert found.shape == wanted.shape
        assert abs(found - wanted).max() < 1e-4, (size, layer)


def test_falcon_is_the_papers_table() -> None:
    rows = architecture(falcon_config("medium", "gsc"))
    assert rows["Transformer blocks"] == 3
    assert rows["Pipelined-stem convolutions"] == 2
    assert rows["Total convolutional layers"] == 3
    assert rows["Total FC layers"] == 2 + 3 * 6 + 1
    network = falcon(falcon_config("medium", "gsc"))
    assert network.boundaries[:5] == (
        "stem.conv1", "stem.conv2", "stem.fc1", "stem.fc2", "block0.attn_out"
    )  # fmt: skip
    assert len(network.boundaries) == 4 + 3 * 5
    assert network.shapes["stem.fc2"] == (98, 1, 160)
    assert network.readout == Readout("classifier", "block2.residual2", 35, norm=True)
    for model, dataset, message in (
        ("huge", "gsc", "unknown network 'huge'"),
        ("medium", "mnist", "unknown dataset 'mnist'"),
    ):
        with pytest.raises(FalconError, match=message):
            falcon_config(model, dataset)
    with pytest.raises(FalconError, match="features is 10; it must be a multiple of 4"):
        falcon(replace(CONFIG, features=10))


@pytest.mark.parametrize("name", ["values", "keys", "forward", "training"])
def test_a_stage_may_be_called_like_a_method(name: str) -> None:
    first, second = FireTerm("source", Product(4)), FireTerm(name, Product(3))
    stages = (
        Source("source", (1, 1, 5)), Fire(name, (first,)), Fire("out", (second,)),
        Readout("classes", "out", 2),
    )  # fmt: skip
    model = Qnn(Network("named", 3, stages)).eval()
    assert model(torch.rand(2, 5)).shape == (2, 2)
