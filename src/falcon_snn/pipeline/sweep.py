"""Any value of hardware, network or schedule over a range, and the paper's claims under it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from falcon_snn.config import FalconConfig, falcon_config
from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import KEYS, Profile, with_value
from falcon_snn.pipeline.falcon_graph import falcon_graph
from falcon_snn.pipeline.graph import Graph
from falcon_snn.pipeline.schedule import (
    Delays,
    parse_delays,
    parse_schedule,
    uniform,
    with_delays,
)
from falcon_snn.pipeline.steps import QNN_STYLES
from falcon_snn.pipeline.timing import qnn_cycles, time_qnn, time_snn

_NETWORK_KEYS = tuple(field.name for field in fields(FalconConfig))


@dataclass(frozen=True)
class Setup:
    """A network, its schedule by name and its hardware: where a sweep starts from."""

    network: FalconConfig | Graph
    profile: Profile
    schedule: str = "fastest"
    dataset: str = "gsc"
    model: str = "medium"
    changes: tuple[str, ...] = ()

    @property
    def graph(self) -> Graph:
        network = self.network
        return network if isinstance(network, Graph) else falcon_graph(network)

    @property
    def delays(self) -> Delays:
        network = self.network
        if isinstance(network, Graph):
            delays = parse_delays(self.schedule, network.boundaries, network.slots)
        else:
            delays = parse_schedule(self.schedule, network, self.dataset, self.model)
        return with_delays(delays, self.changes, network.slots)


class Point(NamedTuple):
    """Latencies at one value of a sweep (us)."""

    value: Any
    snn_us: float
    full_us: float
    qnn_us: float
    bit_parallel_qnn_us: float
    overlapped_qnn_us: float


def sweep(setup: Setup, key: str, values: Iterable[Any]) -> list[Point]:
    """Time SNN and QNN at each value of `key`: a profile key, a network key, a boundary's name, or
    `delay` for all boundaries at once.
    """
    return [_point(value, *moved(setup, key, value)) for value in values]


def moved(setup: Setup, key: str, value: Any) -> tuple[Graph, Delays, Profile]:
    """Network, schedule and hardware with one value changed."""
    graph = setup.graph
    if key in KEYS:
        changed = with_value(setup.profile, key, value)
        return graph, setup.delays, changed
    if key == "delay":
        return graph, uniform(value, graph.boundaries, graph.slots), setup.profile
    if key in graph.boundaries:
        changes = [f"{key}={value}"]
        return graph, with_delays(setup.delays, changes, graph.slots), setup.profile
    own = isinstance(setup.network, Graph)
    network_keys = ("slots",) if own else _NETWORK_KEYS
    if key in network_keys:
        network_changes: dict[str, Any] = {key: value}
        setup = replace(setup, network=replace(setup.network, **network_changes))
        return setup.graph, setup.delays, setup.profile
    raise FalconError(
        f"unknown key '{key}'; choose a hardware key ({', '.join(KEYS)}), a network key "
        f"({', '.join(network_keys)}), a boundary such as {graph.boundaries[0]}, or delay"
    )


def parse_values(key: str, text: str) -> list[Any]:
    """Values written as `1,2,4` or `FIRST:LAST` or `FIRST:LAST:STEP`, ends included."""
    whole = key not in KEYS or KEYS[key].kind is int
    if key in KEYS and KEYS[key].choices is not None:
        return text.split(",")
    try:
        if ":" in text:
            first, last, *rest = (int(part) if whole else float(part) for part in text.split(":"))
            step = rest[0] if rest else 1
            if step <= 0 or len(rest) > 1:
                raise ValueError
            return [first + step * n for n in range(int((last - first) / step + 1e-9) + 1)]
        return [int(part) if whole else float(part) for part in text.split(",")]
    except ValueError:
        noun = "whole numbers" if whole else "numbers"
        raise FalconError(
            f"values '{text}' for {key}: write {noun} as 1,2,4 or FIRST:LAST or FIRST:LAST:STEP"
        ) from None


def _point(value: Any, graph: Graph, delays: Mapping[str, int], profile: Profile) -> Point:
    full = uniform(graph.slots, graph.boundaries, graph.slots)
    return Point(
        value,
        time_snn(graph, delays, profile).core_us,
        time_snn(graph, full, profile).core_us,
        time_qnn(graph, profile).core_us,
        time_qnn(graph, profile, "bit-parallel").core_us,
        time_qnn(graph, profile, "overlapped").core_us,
    )


# The paper's networks, its inferred constants, and how far they are moved.
PAPER_NETWORKS = (("medium", "ssc"), ("medium", "gsc"), ("large", "gsc"))
INFERRED: dict[str, Sequence[int]] = {
    "tile_rows": (9, 18, 27, 28, 36, 37, 45, 64, 128, 256),
    "hand_over_cycles": (0, 1, 2, 4, 8, 16, 32, 64),
    "neuron_step_cycles": (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64),
}
Network = tuple[str, str]


class Claim(NamedTuple):
    """A statement `left < factor * right` about latencies of one network."""

    text: str
    left: str
    factor: float
    right: str
    published: bool = True  # False: the paper does not make it


CLAIMS = (
    Claim("Fastest beats the QNN", "fastest", 1, "strict"),
    Claim("Balanced beats the QNN", "balanced", 1, "strict"),
    Claim("Accurate beats the QNN", "accurate", 1, "strict"),
    Claim("the QNN beats full lookahead", "strict", 1, "full"),
    Claim("the QNN beats uniform delay 2", "strict", 1, "uniform:2"),
    Claim("Balanced halves full lookahead", "balanced", 0.5, "full"),
    Claim("Fastest beats a QNN that overlaps row groups", "fastest", 1, "overlapped", False),
    Claim("Fastest beats a bit-parallel QNN", "fastest", 1, "bit-parallel", False),
)


class Verdict(NamedTuple):
    """Whether a claim holds for all of the paper's networks at each value of a constant."""

    claim: Claim
    key: str
    holds: dict[int, bool]


def examine_claims(profile: Profile) -> list[Verdict]:
    """Which conclusions of the paper survive when its inferred constants move, one at a time."""
    verdicts = []
    for key, values in INFERRED.items():
        times = {
            value: [_times(with_value(profile, key, value), network) for network in PAPER_NETWORKS]
            for value in values
        }
        for claim in CLAIMS:
            holds = {
                value: all(row[claim.left] < claim.factor * row[claim.right] for row in rows)
                for value, rows in times.items()
            }
            verdicts.append(Verdict(claim, key, holds))
    return verdicts


def _times(profile: Profile, network: Network) -> dict[str, int]:
    """Core latency in cycles of every schedule and QNN that a claim names."""
    model, dataset = network
    config = falcon_config(model, dataset)
    graph = falcon_graph(config)
    times = {style: qnn_cycles(graph, profile, style) for style in QNN_STYLES}
    schedules = ("fastest", "balanced", "accurate", "full", "uniform:2")
    delays = {name: parse_schedule(name, config, dataset, model) for name in schedules}
    return times | {name: time_snn(graph, delays[name], profile).core_cycles for name in schedules}
