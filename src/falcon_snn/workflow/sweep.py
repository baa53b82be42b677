"""Any value of hardware, network or schedule over a range, and the paper's claims under it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import KEYS, Profile, with_value
from falcon_snn.network.falcon import FalconConfig
from falcon_snn.pipeline.graph import Graph
from falcon_snn.pipeline.schedule import Delays, uniform, with_delays
from falcon_snn.pipeline.steps import QNN_STYLES
from falcon_snn.pipeline.sweep import SweepPoint, time_point
from falcon_snn.pipeline.timing import Timing, qnn_cycles, time_qnn, time_snn
from falcon_snn.workflow.networks import (
    Timed,
    built_in,
    delays_of,
    graph_with_prefix,
    timed_falcon,
)

# What a sweep may change of a built-in network, and of any other.
_SIZES = tuple(field.name for field in fields(FalconConfig) if field.type in (int, int | None))
_GRAPH_KEYS = ("slots", "qk_prefix")


@dataclass(frozen=True)
class Setup:
    """A network, its schedule by name and its hardware: what is timed, or where a sweep starts."""

    timed: Timed
    profile: Profile
    asked: str | None = None  # the schedule; None: the network's own, or else fastest
    changes: tuple[str, ...] = ()  # of delays, such as stem.fc1=2

    @property
    def graph(self) -> Graph:
        return self.timed.graph

    @property
    def schedule(self) -> str:
        return self.timed.schedule(self.asked)

    @property
    def delays(self) -> Delays:
        return self.timed.delays(self.asked, self.changes)

    def timings(self, *schedules: str | None) -> dict[str, Timing]:
        """Runs by what pictures call them: its own (None), another schedule's, or the QNN's."""
        found = {}
        for name in schedules:
            if name == "qnn":
                found["QNN"] = time_qnn(self.graph, self.profile)
                continue
            title = ", ".join((self.schedule, *self.changes)) if name is None else name
            delays = self.delays if name is None else self.timed.delays(name)
            found[f"SNN {title}"] = time_snn(self.graph, delays, self.profile)
        return found


def sweep(setup: Setup, key: str, values: Iterable[Any]) -> list[SweepPoint]:
    """Time SNN and QNN at each value of `key`: a profile key, a network key, a boundary's name, or
    `delay` for all boundaries at once.
    """
    return [time_point(value, *moved(setup, key, value)) for value in values]


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
    network_keys = _GRAPH_KEYS if setup.timed.sizes is None else _SIZES
    if key in network_keys:
        setup = replace(setup, timed=_resized(setup.timed, key, value))
        return setup.graph, setup.delays, setup.profile
    example = next(iter(graph.boundaries), "none of this network")
    raise FalconError(
        f"unknown key '{key}'; choose a hardware key ({', '.join(KEYS)}), a network key "
        f"({', '.join(network_keys)}), a boundary such as {example}, or delay"
    )


def _resized(timed: Timed, key: str, value: int) -> Timed:
    """The network with another size; delays of its own are cut to the slots that there are."""
    if timed.sizes is not None:
        change: Any = {key: value}
        return timed_falcon(replace(timed.sizes, **change))
    if key == "qk_prefix":
        return replace(timed, graph=graph_with_prefix(timed.graph, value))
    own = timed.own and {name: min(delay, value) for name, delay in timed.own.items()}
    return Timed(replace(timed.graph, slots=value), own)


# The paper's networks, its inferred constants, and how far they are moved.
PAPER_NETWORKS = (("medium", "ssc"), ("medium", "gsc"), ("large", "gsc"))
INFERRED: dict[str, Sequence[int]] = {
    "tile_rows": (9, 18, 27, 28, 36, 37, 45, 64, 128, 256),
    "hand_over_cycles": (0, 1, 2, 4, 8, 16, 32, 64),
    "neuron_step_cycles": (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64),
}


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


def _times(profile: Profile, network: tuple[str, str]) -> dict[str, int]:
    """Core latency in cycles of every schedule and QNN that a claim names."""
    chosen = built_in(*network)
    graph = chosen.graph
    times = {style: qnn_cycles(graph, profile, style) for style in QNN_STYLES}
    schedules = ("fastest", "balanced", "accurate", "full", "uniform:2")
    delays = {name: delays_of(name, chosen, None) for name in schedules}
    return times | {name: time_snn(graph, delays[name], profile).core_cycles for name in schedules}
