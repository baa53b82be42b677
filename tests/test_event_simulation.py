"""Slot timing against the event simulation, cycle for cycle; the simulation against the paper."""

from dataclasses import replace
from random import Random

import pytest
from tests.cost_checks import assert_timed_as_simulated
from tests.event_simulation import Network, quantised, simulate, spiking
from tests.random_graphs import PAPER, random_graph, random_profile

from falcon_snn.network import description
from falcon_snn.network.falcon import PUBLISHED, FalconConfig, falcon, falcon_config
from falcon_snn.pipeline.schedule import Delays, parse_delays
from falcon_snn.report.published import MAIN_RESULTS, QK_PREFIX, UNIFORM_DELAYS_GSC_LARGE

CHUNKS, CASES_PER_CHUNK = 20, 125


def core_us(network: Network) -> float:
    """Core latency of one sample, by the simulation alone, on the paper's clock of 100 MHz."""
    (sample,) = simulate(network)
    return max(sample.ready[name][-1] for name in network.graph.outputs) / 100


def published(network: description.Network, name: str) -> Delays:
    """A schedule by name, the paper's among them."""
    return parse_delays(name, network.boundaries, network.slots, PUBLISHED[network.name])


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_graphs_agree_in_every_slot(chunk: int) -> None:
    for case in range(CASES_PER_CHUNK):
        random = Random(f"graph {chunk} {case}")
        graph, profile = random_graph(random), random_profile(random)
        delays = {name: random.randint(1, graph.slots) for name in graph.boundaries}
        assert_timed_as_simulated(graph, delays, profile)


@pytest.mark.parametrize("chunk", range(4))
def test_random_falcons_agree_in_every_slot(chunk: int) -> None:
    for case in range(25):
        random = Random(f"falcon {chunk} {case}")
        slots = random.randint(1, 8)
        config = FalconConfig(
            "random", blocks=random.randint(1, 3), features=64, tokens=random.randint(1, 130),
            heads=random.choice([1, 2, 5]), slots=slots,
            qk_prefix=random.choice([None, random.randint(1, slots)]),
        )  # fmt: skip
        profile = random.choice(
            [random_profile(random), PAPER, replace(PAPER, attention="streamed")]
        )
        graph = falcon(config).graph
        delays = {name: random.randint(1, slots) for name in graph.boundaries}
        assert_timed_as_simulated(graph, delays, profile)


@pytest.mark.parametrize("setting", MAIN_RESULTS)
def test_the_simulation_alone_gives_the_published_figures(setting: str) -> None:
    dataset, model = setting.split("-")
    chosen = falcon(falcon_config(model, dataset))
    for configuration, figures in MAIN_RESULTS[setting].items():
        if configuration == "qnn":
            network = quantised(chosen.graph, PAPER, passes=3)
        else:
            network = spiking(chosen.graph, published(chosen, configuration), PAPER)
        assert core_us(network) == figures.latency_us


def test_the_simulation_alone_gives_the_prefix_and_uniform_figures() -> None:
    for row in QK_PREFIX:
        network = falcon(falcon_config("medium", "gsc", qk_prefix=row.prefix))
        delays = published(network, "balanced")
        assert core_us(spiking(network.graph, delays, PAPER)) == row.latency_us
        (sample,) = simulate(spiking(network.graph, delays, PAPER))
        stem = sample.ready["stem.fc2"]
        assert (stem[0], stem[-1]) == (764, 1892)  # block 0 starts; the stem's last slot
    graph = falcon(falcon_config("large", "gsc")).graph
    for delay, figures in UNIFORM_DELAYS_GSC_LARGE.items():
        delays = dict.fromkeys(graph.boundaries, delay)
        assert core_us(spiking(graph, delays, PAPER)) == figures.latency_us


def test_streamed_attention_saves_three_microseconds_per_block() -> None:
    """By hand, for 98 tokens: the 301 cycles of ConSmax hide behind QK^T and AV."""
    graph = falcon(falcon_config("medium", "gsc")).graph
    streamed = replace(PAPER, attention="streamed")
    delays = dict.fromkeys(graph.boundaries, 1)
    for slow, fast in (
        (spiking(graph, delays, PAPER), spiking(graph, delays, streamed)),
        (quantised(graph, PAPER, 3), quantised(graph, streamed, 3)),
    ):
        assert core_us(slow) - core_us(fast) == pytest.approx(3 * 3.01)
