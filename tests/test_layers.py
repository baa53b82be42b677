"""Integer layers: torch, numba and the fused Triton kernels give the same spikes bit for bit.

Without a GPU, Triton's interpreter runs the kernels (see conftest).
"""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from falcon_snn.errors import FalconError
from falcon_snn.neuron import layers
from falcon_snn.neuron.layers import AttentionCurve, IntegerNeurons
from falcon_snn.neuron.packed import count, pack

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def random_neurons(outputs: int, generator: torch.Generator) -> IntegerNeurons:
    def draw(low: int, high: int) -> Tensor:
        return torch.randint(low, high, (outputs,), generator=generator).int().to(DEVICE)

    return IntegerNeurons(draw(1, 900), draw(-40_000, 40_000), draw(-9, 90_000), draw(900, 200_000))


def random_bytes(shape: tuple[int, ...], slots: int, generator: torch.Generator) -> Tensor:
    return torch.randint(0, 1 << slots, shape, generator=generator).to(torch.uint8).to(DEVICE)


def random_weight(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randint(-127, 128, shape, generator=generator).to(torch.int8).to(DEVICE)


def backends() -> tuple[str, ...]:
    return ("triton",) if DEVICE == "cuda" else ("numba", "triton")


@settings(max_examples=25)
@given(
    slots=st.integers(1, 8), data=st.data(), rows=st.integers(1, 150),
    inputs=st.integers(1, 100), outputs=st.integers(1, 70), seed=st.integers(0, 999),
)  # fmt: skip
def test_linear_agrees(
    slots: int, data: st.DataObject, rows: int, inputs: int, outputs: int, seed: int
) -> None:
    delay = data.draw(st.integers(1, slots))
    generator = torch.Generator().manual_seed(seed)
    x = random_bytes((rows, inputs), slots, generator)
    weight = random_weight((outputs, inputs), generator)
    neurons = random_neurons(outputs, generator)
    expected = layers.linear(x, weight, neurons, slots, delay, "torch")
    for backend in backends():
        assert torch.equal(layers.linear(x, weight, neurons, slots, delay, backend), expected)


@pytest.mark.parametrize("delay", [1, 2, 4, 7])
@pytest.mark.parametrize(
    ("inputs", "outputs"), [(160, 160), (160, 320), (320, 160), (768, 160), (1680, 160)]
)
def test_linear_agrees_on_falcon_shapes(inputs: int, outputs: int, delay: int) -> None:
    generator = torch.Generator().manual_seed(inputs + delay)
    x = random_bytes((130, inputs), 7, generator)
    weight, neurons = (
        random_weight((outputs, inputs), generator),
        random_neurons(outputs, generator),
    )
    expected = layers.linear(x, weight, neurons, 7, delay, "torch")
    for backend in backends():
        assert torch.equal(layers.linear(x, weight, neurons, 7, delay, backend), expected)


@pytest.mark.parametrize("density", [0.0, 0.05, 1.0])
@pytest.mark.parametrize("delay", [1, 3, 7])
def test_products_agree_from_silence_to_all_spikes(density: float, delay: int) -> None:
    generator = torch.Generator().manual_seed(delay)
    spikes = torch.rand((7, 2, 70, 10, 5), generator=generator) < density  # many token chunks
    x = pack(spikes).to(DEVICE)
    for stride in (1, 2):
        weight, neurons = random_weight((17, 3, 3, 5), generator), random_neurons(17, generator)
        expected = layers.conv(x, weight, neurons, 7, delay, stride, "torch", border=True)
        for backend in backends():
            result = layers.conv(x, weight, neurons, 7, delay, stride, backend, border=True)
            assert torch.equal(result, expected)
    rows = x.flatten(0, 1).flatten(1)
    weight, neurons = random_weight((17, 50), generator), random_neurons(17, generator)
    expected = layers.linear(rows, weight, neurons, 7, delay, "torch")
    for backend in backends():
        assert torch.equal(layers.linear(rows, weight, neurons, 7, delay, backend), expected)


@pytest.mark.parametrize("sign", [-1, 1])
def test_sums_beyond_16_bits_are_exact(sign: int) -> None:
    x = torch.full((3, 700), 0b1111111, dtype=torch.uint8, device=DEVICE)
    x[1, 350:] = 0
    weight = torch.full((9, 700), 127 * sign, dtype=torch.int8, device=DEVICE)
    generator = torch.Generator().manual_seed(1)
    neurons = replace(
        random_neurons(9, generator), factor=torch.full_like(weight[:, 0], sign).int()
    )
    expected = layers.linear(x, weight, neurons, 7, 1, "torch")
    assert not torch.equal(expected[0], expected[1])
    for backend in backends():
        assert torch.equal(layers.linear(x, weight, neurons, 7, 1, backend), expected)


@pytest.mark.parametrize("border", [False, True])
@pytest.mark.parametrize(("channels", "outputs", "stride"), [(8, 16, 2), (32, 48, 2), (48, 48, 1)])
@pytest.mark.parametrize("delay", [1, 3, 7])
def test_conv_agrees_with_torch_convolution(
    channels: int, outputs: int, stride: int, delay: int, border: bool
) -> None:
    generator = torch.Generator().manual_seed(channels + delay)
    inner = random_bytes((2, 5, 8, channels), 7, generator)
    x = torch.nn.functional.pad(inner, (0, 0, 1, 1, 1, 1))
    weight = random_weight((outputs, 3, 3, channels), generator)
    neurons = random_neurons(outputs, generator)
    expected = layers.conv(x, weight, neurons, 7, delay, stride, "torch", border=border)
    for backend in backends():
        result = layers.conv(x, weight, neurons, 7, delay, stride, backend, border=border)
        assert torch.equal(result, expected)
    if delay == 7 and not border:  # counts only: an ordinary convolution says the same
        counts = count(inner).double().permute(0, 3, 1, 2)
        total = torch.nn.functional.conv2d(
            counts, weight.double().permute(0, 3, 1, 2), stride=(1, stride), padding=1
        ).permute(0, 2, 3, 1)  # fmt: skip
        level = neurons.initial + 7 * neurons.static + neurons.factor * total
        n = (level / neurons.threshold).floor().clamp(0, 7)
        assert torch.equal(count(expected).double(), n)


@settings(max_examples=20)
@given(slots=st.integers(1, 8), data=st.data(), rows=st.integers(1, 140), seed=st.integers(0, 99))
def test_residual_agrees(slots: int, data: st.DataObject, rows: int, seed: int) -> None:
    delay = data.draw(st.integers(1, slots))
    generator = torch.Generator().manual_seed(seed)
    a, b = (random_bytes((rows, 37), slots, generator) for _ in range(2))
    neurons = random_neurons(37, generator)
    factor_b = torch.randint(-90_000, 90_000, (37,), generator=generator).int().to(DEVICE)
    expected = layers.residual(a, b, factor_b, neurons, slots, delay, "torch")
    for backend in backends():
        assert torch.equal(
            layers.residual(a, b, factor_b, neurons, slots, delay, backend), expected
        )


@pytest.mark.parametrize("padded", [False, True])
def test_attention_codes_pool_and_encoder_agree(padded: bool) -> None:
    generator = torch.Generator().manual_seed(5)
    clips, tokens, heads, hidden = 3, 41, 2, 64
    lengths = torch.tensor([41, 7, 30], device=DEVICE) if padded else None
    x = random_bytes((clips * tokens, hidden), 7, generator)
    weight = random_weight((hidden, hidden), generator)
    factor = torch.randint(1, 200, (hidden,), generator=generator).int().to(DEVICE)
    bias = torch.randint(-90_000, 90_000, (hidden,), generator=generator).int().to(DEVICE)
    shift = torch.randint(12, 16, (hidden,), generator=generator).int().to(DEVICE)
    q = layers.codes(x, weight, factor, bias, shift, 5, "torch")
    assert q.float().std() > 10
    slope, offset = torch.tensor([2e-4, 9e-4]).to(DEVICE), torch.tensor([0.0, -2.0]).to(DEVICE)
    code = torch.arange(1, 256, device=DEVICE)
    smallest = ((code - 0.5).log() + offset[:, None]).div(slope[:, None]).ceil().int()
    edge = torch.full((2, 1), 2**31 - 1, device=DEVICE, dtype=torch.int32)
    table = torch.cat([-edge, smallest, edge], dim=1)
    curve = AttentionCurve(table, slope, offset)
    neurons = random_neurons(hidden, generator)
    v = random_bytes((clips, tokens, hidden), 7, generator)
    qk = q.view(clips, tokens, hidden)
    context = layers.attention(qk, -qk, v, lengths, heads, curve, neurons, 7, "torch")
    features = random_weight((clips, tokens, 20), generator)
    kernel, cells = random_weight((8, 25), generator), random_neurons(8, generator)
    source = layers.encode(features, kernel, lengths, cells, 7, "even", "torch")
    sums = layers.pool(v, lengths, "torch")
    for backend in backends():
        assert torch.equal(layers.codes(x, weight, factor, bias, shift, 5, backend), q)
        found = layers.attention(qk, -qk, v, lengths, heads, curve, neurons, 7, backend)
        assert torch.equal(found, context)
        found = layers.encode(features, kernel, lengths, cells, 7, "even", backend)
        assert torch.equal(found, source)
        assert torch.equal(layers.pool(v, lengths, backend), sums)


def test_numba_refuses_a_delay_outside_the_slots() -> None:
    x, weight = torch.zeros((2, 3), dtype=torch.uint8), torch.zeros((4, 3), dtype=torch.int8)
    zeros = torch.zeros(4, dtype=torch.int32)
    for delay in (0, 8):
        with pytest.raises(FalconError, match="delay"):
            layers.linear(x, weight, IntegerNeurons(zeros, zeros, zeros, zeros), 7, delay, "numba")


def test_backends_say_why_they_cannot_run() -> None:
    with pytest.raises(FalconError, match="unknown backend 'cupy'"):
        layers.choose_layer_backend("cupy", torch.device("cpu"))
    with pytest.raises(FalconError, match="runs on the CPU"):
        layers.choose_layer_backend("numba", torch.device("cuda"))


def test_a_layer_too_wide_for_the_fused_kernel_says_so() -> None:
    x = torch.zeros(2, 12_001, dtype=torch.uint8)
    weight = torch.zeros(3, 12_001, dtype=torch.int8)
    neurons = random_neurons(3, torch.Generator().manual_seed(0))
    with pytest.raises(FalconError, match="12,001 inputs; backend 'triton' takes 12,000"):
        layers.linear(x.to(DEVICE), weight.to(DEVICE), neurons, 7, 1, "triton")
