"""Spikes and driven rows of a network on data: what its energy depends on."""

from collections.abc import Iterable, Mapping
from math import prod

import torch
from torch import Tensor

from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile
from falcon_snn.network.integer import IntegerFalcon, Streams
from falcon_snn.neuron.layers import token_mask
from falcon_snn.neuron.packed import MAX_SLOTS, count
from falcon_snn.pipeline.energy import SOURCE, Activity, Energy, falcon_energy, layer_name
from falcon_snn.pipeline.falcon_graph import falcon_graph
from falcon_snn.pipeline.graph import INPUT

Batches = Iterable[tuple[Tensor, Tensor | None]]  # features and the real tokens of each clip


def schedule_energy(
    network: IntegerFalcon, batches: Batches, delays: Mapping[str, int] | None, profile: Profile,
    backend: str = "auto",
) -> tuple[Energy, Tensor]:  # fmt: skip
    """Measured energy and predictions under a schedule; no delays mean the QNN."""
    activity, predictions = measure(network, batches, delays, backend)
    return falcon_energy(network.config, delays, activity, profile), predictions


@torch.no_grad()
def measure(
    network: IntegerFalcon, batches: Batches, delays: Mapping[str, int] | None,
    backend: str = "auto",
) -> tuple[Activity, Tensor]:  # fmt: skip
    """Mean activity over the real tokens of all clips, and the predictions.

    The QNN's counts are those of full lookahead; a count's bits are its bit planes.
    """
    config = network.config
    used = dict.fromkeys(config.boundaries, config.slots) if delays is None else delays
    tally = _Tally(network, qnn=delays is None)
    predictions = []
    for x, lengths in batches:
        streams = network.streams(x, lengths, used, backend)
        predictions.append(network.scores(streams, lengths, backend).argmax(dim=1).cpu())
        tally.add(streams, lengths)
    if not predictions:
        raise FalconError("no clips to measure spikes on")
    return tally.activity(), torch.cat(predictions)


class _Tally:
    """Sums over clips and tokens."""

    def __init__(self, network: IntegerFalcon, *, qnn: bool) -> None:
        self.network, self.qnn = network, qnn
        graph = falcon_graph(network.config)
        self.sources = {
            layer_name(stage): SOURCE if stage.after[0] == INPUT else stage.after[0]
            for stage in graph.stages
            if stage.kind == "analog"
        }
        self.rows = dict.fromkeys(self.sources, 0)
        self.spikes: dict[str, int] = {}
        self.neurons: dict[str, int] = {}
        self.tokens = 0

    def add(self, streams: Streams, lengths: Tensor | None) -> None:
        network, config = self.network, self.network.config
        firing = [name for name in network.stages if network.kind(name) != "code"]
        trains = {name: count(streams[name]) if self.qnn else streams[name] for name in firing}
        clips, tokens = streams["stem.fc1"].shape[:2]
        real = torch.ones(clips, tokens, dtype=torch.bool, device=network.device)
        if lengths is not None:
            real = token_mask(lengths, tokens)
        for name in firing:
            train = network.inner(name, trains[name])
            self.spikes[name] = self.spikes.get(name, 0) + _total(_per_token(train), real)
            self.neurons[name] = prod(train.shape[2:]) * config.tokens
        for layer, source in self.sources.items():
            train = trains[source]
            if network.kind(layer) == "conv":
                per_token = _per_window(train, 2 if layer == "stem.conv1" else 1)
            else:
                prefix = network.kind(layer) == "code" and not self.qnn
                per_token = _per_token(train, config.prefix if prefix else MAX_SLOTS)
            self.rows[layer] += _total(per_token, real)
        self.tokens += int(real.sum())

    def activity(self) -> Activity:
        tokens = self.network.config.tokens
        clips = self.tokens / tokens  # as many clips of full length
        return Activity(
            tokens,
            {name: rows / clips for name, rows in self.rows.items()},
            {name: spikes / clips for name, spikes in self.spikes.items()},
            self.neurons,
        )


def _per_token(train: Tensor, first: int = MAX_SLOTS) -> Tensor:
    """Spikes of each token, [clip, token]."""
    return count(train, first).flatten(2).sum(dim=2, dtype=torch.int32)


def _per_window(bordered: Tensor, stride: int) -> Tensor:
    """Spikes in all 3x3 windows of each token, [clip, token]: a row is on in each that holds it."""
    spikes = count(bordered).sum(dim=3, dtype=torch.int32)
    return spikes.unfold(1, 3, 1).unfold(2, 3, stride).sum(dim=(2, 3, 4))


def _total(per_token: Tensor, real: Tensor) -> int:
    return int((per_token * real).sum())
