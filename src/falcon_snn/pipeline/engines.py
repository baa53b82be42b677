"""Shared digital engines: what a task costs, and which task an engine takes next.

The digital machine of the paper's appendix: a pool of output-stationary systolic arrays for the
matrix products, a pool of vector engines for everything else. Tasks wait for their inputs and for
an engine; a started task runs to its end.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal, NamedTuple

from falcon_snn.errors import FalconError

Pool = Literal["array", "vector"]
POOLS: tuple[Pool, Pool] = ("array", "vector")
TILE = 32  # rows and columns of an array, lanes of a vector engine
FILL_DRAIN_CYCLES = 62  # to fill and to drain a 32 x 32 array


@dataclass(frozen=True)
class Machine:
    """How many engines of each kind there are, and their clock."""

    arrays: int = 16
    vectors: int = 16
    clock_mhz: int = 100

    def engines(self, pool: Pool) -> int:
        return self.arrays if pool == "array" else self.vectors

    def us(self, cycles: int) -> float:
        return cycles / self.clock_mhz


@dataclass(frozen=True)
class VectorCosts:
    """Cycles of a vector engine per frame (or pixel) and 32 channels.

    The paper counts these operations but does not print their costs: the values are fitted.
    """

    lif: int = 5
    batch_norm: int = 1  # fused into the LIF after it, or alone
    scale: int = 1  # fused into the LIF after it, or alone
    rope: int = 3  # fused into the LIF after it
    elementwise: int = 1  # addition, multiplication, residual
    tap: int = 1  # one weight of a grouped convolution, one term of a sum over frames
    pooling: int = 4  # 2 x 2 average


class Task(NamedTuple):
    """Work that holds one engine for `cycles`, after the tasks with the indices `after` ended."""

    layer: str
    group: int  # frames (or time step and pixels) that it belongs to
    tile: int  # its 32 channels, or its head
    pool: Pool
    cycles: int
    after: frozenset[int]


class TaskList:
    """The growing list of tasks of one network; its order breaks ties between tasks."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def add(
        self, layer: str, group: int, tile: int, pool: Pool, cycles: int, *after: frozenset[int]
    ) -> frozenset[int]:
        """Append a task that waits for all of `after`; give what waits for it in turn."""
        self.tasks.append(Task(layer, group, tile, pool, cycles, frozenset().union(*after)))
        return frozenset({len(self.tasks) - 1})


class Placement(NamedTuple):
    """When a task ran, and on which engine of its pool."""

    start: int
    end: int
    engine: int


def gemm_cycles(m: int, k: int, n: int) -> int:
    """(m x k)(k x n) on one array: ceil(m/32) ceil(n/32) k + 62."""
    return ceil(m / TILE) * ceil(n / TILE) * k + FILL_DRAIN_CYCLES


def schedule(tasks: Sequence[Task], machine: Machine) -> list[Placement]:
    """Event-driven list scheduling: each pool serves by release time, then by creation order.

    A task is released when the last of its inputs ends. At one instant all ends are seen before
    any engine is handed out, so the order does not depend on how the events are stored.
    """
    waiting_for = [len(task.after) for task in tasks]
    successors: list[list[int]] = [[] for _ in tasks]
    for index, task in enumerate(tasks):
        if any(not 0 <= earlier < index for earlier in task.after):
            raise FalconError(
                f"task {index} of {task.layer} must come after the tasks it waits for"
            )
        for earlier in task.after:
            successors[earlier].append(index)

    released: dict[Pool, list[tuple[int, int]]] = {pool: [] for pool in POOLS}
    idle = {pool: list(range(machine.engines(pool))) for pool in POOLS}
    running: list[tuple[int, int]] = []
    placements = [Placement(0, 0, 0)] * len(tasks)
    for index, task in enumerate(tasks):
        if not task.after:
            released[task.pool].append((0, index))

    now = 0
    while True:
        for pool in POOLS:
            while idle[pool] and released[pool]:
                _, index = heapq.heappop(released[pool])
                end = now + tasks[index].cycles
                placements[index] = Placement(now, end, heapq.heappop(idle[pool]))
                heapq.heappush(running, (end, index))
        if not running:
            return placements
        now = running[0][0]
        while running and running[0][0] == now:
            _, index = heapq.heappop(running)
            heapq.heappush(idle[tasks[index].pool], placements[index].engine)
            for later in successors[index]:
                waiting_for[later] -= 1
                if waiting_for[later] == 0:
                    heapq.heappush(released[tasks[later].pool], (now, later))
