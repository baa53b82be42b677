"""Networks that go to other tools and come from them."""

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.random_networks import networks, schedules, trained_like
from tests.training_data import NETWORK, WORDS
from torch import Tensor, nn
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.data.examples import load_examples, load_waves
from falcon_snn.data.features import exact_log_mel
from falcon_snn.errors import FalconError
from falcon_snn.files import demand_file_target
from falcon_snn.interchange.nir_graph import graph_from_nir
from falcon_snn.interchange.nir_network import nir_graph, read_nir, write_nir
from falcon_snn.interchange.onnx_network import check_onnx, run_onnx, sample_clips, write_onnx
from falcon_snn.interchange.torch_network import from_torch
from falcon_snn.network.convert import convert
from falcon_snn.network.description import Network, network_from_json
from falcon_snn.network.falcon import falcon, falcon_config
from falcon_snn.network.integer import Snn
from falcon_snn.network.kestrel import KestrelConfig, kestrel
from falcon_snn.network.qnn import Qnn
from falcon_snn.network.witness import witness
from falcon_snn.training.checkpoint import Metadata, prefixed, save_checkpoint
from falcon_snn.workflow.exporting import MARKS

nir = pytest.importorskip("nir", reason="needs falcon-snn[interchange]")

MIXED = {name: 1 + number % 3 for number, name in enumerate(NETWORK.boundaries)}


def trained(network: Network = NETWORK) -> Qnn:
    """A network whose numbers are all different from those that it starts with."""
    torch.manual_seed(4)
    model = Qnn(network)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if name.endswith(("threshold", "norm.weight")):
                value.uniform_(0.7, 1.4)
            elif name.endswith(("offset", "bias")):
                value.uniform_(-0.3, 0.3)
        for _ in range(3):
            model.train()(torch.randn(16, *network.source.input))
    return model.eval()


@pytest.fixture(scope="module")
def snn() -> Snn:
    return convert(trained())


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("trained") / "best.safetensors"
    metadata = Metadata(NETWORK, WORDS, {}, 1, 0, {}, delays=MIXED)
    save_checkpoint(file, metadata, prefixed("model.", trained().state_dict()))
    return file


def export(checkpoint: Path, *words: object) -> Any:
    return CliRunner().invoke(app, ["export", "--checkpoint", str(checkpoint), *map(str, words)])


def test_nir_holds_every_integer_and_the_schedule(snn: Snn, tmp_path: Path) -> None:
    write_nir(tmp_path / "falcon.nir", snn, MIXED, WORDS)
    held, delays, words = read_nir(tmp_path / "falcon.nir")
    assert (delays, words, held.network) == (MIXED, WORDS, snn.network)
    assert held.tensors.keys() == snn.tensors.keys()
    for name, value in snn.tensors.items():
        assert held.tensors[name].dtype == value.dtype, name
        assert torch.equal(held.tensors[name], value), name
    x, lengths = sample_clips(snn.network)
    assert torch.equal(
        held.predict(x, lengths, delays, "torch"), snn.predict(x, lengths, MIXED, "torch")
    )


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_nir_holds_any_network(data: st.DataObject) -> None:
    network = data.draw(networks())
    snn, delays = convert(trained_like(network, 1)), data.draw(schedules(network))
    words = tuple("abcd"[: network.classes])
    with TemporaryDirectory() as folder:
        write_nir(Path(folder) / "any.nir", snn, delays, words)  # reads it back and compares
        assert graph_from_nir(Path(folder) / "any.nir") == network.graph
        assert read_nir(Path(folder) / "any.nir")[1:] == (delays, words)


def test_other_readers_find_the_neurons_in_nir(snn: Snn, tmp_path: Path) -> None:
    """What the nir package itself shows: shapes that fit, weights, thresholds, the rule."""
    write_nir(tmp_path / "falcon.nir", snn, MIXED, WORDS)
    graph = nir.read(tmp_path / "falcon.nir")  # checks that all shapes fit
    tensors = snn.tensors
    conv = graph.nodes["stem.conv1.array"]
    assert np.array_equal(conv.weight, tensors["stem.conv1.weight"].permute(0, 3, 1, 2).numpy())
    fires = graph.nodes["stem.conv1"]
    assert np.array_equal(fires.v_threshold[:, 3, 1], tensors["stem.conv1.threshold"].numpy())
    rule = fires.metadata
    assert (rule["delay"], rule["reset"], rule["comparison"]) == (1, "subtract", ">=")
    assert graph.nodes["block0.context"].metadata["delay"] == NETWORK.slots
    assert type(graph.nodes["stem.fc2.array"]).__name__ == "Conv1d"
    # A slot's current and bias, times r, is what the integer network adds to its membrane.
    static = tensors["stem.conv1.static"].double().numpy()
    assert np.allclose(conv.bias * fires.r[:, 0, 0], static, atol=1e-6)


