"""Continuous inference, resources, sweeps: what they say about the paper's networks."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.random_networks import graphs, profiles, schedules

from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile, load_profile
from falcon_snn.pipeline.graph import Graph
from falcon_snn.pipeline.resources import count_resources, sharing_curve
from falcon_snn.pipeline.steps import qnn_plan, snn_plan
from falcon_snn.pipeline.sweep import parse_values
from falcon_snn.pipeline.throughput import SampleStream, measure_throughput
from falcon_snn.pipeline.timing import time_snn
from falcon_snn.workflow.networks import Timed, built_in, timed_network
from falcon_snn.workflow.sweep import Setup, examine_claims, sweep

PAPER = load_profile()
MEDIUM = built_in("medium", "gsc").graph
FAST = dict.fromkeys(MEDIUM.boundaries, 1)


def overlaps(stream: SampleStream, samples: int) -> bool:
    """Whether two stages of the first samples are on a resource at once, by brute force."""
    by_resource: dict[str, list[tuple[int, int]]] = {}
    for sample in range(samples):
        shift = sample * stream.interval
        for span in stream.spans:
            if span.end > span.start:
                use = (span.start + shift, span.end + shift)
                by_resource.setdefault(span.resource, []).append(use)
    for uses in by_resource.values():
        uses.sort()
        if any(two[0] < one[1] for one, two in itertools.pairwise(uses)):
            return True
    return False


@given(graphs(), profiles(), st.data())
def test_no_resource_ever_serves_two_stages_at_once(
    graph: Graph, profile: Profile, data: st.DataObject
) -> None:
    plan = snn_plan(graph, data.draw(schedules(graph)), profile)
    measured = measure_throughput(plan)
    for stream in (measured.densest, measured.undisturbed):
        assert not overlaps(stream, min(stream.in_flight, 40) + 2)
        for index, step in enumerate(plan.steps):
            begin = stream.ends[index] - step.cycles
            assert all(stream.ends[before] <= begin for before in step.after)


def test_engines_decide_who_wins() -> None:
    """Shared: the arrays limit both alike. Per block: T passes limit the SNN, arrays the QNN."""
    own = replace(PAPER, engine_sharing="per-block")
    shared = [
        measure_throughput(p) for p in (snn_plan(MEDIUM, FAST, PAPER), qnn_plan(MEDIUM, PAPER))
    ]
    apart = [measure_throughput(p) for p in (snn_plan(MEDIUM, FAST, own), qnn_plan(MEDIUM, own))]
    assert [m.densest.interval for m in shared] == [3 * (574 + 454)] * 2
    assert [m.densest.interval for m in apart] == [7 * 188, 574 + 454]
    assert shared[0].limits[0].resource == "arrays"
    assert apart[0].limits[0].resource == "stem.conv1.array"
    assert apart[1].limits[0].resource == "block0 arrays"


def test_an_undisturbed_stream_is_as_fast_as_one_sample() -> None:
    measured = measure_throughput(snn_plan(MEDIUM, FAST, PAPER))
    assert measured.undisturbed.latency == time_snn(MEDIUM, FAST, PAPER).core_cycles == 11582
    assert measured.undisturbed.interval >= measured.densest.interval
    for stream in (measured.undisturbed, measured.densest):
        begun = range(0, stream.latency, stream.interval)  # until the first one ends
        assert stream.in_flight == len(begun)


def test_resources_of_the_papers_mapping() -> None:
    found = count_resources(MEDIUM, PAPER)
    layers = {layer.layer: layer for layer in found.layers}
    assert layers["stem.fc1"].tiles_per_copy == 22 * 2  # 768 rows of 36, 160 columns of 128
    assert layers["stem.conv1"].copies == 98 * 16
    assert (found.arrays, found.engines) == (5, 5)
    assert found.analog_area_mm2 is None
    own = replace(PAPER, engine_sharing="per-block", subarray_area_mm2=0.5)
    assert count_resources(MEDIUM, own).arrays == 15
    assert count_resources(MEDIUM, own).analog_area_mm2 == found.tiles * 0.5


def test_neuron_units_buffers_and_what_sharing_them_costs() -> None:
    found = count_resources(MEDIUM, PAPER)
    units = {unit.stage: unit for unit in found.units}
    assert sum(unit.neurons for unit in found.units) == 652_288
    assert units["stem.conv1"][1:5] == (75_264, 75_264, 7 * 75_264, 0)
    assert units["block0.q"].buffer_bits == 8 * 98 * 160
    assert units["block0.residual1"].cells == 391 * 98 * 160  # it adds spikes only
    assert found.neuron_area_mm2 == pytest.approx(1060.8, abs=0.1)
    shared = replace(PAPER, neurons_per_unit=32)
    fewer = count_resources(MEDIUM, shared)
    first = fewer.units[0]
    assert first[1:5] == (75_264, 2352, 7 * 75_264, 32 * 75_264)
    assert fewer.neuron_area_mm2 == pytest.approx(239.7, abs=0.1)
    cycles = [time_snn(MEDIUM, FAST, chip).core_cycles for chip in (PAPER, shared)]
    assert cycles == [11582, 12357]  # 31 cycles for each of the 25 decisions on the path
    assert count_resources(MEDIUM, replace(PAPER, neuron_area_um2=None)).neuron_area_mm2 is None


def test_sharing_arrays_saves_tiles_and_costs_time() -> None:
    curve = sharing_curve(MEDIUM, FAST, PAPER, [1, 2, 7, 98])
    assert [point.snn_us for point in curve] == sorted(point.snn_us for point in curve)
    assert curve[0].snn_us == 115.82
    assert curve[-1].tiles * 98 == curve[0].tiles
    with pytest.raises(FalconError, match="0 tokens cannot share"):
        sharing_curve(MEDIUM, FAST, PAPER, [0])


def test_sweeps_of_hardware_network_and_schedule() -> None:
    setup = Setup(timed_network("medium"), PAPER, "balanced")
    prefix = sweep(setup, "qk_prefix", parse_values("qk_prefix", "3:7"))
    assert [round(point.snn_us, 2) for point in prefix] == [97.08, 102.72, 108.36, 114.00, 119.64]
    rows = sweep(setup, "tile_rows", parse_values("tile_rows", "28,32,36"))
    assert {point.snn_us for point in rows} == {119.64}
    uniform = sweep(setup, "delay", [1, 7])
    assert [point.snn_us for point in uniform] == [115.82, 252.44]
    one = sweep(setup, "block0.ffn1", [1, 2])
    assert round(one[1].snn_us - one[0].snn_us, 6) == 1.88
    styles = sweep(setup, "attention", parse_values("attention", "serial,streamed"))
    assert round(styles[0].snn_us - styles[1].snn_us, 6) == 9.03
    own = replace(setup, timed=Timed(MEDIUM), asked="fastest")
    assert [point.qnn_us for point in sweep(own, "slots", [3, 7])] == [100.78, 130.86]
    trained = Timed(MEDIUM, dict.fromkeys(MEDIUM.boundaries, 5))
    found = sweep(Setup(trained, PAPER), "slots", [3, 7])  # with 3 slots nothing can wait for 5
    assert found[0].snn_us == found[0].full_us
    assert found[1].snn_us < found[1].full_us
    wider = sweep(setup, "hidden", [160, 320])
    assert wider[0].snn_us < wider[1].snn_us


@pytest.mark.parametrize(
    ("key", "values", "message"),
    [
        ("nothing", "1", "unknown key 'nothing'"),
        ("tile_rows", "a", "write whole numbers as"),
        ("tile_rows", "1:9:0", "write whole numbers as"),
        ("tile_rows", "9:1", "'9:1' for tile_rows: none; write the smaller end first"),
        ("t_adc_ns", "x", "write numbers as"),
        ("tile_rows", "0", "tile_rows = 0; allowed: a whole number from 1"),
        ("attention", "fast", "attention = 'fast'; allowed"),
        ("slots", "9", "slots is 9"),
        ("delay", "8", r"must lie in 1\.\.7"),
    ],
)
def test_a_bad_sweep_is_one_clear_line(key: str, values: str, message: str) -> None:
    with pytest.raises(FalconError, match=message):
        sweep(Setup(timed_network("medium"), PAPER), key, parse_values(key, values))


def test_which_claims_survive() -> None:
    verdicts = {(v.claim.text, v.key): v.holds for v in examine_claims(PAPER)}
    published = {"tile_rows": 36, "hand_over_cycles": 1, "neuron_step_cycles": 3}
    for (text, key), holds in verdicts.items():
        assert holds[published[key]] is (text != "Fastest beats a bit-parallel QNN")
    assert all(verdicts["Fastest beats the QNN", "neuron_step_cycles"].values())
    assert not verdicts["Fastest beats the QNN", "tile_rows"][256]


@pytest.mark.parametrize(
    ("key", "text"),
    [("tile_rows", "1:99999999999"), ("clock_mhz", "1:inf"), ("clock_mhz", "nan"), ("heads", "x")],
)
def test_values_that_no_sweep_can_take(key: str, text: str) -> None:
    with pytest.raises(FalconError, match=f"for {key}"):
        parse_values(key, text)
