"""What `falcon-snn latency` says about a network, as data."""

from collections.abc import Mapping
from typing import Any

from falcon_snn.hardware.profile import Profile
from falcon_snn.pipeline.graph import Graph
from falcon_snn.pipeline.steps import QNN_STYLES
from falcon_snn.pipeline.timing import (
    Timing,
    critical_path,
    local_cycles,
    next_delay_cost,
    path_parts,
    slack,
    time_qnn,
    time_snn,
)


def snn_report(graph: Graph, delays: Mapping[str, int], profile: Profile) -> dict[str, Any]:
    """Latency of the spiking network beside its full lookahead and its QNN."""
    timing = time_snn(graph, delays, profile)
    full = time_snn(graph, dict.fromkeys(graph.boundaries, graph.slots), profile)
    slack_cycles, cost = slack(timing), next_delay_cost(timing)
    return {
        **_common(timing),
        "full_lookahead_us": _us(full, full.core_cycles),
        "boundaries": [
            {
                "name": name,
                "delay": delays[name],
                "slack_us": _us(timing, slack_cycles[name]),
                "next_delay_us": None if (more := cost[name]) is None else _us(timing, more),
            }
            for name in graph.boundaries
        ],
    }


def qnn_report(graph: Graph, profile: Profile) -> dict[str, Any]:
    """Latency of the quantised network, by the paper's strict rule."""
    return _common(time_qnn(graph, profile))


def _common(timing: Timing) -> dict[str, Any]:
    graph, profile = timing.graph, timing.profile
    qnn = {style: time_qnn(graph, profile, style) for style in QNN_STYLES}
    path = critical_path(timing)
    return {
        "network": graph.name,
        "hardware": profile.name,
        "slots": graph.slots,
        "bits": graph.bits,
        "attention": profile.attention,
        "core_latency_us": _us(timing, timing.core_cycles),
        "core_latency_cycles": timing.core_cycles,
        "matched_qnn_us": _us(timing, qnn["strict"].core_cycles),
        "bit_parallel_qnn_us": _us(timing, qnn["bit-parallel"].core_cycles),
        "overlapped_qnn_us": _us(timing, qnn["overlapped"].core_cycles),
        "stages": [
            {
                "name": stage.name,
                "kind": stage.kind,
                "first_ready_us": _us(timing, timing.ready(stage.name)[0]),
                "last_ready_us": _us(timing, timing.ready(stage.name)[-1]),
            }
            for stage in graph.stages
        ],
        "critical_path": [
            {
                "stage": step.stage,
                "part": step.part,
                "start_us": _us(timing, step.start),
                "end_us": _us(timing, step.end),
            }
            for step in path
        ],
        "critical_path_parts_us": {
            part: _us(timing, cycles) for part, cycles in path_parts(path).items()
        },
        "local_cycles": [row._asdict() for row in local_cycles(graph, profile)],
    }


def _us(timing: Timing, cycles: int) -> float:
    return round(timing.us(cycles), 4)