def test_the_nodes_of_nir_compute_the_counts(tmp_path: Path) -> None:
    """A simulator that knows NIR's nodes, the soft reset and nothing else, under full lookahead."""
    torch.manual_seed(3)
    module = nn.Sequential(
        nn.Conv2d(2, 5, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(5, 6, 3, padding=1),
        nn.ReLU(), Shortcut(6), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(24, 7), nn.ReLU(),
        nn.Linear(7, 3),
    )  # fmt: skip
    x = torch.randn(3, 2, 8, 8)
    snn = convert(from_torch(module, x, slots=4))
    network = snn.network
    write_nir(tmp_path / "cnn.nir", snn, dict.fromkeys(network.boundaries, 4), WORDS)
    graph = nir.read(tmp_path / "cnn.nir")
    counts, scores = witness(snn, x, None)
    values = {"input": network.source.integers(x).permute(0, 3, 1, 2).double()}
    once = {"input", "0.array"}  # inputs come once, all else in four slots
    while "output" not in values:
        for name, node in graph.nodes.items():
            before = [source for source, target in graph.edges if target == name]
            if name not in values and all(source in values for source in before):
                total = sum(values[source] for source in before)
                assert isinstance(total, Tensor)
                values[name] = simulate(node, total, 1 if name in once else 4)
    for name, wanted in counts.items():
        found = values[name].reshape(3, wanted.shape[3], *wanted.shape[1:3]).permute(0, 2, 3, 1)
        assert torch.equal(found, wanted.double()), name
    assert torch.allclose(values["output"], scores)


class Shortcut(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=2)

    def forward(self, x: Tensor) -> Tensor:
        return (self.conv(x) + x).relu()


def simulate(node: Any, x: Tensor, slots: int) -> Tensor:
    """A node of NIR on what all slots together bring."""
    kind, fields = type(node).__name__, vars(node).items()
    given = {key: torch.tensor(v).double() for key, v in fields if isinstance(v, np.ndarray)}
    if kind == "Conv2d":
        stride, padding = tuple(map(int, node.stride)), tuple(map(int, node.padding))
        return nn.functional.conv2d(x, given["weight"], slots * given["bias"], stride, padding)
    if kind == "Affine":
        return nn.functional.linear(x, given["weight"], slots * given["bias"])
    if kind == "Flatten":
        return x.flatten(int(node.start_dim) + 1)
    if kind == "Scale":
        return x * given["scale"]
    if kind == "IF":
        first = torch.tensor(node.metadata["initial"]).double()
        level = (x * given["r"]).round() + first.view(-1, *[1] * (x.dim() - 2))
        return (level / given["v_threshold"]).floor().clamp(0, 4)
    return x


@pytest.mark.parametrize("qk_prefix", [None, 2])
def test_an_exported_falcon_is_timed_as_the_original(qk_prefix: int | None, tmp_path: Path) -> None:
    network = falcon(falcon_config("tiny", "gsc", classes=3, qk_prefix=qk_prefix))
    delays = {name: 1 + number % 3 for number, name in enumerate(network.boundaries)}
    write_nir(tmp_path / "falcon.nir", convert(Qnn(network).eval()), delays, WORDS)
    assert graph_from_nir(tmp_path / "falcon.nir") == network.graph
    assert graph_from_nir(tmp_path / "falcon.nir", 4).slots == 4


def test_onnx_gives_the_scores_of_full_lookahead(
    snn: Snn, checkpoint: Path, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime", reason="needs falcon-snn[interchange]")
    file = tmp_path / "falcon.onnx"
    told = export(checkpoint, "--format", "onnx", "--out", file)
    assert "onnxruntime gives the scores of full lookahead" in " ".join(told.stderr.split())
    x, lengths = sample_clips(snn.network, clips=3)
    assert lengths is not None
    shorter = x[:, :7], lengths.clamp(max=7)  # other numbers of clips and tokens than exported
    for clips in ((x, lengths), shorter):
        check_onnx(file, snn, *clips)
    import onnx

    facts = {item.key: json.loads(item.value) for item in onnx.load(file).metadata_props}
    assert facts["words"] == list(WORDS)
    assert network_from_json(facts["network"]) == snn.network
    demand_file_target(file, mark=MARKS["onnx"])  # ours, so it may be written again
    broken = Snn(snn.network, dict(snn.tensors))
    broken.tensors["classifier.bias"] = snn.tensors["classifier.bias"] + 1000
    with pytest.raises(FalconError, match="3 of 3 clips get different scores"):
        check_onnx(file, broken, x, lengths)


def test_an_exporter_that_fails_is_one_line(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.onnx.export", Mock(side_effect=RuntimeError("many\nlines")))
    words = ["export", "--checkpoint", str(checkpoint), "--format", "onnx", "--out"]
    failed = CliRunner().invoke(app, [*words, str(tmp_path / "x.onnx")])
    assert str(failed.exception) == "ONNX: torch's exporter failed (many lines); try again"


def test_onnx_on_speech_agrees_with_the_qnn_of_training(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs falcon-snn[interchange]")
    clips = load_examples("embedded", "validation")
    x, lengths = clips.x[:24], clips.lengths[:24]
    model = trained(falcon(falcon_config("tiny", "gsc", classes=len(clips.words))))
    snn = convert(model)
    write_onnx(tmp_path / "falcon.onnx", snn, clips.words)
    scores = run_onnx(tmp_path / "falcon.onnx", x, lengths)
    full = dict.fromkeys(snn.network.boundaries, snn.network.slots)
    assert torch.equal(scores.argmax(dim=1), snn.predict(x, lengths, full))
    with torch.no_grad():
        trained_scores = model(x, lengths)
    # Rounding to integers may move a count that lies on an edge, and the scores with it.
    assert float((scores - trained_scores).abs().max()) < 0.05


def test_onnx_with_features_hears_samples(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs falcon-snn[interchange]")
    waves = load_waves("embedded", "testing")
    samples = waves.waves[::40, :16_000].float() / 32768
    network = kestrel(KestrelConfig("small", (6,), classes=3, encoder_channels=3, stem_channels=4))
    snn = convert(trained(network))
    write_onnx(tmp_path / "k.onnx", snn, WORDS, with_features=True)
    scores = run_onnx(tmp_path / "k.onnx", samples)
    full = dict.fromkeys(network.boundaries, network.slots)
    wanted = snn.logits(snn.streams(exact_log_mel(samples), None, full), None).float()
    assert torch.equal(scores, wanted)
    silent = run_onnx(tmp_path / "k.onnx", torch.zeros(1, 16_000))
    zeros = snn.streams(torch.zeros(1, 98, 64), None, full)
    assert torch.equal(silent, snn.logits(zeros, None).float())


def test_features_inside_are_for_networks_that_hear(checkpoint: Path, tmp_path: Path) -> None:
    for form, said in (("onnx", "takes no sound"), ("nir", "is for onnx")):
        words = ["export", "--checkpoint", str(checkpoint), "--format", form, "--with-features"]
        result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "x")])
        assert said in str(result.exception)


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 3)), (3, 4)),
        (
            nn.Sequential(nn.Conv1d(2, 4, 3), nn.ReLU(), nn.Conv1d(4, 5, 3), nn.ReLU(),
                          nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(5, 3)),
            (2, 20),
        ),
    ],
)  # fmt: skip
def test_onnx_of_other_networks(
    module: nn.Sequential, shape: tuple[int, ...], tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime", reason="needs falcon-snn[interchange]")
    torch.manual_seed(1)
    snn = convert(from_torch(module, torch.randn(16, *shape), slots=3))
    write_onnx(tmp_path / "other.onnx", snn, WORDS)
    x, lengths = sample_clips(snn.network, clips=3)
    check_onnx(tmp_path / "other.onnx", snn, x, lengths)
    assert (lengths is None) == (len(module) == 4)
    if lengths is not None:  # a mean over lines: clips may be shorter
        check_onnx(tmp_path / "other.onnx", snn, x[:, :11], lengths.clamp(max=11))


def test_export_command(checkpoint: Path, tmp_path: Path) -> None:
    file = tmp_path / "falcon.nir"
    told = export(checkpoint, "--format", "nir", "--out", file, "--json")
    assert json.loads(told.stdout)["delays"] == MIXED
    assert read_nir(file)[1] == MIXED
    export(checkpoint, "--format", "nir", "--out", file, "--schedule", "uniform:2")
    assert set(read_nir(file)[1].values()) == {2}
    timed = CliRunner().invoke(app, ["latency", "--graph", str(file), "--json"])
    assert json.loads(timed.stdout)["slots"] == NETWORK.slots
    for words, message in (
        (("--format", "pt"), "--format is 'pt'; choose nir, onnx, verilog or c"),
        (("--format", "onnx", "--schedule", "full"), "the QNN has no slots"),
    ):
        error = export(checkpoint, *words, "--out", tmp_path / "x").exception
        assert isinstance(error, FalconError)
        assert message in str(error)


def test_broken_files_of_ours_are_refused(snn: Snn, tmp_path: Path) -> None:
    file = tmp_path / "broken.nir"
    cases: tuple[tuple[Callable[[Any], Any], str], ...] = (
        (lambda graph: graph.metadata.update(format="falcon-snn 1"), "written as falcon-snn 1"),
        (lambda graph: graph.metadata.update(network="{"), "not valid JSON"),
        (lambda graph: graph.metadata.update(network="{}"), "a network is a table"),
        (lambda graph: graph.metadata.update(words='["a"]'), "names 1 classes"),
        (lambda graph: graph.nodes.pop("block0.q.array"), "not a NIR file that can be read"),
        (lambda graph: graph.nodes["stem.fc1"].metadata.update(delay=9), "it must lie in 1..3"),
        (lambda graph: graph.nodes["stem.fc1"].v_threshold.fill(0), "must be above 0"),
    )
    for change, message in cases:
        graph = nir_graph(snn, MIXED, WORDS)
        change(graph)
        graph.edges = [edge for edge in graph.edges if set(edge) <= set(graph.nodes)]
        nir.write(file, graph)
        with pytest.raises(FalconError, match=f"broken.nir: .*{message}"):
            read_nir(file)
    nir.write(file, nir.NIRGraph.from_list(nir.Linear(np.ones((4, 4)))))
    with pytest.raises(FalconError, match="not a Falcon network"):
        read_nir(file)
