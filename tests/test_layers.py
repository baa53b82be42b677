"""Integer layers: torch, numba and the fused Triton kernels give the same spikes bit for bit.

They are held against loops over Python integers that share no code with them. Without a GPU,
Triton's interpreter runs the kernels (see conftest).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.random_layers import DEVICE, Draw
from torch import Tensor
from torch.nn import functional as F

from falcon_snn.network.operations.source import LARGEST, Source
from falcon_snn.neuron import fused, int8_product, layers
from falcon_snn.neuron.layers import AttentionCurve, IntegerNeurons, Term
from falcon_snn.neuron.packed import count, pack

FAST = ("triton",) if DEVICE == "cuda" else ("numba", "triton")
Array = np.ndarray[tuple[int, ...], np.dtype[Any]]


def numpy(x: Tensor) -> Array:
    return x.cpu().numpy()


def window_sums(term: Term, slots: int) -> Array:
    """What a term adds before its factor: int64 [slot, clip, line, pixel, output]."""
    (b0, b1), (p0, p1) = term.border, term.padding
    lines, pixels = term.packed.shape[1] - 2 * b0, term.packed.shape[2] - 2 * b1
    inner = numpy(term.packed)[:, b0 : b0 + lines, b1 : b1 + pixels]
    padded = np.pad(inner, ((0, 0), (p0, p0), (p1, p1), (0, 0)))
    spikes = np.stack([padded // 2**slot % 2 for slot in range(slots)]).astype(np.int64)
    return spikes if term.weight is None else convolve(spikes, numpy(term.weight), term.stride)


def convolve(x: Array, weight: Array, stride: tuple[int, int]) -> Array:
    """Sums over windows of x [slot, clip, line, pixel, channel]."""
    outputs, height, width, _ = weight.shape
    lines = range(0, x.shape[2] - height + 1, stride[0])
    pixels = range(0, x.shape[3] - width + 1, stride[1])
    out = np.zeros((*x.shape[:2], len(lines), len(pixels), outputs), np.int64)
    for slot, clip, line, pixel, output in np.ndindex(*out.shape):
        y, z = lines[line], pixels[pixel]
        seen = x[slot, clip, y : y + height, z : z + width]
        out[slot, clip, line, pixel, output] = (seen * weight[output]).sum()
    return out


def algorithm1(drives: Array, delay: int, neurons: IntegerNeurons) -> Array:
    """Packed spikes of what slots add, [slot, ..., output], one neuron after the other."""
    slots, *shape = drives.shape
    out = np.zeros(shape, np.uint8)
    for index in np.ndindex(*shape):
        static, membrane, theta = (int(values[index[-1]]) for values in vars(neurons).values())
        taken = 0
        for slot in range(slots):
            while taken < min(slot + delay, slots):
                membrane += static + int(drives[(taken, *index)])
                taken += 1
            if membrane >= theta:
                membrane -= theta
                out[index] += 1 << slot
    return out


def check_against_loops(
    terms: list[Term], neurons: IntegerNeurons, slots: int, delay: int, border: tuple[int, int]
) -> None:
    drives = sum(window_sums(term, slots) * numpy(term.factor) for term in terms)
    assert isinstance(drives, np.ndarray)
    b0, b1 = border
    expected = np.pad(algorithm1(drives, delay, neurons), ((0, 0), (b0, b0), (b1, b1), (0, 0)))
    for backend in ("torch", *FAST):
        for way in ways(backend):
            found = layers.fire(terms, neurons, slots, delay, backend, border=border)
            assert np.array_equal(numpy(found), expected), (backend, way)


def check_agreement(
    terms: list[Term], neurons: IntegerNeurons, slots: int, delay: int,
    border: tuple[int, int] = (0, 0),
) -> Tensor:  # fmt: skip
    expected = layers.fire(terms, neurons, slots, delay, "torch", border=border)
    for backend in FAST:
        for way in ways(backend):
            found = layers.fire(terms, neurons, slots, delay, backend, border=border)
            assert torch.equal(found, expected), (backend, way)
    return expected


def ways(backend: str) -> Iterator[str]:
    """The products that a CPU may choose between, each in turn."""
    if backend != "numba":
        yield "the only one"
        return
    yield "8-bit products"
    with patch("falcon_snn.neuron.int8_product.multiplies_bytes", lambda: False):
        yield "float products"


def test_a_processor_without_fast_8_bit_products_takes_floats() -> None:
    """torch has a loop for those, which is exact, too, but slower than floats."""
    with patch("torch.cpu._is_vnni_supported", lambda: False):
        assert not int8_product.multiplies_bytes.__wrapped__()


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_sums_that_no_float32_holds(backend: str) -> None:
    """Odd sums above 2^24: each neuron of the pair tells the next lower or higher number apart."""
    weight = torch.full((2, 1, 1, 20_001), 127, dtype=torch.int8)
    weight[..., -1] = 125
    zero, factor = torch.zeros(2, dtype=torch.int32), torch.ones(2, dtype=torch.int32)

    def neurons(total: int) -> IntegerNeurons:
        return IntegerNeurons(zero, zero, torch.tensor([total, total + 1], dtype=torch.int32))

    spikes = torch.full((1, 1, 1, 20_001), 0x7F, dtype=torch.uint8)
    few = weight[..., -2_001:].contiguous()
    features = torch.full((1, 1, 1, 2_001), 127, dtype=torch.int8)
    for way in ways(backend):
        total = 7 * int(weight[0].sum())
        fired = layers.fire([Term(spikes, factor, weight)], neurons(total), 7, 7, backend)
        assert fired.flatten().tolist() == [1, 0], way
        total = 127 * int(few[0].sum())
        one, none = (1, 1), (0, 0)
        trains = layers.encode(
            features, few, one, none, None, factor, neurons(total), 7, "first", backend
        )
        assert trains.flatten().tolist() == [1, 0], way


@st.composite
def axes(draw: st.DrawFn, size: int) -> tuple[int, int, int, int, int]:
    """Kernel, stride, padding, border and inner size of an axis that gives `size` outputs."""
    kernel, stride = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    seen = (size - 1) * stride + kernel + draw(st.integers(0, stride - 1))
    padding = draw(st.integers(0, min(2, (seen - 1) // 2)))
    return kernel, stride, padding, padding + draw(st.integers(0, 1)), seen - 2 * padding


@st.composite
def random_terms(
    draw: st.DrawFn, weighted: bool, shape: tuple[int, int, int, int], slots: int
) -> Term:
    make, (clips, lines, pixels, outputs) = Draw(draw(st.integers(0, 999))), shape
    if not weighted:
        border = (draw(st.integers(0, 2)), draw(st.integers(0, 1)))
        x = make.spikes(*shape, slots=slots, border=border)
        return Term(x, make.integers(-60_000, 90_000, outputs), border=border)
    channels, factor = draw(st.integers(1, 6)), make.integers(-300, 900, outputs)
    kind = draw(st.sampled_from(["any", "any", "pixel", "line", "map"]))
    if kind == "any":
        (kh, s0, p0, b0, n0), (kw, s1, p1, b1, n1) = draw(axes(lines)), draw(axes(pixels))
        x = make.spikes(clips, n0, n1, channels, slots=slots, border=(b0, b1))
        weight = make.weight(outputs, kh, kw, channels)
        return Term(x, factor, weight, (s0, s1), (p0, p1), (b0, b1))
    # Shapes whose rows are one run of bytes, where the output's size allows them.
    kh = 3 if kind == "map" and lines == 1 else 1
    kw = 4 if kind != "pixel" and pixels == 1 else 1
    x = make.spikes(clips, lines + kh - 1, pixels + kw - 1, channels, slots=slots)
    return Term(x, factor, make.weight(outputs, kh, kw, channels))


@settings(max_examples=70)
@given(data=st.data(), slots=st.integers(1, 8), kinds=st.sampled_from(["p", "s", "ps", "pp", "ss"]))
def test_stages_equal_loops_over_slots(data: st.DataObject, slots: int, kinds: str) -> None:
    """Every pair of products (p) and spikes (s), in both orders."""
    delay = data.draw(st.integers(1, slots))
    shape = (
        data.draw(st.integers(1, 2)), data.draw(st.integers(1, 4)),
        data.draw(st.sampled_from([1, 1, 3])), data.draw(st.integers(1, 5)),
    )  # fmt: skip
    terms = [data.draw(random_terms(kind == "p", shape, slots)) for kind in kinds]
    if data.draw(st.booleans()):
        terms.reverse()
    neurons = Draw(data.draw(st.integers(0, 999))).neurons(shape[3])
    border = data.draw(st.sampled_from([(0, 0), (1, 1), (0, 2), (3, 1)]))
    check_against_loops(terms, neurons, slots, delay, border)


@pytest.mark.parametrize("slots", range(1, 9))
def test_thresholds_near_the_largest_integer(slots: int) -> None:
    """Conversion lets a threshold come close to 2^30: two of them do not fit an int32."""
    draw = Draw(slots)
    neurons = IntegerNeurons(
        static=draw.integers(-(1 << 24), 1 << 24, 40),
        initial=draw.integers(-(1 << 29), 1 << 30, 40),
        threshold=draw.integers(1 << 26, 1 << 30, 40),
    )
    for delay in {1, slots}:
        check_against_loops([draw.linear(9, 12, 40, slots)], neurons, slots, delay, (0, 0))


@pytest.mark.parametrize("delay", [1, 3, 7])
@pytest.mark.parametrize("kinds", ["p", "ps", "pp", "ss"])
def test_stages_agree_beyond_one_tile(kinds: str, delay: int) -> None:
    """More rows, outputs and inputs than a tile has, none a multiple of it; many line chunks."""
    draw = Draw(delay)
    factors, x = draw.integers(-90, 900, 70), draw.spikes(2, 70, 6, 29, border=(2, 1))
    spikes = Term(draw.spikes(2, 70, 3, 70), 100 * factors)
    conv = Term(x, factors, draw.weight(70, 3, 3, 29), (1, 2), (1, 1), (2, 1))
    shortcut = Term(draw.spikes(2, 140, 3, 33), factors, draw.weight(70, 1, 1, 33), (2, 1))
    terms = {"p": [conv], "ps": [conv, spikes], "pp": [shortcut, conv], "ss": [spikes] * 2}
    check_agreement(terms[kinds], draw.neurons(70), 7, delay, (1, 1))


@settings(max_examples=15)
@given(
    slots=st.integers(1, 8), data=st.data(), rows=st.integers(1, 150),
    inputs=st.integers(1, 100), outputs=st.integers(1, 70), seed=st.integers(0, 999),
)  # fmt: skip
def test_linear_agrees(
    slots: int, data: st.DataObject, rows: int, inputs: int, outputs: int, seed: int
) -> None:
    draw = Draw(seed)
    delay = data.draw(st.integers(1, slots))
    terms = [draw.linear(rows, inputs, outputs, slots)]
    if data.draw(st.booleans()):
        terms.append(draw.linear(rows, inputs + 3, outputs, slots))
    check_agreement(terms, draw.neurons(outputs), slots, delay)


@pytest.mark.parametrize("delay", [1, 2, 4, 7])
@pytest.mark.parametrize(
    ("inputs", "outputs"), [(160, 160), (160, 320), (320, 160), (768, 160), (1680, 160)]
)
def test_linear_agrees_on_falcon_shapes(inputs: int, outputs: int, delay: int) -> None:
    draw = Draw(inputs + delay)
    check_agreement([draw.linear(130, inputs, outputs)], draw.neurons(outputs), 7, delay)


def test_two_wide_products_agree() -> None:
    draw = Draw(3)  # together above the inputs that stay in registers
    check_agreement([draw.linear(20, n, 20) for n in (600, 500)], draw.neurons(20), 3, 2)


@pytest.mark.parametrize("density", [0.0, 0.05, 1.0])
@pytest.mark.parametrize("delay", [1, 3, 7])
def test_products_agree_from_silence_to_all_spikes(density: float, delay: int) -> None:
    draw = Draw(delay)
    x = pack(torch.rand((7, 2, 70, 10, 5), generator=draw.generator) < density).to(DEVICE)
    factor, neurons = draw.integers(1, 900, 17), draw.neurons(17)
    for stride in ((1, 1), (1, 2), (2, 1)):
        check_agreement([Term(x, factor, draw.weight(17, 3, 3, 5), stride)], neurons, 7, delay)
    line = Term(x, factor, draw.weight(17, 1, 10, 5))  # all pixels of a line
    assert line.flat
    check_agreement([line], neurons, 7, delay)


@pytest.mark.parametrize("sign", [-1, 1])
def test_sums_beyond_16_bits_are_exact(sign: int) -> None:
    x = torch.full((3, 1, 1, 700), 0b1111111, dtype=torch.uint8, device=DEVICE)
    x[1, ..., 350:] = 0
    weight = torch.full((9, 1, 1, 700), 127 * sign, dtype=torch.int8, device=DEVICE)
    factor = torch.full((9,), sign, dtype=torch.int32, device=DEVICE)
    term, neurons = Term(x, factor, weight), Draw(1).neurons(9)
    found = check_agreement([term], neurons, 7, 1)
    assert not torch.equal(found[0], found[1])
    check_agreement([term, replace(term, factor=3 * factor)], neurons, 7, 1)


@pytest.mark.parametrize("border", [(0, 0), (1, 1)])
@pytest.mark.parametrize(("channels", "outputs", "stride"), [(8, 16, 2), (32, 48, 2), (48, 48, 1)])
@pytest.mark.parametrize("delay", [1, 3, 7])
def test_conv_agrees_with_torch_convolution(
    channels: int, outputs: int, stride: int, delay: int, border: tuple[int, int]
) -> None:
    draw = Draw(channels + delay)
    x = draw.spikes(2, 5, 8, channels, border=(1, 1))
    term = Term(
        x, draw.integers(1, 900, outputs), draw.weight(outputs, 3, 3, channels), (1, stride),
        (1, 1), (1, 1),
    )  # fmt: skip
    neurons = draw.neurons(outputs)
    found = check_agreement([term], neurons, 7, delay, border)
    if delay == 7 and border == (0, 0):  # counts only: an ordinary convolution says the same
        assert term.weight is not None
        total = F.conv2d(
            count(x).double().permute(0, 3, 1, 2), term.weight.double().permute(0, 3, 1, 2),
            stride=(1, stride),
        ).permute(0, 2, 3, 1)  # fmt: skip
        level = neurons.initial + 7 * neurons.static + term.factor * total
        assert torch.equal(count(found).double(), (level / neurons.threshold).floor().clamp(0, 7))


@settings(max_examples=40)
@given(data=st.data(), slots=st.integers(1, 8), seed=st.integers(0, 999))
def test_encoder_equals_loops(data: st.DataObject, slots: int, seed: int) -> None:
    draw, kind = Draw(seed), data.draw(st.sampled_from(["even", "first"]))
    (kh, s0, p0, _, n0), (kw, s1, p1, _, n1) = (
        data.draw(axes(data.draw(st.integers(1, 4)))) for _ in range(2)
    )
    channels, outputs = data.draw(st.integers(1, 7)), data.draw(st.sampled_from([1, 5, 20]))
    features, weight = draw.weight(2, n0, n1, channels), draw.weight(outputs, kh, kw, channels)
    factor, neurons = draw.integers(-90, 900, outputs), draw.neurons(outputs)
    padded = data.draw(st.booleans())
    lengths = draw.integers(0, n0 + 1, 2, dtype=torch.int64) if padded else None
    real = [n0, n0] if lengths is None else lengths.tolist()

    seen = numpy(features).astype(np.int64)
    for clip, length in enumerate(real):
        seen[clip, length:] = 0
    seen = np.pad(seen, ((0, 0), (p0, p0), (p1, p1), (0, 0)))
    total = convolve(seen[None], numpy(weight), (s0, s1)) * numpy(factor)
    drives = np.concatenate([total, *[np.zeros_like(total)] * (slots - 1)])
    fired = algorithm1(drives, slots, neurons)
    expected = np.zeros_like(fired)
    for clip, line, *rest in np.ndindex(*fired.shape):
        n = int(fired[(clip, line, *rest)]).bit_count()
        if line < max(0, (real[clip] + 2 * p0 - kh) // s0 + 1):
            spread = [(t + 1) * n // slots > t * n // slots for t in range(slots)]
            spikes = spread if kind == "even" else [t < n for t in range(slots)]
            expected[(clip, line, *rest)] = sum(spike << t for t, spike in enumerate(spikes))
    expected = np.pad(expected, ((0, 0), (2, 2), (1, 1), (0, 0)))
    for backend in ("torch", *FAST):
        found = layers.encode(
            features, weight, (s0, s1), (p0, p1), lengths, factor, neurons, slots, kind, backend,
            border=(2, 1),
        )  # fmt: skip
        assert np.array_equal(numpy(found), expected), backend


def attention_curve() -> AttentionCurve:
    slope, offset = torch.tensor([2e-4, 9e-4]).to(DEVICE), torch.tensor([0.0, -2.0]).to(DEVICE)
    code = torch.arange(1, 256, device=DEVICE)
    smallest = ((code - 0.5).log() + offset[:, None]).div(slope[:, None]).ceil().int()
    edge = torch.full((2, 1), 2**31 - 1, device=DEVICE, dtype=torch.int32)
    return AttentionCurve(torch.cat([-edge, smallest, edge], dim=1), slope, offset)


@pytest.mark.parametrize(
    ("padded", "hidden"), [(False, 64), (True, 64), (False, 48), (True, 80), (False, 24)]
)
def test_attention_codes_pool_and_encoder_agree(padded: bool, hidden: int) -> None:
    draw = Draw(5)
    clips, tokens = 3, 41
    lengths = torch.tensor([41, 7, 30], device=DEVICE) if padded else None
    term = Term(
        draw.spikes(clips, tokens, 1, hidden), draw.integers(1, 200, hidden),
        draw.weight(hidden, 1, 1, hidden),
    )  # fmt: skip
    bias, shift = draw.integers(-90_000, 90_000, hidden), draw.integers(12, 16, hidden)
    q = layers.codes(term, bias, shift, 5, "torch")
    assert q.float().std() > 10
    total = window_sums(term, 5).sum(0) * numpy(term.factor) + numpy(bias)
    assert np.array_equal(numpy(q), np.clip(total // 2 ** numpy(shift), -127, 127))
    curve, neurons, factor = attention_curve(), draw.neurons(hidden), draw.integers(1, 90, hidden)
    v, qk = draw.spikes(clips, tokens, hidden), q.flatten(1, 2)
    heads = (qk, -qk, v, lengths, 2, curve, factor, neurons, 7)
    context = layers.attention(*heads, "torch")
    features, cells = draw.weight(clips, tokens, 20, 1), draw.neurons(8)
    source = (features, draw.weight(8, 5, 5, 1), (1, 2), (2, 2), lengths, draw.integers(1, 900, 8))
    trains = layers.encode(*source, cells, 7, "even", "torch", border=(1, 1))
    sums = layers.pool(v, lengths, "torch")
    real = [tokens] * clips if lengths is None else lengths.tolist()
    for clip, length in enumerate(real):
        assert torch.equal(sums[clip], count(v[clip, :length]).int().sum(0))
    for backend in FAST:
        assert torch.equal(layers.codes(term, bias, shift, 5, backend), q)
        assert torch.equal(layers.attention(*heads, backend), context)
        found = layers.encode(*source, cells, 7, "even", backend, border=(1, 1))
        assert torch.equal(found, trains)
        assert torch.equal(layers.pool(v, lengths, backend), sums)


@pytest.mark.parametrize(("zero", "levels"), [(0.0, 32.0), (0.3, 7.7)])
def test_inputs_round_as_in_training(zero: float, levels: float) -> None:
    source = Source("encoder", (5, 40, 1), levels=levels, zero=zero)
    halves = torch.arange(-150, 150, device=DEVICE).view(300, 1, 1, 1) + 0.5
    x = torch.cat([halves / levels + zero, 9 * torch.randn(300, 39, 1, 1).to(DEVICE)], dim=1)
    found = fused.round_inputs(x, zero, levels, LARGEST)
    assert torch.equal(found, source.integers(x.view(60, 5, 40, 1)).to(torch.int8).view(x.shape))
