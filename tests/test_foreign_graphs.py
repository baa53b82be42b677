"""Networks of others, in NIR files and torch modules, as stages that can be timed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import load_profile
from falcon_snn.interchange.nir_graph import graph_from_nir
from falcon_snn.interchange.stage_builder import Window
from falcon_snn.interchange.torch_graph import graph_from_torch
from falcon_snn.pipeline.graph import Graph
from falcon_snn.pipeline.timing import qnn_cycles, time_snn

nir = pytest.importorskip("nir", reason="needs falcon-snn[interchange]")


def nir_file(path: Path, *nodes: Any) -> Path:
    nir.write(path, nir.NIRGraph.from_list(*nodes))
    return path


def lif(*shape: int) -> Any:
    ones = np.ones(shape)
    return nir.LIF(tau=ones, r=ones, v_leak=0 * ones, v_threshold=ones)


def conv(size: int, weight: tuple[int, ...], padding: int = 0, groups: int = 1) -> Any:
    return nir.Conv2d((size, size), np.ones(weight), 1, padding, 1, groups, np.zeros(weight[0]))


def sizes(graph: Graph) -> dict[str, tuple[int, int, int]]:
    """Inputs, columns and copies of the analog stages."""
    return {s.name: (s.inner, s.columns, s.copies) for s in graph.stages if s.kind == "analog"}


def test_a_nir_mlp_becomes_stages(tmp_path: Path) -> None:
    nodes = nir.Affine(np.ones((30, 64)), np.ones(30)), lif(30), nir.Linear(np.ones((5, 30)))
    graph = graph_from_nir(nir_file(tmp_path / "mlp.nir", *nodes, nir.LI(*(np.ones(5),) * 3)), 4)
    assert (graph.name, graph.slots, graph.boundaries) == ("mlp", 4, ("lif",))
    assert sizes(graph) == {"affine": (64, 30, 1), "linear": (30, 5, 1)}
    assert graph.stage("li").kind == "quantise"
    told = CliRunner().invoke(
        app, ["latency", "--graph", str(tmp_path / "mlp.nir"), "--delay", "lif=2", "--json"]
    )
    report = json.loads(told.stdout)
    assert report["boundaries"][0]["delay"] == 2
    assert report["core_latency_us"] > 0


def test_a_nir_cnn_becomes_stages(tmp_path: Path) -> None:
    """Pooling only adds, so it joins the weights: before a layer or behind it."""
    pool = [nir.AvgPool2d(*(np.array([2, 2]),) * 2, np.array([0, 0])) for _ in range(2)]
    graph = graph_from_nir(
        nir_file(
            tmp_path / "cnn.nir",
            conv(12, (8, 1, 3, 3)),
            lif(8, 10, 10),
            pool[0],
            conv(5, (6, 8, 2, 2)),
            pool[1],
            lif(6, 2, 2),
            nir.Flatten(np.array([6, 2, 2]), 0),
            nir.Linear(np.ones((5, 24))),
        )
    )
    assert sizes(graph) == {
        "conv2d": (9, 8, 100),
        # 2x2 of 2x2 sums of which 2x2 are added again: 6x6 of the spikes
        "conv2d_1": (8 * 36, 6, 4),
        "linear": (24, 5, 1),
    }
    assert graph.outputs == ("linear",)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=3))
def test_windows_reach_as_far_as_their_sums(layers: list[tuple[int, int]]) -> None:
    """Against the positions that output 0 and 1 begin with and end with, one by one."""
    spans = [(0, 0), (1, 1)]
    for kernel, stride in reversed(layers):
        spans = [(first * stride, last * stride + kernel - 1) for first, last in spans]
    window = Window()
    for kernel, stride in layers:
        window = window.then(Window((kernel,), (stride,)))
    assert window.kernel == (spans[0][1] + 1,)
    assert window.stride == (spans[1][0],)


def test_a_nir_residual_becomes_a_residual(tmp_path: Path) -> None:
    nodes = {
        "input": nir.Input(np.array([8])), "fc1": nir.Linear(np.ones((8, 8))), "lif1": lif(8),
        "fc2": nir.Linear(np.ones((8, 8))), "lif2": lif(8), "output": nir.Output(np.array([8])),
    }  # fmt: skip
    edges = [("input", "fc1"), ("fc1", "lif1"), ("lif1", "fc2"), ("fc2", "lif2"), ("lif1", "lif2"),
             ("lif2", "output")]  # fmt: skip
    nir.write(tmp_path / "residual.nir", nir.NIRGraph(nodes, edges))
    graph = graph_from_nir(tmp_path / "residual.nir")
    stage = graph.stage("lif2")
    assert (stage.kind, set(stage.after)) == ("residual", {"fc2", "lif1"})
    assert time_snn(graph, {"lif1": 1, "lif2": 1}, load_profile()).core_cycles > 0


def test_nir_files_that_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "bad.nir"
    delayed = nir.Linear(np.ones((4, 4))), nir.Delay(np.ones(4)), lif(4)
    with pytest.raises(FalconError, match="layer 'delay' of type Delay is not supported; known"):
        graph_from_nir(nir_file(file, *delayed))
    with pytest.raises(FalconError, match="layer 'linear_1' takes sums that no neurons have fired"):
        graph_from_nir(nir_file(file, nir.Linear(np.ones((4, 4))), nir.Linear(np.ones((4, 4)))))
    nodes = {
        "input": nir.Input(np.array([4])), "fc": nir.Linear(np.ones((4, 4))), "lif": lif(4),
        "output": nir.Output(np.array([4])),
    }  # fmt: skip
    edges = [("input", "fc"), ("fc", "lif"), ("lif", "fc"), ("lif", "output")]
    nir.write(file, nir.NIRGraph(nodes, edges))
    with pytest.raises(FalconError, match=r"recurrent \(through fc, lif, output\)"):
        graph_from_nir(file)
    whole = nir_file(file, nir.Linear(np.ones((4, 4))), lif(4)).read_bytes()
    for content in (b"", b"not HDF5", whole[: len(whole) // 2]):
        file.write_bytes(content)
        with pytest.raises(FalconError, match=r"bad.nir: not a readable NIR file"):
            graph_from_nir(file)
    with pytest.raises(FalconError, match="no such file"):
        graph_from_nir(tmp_path / "none.nir")


class Residual(nn.Module):
    """A convolutional network with a shortcut, as people write them; one ReLU serves twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, stride=2)
        self.norm = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1, groups=4)
        self.relu = nn.ReLU()
        self.fc = nn.Linear(8 * 16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.norm(self.conv1(x)))
        x = self.relu(self.conv2(x) + x)
        return self.fc(x.flatten(1))


