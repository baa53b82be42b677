"""Continuous inference: the event simulation runs the timetables that `throughput` promises."""

from dataclasses import replace
from random import Random

import pytest
from tests.event_simulation import Network, quantised, simulate, spiking
from tests.random_graphs import PAPER, random_graph, random_profile

from falcon_snn.hardware.profile import Profile
from falcon_snn.pipeline.graph import Graph
from falcon_snn.pipeline.steps import qnn_plan, snn_plan
from falcon_snn.pipeline.throughput import SampleStream, Throughput, measure_throughput
from falcon_snn.workflow.networks import built_in, delays_of


def assert_runs_as_promised(stream: SampleStream, network: Network, samples: int) -> None:
    """Every stage of every sample takes its engine at the promised cycle, and gives it back then.

    The simulation hands an engine to one stage at a time, so a clash would make a stage late.
    """
    timetable = {span.stage: span.start for span in stream.spans}
    for sample in simulate(network, samples, stream.interval, timetable):
        assert sample.held == {
            span.stage: (sample.entry + span.start, sample.entry + span.end)
            for span in stream.spans
        }


def latencies(network: Network, samples: int, interval: int) -> list[int]:
    """Without a timetable: engines go to the oldest sample that waits for them."""
    return [
        max(sample.ready[name][-1] for name in network.graph.outputs) - sample.entry
        for sample in simulate(network, samples, interval)
    ]


def both(
    graph: Graph, delays: dict[str, int], profile: Profile
) -> list[tuple[Throughput, Network]]:
    return [
        (measure_throughput(snn_plan(graph, delays, profile)), spiking(graph, delays, profile)),
        (measure_throughput(qnn_plan(graph, profile)), quantised(graph, profile, graph.bits)),
    ]


@pytest.mark.parametrize("chunk", range(4))
def test_random_streams_run_as_promised(chunk: int) -> None:
    for case in range(50):
        random = Random(f"stream {chunk} {case}")
        graph = random_graph(random)
        # Work that takes no time has no place in a queue.
        profile = replace(random_profile(random), neuron_step_cycles=random.randint(1, 9))
        delays = {name: random.randint(1, graph.slots) for name in graph.boundaries}
        for throughput, network in both(graph, delays, profile):
            assert_runs_as_promised(throughput.densest, network, samples=4)
            undisturbed = throughput.undisturbed
            assert set(latencies(network, 4, undisturbed.interval)) == {undisturbed.latency}


@pytest.mark.parametrize("attention", ["serial", "streamed"])
@pytest.mark.parametrize("sharing", ["shared", "per-block"])
@pytest.mark.parametrize("model", ["medium", "large"])
def test_falcon_streams_run_as_promised(model: str, sharing: str, attention: str) -> None:
    falcon = built_in(model)
    profile = replace(PAPER, engine_sharing=sharing, attention=attention)
    delays = delays_of("balanced", falcon, None)
    for throughput, network in both(falcon.graph, delays, profile):
        assert_runs_as_promised(throughput.densest, network, samples=8)
        undisturbed = throughput.undisturbed
        assert set(latencies(network, 8, undisturbed.interval)) == {undisturbed.latency}
        # A shorter interval asks more of an engine than it has time for: samples pile up.
        late = latencies(network, 24, throughput.densest.interval * 9 // 10)
        assert min(late[16:]) > max(late[:6])
