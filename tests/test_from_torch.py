"""Float modules of torch that become networks with their weights kept."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from falcon_snn.errors import FalconError
from falcon_snn.interchange.torch_network import example_for, from_torch
from falcon_snn.network.convert import check, convert
from falcon_snn.network.description import network_from_json
from falcon_snn.network.operations import Fire


class Residual(nn.Module):
    """A residual network as people write them; one ReLU serves everywhere."""

    def __init__(self, shortcut: bool) -> None:
        super().__init__()
        wide, stride = (12, 2) if shortcut else (8, 1)
        self.conv1, self.norm1 = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8, eps=1e-2)
        self.conv2 = nn.Conv2d(8, wide, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(wide)
        self.shortcut = nn.Conv2d(8, wide, 1, stride=2) if shortcut else nn.Identity()
        self.conv3 = nn.Conv2d(wide, 8, 3, padding="same", groups=2)
        self.relu, self.fc = nn.ReLU(), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.norm1(self.conv1(x)))
        x = self.relu(self.norm2(self.conv2(x)) + self.shortcut(x))
        x = self.relu(self.conv3(x))
        return self.fc(x.mean(dim=(2, 3)))


class Functional(nn.Module):
    """Everything that has a functional form."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 3), nn.Conv2d(6, 6, 3, padding=1)
        self.conv3, self.input, self.fc = nn.Conv2d(6, 8, 1), nn.Linear(32, 9), nn.Linear(9, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv1(x.unsqueeze(1)))
        x = torch.relu(torch.add(x, self.conv2(F.dropout(x, 0.3, self.training))))
        x = self.conv3(F.avg_pool2d(x, 2)).relu()
        x = F.avg_pool2d(x, (2, x.size(3) // 2))
        x = F.relu(self.input(x.view(x.size(0), -1)))
        return self.fc(torch.flatten(x, 1))


class OneAxis(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(2, 6, 5, stride=2), nn.BatchNorm1d(6), nn.ReLU(), nn.AvgPool1d(2),
            nn.Conv1d(6, 8, 3, padding=1), nn.Dropout(), nn.ReLU(), nn.AdaptiveAvgPool1d(1),
        )  # fmt: skip
        self.fc = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.layers(x).reshape(x.shape[0], -1))


def mlp() -> nn.Sequential:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(48, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Dropout(0.4),
        nn.Linear(20, 10), nn.ReLU(), nn.Linear(10, 3),
    )  # fmt: skip


def pooled() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(6, 8, 3, padding=1),
        nn.BatchNorm2d(8, affine=False), nn.ReLU(), nn.AvgPool2d((2, 1)), nn.Flatten(),
        nn.Linear(80, 4),
    )  # fmt: skip