def test_a_torch_cnn_becomes_stages() -> None:
    graph = graph_from_torch(Residual(), (3, 8, 8), slots=3)
    assert sizes(graph) == {"conv1": (27, 8, 16), "conv2": (18, 2, 64), "fc": (128, 10, 1)}
    assert graph.boundaries == ("relu", "relu_1")
    assert set(graph.stage("relu_1").after) == {"relu", "conv2"}
    assert qnn_cycles(graph, load_profile()) > 0


def test_a_torch_mlp_equals_the_graph_by_hand() -> None:
    """A linear layer on every token is as many copies; names are those of the module."""
    mlp = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(), nn.Linear(32, 8), nn.ReLU())
    graph = graph_from_torch(mlp, (98, 64), name="MLP")
    assert sizes(graph) == {"0": (64, 32, 98), "3": (32, 8, 98)}
    assert (graph.name, graph.boundaries) == ("MLP", ("1", "4"))


class Leaky(nn.Module):
    """A stand-in for snnTorch's neurons, which are known by name: spikes and potential."""

    __module__ = "snntorch._neurons.leaky"

    def forward(self, x: Tensor, potential: Tensor) -> tuple[Tensor, Tensor]:
        return (x > 0).float(), x


def test_neurons_are_known_by_name() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.lif1, self.fc2, self.lif2 = (
                nn.Linear(784, 100), Leaky(), nn.Linear(100, 10), Leaky()
            )  # fmt: skip

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            potential = torch.zeros(1)
            spikes, _ = self.lif1(self.fc1(x.view(-1, 784)), potential)
            return self.lif2(self.fc2(spikes), potential)

    graph = graph_from_torch(Net(), (1, 28, 28))
    assert sizes(graph) == {"fc1": (784, 100, 1), "fc2": (100, 10, 1)}
    assert graph.boundaries == ("lif1", "lif2")


def test_snntorch_modules_become_stages() -> None:
    snntorch = pytest.importorskip("snntorch", reason="snnTorch is not installed")

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.lif1 = nn.Linear(784, 100), snntorch.Leaky(beta=0.9)
            self.fc2, self.lif2 = nn.Linear(100, 10), snntorch.Leaky(beta=0.9)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            mem1, mem2 = self.lif1.init_leaky(), self.lif2.init_leaky()
            spikes, mem1 = self.lif1(self.fc1(x.view(-1, 784)), mem1)
            return self.lif2(self.fc2(spikes), mem2)

    graph = graph_from_torch(Net(), (1, 28, 28))
    assert sizes(graph) == {"fc1": (784, 100, 1), "fc2": (100, 10, 1)}
    assert graph.boundaries == ("lif1", "lif2")

    class Loop(Net):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            super().forward(x)
            return super().forward(x)

    with pytest.raises(FalconError, match="layer 'fc1' is used twice; give a module of one time"):
        graph_from_torch(Loop(), (1, 28, 28))


class Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=1)


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Sequential(nn.Linear(8, 8), nn.GELU()), "of type GELU is not supported; use ReLU"),
        (nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), "layer '1' takes sums"),
        (nn.Sequential(nn.Conv2d(8, 8, 1), nn.MaxPool2d(1)), "the largest of sums"),
        (nn.Sequential(nn.Linear(8, 8), nn.LSTM(8, 8)), "layer '1' of type LSTM is not supported"),
        (nn.Sequential(nn.Linear(9, 8)), r"an input of shape \(8, 8, 8\) does not fit"),
        (Mean(), "operation 'mean'"),
        (Branching(), "Branching cannot be followed"),
    ],
)  # fmt: skip
def test_torch_modules_that_are_refused(module: nn.Module, message: str) -> None:
    with pytest.raises(FalconError, match=message):
        graph_from_torch(module, (8, 8, 8))
