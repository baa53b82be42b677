"""What follows from a state: the latency at once, the rest a moment later."""

from dataclasses import dataclass

from falcon_snn.pipeline.resources import samples_per_s
from falcon_snn.pipeline.steps import qnn_plan, snn_plan
from falcon_snn.pipeline.throughput import measure_throughput
from falcon_snn.pipeline.timing import (
    PathStep,
    Timing,
    critical_path,
    next_delay_cost,
    path_parts,
    slack,
    time_qnn,
    time_snn,
)
from falcon_snn.studio.state import StudioState


@dataclass(frozen=True)
class Latency:
    """When the network finishes, beside its rivals, and why then."""

    snn: Timing
    qnn: Timing
    full: Timing
    path: list[PathStep]
    parts_us: dict[str, float]
    slack_us: dict[str, float]  # of the boundaries

    @property
    def core_us(self) -> float:
        return self.snn.core_us


def latency(state: StudioState) -> Latency:
    """What must be there within 100 ms of a change; it takes under 10."""
    graph, profile = state.graph, state.profile
    snn = time_snn(graph, state.delays, profile)
    full = time_snn(graph, dict.fromkeys(graph.boundaries, graph.slots), profile)
    path, slacks = critical_path(snn), slack(snn)
    return Latency(
        snn=snn,
        qnn=time_qnn(graph, profile),
        full=full,
        path=path,
        parts_us={part: snn.us(cycles) for part, cycles in path_parts(path).items()},
        slack_us={name: snn.us(slacks[name]) for name in graph.boundaries},
    )


@dataclass(frozen=True)
class Rate:
    """Continuous inference: how often a sample enters at best, and what sets that."""

    interval_us: float
    samples_per_s: float
    limited_by: str


@dataclass(frozen=True)
class Outlook:
    """What one more slot of delay would add at each boundary, and throughput."""

    next_delay_us: dict[str, float | None]
    snn: Rate
    qnn: Rate


def outlook(state: StudioState) -> Outlook:
    """What takes longer than a frame and may follow the latency."""
    graph, profile = state.graph, state.profile
    us = profile.cycle_ns / 1000
    rates = []
    for plan in (snn_plan(graph, state.delays, profile), qnn_plan(graph, profile)):
        measured = measure_throughput(plan)
        interval, limit = measured.densest.interval, measured.limits[0].resource
        rates.append(Rate(interval * us, samples_per_s(interval, profile), limit))
    cost = next_delay_cost(time_snn(graph, state.delays, profile))
    added = {name: None if more is None else more * us for name, more in cost.items()}
    return Outlook(added, *rates)
