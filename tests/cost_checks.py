"""What holds of the time and the energy of every network."""

import pytest
from tests.event_simulation import quantised, simulate, spiking

from falcon_snn.hardware.energy import Operations, arithmetic_pj
from falcon_snn.hardware.profile import Profile
from falcon_snn.pipeline.energy import Energy
from falcon_snn.pipeline.graph import Graph
from falcon_snn.pipeline.timing import time_qnn, time_snn


def assert_timed_as_simulated(graph: Graph, delays: dict[str, int], profile: Profile) -> None:
    cases = (
        (time_snn(graph, delays, profile), spiking(graph, delays, profile)),
        (time_qnn(graph, profile, "strict"), quantised(graph, profile, graph.bits)),
        (time_qnn(graph, profile, "bit-parallel"), quantised(graph, profile, 1)),
    )
    for timing, network in cases:
        (sample,) = simulate(network)
        assert {s.name: list(timing.ready(s.name)) for s in graph.stages} == sample.ready


def assert_adds_up(energy: Energy, profile: Profile) -> None:
    parts = sum(energy.analog_parts.values()) + sum(energy.digital_parts.values())
    assert parts * 1e-9 == pytest.approx(energy.core_mj)
    assert sum(energy.stages_mj.values()) == pytest.approx(energy.core_mj)
    counted = Operations()
    for one in energy.operations.values():
        counted = counted.plus(one)
    assert arithmetic_pj(counted, profile) * 1e-9 == pytest.approx(energy.arithmetic_mj)
