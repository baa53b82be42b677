"""A Falcon network as a predictor that starts where a schedule first differs.

The streams of the search's current schedule are kept for all clips. A candidate differs from it
at one boundary, so all that lies before is known, and the execution begins there.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from falcon_snn.config import FalconConfig
from falcon_snn.data.examples import Examples
from falcon_snn.network.integer import IntegerFalcon, Streams
from falcon_snn.pipeline.schedule import Delays
from falcon_snn.search.predictor import Correct


@dataclass
class FalconPredictor:
    """The clips of a set under one integer network, on the network's device."""

    network: IntegerFalcon
    examples: Examples
    batch: int = 2048
    executed_macs: int = 0  # multiply-accumulates per clip that were done, over all answers
    plain_macs: int = 0  # and what running each schedule from its start would have taken
    _base: Delays | None = None
    _kept: list[Streams] = field(default_factory=list)

    def __post_init__(self) -> None:
        device = self.network.device
        self._x = self.examples.x.to(device)
        self._labels = self.examples.labels.to(device)
        padded = bool((self.examples.lengths != self.examples.x.shape[1]).any())
        self._lengths = self.examples.lengths.to(device) if padded else None

    @torch.no_grad()
    def start_from(self, delays: Delays) -> None:
        """Keep every stage's streams under this schedule, for all clips."""
        if self._base == delays:
            return
        start = self._first_difference(delays)
        for index, clips in enumerate(self._batches()):
            if self._base is None:
                self._kept.append(self.network.streams(self._x[clips], self._part(clips), delays))
            else:
                kept = self._kept[index]
                self._kept[index] = self.network.resume(kept, start, self._part(clips), delays)
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
                streams = self.network.streams(self._x[clips], lengths, delays)
            elif delays == self._base:
                streams = self._kept[index]
            else:
                streams = self.network.resume(self._kept[index], start, lengths, delays)
            scores = self.network.scores(streams, lengths)
            right.append(scores.argmax(dim=1) == self._labels[clips])
        self._count(start, delays)
        self.plain_macs += sum(
            stage_macs(self.network.config, name, delays) for name in self.network.stages
        )
        return np.asarray(torch.cat(right).cpu().numpy(), dtype=np.bool_)

    def _first_difference(self, delays: Delays) -> str:
        """The stage from which on a schedule's streams may differ from those that are kept."""
        if self._base is None:
            return self.network.stages[0]
        changed = [name for name in self.network.stages if delays.get(name) != self._base.get(name)]
        return changed[0] if changed else self.network.stages[-1]

    def _count(self, start: str, delays: Delays) -> None:
        stages = self.network.stages
        if delays != self._base:
            done = stages[stages.index(start) :]
            self.executed_macs += sum(
                stage_macs(self.network.config, name, delays) for name in done
            )

    def _batches(self) -> list[slice]:
        clips = len(self._labels)
        return [slice(first, first + self.batch) for first in range(0, clips, self.batch)]

    def _part(self, clips: slice) -> Tensor | None:
        return None if self._lengths is None else self._lengths[clips]


def stage_macs(config: FalconConfig, name: str, delays: Delays) -> int:
    """Multiply-accumulates of one stage for one clip; delay d needs T - d + 1 products."""
    tokens, hidden, wide = config.tokens, config.hidden, config.stem_channels
    kind = name.rsplit(".", 1)[-1]
    products = config.slots - delays.get(name, config.slots) + 1
    pixels = tokens * config.features // 4
    weights = {
        "encoder": 2 * pixels * 25 * config.encoder_channels,
        "conv1": pixels * 9 * config.encoder_channels * wide,
        "conv2": pixels * 9 * wide * wide,
        "fc1": tokens * config.stem_width * hidden,
        "context": 2 * tokens * tokens * hidden,
        "ffn1": tokens * hidden * config.ffn,
        "ffn2": tokens * hidden * config.ffn,
        "residual1": 0,
        "residual2": 0,
    }
    return products * weights.get(kind, tokens * hidden * hidden)
