"""The converted network as a NIR file, and back without loss.

NIR has integrate-and-fire neurons, but no firing delay, no soft reset, and fires above the
threshold, not at it. What it lacks stands in the metadata of a node:

    delay, slots       decision t waits for input slot min(t + delay - 1, slots - 1)
    reset, comparison  "subtract" and ">="
    initial, static    per channel: the first potential, and what every slot adds; `static` is also
                       the bias of the layer before, so that other readers have it
    operation          for what no NIR node can say: `source` (a count, spread over the slots),
                       `code` (Q and K), `attention` (products of two signals), `readout`

Signals are [channel, token, feature]; a linear map per token is a convolution of size 1. Shapes are
those of a clip of full length.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from falcon_snn.config import FalconConfig
from falcon_snn.errors import FalconError
from falcon_snn.files import replacing
from falcon_snn.interchange.nir_files import nir_package, read_nir_file
from falcon_snn.network.integer import IntegerFalcon
from falcon_snn.pipeline.schedule import Delays, complete

FORMAT = "falcon-snn 1"


def write_nir(
    path: Path, network: IntegerFalcon, delays: Mapping[str, int], words: tuple[str, ...]
) -> None:
    """Write the network under a schedule; the file is read back and compared before it counts."""
    nir = nir_package()
    with replacing(path) as temporary:
        nir.write(temporary, nir_graph(network, delays, words))
        _check(temporary, network, delays)


def nir_graph(network: IntegerFalcon, delays: Mapping[str, int], words: tuple[str, ...]) -> Any:
    """The network under a schedule as a `nir.NIRGraph`."""
    return _Export(network.to("cpu"), delays).graph(words)


def read_nir(path: Path | str) -> tuple[IntegerFalcon, Delays, tuple[str, ...]]:
    """The network, the schedule and the words of a file that `write_nir` wrote."""
    graph = read_nir_file(path)
    if graph.metadata.get("format") != FORMAT:
        raise FalconError(f"{path}: not a Falcon network; only its stages can be read (--graph)")
    facts = json.loads(graph.metadata["falcon"])
    config = FalconConfig(**facts["config"])
    network = IntegerFalcon(config, _tensors(graph.nodes), facts["encoding"])
    found = {name: int(graph.nodes[name].metadata["delay"]) for name in config.boundaries}
    return (
        network,
        complete(found, config.boundaries, config.slots, str(path)),
        tuple(facts["words"]),
    )


def _check(path: Path, network: IntegerFalcon, delays: Mapping[str, int]) -> None:
    held, schedule, _ = read_nir(path)
    wrong = [name for name, value in network.tensors.items()
             if not torch.equal(held.tensors[name], value.cpu())]  # fmt: skip
    if wrong or held.tensors.keys() != network.tensors.keys() or schedule != dict(delays):
        what = wrong[0] if wrong else "its schedule"
        raise FalconError(f"NIR: {what} was read back differently; please report this as a bug")


class _Export:
    """Builds the nodes and edges, stage by stage."""

    def __init__(self, network: IntegerFalcon, delays: Mapping[str, int]) -> None:
        self.nir = nir_package()
        self.network, self.config, self.delays = network, network.config, delays
        config = network.config
        self.nodes: dict[str, Any] = {
            "input": self.nir.Input(np.array([1, config.tokens, config.features]))
        }
        self.edges: list[tuple[str, str]] = []
        width = config.features // 2
        self.layer("encoder", "input", width, kernel=5, stride=(1, 2))
        self.layer("stem.conv1", "encoder", width // 2, kernel=3, stride=(1, 2))
        self.layer("stem.conv2", "stem.conv1", width // 2, kernel=3)
        # All features of a token at once: patches of that width, side by side.
        self.layer("stem.fc1", "stem.conv2", 1, patch=width // 2)
        self.layer("stem.fc2", "stem.fc1", 1)
        before = "stem.fc2"
        for number in range(config.blocks):
            before = self.block(f"block{number}", before)
        self.readout(before)

    def graph(self, words: tuple[str, ...]) -> Any:
        facts = {
            "config": asdict(self.config),
            "encoding": self.network.encoding,
            "words": list(words),
        }
        metadata = {"format": FORMAT, "falcon": json.dumps(facts), "slots": self.config.slots}
        return self.nir.NIRGraph(self.nodes, self.edges, metadata=metadata)

    def add(self, name: str, node: Any, *after: str) -> None:
        self.nodes[name] = node
        self.edges += [(before, name) for before in after]

    def numbers(self, name: str) -> NDArray[Any]:
        return np.asarray(self.network.tensors[name].numpy())

    def block(self, name: str, before: str) -> str:
        for role in ("q", "k"):
            self.code(f"{name}.{role}", before)
        self.layer(f"{name}.v", before, 1)
        self.attention(name)
        self.layer(f"{name}.attn_out", f"{name}.context", 1)
        self.residual(f"{name}.residual1", before, f"{name}.attn_out")
        self.layer(f"{name}.ffn1", f"{name}.residual1", 1)
        self.layer(f"{name}.ffn2", f"{name}.ffn1", 1)
        self.residual(f"{name}.residual2", f"{name}.residual1", f"{name}.ffn2")
        return f"{name}.residual2"

    def layer(
        self, name: str, before: str, width: int, kernel: int = 1, stride: tuple[int, int] = (1, 1),
        patch: int | None = None,
    ) -> None:  # fmt: skip
        slots = 1 if name == "encoder" else self.config.slots  # the encoder's input comes once
        static = self.numbers(f"{name}.static") * (self.config.slots // slots)
        weight = self.numbers(f"{name}.weight")
        if kernel > 1:
            weight = weight.transpose(0, 3, 1, 2)
        elif patch is not None:
            weight = weight.reshape(len(weight), 1, patch, -1).transpose(0, 3, 1, 2)
            stride = (1, patch)
        self.array(name, before, weight, static, stride)
        self.neurons(name, width, f"{name}.array")

    def array(
        self, name: str, before: str, weight: NDArray[Any], added: NDArray[Any],
        stride: tuple[int, int] = (1, 1),
    ) -> None:  # fmt: skip
        """The weights of a stage; `added` comes on top per slot, after the neurons' factor."""
        factor = self.numbers(f"{name}.factor").astype(np.float64)
        bias = np.divide(added, factor, out=np.zeros(len(factor)), where=factor != 0)
        kernel = weight.reshape(*weight.shape[:2], *(weight.shape[2:] or (1, 1)))
        padding = (0, 0) if kernel.shape[2] == 1 else (kernel.shape[2] // 2,) * 2
        shape = self.nodes[before].output_type["output"]
        node = self.nir.Conv2d(
            tuple(int(size) for size in shape[1:]), np.ascontiguousarray(kernel), stride, padding,
            1, 1, bias,
        )  # fmt: skip
        self.add(f"{name}.array", node, before)

    def neurons(self, name: str, width: int, *after: str, **metadata: Any) -> None:
        """The firing stage; `r` scales the currents onto the grid of the threshold."""
        slots = self.config.slots
        operation = "source" if name == "encoder" else "fire"
        node = self.nir.IF(
            r=self.spread(self.numbers(f"{name}.factor"), width),
            v_threshold=self.spread(self.numbers(f"{name}.threshold"), width),
            metadata={
                "operation": operation, "delay": self.delays.get(name, slots), "slots": slots,
                "searchable": int(name in self.config.boundaries), "reset": "subtract",
                "comparison": ">=", "initial": self.numbers(f"{name}.initial"),
                "static": self.numbers(f"{name}.static"), **metadata,
            },
        )  # fmt: skip
        self.add(name, node, *after)

    def spread(self, values: NDArray[Any], width: int = 1) -> NDArray[Any]:
        """Numbers per channel as [channel, token, feature], which is how NIR states a shape."""
        shape = (len(values), self.config.tokens, width)
        return np.broadcast_to(values[:, None, None], shape).copy()

    def code(self, name: str, before: str) -> None:
        """Q or K: a number from the sum over the first slots."""
        prefix, bias = self.config.prefix, self.numbers(f"{name}.bias")
        self.array(name, before, self.numbers(f"{name}.weight"), bias / prefix)
        metadata = {
            "operation": "code", "prefix": prefix, "slots": self.config.slots, "bias": bias,
            "shift": self.numbers(f"{name}.shift"),
        }  # fmt: skip
        factor = self.spread(self.numbers(f"{name}.factor"))
        self.add(name, self.nir.I(factor, metadata=metadata), f"{name}.array")

    def attention(self, block: str) -> None:
        curve = {
            part: self.numbers(f"{block}.curve.{part}") for part in ("table", "slope", "offset")
        }
        self.neurons(
            f"{block}.context", 1, f"{block}.q", f"{block}.k", f"{block}.v",
            operation="attention", heads=self.config.heads, curve=curve,
        )  # fmt: skip

    def residual(self, name: str, skip: str, branch: str) -> None:
        """Two streams, each with its factor; NIR adds what arrives at a node."""
        self.add(
            f"{name}.branch", self.nir.Scale(self.spread(self.numbers(f"{name}.factor_b"))), branch
        )
        self.add(f"{name}.skip", self.nir.Scale(self.spread(self.numbers(f"{name}.factor"))), skip)
        self.neurons(name, 1, f"{name}.skip", f"{name}.branch")
        self.nodes[name].r = np.ones_like(self.nodes[name].r)

    def readout(self, before: str) -> None:
        """Class scores: counts added over tokens and slots, times weights."""
        config = self.config
        whole = np.array([config.tokens, 1])
        weight, bias = self.numbers("classifier.weight"), self.numbers("classifier.bias")
        pool = self.nir.SumPool2d(whole, whole, np.array([0, 0]))
        flat = self.nir.Flatten(np.array([config.hidden, 1, 1]), 0, -1)
        self.add("classifier.tokens", pool, before)
        self.add("classifier.flat", flat, "classifier.tokens")
        added = bias * (config.tokens / config.slots)
        metadata = {"bias": bias, "grid": self.numbers("classifier.grid").item()}
        self.add("classifier.array", self.nir.Affine(weight, added), "classifier.flat")
        scores = self.nir.I(np.ones(config.classes), metadata={"operation": "readout", **metadata})
        self.add("classifier", scores, "classifier.array")
        self.add("output", self.nir.Output(np.array([config.classes])), "classifier")


def _tensors(nodes: dict[str, Any]) -> dict[str, Tensor]:
    """The integers by the names that `IntegerFalcon` has for them."""
    held: dict[str, Any] = {}
    for name, node in nodes.items():
        facts, kind = node.metadata, node.metadata.get("operation")
        if kind is None:
            continue
        if f"{name}.array" in nodes:
            held[f"{name}.weight"] = _weight(nodes[f"{name}.array"].weight)
        if kind == "readout":
            held |= {f"{name}.{part}": facts[part] for part in ("bias", "grid")}
            continue
        factor = nodes[f"{name}.skip"].scale if f"{name}.skip" in nodes else node.r
        held[f"{name}.factor"] = factor[:, 0, 0]
        if kind == "code":
            held |= {f"{name}.{part}": facts[part] for part in ("bias", "shift")}
            continue
        held[f"{name}.threshold"] = node.v_threshold[:, 0, 0]
        held |= {f"{name}.{part}": facts[part] for part in ("initial", "static")}
        if f"{name}.branch" in nodes:
            held[f"{name}.factor_b"] = nodes[f"{name}.branch"].scale[:, 0, 0]
        if kind == "attention":
            block = name.removesuffix(".context")
            held |= {f"{block}.curve.{part}": value for part, value in facts["curve"].items()}
    return {name: torch.from_numpy(np.array(value, order="C")) for name, value in held.items()}


def _weight(weight: NDArray[Any]) -> NDArray[Any]:
    """Channels last, and flat where the kernel is one token high."""
    if weight.ndim == 2:
        return weight
    last = weight.transpose(0, 2, 3, 1)
    return last if last.shape[1] > 1 else last.reshape(len(last), -1)
