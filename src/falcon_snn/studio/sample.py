"""A trained network on a few clips: how many words are right, and which stages' spikes move."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from falcon_snn.data.examples import Examples
from falcon_snn.network.integer import IntegerFalcon, Streams
from falcon_snn.studio.state import StudioState
from falcon_snn.training.evaluate import same_length
from falcon_snn.training.export import load_network


class Effect(NamedTuple):
    """What a schedule does to the clips."""

    right: int
    right_fastest: int  # with delay 1 everywhere
    clips: int
    changed: dict[str, float]  # by stage: the share of bytes that differ from delay 1


@dataclass
class _Fastest:
    """The network for one Q/K prefix, and its run with delay 1 everywhere."""

    network: IntegerFalcon
    streams: Streams
    right: int


class Sample:
    """Clips, a checkpoint, and its runs with delay 1 that schedules are compared with."""

    def __init__(self, checkpoint: Path, own: StudioState, examples: Examples) -> None:
        self.checkpoint, self.own, self.examples = checkpoint, own, examples
        self.lengths = None if same_length(examples) else examples.lengths
        self._fastest: dict[int, _Fastest] = {}

    def fits(self, state: StudioState) -> bool:
        """Whether the state is about the checkpoint's network."""
        own = self.own
        return (state.model, state.dataset, state.slots) == (own.model, own.dataset, own.slots)

    @torch.no_grad()
    def effect(self, state: StudioState) -> Effect:
        """Run the clips from the first stage that waits; what lies before it is as with delay 1."""
        fastest = self._run_fastest(state.prefix)
        network, streams = fastest.network, fastest.streams
        first = next((name for name in network.stages if state.delays.get(name, 1) > 1), None)
        right = fastest.right
        if first is not None:
            streams = network.resume(streams, first, self.lengths, state.delays)
            right = self._right(network, streams)
        changed = {
            name: self._share(name, network, fastest.streams, streams) for name in network.stages
        }
        return Effect(right, fastest.right, len(self.examples), changed)

    def _run_fastest(self, prefix: int) -> _Fastest:
        if prefix not in self._fastest:
            network, _ = load_network(self.checkpoint, prefix)
            delays = dict.fromkeys(network.config.boundaries, 1)
            streams = network.streams(self.examples.x, self.lengths, delays)
            self._fastest[prefix] = _Fastest(network, streams, self._right(network, streams))
        return self._fastest[prefix]

    def _right(self, network: IntegerFalcon, streams: Streams) -> int:
        found = network.scores(streams, self.lengths).argmax(dim=1)
        return int((found == self.examples.labels).sum())

    @staticmethod
    def _share(name: str, network: IntegerFalcon, before: Streams, after: Streams) -> float:
        if after[name] is before[name]:
            return 0.0
        differs = network.inner(name, before[name]) != network.inner(name, after[name])
        return float(differs.float().mean())
