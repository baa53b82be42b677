"""A trained network on a few clips: words right, energy, and which stages' spikes move."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from falcon_snn.data.examples import Examples
from falcon_snn.network.activity import network_energy, streams_activity
from falcon_snn.network.calibrate import calibrate
from falcon_snn.network.chip import sampled
from falcon_snn.network.integer import Snn, Streams
from falcon_snn.pipeline.energy import Activity
from falcon_snn.studio.state import OWN, StudioState
from falcon_snn.training.export import load_network

KEPT = 16  # schedules whose effect is remembered


class Effect(NamedTuple):
    """What a schedule does to the clips."""

    right: int
    right_fastest: int  # with delay 1 everywhere
    clips: int
    changed: dict[str, float]  # by stage: the share of bytes that differ from delay 1
    activity: Activity  # spikes, from which the energy follows

    @property
    def accuracy(self) -> float:
        return self.right / self.clips


@dataclass
class _Fastest:
    """The network for one Q/K prefix, and its run with delay 1 everywhere."""

    snn: Snn
    streams: Streams
    right: int
    qnn: Activity  # of the QNN with the same weights


class ClipSample:
    """Clips, a checkpoint, and its runs with delay 1 that schedules are compared with."""

    def __init__(self, checkpoint: Path, own: StudioState, examples: Examples) -> None:
        self.checkpoint, self.own, self.examples = checkpoint, own, examples
        self.lengths = examples.padded_lengths
        self._fastest: dict[int, _Fastest] = {}
        self._effects: dict[tuple[int, ...], Effect] = {}  # the latest, for other hardware

    def fits(self, state: StudioState) -> bool:
        """Whether the state is about the checkpoint's network."""
        return (state.name, state.slots) == (OWN, self.own.slots)

    @torch.no_grad()
    def effect(self, state: StudioState) -> Effect:
        """Run the clips from the first stage that waits; what lies before it is as with delay 1."""
        key = (state.prefix, *state.delays.values())
        if key not in self._effects:
            while len(self._effects) >= KEPT:
                del self._effects[next(iter(self._effects))]
            self._effects[key] = self._effect(state)
        return self._effects[key]

    @torch.no_grad()
    def right_on_chip(self, state: StudioState) -> int:
        """How many clips are right on the first chip of the hardware; the first clips set it up."""
        snn = self._run_fastest(state.prefix).snn
        ranges = calibrate(snn, state.profile, self.examples.x, self.lengths, state.delays)
        chip = sampled(snn, state.profile, 0, ranges)
        return self._right(snn, chip.streams(self.examples.x, self.lengths, state.delays))

    def energies_mj(self, state: StudioState) -> tuple[float, float]:
        """Core energy of an inference under the schedule, and of the QNN."""
        effect, fastest = self.effect(state), self._run_fastest(state.prefix)
        network, profile = fastest.snn.network, state.profile
        snn = network_energy(network, effect.activity, state.delays, profile)
        return snn.core_mj, network_energy(network, fastest.qnn, None, profile).core_mj

    def _effect(self, state: StudioState) -> Effect:
        fastest = self._run_fastest(state.prefix)
        snn, streams = fastest.snn, fastest.streams
        names = [stage.name for stage in snn.network.inner_stages]
        first = next((name for name in names if state.delays.get(name, 1) > 1), None)
        right = fastest.right
        if first is not None:
            streams = snn.resume(streams, first, self.lengths, state.delays)
            right = self._right(snn, streams)
        changed = {name: self._share(name, snn, fastest.streams, streams) for name in names}
        activity = streams_activity(snn.network, streams, self.lengths)
        return Effect(right, fastest.right, len(self.examples), changed, activity)

    def _run_fastest(self, prefix: int) -> _Fastest:
        if prefix not in self._fastest:
            snn, _ = load_network(self.checkpoint, None if prefix == self.own.prefix else prefix)
            delays = dict.fromkeys(snn.network.boundaries, 1)
            streams = snn.streams(self.examples.x, self.lengths, delays)
            full = dict.fromkeys(snn.network.boundaries, snn.network.slots)
            counted = snn.streams(self.examples.x, self.lengths, full)
            qnn = streams_activity(snn.network, counted, self.lengths, qnn=True)
            self._fastest[prefix] = _Fastest(snn, streams, self._right(snn, streams), qnn)
        return self._fastest[prefix]

    def _right(self, snn: Snn, streams: Streams) -> int:
        found = snn.scores(streams, self.lengths).argmax(dim=1)
        return int((found == self.examples.labels).sum())

    @staticmethod
    def _share(name: str, snn: Snn, before: Streams, after: Streams) -> float:
        if after[name] is before[name]:
            return 0.0
        inner = snn.network.inner
        differs = inner(name, before[name]) != inner(name, after[name])
        return float(differs.float().mean())
