"""The converted network as a NIR file, and back without loss.

NIR has integrate-and-fire neurons, but no firing delay, no soft reset, and fires above the
threshold, not at it. What it lacks is in the metadata of a node:

    delay, slots       decision t waits for input slot min(t + delay - 1, slots - 1)
    reset, comparison  "subtract" and ">="
    initial, static    per channel: the first potential, and what every slot adds; `static` is also
                       the bias of a layer before, so that other readers have it
    operation          the stage's, for what no NIR node can say: `source` (8-bit inputs to a count,
                       spread over the slots), `code` (Q and K), `attention` (products of two
                       signals), `readout`

Signals are [channel], [channel, line] or [channel, line, pixel], with as many axes as the map has:
layers are Affine, Conv1d or Conv2d. Pooling joins the weights after it, as in the arrays. Shapes
are those of a clip of full length. The description of the network is JSON in the metadata of
the graph.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from falcon_snn.data.hdf5 import hdf5_target
from falcon_snn.errors import FalconError
from falcon_snn.files import parse_json
from falcon_snn.forms import shaped
from falcon_snn.interchange.nir_files import (
    FORMAT,
    described,
    optional_package,
    read_nir_file,
    understood,
)
from falcon_snn.interchange.nir_tensors import conv_weight, ranks, readout_weight, tensors
from falcon_snn.network.integer import Snn
from falcon_snn.network.operations import Readout
from falcon_snn.network.product import Product
from falcon_snn.network.stage import Stage
from falcon_snn.pipeline.graph import INPUT
from falcon_snn.pipeline.schedule import Delays, complete
from falcon_snn.training.checkpoint import check_integers

Numbers = NDArray[Any]


def write_nir(path: Path, snn: Snn, delays: Mapping[str, int], words: tuple[str, ...]) -> None:
    """Write the network under a schedule; the file is read back and compared before it counts."""
    nir = optional_package("nir")
    snn = snn.to("cpu")
    graph = nir_graph(snn, delays, words)
    with hdf5_target(path) as target:
        nir.write(target, graph)
        _check(target.path, snn, delays)


def nir_graph(snn: Snn, delays: Mapping[str, int], words: tuple[str, ...]) -> Any:
    """The network under a schedule as a `nir.NIRGraph`."""
    network, export = snn.network, Export(snn, delays)
    for stage in network.stages:
        stage.nir(export)
    metadata = {
        "format": FORMAT, "slots": network.slots,
        "network": json.dumps(network.as_json()), "words": json.dumps(words),
    }  # fmt: skip
    # The nir package assumes square kernels when it checks shapes.
    return export.nir.NIRGraph(export.nodes, export.edges, metadata=metadata, type_check=False)


def read_nir(path: Path | str) -> tuple[Snn, Delays, tuple[str, ...]]:
    """The network, the schedule and the words of a file that `write_nir` wrote."""
    graph = read_nir_file(path)
    network = described(graph, path)
    if network is None:
        raise FalconError(f"{path}: not a Falcon network; only its stages can be read (--graph)")
    with understood(path):
        integers = tensors(network, graph.nodes)
        words: tuple[str, ...] = shaped(
            parse_json(graph.metadata["words"], path), tuple[str, ...], "its list of words"
        )
        found = {name: int(graph.nodes[name].metadata["delay"]) for name in network.boundaries}
        check_integers(network, integers, path)
        if len(words) != network.classes:
            raise FalconError(f"names {len(words)} classes, its network has {network.classes}")
        delays = complete(found, network.boundaries, network.slots, str(path))
    return Snn(network, integers), delays, words


def _check(path: Path, snn: Snn, delays: Mapping[str, int]) -> None:
    back, schedule, _ = read_nir(path)
    wrong = [name for name, value in snn.tensors.items()
             if not torch.equal(back.tensors[name], value)]  # fmt: skip
    if wrong or back.network != snn.network or schedule != dict(delays):
        what = wrong[0] if wrong else "its schedule or description"
        raise FalconError(f"NIR: {what} was read back differently; please report this as a bug")


class Export:
    """The nodes and edges so far; a stage adds its own, each method gives the node's name."""

    def __init__(self, snn: Snn, delays: Mapping[str, int]) -> None:
        self.nir = optional_package("nir")
        self.snn, self.network, self.delays = snn, snn.network, delays
        self.ranks = ranks(snn.network)
        self.shapes = {INPUT: snn.network.source.input, **snn.network.shapes}
        self.nodes: dict[str, Any] = {}
        self.edges: list[tuple[str, str]] = []
        self._add(INPUT, self.nir.Input(np.array(self._dims(INPUT))))

    def numbers(self, stage: Stage, part: str) -> Numbers:
        """Integers of a stage."""
        return np.asarray(self.snn.tensors[f"{stage.name}.{part}"].numpy())

    def array(
        self, stage: Stage, suffix: str, reads: str, product: Product, added: Numbers | None = None
    ) -> str:
        """The weights of a stage; `added` comes on top per slot, after the neurons' factor."""
        factor = self.numbers(stage, f"factor{suffix}").astype(np.float64)
        bias = np.zeros(len(factor))
        if added is not None:
            np.divide(added, factor, out=bias, where=factor != 0)
        kernel, stride, padding = product.window()
        lines, pixels, _ = self.shapes[reads]
        before, after = self.ranks[reads], self.ranks[stage.name]
        weight, name = conv_weight(self.snn, stage, suffix), f"{stage.name}.array{suffix}"
        if after == 0 and kernel == (lines, pixels) and padding == (0, 0):
            flat = self._flatten(f"{stage.name}.flat{suffix}", reads, self._dims(reads), 0)
            return self._add(name, self.nir.Affine(weight.reshape(len(weight), -1), bias), flat)
        outputs = product.shape(self.shapes[reads], stage.name)
        # Where there is one output, any stride does; this one gives the right shape in NIR.
        stride = (
            stride[0] if outputs[0] > 1 else lines + 2 * padding[0],
            stride[1] if outputs[1] > 1 else pixels + 2 * padding[1],
        )
        if before == 1:
            node = self.nir.Conv1d(
                lines, np.ascontiguousarray(weight[..., 0]), stride[0], padding[0], 1, 1, bias
            )
        else:
            node = self.nir.Conv2d((lines, pixels), weight, stride, padding, 1, 1, bias)
        self._add(name, node, reads)
        dims = (outputs[2], *outputs[:before])
        return self._flatten(f"{stage.name}.flat{suffix}", name, dims, after)

    def scale(self, stage: Stage, suffix: str, before: str) -> str:
        """One of two inputs with its factor; NIR adds what arrives at a node."""
        factor = self._spread(self.numbers(stage, f"factor{suffix}"), stage)
        return self._add(f"{stage.name}.scale{suffix}", self.nir.Scale(factor), before)

    def neurons(
        self, stage: Stage, after: Sequence[str], *, scaled: bool = False,
        more: Mapping[str, Any] | None = None,
    ) -> str:  # fmt: skip
        """The firing stage; `r` scales the currents onto the grid of the threshold."""
        slots, threshold = self.network.slots, self.numbers(stage, "threshold")
        factor = np.ones_like(threshold) if scaled else self.numbers(stage, "factor")
        node = self.nir.IF(
            r=self._spread(factor, stage),
            v_threshold=self._spread(threshold, stage),
            metadata={
                "operation": stage.operation, "slots": slots, "reset": "subtract",
                "delay": self.delays.get(stage.name, slots), "searchable": int(stage.searchable),
                "comparison": ">=", "initial": self.numbers(stage, "initial"),
                "static": self.numbers(stage, "static"), **(more or {}),
            },
        )  # fmt: skip
        return self._add(stage.name, node, *after)

    def code(self, stage: Stage, before: str, prefix: int) -> str:
        """Q or K: a number from the sum over the first slots."""
        metadata = {
            "operation": stage.operation, "prefix": prefix, "slots": self.network.slots,
            "bias": self.numbers(stage, "bias"), "shift": self.numbers(stage, "shift"),
        }  # fmt: skip
        factor = self._spread(self.numbers(stage, "factor"), stage)
        return self._add(stage.name, self.nir.I(factor, metadata=metadata), before)

    def readout(self, stage: Readout) -> str:
        """Class scores: counts times weights, added over places and slots."""
        bias, network = self.numbers(stage, "bias"), self.network
        window, _ = stage.windows(self.shapes[stage.source])
        added = bias * (window[0] * window[1] / network.slots)
        dims = self._dims(stage.source)
        flat = self._flatten(f"{stage.name}.flat", stage.source, dims, 0)
        weight = readout_weight(self.snn)
        array = self._add(f"{stage.name}.array", self.nir.Affine(weight, added), flat)
        metadata = {
            "operation": stage.operation, "bias": bias,
            "grid": self.numbers(stage, "grid").item(),
        }  # fmt: skip
        scores = self.nir.I(np.ones(stage.classes), metadata=metadata)
        self._add(stage.name, scores, array)
        name = "output" if "output" not in self.nodes else "output_"
        return self._add(name, self.nir.Output(np.array([stage.classes])), stage.name)

    def _add(self, name: str, node: Any, *after: str) -> str:
        if name in self.nodes:
            raise FalconError(f"NIR: two nodes would have the name '{name}'; rename a stage")
        self.nodes[name] = node
        self.edges += [(before, name) for before in dict.fromkeys(after)]
        return name

    def _flatten(self, name: str, before: str, dims: tuple[int, ...], rank: int) -> str:
        """A signal with fewer axes, if it has more."""
        if len(dims) == rank + 1:
            return before
        return self._add(name, self.nir.Flatten(np.array(dims), rank, -1), before)

    def _dims(self, name: str) -> tuple[int, ...]:
        lines, pixels, channels = self.shapes[name]
        return (channels, lines, pixels)[: self.ranks[name] + 1]

    def _spread(self, values: Numbers, stage: Stage) -> Numbers:
        """Numbers per channel as large as the signal, which is how NIR states a shape."""
        dims = self._dims(stage.name)
        return np.broadcast_to(values.reshape(-1, *[1] * (len(dims) - 1)), dims).copy()
