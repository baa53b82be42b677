"""The schedules that a search evaluated, timed on the hardware that the page shows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from falcon_snn.errors import FalconError
from falcon_snn.pipeline.batch import core_cycles_many
from falcon_snn.pipeline.schedule import Delays, complete
from falcon_snn.search.pareto import Point, pareto_filter
from falcon_snn.search.result import read_result
from falcon_snn.studio.state import StudioState


@dataclass(frozen=True)
class Evaluated:
    """One schedule of a search: measured accuracy, latency on the present hardware."""

    number: int  # in the search's result
    delays: Delays
    accuracy: float  # share of the clips
    interval: tuple[float, float]
    latency_us: float
    on_front: bool
    names: tuple[str, ...]  # fastest, balanced, accurate, if the search chose it


class Front:
    """What a search evaluated, for the network that the studio was started with."""

    def __init__(self, result: dict[str, Any], start: StudioState, where: str) -> None:
        self.start = start
        boundaries, rows = result["boundaries"], result["evaluated"]
        slots, self.clips = len(result["uniform"]), result["clips"]
        self.names: dict[int, tuple[str, ...]] = {}
        for name, number in result["chosen"].items():
            self.names[number] = (*self.names.get(number, ()), name)
        if [*boundaries] != [*start.network.boundaries] or slots != start.slots:
            raise FalconError(
                f"{where}: this search is about another network ({len(boundaries)} boundaries, "
                f"T = {slots}), not '{start.network.name}'; give the one that was searched "
                "(--checkpoint, --pretrained or --network)"
            )
        self.delays = [complete(row["delays"], boundaries, slots, where) for row in rows]
        self.right: list[int] = [row["right"] for row in rows]
        self.intervals: list[tuple[float, float]] = [row["interval"] for row in rows]

    def fits(self, state: StudioState) -> bool:
        """Whether the accuracies hold: they do on any hardware, for this network, T and prefix."""
        start = self.start
        return (state.name, state.dataset, state.slots, state.prefix) == (
            start.name, start.dataset, start.slots, start.prefix,
        )  # fmt: skip

    def accuracy(self, state: StudioState) -> float | None:
        """What the search measured for exactly this schedule."""
        if not self.fits(state) or state.delays not in self.delays:
            return None
        return self.right[self.delays.index(state.delays)] / self.clips

    def evaluated(self, state: StudioState) -> list[Evaluated]:
        """Every schedule on the present hardware, and which of them no other beats."""
        rows = np.array([list(delays.values()) for delays in self.delays], dtype=np.int64)
        cycles = core_cycles_many(state.graph, rows, state.profile)
        points = [
            Point((number,), right, int(took))
            for number, (right, took) in enumerate(zip(self.right, cycles, strict=True))
        ]
        front = {point.schedule[0] for point in pareto_filter(points)}
        us = state.profile.cycle_ns / 1000
        return [
            Evaluated(number, self.delays[number], point.right / self.clips,
                      self.intervals[number], point.cycles * us, number in front,
                      self.names.get(number, ()))
            for number, point in enumerate(points)
        ]  # fmt: skip


def read_front(path: Path, start: StudioState) -> Front:
    """The `result.json` of a search."""
    return Front(read_result(path), start, str(path))