def trained(module: nn.Module) -> nn.Module:
    """As if it had been trained: batch norms that have seen something."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            assert part.running_mean is not None
            assert part.running_var is not None
            assert part.num_batches_tracked is not None
            part.num_batches_tracked.fill_(1)
            nn.init.normal_(part.running_mean, std=0.5)
            nn.init.uniform_(part.running_var, 0.5, 2.0)
            if part.affine:
                nn.init.uniform_(part.weight, -1.5, 1.5)
                nn.init.normal_(part.bias)
    return module.eval()


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], str]] = {
    "mlp": (mlp, (6, 8), "auto"),
    "mlp, first layer": (mlp, (6, 8), "layer"),
    "vector": (lambda: nn.Sequential(*list(mlp())[1:]), (48,), "auto"),
    "one axis": (OneAxis, (2, 40), "auto"),
    "pooled": (pooled, (1, 12, 12), "auto"),
    "residual": (lambda: Residual(shortcut=False), (3, 8, 8), "auto"),
    "residual, convolution": (lambda: Residual(shortcut=True), (3, 8, 8), "auto"),
    "functional": (Functional, (10, 10), "auto"),
    "flattened picture": (lambda: nn.Sequential(nn.Flatten(), *list(mlp())[1:]), (3, 4, 4), "auto"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_module_and_its_network_agree(case: str) -> None:
    """At 255 levels nearly so; at few slots the QNN equals full lookahead exactly."""
    make, shape, source = CASES[case]
    torch.manual_seed(5)
    module, x = trained(make()), torch.randn(32, *shape)
    with torch.no_grad():
        wanted = module(x)
        found = from_torch(module, x, 255, source=source)(x)
        assert float((found - wanted).abs().max()) < 0.03 * float(wanted.max() - wanted.min())
        model = from_torch(module, x, slots=5, source=source)
        snn = convert(model)
        predicted = check(snn, x, None)
        agreeing = float((predicted == model(x).argmax(dim=1)).float().mean())
        assert agreeing > 0.9  # floats may fall on the other side of a count's edge
    assert network_from_json(model.network.as_json()) == model.network


def test_stages_have_the_names_of_layers() -> None:
    network = from_torch(Residual(shortcut=True), torch.randn(2, 3, 8, 8)).network
    assert [stage.name for stage in network.stages] == ["conv1", "conv2", "conv3", "fc"]
    assert network.boundaries == network.graph.boundaries == ("conv2", "conv3")
    fire = network.by_name["conv2"]
    assert isinstance(fire, Fire)
    assert [term.reads for term in fire.terms] == ["conv1", "conv1"]
    assert (network.name, network.slots, network.readout.window) == ("Residual", 7, (0, 0))
    # Names that a network uses for something else.
    assert "input_" in from_torch(Functional(), torch.randn(2, 10, 10), 3).network.by_name


def test_the_source_is_calibrated() -> None:
    conv = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    pixels = torch.rand(8, 1, 4, 4)
    source = from_torch(conv, pixels).network.source
    assert source.zero == 0.0
    assert source.levels == pytest.approx(127 / float(pixels.max()))
    assert source.product is not None
    assert from_torch(conv, pixels - 0.5).network.source.zero == 0.0
    far = from_torch(conv, pixels - 5).network.source
    assert far.zero == pytest.approx(float((pixels - 5).mean()))
    scaled = from_torch(conv, pixels - 0.5, source="scale", encoding="even").network.source
    assert scaled.zero == pytest.approx(float(pixels.min()) - 0.5)
    assert (scaled.product, scaled.encoding) == (None, "even")
    given = from_torch(conv, torch.randint(0, 5, (8, 1, 4, 4)), source="counts")
    assert given.network.source.given
    assert float(given.part("source").fire.step()) == 1.0


def test_what_the_source_takes_away_comes_back() -> None:
    """Exact without padding, with batch norm and without, at the first layer and at a readout."""
    torch.manual_seed(2)
    x = torch.rand(32, 2, 6, 6) * 2 + 7
    for layers in ([nn.BatchNorm2d(5)], []):
        module = nn.Sequential(
            nn.Conv2d(2, 5, 3), *layers, nn.ReLU(), nn.Flatten(), nn.Linear(80, 4)
        )
        for source in ("layer", "scale"):
            with torch.no_grad():
                wanted = trained(module)(x)
                found = from_torch(module, x, 255, source=source)(x)
            assert float((found - wanted).abs().max()) < 0.04 * float(wanted.max() - wanted.min())
    linear = nn.Linear(6, 3)
    with torch.no_grad():
        found = from_torch(linear, x[:, 0, 0] - 9, 255)(x[:, 0, 0] - 9)
        assert torch.allclose(found, linear(x[:, 0, 0] - 9), atol=0.02)


def test_fresh_batch_norms_learn_from_the_example() -> None:
    """Otherwise ranges would not fit what training, which normalises by the batch, begins with."""
    torch.manual_seed(1)
    module, x = pooled(), 5 + 3 * torch.randn(32, 1, 12, 12)
    with torch.no_grad():
        found, wanted = from_torch(module, x, 255)(x), module.train()(x)
    assert float((found - wanted).abs().max()) < 0.05 * float(wanted.max() - wanted.min())


def test_the_module_stays_as_it_was() -> None:
    module = mlp().train()
    module[4].eval()
    held = {name: value.clone() for name, value in module.state_dict().items()}
    model = from_torch(module, torch.randn(4, 6, 8))
    assert [part.training for part in module] == [number != 4 for number in range(8)]
    assert all(torch.equal(held[name], value) for name, value in module.state_dict().items())
    assert not model.training
    assert [product.dropout for s in model.network.stages for _, _, product in s.products] == [
        0,
        0.4,
    ]
    model.train()(torch.randn(4, 6, 8)).sum().backward()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)


def test_inputs_may_have_their_channels_last() -> None:
    torch.manual_seed(1)
    picture, x = Residual(shortcut=True), torch.randn(4, 8, 8, 3)
    example = example_for(picture, x)
    assert example.shape == (4, 3, 8, 8)
    model = from_torch(picture, example, 3)
    with torch.no_grad():
        assert torch.equal(model(x), model(example))
    signal, y = OneAxis(), torch.randn(4, 40, 2)
    model = from_torch(signal, example_for(signal, y), 3)
    with torch.no_grad():
        assert torch.equal(model(y), model(y.transpose(1, 2)))


@pytest.mark.parametrize(
    ("module", "sample", "shape"),
    [
        (nn.Sequential(nn.Conv2d(1, 2, 3)), (4, 9, 7), (4, 1, 9, 7)),
        (nn.Sequential(nn.Identity(), nn.Conv1d(1, 2, 3)), (4, 9), (4, 1, 9)),
        (nn.Sequential(nn.Conv1d(7, 2, 3)), (4, 9, 7), (4, 7, 9)),
        (nn.Sequential(nn.Flatten(), nn.Linear(63, 2)), (4, 9, 7), (4, 9, 7)),
        (nn.Linear(9, 2), (4, 9), (4, 9)),
        (Functional(), (4, 10, 10), (4, 10, 10)),  # it adds the axis itself
    ],
)
def test_samples_in_the_layout_of_the_first_layer(
    module: nn.Module, sample: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    found = example_for(module, torch.ones(sample, dtype=torch.uint8))
    assert (found.shape, found.dtype) == (shape, torch.float32)


class Forward(nn.Module):
    """A few layers, and a forward that a test gives."""

    def __init__(self, forward: Callable[["Forward", Tensor], Tensor]) -> None:
        super().__init__()
        self.conv, self.other = nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 2, 1)
        self.strided, self.norm = nn.Conv2d(2, 2, 1, stride=2), nn.BatchNorm2d(2)
        self.fc = nn.LazyLinear(3)
        self.given = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.given(self, x).flatten(1))


def after_conv(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), *layers, nn.Flatten(), nn.LazyLinear(3))


def end(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(32, 3), *layers)


class Leaky(nn.Module):
    """A stand-in for snnTorch's neurons, which are known by name."""

    __module__ = "snntorch._neurons"

    def forward(self, x: Tensor) -> Tensor:
        return x


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (after_conv(nn.ReLU(), nn.MaxPool2d(2)), "layer '2' takes the largest value; use Avg"),
        (Forward(lambda m, x: F.max_pool2d(m.conv(x).relu(), 1)), "largest value; use AvgPool2d"),
        (after_conv(nn.GELU()), "layer '1' of type GELU is not supported; use ReLU"),
        (Forward(lambda m, x: F.silu(m.conv(x))), r"'silu' \(silu\) is not supported; use ReLU"),
        (after_conv(nn.LayerNorm(4)), "LayerNorm is not supported; use BatchNorm1d or"),
        (end(nn.Softmax(1)), "Softmax is not supported; leave it out: scores are compared"),
        (nn.Sequential(nn.Linear(4, 4), nn.LSTM(4, 4)), "LSTM is not supported; known: Linear"),
        (Forward(lambda m, x: m.conv(x) * 2), r"operation 'mul' \(mul\) is not supported; known"),
        (after_conv(Leaky()), "layer '1': Leaky neurons have rules of their own; use ReLU"),
        (nn.Sequential(nn.Conv2d(2, 2, 2, dilation=2), nn.ReLU()), "dilated; use dilation=1"),
        (nn.Sequential(nn.Conv2d(2, 2, 3, padding_mode="circular")), "pads with 'circular'; use z"),
        (nn.Sequential(nn.Conv2d(2, 2, 2, padding="same")), "'same' needs a kernel of odd size"),
        (after_conv(nn.AvgPool2d(2), nn.ReLU()), "put the pooling after the ReLU"),
        (after_conv(nn.ReLU(), nn.AvgPool2d(2, 1)), r"windows of \(2, 2\) at steps of \(1, 1\)"),
        (after_conv(nn.ReLU(), nn.AvgPool2d(2, padding=1)), "layer '2' is padded; use padding=0"),
        (after_conv(nn.ReLU(), nn.AvgPool2d(3, ceil_mode=True)), "leave out ceil_mode"),
        (after_conv(nn.ReLU(), nn.AdaptiveAvgPool2d(2)), "use AvgPool2d, or pool to 1"),
        (after_conv(nn.Conv2d(2, 2, 1)), "layer '1' follows '0' without ReLU between"),
        (after_conv(nn.ReLU(), nn.BatchNorm2d(2)), "layer '2' follows no layer of weights"),
        (after_conv(nn.BatchNorm2d(2), nn.BatchNorm2d(2)), "layer '2' follows no layer of weights"),
        (after_conv(nn.BatchNorm2d(2, track_running_stats=False)), "layer '1' keeps no statistics"),
        (nn.Sequential(nn.ReLU(), end()), "layer '0' is a ReLU of the inputs; leave it out"),
        (nn.Sequential(nn.Conv2d(2, 2, 3), nn.ReLU()), "the module has no classifier at its end"),
        (end(nn.BatchNorm1d(3)), "the module has no classifier at its end"),
        (nn.Sequential(nn.Linear(4, 4), nn.ReLU(), end()), "layer '0' is Linear on a map; flatten"),
        (nn.Sequential(nn.Linear(5, 4)), r"an input of shape \(2, 4, 4\) does not fit"),
        (Forward(lambda m, x: m.conv(m.conv(x).relu()).relu()), "layer 'conv' is used twice"),
        (Forward(lambda m, x: (m.conv(x) + m.other(x) + x).relu()), "a sum of 3 streams; add two"),
        (Forward(lambda m, x: m.norm(m.conv(x) + x).relu()), "layer 'norm' follows no layer"),
        (Forward(lambda m, x: (m.conv(x) + 1).relu()), "'add' adds a number; only two streams"),
        (Forward(lambda m, x: (m.conv(x) + x[:, :1]).relu()), r"operation 'getitem' \(getitem\)"),
        (Forward(lambda m, x: (m.conv(x) + x).relu()), "adds the inputs themselves, and some are"),
        (Forward(lambda m, x: m.conv(x).relu().mean(1)), "a mean over axes other than all"),
        (Forward(lambda m, x: m.conv(x).relu().view(-1, 4, 2, 4)), r"only flatten to \[N, -1\]"),
        (Forward(lambda m, x: x if x.sum() > 0 else -x), "Forward cannot be followed .*branching"),
        (
            Forward(lambda m, x: m.other((y := m.conv(x)).relu() + y).relu()),
            "layer 'other' follows 'conv' without ReLU",
        ),
        (
            Forward(lambda m, x: ((y := m.conv(x)).relu() + m.other(y.relu())).relu()),
            "the sums of layer 'conv' are read twice",
        ),
        (
            Forward(lambda m, x: (F.avg_pool2d(y := m.conv(x).relu(), 2) + m.strided(y)).relu()),
            "'add' adds a pooled stream; put a convolution of size 1 after the pooling",
        ),
        (Forward(lambda m, x: x.reshape(len(x), -1)), r"write x.shape\[0\] for len\(x\)"),
    ],
)  # fmt: skip
def test_modules_that_are_refused(module: nn.Module, message: str) -> None:
    x = torch.randn(3, 2, 4, 4)
    with torch.no_grad():
        if any(isinstance(part, nn.LazyLinear) for part in module.modules()):
            module(x)
    with pytest.raises(FalconError, match=message) as caught:
        from_torch(module, x)
    assert "\n" not in str(caught.value)


def test_examples_and_sources_that_are_refused() -> None:
    conv = nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    x = torch.randn(2, 4, 4, 4)
    grouped = nn.Sequential(nn.Conv2d(4, 4, 1, groups=2), *list(conv)[1:])
    for module, example, source, message in (
        (conv, x, "auto", "samples of 4 x 4 x 4 read the same with channels first and last"),
        (conv, x, "best", "source is 'best'; choose one of auto, layer, scale, counts"),
        (conv, x, "counts", "takes whole numbers, 0 or more"),
        (grouped, x, "layer", "source 'layer' needs a first layer"),
        (conv, x[0, 0, 0], "auto", r"the example is a batch"),
        (conv, x / 0, "auto", "values that are not finite"),
    ):
        with pytest.raises(FalconError, match=message):
            from_torch(module, example, source=source)
    with pytest.raises(FalconError, match="slots is 300"):
        from_torch(conv, x, 300)
