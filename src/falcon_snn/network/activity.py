"""Spikes and driven rows of a network on data: what its energy depends on."""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import prod

import torch
from torch import Tensor
from torch.nn import functional as F

from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile
from falcon_snn.network.description import Network
from falcon_snn.network.integer import Snn, Streams
from falcon_snn.network.operations import Code
from falcon_snn.network.product import Product
from falcon_snn.network.stage import Stage
from falcon_snn.neuron.encoding import MAX_SLOTS
from falcon_snn.neuron.layers import token_mask
from falcon_snn.neuron.packed import count
from falcon_snn.pipeline.energy import Activity, Energy, graph_energy

Batches = Iterable[tuple[Tensor, Tensor | None]]  # inputs and the real lines of each clip


def schedule_energy(
    snn: Snn, batches: Batches, delays: Mapping[str, int] | None, profile: Profile,
    backend: str = "auto",
) -> tuple[Energy, Tensor]:  # fmt: skip
    """Measured energy and predictions under a schedule; no delays mean the QNN."""
    activity, predictions = measure(snn, batches, delays, backend)
    return network_energy(snn.network, activity, delays, profile), predictions


def network_energy(
    network: Network, activity: Activity, delays: Mapping[str, int] | None, profile: Profile
) -> Energy:
    """Energy of a network from its measured activity; no delays mean the QNN."""
    source, readout = network.source, network.readout
    outside = {
        source.name: source.operations(network),
        readout.name: readout.operations(network, activity, qnn=delays is None),
    }
    return graph_energy(network.graph, delays, activity, outside, profile)


def least_energy(network: Network, delays: Mapping[str, int], profile: Profile) -> Energy:
    """The least that an inference costs: the arrays are read in every slot, spikes or not."""
    neurons = _neurons(network)
    silent = Activity(
        network.source.name, dict.fromkeys(_arrays(network), 0.0), dict.fromkeys(neurons, 0.0),
        neurons,
    )  # fmt: skip
    return network_energy(network, silent, delays, profile)


@torch.no_grad()
def measure(
    snn: Snn, batches: Batches, delays: Mapping[str, int] | None, backend: str = "auto"
) -> tuple[Activity, Tensor]:
    """Mean activity over the real lines of all clips, and the predictions.

    The QNN's counts are those of full lookahead; a count's bits are its bit planes.
    """
    network = snn.network
    used = network.lookahead if delays is None else delays
    tally = _Tally(network, qnn=delays is None)
    predictions = []
    for x, lengths in batches:
        streams = snn.streams(x, lengths, used, backend)
        predictions.append(snn.scores(streams, lengths, backend).argmax(dim=1).cpu())
        tally.add(streams, lengths)
    if not predictions:
        raise FalconError("no clips to measure spikes on")
    return tally.activity(), torch.cat(predictions)


@torch.no_grad()
def streams_activity(
    network: Network, streams: Streams, lengths: Tensor | None, *, qnn: bool = False
) -> Activity:
    """Mean activity of clips that have been run; for the QNN, under full lookahead."""
    tally = _Tally(network, qnn=qnn)
    tally.add(streams, lengths)
    return tally.activity()


class _Tally:
    """Sums over clips and lines."""

    def __init__(self, network: Network, *, qnn: bool) -> None:
        self.network, self.qnn = network, qnn
        self.neurons = _neurons(network)
        self.rows, self.spikes = Counter[str](), Counter[str]()
        self.lines = Counter[str]()  # real ones, over all clips

    def add(self, streams: Streams, lengths: Tensor | None) -> None:
        network = self.network
        trains = {
            name: count(streams[name]) if self.qnn else streams[name] for name in self.neurons
        }
        lines = None if lengths is None else network.lines(lengths)
        real: dict[str, Tensor] = {}
        for stage in network.inner_stages:
            shape = network.inner(stage.name, streams[stage.name]).shape
            real[stage.name] = (
                torch.ones(shape[:2], dtype=torch.bool, device=streams[stage.name].device)
                if lines is None
                else token_mask(lines[stage.name], shape[1])
            )
            self.lines[stage.name] += int(real[stage.name].sum())
        for name, train in trains.items():
            per_line = count(network.inner(name, train)).flatten(2).sum(dim=2)
            self.spikes[name] += int((per_line * real[name]).sum())
        for stage in network.inner_stages:
            prefix = MAX_SLOTS
            if isinstance(stage, Code) and not self.qnn:
                prefix = stage.prefix or network.slots
            for suffix, read, product in stage.products:
                driven = _per_window(
                    count(network.inner(read, trains[read]), prefix).sum(dim=3), product
                )
                self.rows[_layer(stage, suffix)] += int((driven * real[stage.name]).sum())

    def activity(self) -> Activity:
        """Per clip of full length: as many as the real lines of a stage make."""
        network = self.network
        clips = {name: lines / network.shapes[name][0] for name, lines in self.lines.items()}
        return Activity(
            network.source.name,
            {layer: self.rows[layer] / clips[stage] for layer, stage in _arrays(network).items()},
            {name: spikes / clips[name] for name, spikes in self.spikes.items()},
            self.neurons,
        )


def _neurons(network: Network) -> dict[str, int]:
    """The stages that spike, and how many neurons each has."""
    return {
        stage.name: prod(network.shapes[stage.name])
        for stage in network.inner_stages
        if stage.emits == "spikes"
    }


def _arrays(network: Network) -> dict[str, str]:
    """The stage of each layer of weights."""
    return {
        _layer(stage, suffix): stage.name
        for stage in network.inner_stages
        for suffix, _, _ in stage.products
    }


def _layer(stage: Stage, suffix: str) -> str:
    """A layer's name as `TimedStage.layer` gives it for the array in the graph."""
    return f"{stage.name}.array{suffix}".removesuffix(".array")


def _per_window(spikes: Tensor, product: Product) -> Tensor:
    """Spikes in all windows of each output line, [clip, line]: a row is on in each that holds it.

    A row of a grouped layer is in the array of its group only, so it counts once.
    """
    kernel, stride, padding = product.window()
    padded = F.pad(spikes.double(), (padding[1], padding[1], padding[0], padding[0]))
    windows = padded.unfold(1, kernel[0], stride[0]).unfold(2, kernel[1], stride[1])
    return windows.sum(dim=(2, 3, 4)).long()
