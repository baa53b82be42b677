"""A converted network as a predictor that starts where a schedule first differs.

The streams of the search's current schedule are kept for all clips. A candidate differs from it
at one boundary, so all that lies before is known, and the execution begins there.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from falcon_snn.data.examples import Examples
from falcon_snn.network.integer import Snn, Streams
from falcon_snn.network.stage import Stage
from falcon_snn.pipeline.schedule import Delays
from falcon_snn.search.predictor import Correct


@dataclass
class NetworkPredictor:
    """The clips of a set under one integer network, on the network's device."""

    snn: Snn
    examples: Examples
    batch: int = 2048
    executed_macs: int = 0  # multiply-accumulates per clip that were done, over all answers
    plain_macs: int = 0  # and what running each schedule from its start would have taken
    _base: Delays | None = None
    _kept: list[Streams] = field(default_factory=list)

    def __post_init__(self) -> None:
        device = self.snn.device
        self._x = self.examples.x.to(device)
        self._labels = self.examples.labels.to(device)
        lengths = self.examples.padded_lengths
        self._lengths = None if lengths is None else lengths.to(device)

    @torch.no_grad()
    def start_from(self, delays: Delays) -> None:
        """Keep every stage's streams under this schedule, for all clips."""
        if self._base == delays:
            return
        start = self._first_difference(delays)
        for index, clips in enumerate(self._batches()):
            if self._base is None:
                self._kept.append(self.snn.streams(self._x[clips], self._part(clips), delays))
            else:
                kept = self._kept[index]
                self._kept[index] = self.snn.resume(kept, start, self._part(clips), delays)
        self._count(start, delays)
        self._base = dict(delays)

    @torch.no_grad()
    def correct(self, delays: Delays) -> Correct:
        """Right or wrong per clip, equal to running the whole network under the schedule."""
        start = self._first_difference(delays)
        right = []
        for index, clips in enumerate(self._batches()):
            lengths = self._part(clips)
            if self._base is None:
                streams = self.snn.streams(self._x[clips], lengths, delays)
            elif delays == self._base:
                streams = self._kept[index]
            else:
                streams = self.snn.resume(self._kept[index], start, lengths, delays)
            scores = self.snn.scores(streams, lengths)
            right.append(scores.argmax(dim=1) == self._labels[clips])
        self._count(start, delays)
        self.plain_macs += self._macs(self._stages, delays)
        return np.asarray(torch.cat(right).cpu().numpy(), dtype=np.bool_)

    @property
    def _stages(self) -> tuple[Stage, ...]:
        return self.snn.network.inner_stages

    def _first_difference(self, delays: Delays) -> str:
        """The first stage whose streams may differ from those that are kept."""
        names = [stage.name for stage in self._stages]
        if self._base is None:
            return names[0]
        changed = [name for name in names if delays.get(name) != self._base.get(name)]
        return changed[0] if changed else names[-1]

    def _count(self, start: str, delays: Delays) -> None:
        if delays != self._base:
            first = [stage.name for stage in self._stages].index(start)
            self.executed_macs += self._macs(self._stages[first:], delays)

    def _macs(self, stages: tuple[Stage, ...], delays: Delays) -> int:
        """Multiply-accumulates of one clip; delay d needs T - d + 1 products."""
        network = self.snn.network
        return sum(
            stage.macs(network) * (network.slots - delays.get(stage.name, network.slots) + 1)
            for stage in stages
        )

    def _batches(self) -> list[slice]:
        clips = len(self._labels)
        return [slice(first, first + self.batch) for first in range(0, clips, self.batch)]

    def _part(self, clips: slice) -> Tensor | None:
        return None if self._lengths is None else self._lengths[clips]
