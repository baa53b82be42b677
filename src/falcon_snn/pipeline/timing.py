"""When everything happens: ready times, core latency, critical path and slack, in whole cycles."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from falcon_snn.hardware.profile import Profile
from falcon_snn.pipeline.graph import INPUT, Graph
from falcon_snn.pipeline.steps import Plan, QnnStyle, Step, qnn_plan, snn_plan

# What the critical path is made of, by kind of step.
_PARTS = {
    "analog": "analog", "fire": "neuron", "quantise": "neuron",
    "product": "attention", "drain": "attention", "elementwise": "attention",
}  # fmt: skip
PARTS = ("analog", "neuron", "attention", "waiting")


@dataclass(frozen=True)
class Timing:
    """Every step with its start and end; `ready` has the ready times of each stage's slots."""

    graph: Graph
    profile: Profile
    steps: tuple[Step, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    ready_steps: dict[str, tuple[int, ...]]
    delays: Mapping[str, int] | None  # None for a QNN

    @property
    def core_cycles(self) -> int:
        """The last output slot of the last stage."""
        return max(self.ready(name)[-1] for name in self.graph.outputs)

    @property
    def core_us(self) -> float:
        return self.us(self.core_cycles)

    def ready(self, stage: str) -> tuple[int, ...]:
        """Ready times of a stage, one per slot (one per part for a QNN)."""
        return tuple(self.ends[step] for step in self.ready_steps[stage])

    def us(self, cycles: int) -> float:
        return cycles * self.profile.cycle_ns / 1000


class PathStep(NamedTuple):
    """A stretch of the critical path: adjacent steps of one stage that serve the same part."""

    stage: str
    part: str  # one of PARTS
    start: int
    end: int


def time_snn(graph: Graph, delays: Mapping[str, int], profile: Profile) -> Timing:
    """Time the spiking network under a schedule; every step starts as early as it can."""
    return _run(snn_plan(graph, delays, profile), delays)


def time_qnn(graph: Graph, profile: Profile, style: QnnStyle = "strict") -> Timing:
    """Time the quantised network of the same graph."""
    return _run(qnn_plan(graph, profile, style), None)


def qnn_cycles(graph: Graph, profile: Profile, style: QnnStyle = "strict") -> int:
    """Core latency of the quantised network of the same graph."""
    return time_qnn(graph, profile, style).core_cycles


def _run(plan: Plan, delays: Mapping[str, int] | None) -> Timing:
    starts: list[int] = []
    ends: list[int] = []
    for step in plan.steps:
        start = 0
        for before in step.after:
            if ends[before] > start:
                start = ends[before]
        starts.append(start)
        ends.append(start + step.cycles)
    return Timing(
        plan.graph,
        plan.profile,
        tuple(plan.steps),
        tuple(starts),
        tuple(ends),
        plan.ready,
        delays,
    )


def critical_path(timing: Timing) -> list[PathStep]:
    """The chain of steps, without a gap, that ends with the core.

    The path carries a slot. A step that belongs to a later slot is waiting: the carried slot
    could have gone on without it, had no delay, prefix or complete count asked for it.
    """
    steps, ends = timing.steps, timing.ends
    last = max(timing.graph.outputs, key=lambda name: timing.ready(name)[-1])
    at: int | None = timing.ready_steps[last][-1]
    carried = len(timing.ready_steps[last]) - 1
    spiking = timing.delays is not None
    path: list[PathStep] = []
    while at is not None:
        step = steps[at]
        part = _PARTS[step.kind]
        if spiking and step.kind in ("analog", "fire", "quantise"):
            if step.slot > carried:
                part = "waiting"
            carried = min(carried, step.slot)
        elif spiking:
            carried = timing.graph.slots - 1
        if step.cycles:
            path.append(PathStep(step.stage, part, timing.starts[at], ends[at]))
        # Of several binding predecessors the last is taken: the step before in the same stage.
        at = next((b for b in reversed(step.after) if ends[b] == timing.starts[at]), None)
    return _joined(path[::-1])


def path_parts(path: list[PathStep]) -> dict[str, int]:
    """Cycles of the path by part; they add up to the core latency."""
    return {part: sum(s.end - s.start for s in path if s.part == part) for part in PARTS}


def slack(timing: Timing) -> dict[str, int]:
    """For every stage: how many cycles its results may come later without moving the end."""
    latest, core = _latest_ends(timing), timing.core_cycles
    return {
        stage.name: min(
            min(latest[s], core) - timing.ends[s] for s in timing.ready_steps[stage.name]
        )
        for stage in timing.graph.stages
    }


def next_delay_cost(timing: Timing) -> dict[str, int | None]:
    """For every boundary: cycles that one more slot of delay adds; None where d = T already.

    One more slot adds edges from the input slots to the firing steps, and no path has two of them:
    from a firing step none leads back to its inputs. So each edge is weighed by itself, between
    when its input is ready and when its firing must end.
    """
    assert timing.delays is not None
    latest, graph = _latest_ends(timing), timing.graph
    inputs = {stage.name: [name for name in stage.after if name != INPUT] for stage in graph.stages}
    cost: dict[str, int | None] = {}
    for name in graph.boundaries:
        delay, fires = timing.delays[name], timing.ready_steps[name]
        late = [0]
        for source in inputs[name]:
            ready = timing.ready_steps[source]
            for slot, fire in enumerate(fires):
                needed = ready[min(slot + delay, graph.slots - 1)]
                late.append(timing.ends[needed] + timing.steps[fire].cycles - latest[fire])
        cost[name] = None if delay == graph.slots else max(late)
    return cost


def _latest_ends(timing: Timing) -> list[int]:
    """The latest time at which every step may end without moving the core."""
    unread = timing.core_cycles + sum(step.cycles for step in timing.steps)
    latest = [unread] * len(timing.steps)  # of steps on which no output depends
    for name in timing.graph.outputs:
        latest[timing.ready_steps[name][-1]] = timing.core_cycles
    for index in range(len(timing.steps) - 1, -1, -1):
        begin = latest[index] - timing.steps[index].cycles
        for before in timing.steps[index].after:
            latest[before] = min(latest[before], begin)
    return latest


class LocalCycles(NamedTuple):
    """Analog accesses of one layer for one inference, as the paper counts them."""

    layer: str
    accesses: int  # N_cycle of one pass
    qnn: int  # C_Q = b * N_cycle; fewer with several bits per pass
    snn: int  # C_S = T * N_cycle


def local_cycles(graph: Graph, profile: Profile) -> list[LocalCycles]:
    """C_Q and C_S of every analog layer."""
    rows = []
    for stage in graph.stages:
        if stage.kind == "analog":
            one = profile.accesses(stage.inner)
            planes = profile.bit_passes(graph.bits)
            rows.append(LocalCycles(stage.layer, one, planes * one, graph.slots * one))
    return rows


def _joined(path: list[PathStep]) -> list[PathStep]:
    joined: list[PathStep] = []
    for step in path:
        if joined and joined[-1][:2] == step[:2]:
            joined[-1] = joined[-1]._replace(end=step.end)
        else:
            joined.append(step)
    return joined
