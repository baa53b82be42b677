"""What is searched: delays at named boundaries, their exact latency, and the budget."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from falcon_snn.errors import FalconError
from falcon_snn.pipeline.schedule import Delays

Schedule = tuple[int, ...]  # one delay per boundary, in network order
# Delays [schedules, boundaries] -> latency of each schedule in whole cycles [schedules].
Latency = Callable[[NDArray[np.int64]], NDArray[np.int64]]


@dataclass(frozen=True)
class Space:
    """All schedules with delays 1..delta_max whose latency lies under the budget."""

    boundaries: tuple[str, ...]
    latency: Latency
    budget_cycles: int
    delta_max: int = 3

    def __post_init__(self) -> None:
        if not self.boundaries or len(set(self.boundaries)) != len(self.boundaries):
            raise FalconError("a search needs boundaries, each with a name of its own")
        if self.delta_max < 1:
            raise FalconError(f"the longest delay is {self.delta_max}; it must be 1 or more")

    @property
    def start(self) -> Schedule:
        """Delay one everywhere."""
        return (1,) * len(self.boundaries)

    def cycles(self, schedules: Sequence[Schedule]) -> list[int]:
        """Core latency of each schedule."""
        if not schedules:
            return []
        return [int(cycles) for cycles in self.latency(np.array(schedules, dtype=np.int64))]

    def within_budget(self, schedules: Sequence[Schedule]) -> list[Schedule]:
        """Those strictly faster than the budget, in the same order."""
        pairs = zip(schedules, self.cycles(schedules), strict=True)
        return [schedule for schedule, cycles in pairs if cycles < self.budget_cycles]

    def delays(self, schedule: Schedule) -> Delays:
        """The schedule with the names of its boundaries."""
        return dict(zip(self.boundaries, schedule, strict=True))

    def schedule(self, delays: Delays) -> Schedule:
        """The delays in network order; a boundary that is not named has delay 1."""
        unknown = delays.keys() - set(self.boundaries)
        if unknown:
            raise FalconError(f"no boundary is called '{min(unknown)}' in this network")
        return tuple(delays.get(boundary, 1) for boundary in self.boundaries)


def with_delay(schedule: Schedule, index: int, delay: int) -> Schedule:
    """The schedule with another delay at one boundary."""
    return (*schedule[:index], delay, *schedule[index + 1 :])


def unique(schedules: Iterable[Schedule]) -> list[Schedule]:
    """Each schedule once, in order of first appearance."""
    return list(dict.fromkeys(schedules))
