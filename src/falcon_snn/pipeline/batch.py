"""Core latency of many schedules in one call.

The steps of a graph are the same for every schedule; only the slot that a decision waits for
moves with its delay. So the plan is made once, reduced to arrays, and run for many schedules.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile
from falcon_snn.neuron.compiling import watch_numba
from falcon_snn.pipeline.graph import INPUT, Graph
from falcon_snn.pipeline.steps import snn_plan
from falcon_snn.pipeline.timing import time_snn

Integers = NDArray[np.integer[Any]]

LANES = 128  # schedules that one pass over the steps evaluates together


def core_cycles_many(graph: Graph, delays: Integers, profile: Profile) -> NDArray[np.int64]:
    """Core latency in cycles of each row of `delays` [n, boundaries], in boundary order.

    Equal to `time_snn(...).core_cycles` row by row.
    """
    delays = np.asarray(delays)
    boundaries = graph.boundaries
    if delays.ndim != 2 or delays.shape[1] != len(boundaries):
        raise FalconError(f"delays have shape {delays.shape}; expected (n, {len(boundaries)})")
    if delays.size and not (delays.min() >= 1 and delays.max() <= graph.slots):
        raise FalconError(f"a delay lies outside 1..{graph.slots}")
    if len(delays) == 1:  # one needs no compiler, which takes half a second to load
        one = dict(zip(boundaries, delays[0].tolist(), strict=True))
        return np.array([time_snn(graph, one, profile).core_cycles], dtype=np.int64)
    program = _program(graph, profile)
    evaluate = _compiled()
    rows = np.ascontiguousarray(delays, dtype=np.int8)
    result = np.zeros(len(rows), dtype=np.int64)
    workers = os.cpu_count() or 1
    share = -(-len(rows) // (workers * LANES)) * LANES
    with ThreadPoolExecutor(workers) as pool:  # the compiled code runs without the interpreter lock
        parts = [slice(start, start + share) for start in range(0, len(rows), max(share, 1))]
        jobs = [
            pool.submit(evaluate, *program, rows[part], result[part], graph.slots) for part in parts
        ]
        for job in jobs:
            job.result()
    return result


class _Program(NamedTuple):
    """Steps as arrays: step i lasts cycles[i] after the steps before[first[i]:first[i+1]].

    A decision of a searchable boundary also waits for entries of each of its rows of `slots`,
    as many as its delay says.
    """

    cycles: Integers
    first: Integers
    before: Integers
    boundary: Integers  # -1 where no delay matters
    slot: Integers
    first_row: Integers
    slots: Integers  # [rows, T] steps that make the slots of an input ready
    outputs: Integers


class _Kept(NamedTuple):
    """A step as the program keeps it; equal ones, such as those of Q, K and V, are run once."""

    cycles: int
    before: tuple[int, ...]
    boundary: int  # -1 where no delay matters
    slot: int
    rows: tuple[tuple[int, ...], ...]  # of each input, the steps that make its slots ready


@lru_cache(maxsize=64)  # hardware may be changed again and again, as in the studio
def _program(graph: Graph, profile: Profile) -> _Program:
    # With delay T the decisions depend on the last slot only; here that dependence is replaced.
    names = graph.boundaries
    plan = snn_plan(graph, dict.fromkeys(names, graph.slots), profile)
    stages = {stage.name: stage for stage in graph.stages}
    number = {name: index for index, name in enumerate(names)}
    same: dict[_Kept, int] = {}
    place: list[int] = []
    kept: list[_Kept] = []
    for index, step in enumerate(plan.steps):
        boundary = number.get(step.stage, -1)
        rows: tuple[tuple[int, ...], ...] = ()
        after = step.after
        if boundary >= 0:
            sources = [name for name in stages[step.stage].after if name != INPUT]
            rows = tuple(tuple(place[s] for s in plan.ready[name]) for name in sources)
            after = (index - 1,) if step.slot else ()
        before = tuple(sorted({place[s] for s in after}))
        entry = _Kept(step.cycles, before, boundary, step.slot if boundary >= 0 else 0, rows)
        if entry not in same:
            same[entry] = len(kept)
            kept.append(entry)
        place.append(same[entry])
    total = sum(entry.cycles for entry in kept)
    width = np.int32 if total < 2**31 else np.int64
    return _Program(
        np.array([entry.cycles for entry in kept], dtype=width),
        _offsets([len(entry.before) for entry in kept]),
        np.array([s for entry in kept for s in entry.before], dtype=np.int32),
        np.array([entry.boundary for entry in kept], dtype=np.int32),
        np.array([entry.slot for entry in kept], dtype=np.int32),
        _offsets([len(entry.rows) for entry in kept]),
        np.array([row for entry in kept for row in entry.rows], dtype=np.int32).reshape(
            -1, graph.slots
        ),
        np.array([place[plan.ready[name][-1]] for name in graph.outputs], dtype=np.int32),
    )


def _offsets(counts: list[int]) -> Integers:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int32)


@cache
def _compiled() -> Callable[..., None]:
    from numba import njit

    watch_numba()
    compiled: Callable[..., None] = njit(nogil=True, cache=True)(_evaluate)
    return compiled


def _evaluate(
    cycles: Integers, first: Integers, before: Integers, boundary: Integers, slot: Integers,
    first_row: Integers, slots: Integers, outputs: Integers,
    delays: Integers, result: NDArray[np.int64], length: int,
) -> None:  # fmt: skip
    """Run the program for every row of `delays`, LANES schedules at a time.

    A decision for slot t with delay d waits for the slots t to t + d - 1 of its inputs, as far as
    they exist; slots come in order, so this is the rule, and it needs no look-up per schedule.
    """
    ends = np.zeros((len(cycles), LANES), dtype=cycles.dtype)
    start = np.zeros(LANES, dtype=cycles.dtype)
    ahead = np.zeros((delays.shape[1], LANES), dtype=np.int32)  # d - 1, one row per boundary
    for base in range(0, len(delays), LANES):
        lanes = min(LANES, len(delays) - base)
        for lane in range(lanes):
            for column in range(delays.shape[1]):
                ahead[column, lane] = delays[base + lane, column] - 1
        for step in range(len(cycles)):
            start[:] = 0
            for link in range(first[step], first[step + 1]):
                earlier = ends[before[link]]
                for lane in range(LANES):
                    start[lane] = max(start[lane], earlier[lane])
            for row in range(first_row[step], first_row[step + 1]):
                reach = ahead[boundary[step]]
                for wanted in range(slot[step], length):
                    ready = ends[slots[row, wanted]]
                    distance = wanted - slot[step]
                    for lane in range(LANES):
                        time = ready[lane] if reach[lane] >= distance else 0
                        start[lane] = max(start[lane], time)
            end = ends[step]
            for lane in range(LANES):
                end[lane] = start[lane] + cycles[step]
        for lane in range(lanes):
            for output in outputs:
                result[base + lane] = max(result[base + lane], ends[output, lane])
