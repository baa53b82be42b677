"""What must hold for any network, schedule and chip."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.random_networks import graphs, profiles, schedules

from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile, load_profile
from falcon_snn.pipeline.batch import core_cycles_many
from falcon_snn.pipeline.graph import INPUT, Graph, TimedStage, layer
from falcon_snn.pipeline.steps import QNN_STYLES
from falcon_snn.pipeline.timing import (
    Timing,
    critical_path,
    local_cycles,
    next_delay_cost,
    path_parts,
    qnn_cycles,
    slack,
    time_qnn,
    time_snn,
)
from falcon_snn.workflow.networks import built_in

PAPER = load_profile()
LARGE = built_in("large", "gsc").graph
FAST = dict.fromkeys(LARGE.boundaries, 1)


@given(graphs(), profiles(), st.data())
def test_latency_never_falls_when_a_delay_grows(
    graph: Graph, profile: Profile, data: st.DataObject
) -> None:
    delays = data.draw(schedules(graph))
    before = time_snn(graph, delays, profile)
    for name in graph.boundaries:
        if delays[name] < graph.slots:
            after = time_snn(graph, {**delays, name: delays[name] + 1}, profile)
            assert after.core_cycles >= before.core_cycles
            for stage in graph.stages:
                pairs = zip(before.ready(stage.name), after.ready(stage.name), strict=True)
                assert all(later >= sooner for sooner, later in pairs)


@given(st.lists(st.integers(1, 3), min_size=29, max_size=29))
def test_short_delays_add_up_over_boundaries(values: list[int]) -> None:
    delays = dict(zip(LARGE.boundaries, values, strict=True))
    fastest = time_snn(LARGE, FAST, PAPER).core_cycles
    alone = [
        time_snn(LARGE, {**FAST, name: delay}, PAPER).core_cycles - fastest
        for name, delay in delays.items()
    ]
    assert time_snn(LARGE, delays, PAPER).core_cycles == fastest + sum(alone)


def test_long_delays_saturate() -> None:
    fastest = time_snn(LARGE, FAST, PAPER).core_cycles
    full = time_snn(LARGE, dict.fromkeys(LARGE.boundaries, 7), PAPER).core_cycles
    alone = sum(
        time_snn(LARGE, {**FAST, name: 7}, PAPER).core_cycles - fastest for name in LARGE.boundaries
    )
    assert full < fastest + alone


@given(graphs(), profiles(), st.data())
def test_batch_equals_single(graph: Graph, profile: Profile, data: st.DataObject) -> None:
    chosen = [data.draw(schedules(graph)) for _ in range(3)]
    rows = np.array([list(delays.values()) for delays in chosen]).reshape(3, -1)
    single = [time_snn(graph, delays, profile).core_cycles for delays in chosen]
    assert core_cycles_many(graph, rows, profile).tolist() == single
    assert core_cycles_many(graph, rows[:1], profile).tolist() == single[:1]


@pytest.mark.parametrize("attention", ["serial", "streamed"])
def test_batch_equals_single_on_falcon(attention: str) -> None:
    profile = replace(PAPER, attention=attention)
    graph = built_in("large", "gsc", qk_prefix=3).graph
    rows = np.random.default_rng(1).integers(1, 8, (300, 29))
    many = core_cycles_many(graph, rows, profile)
    for row, cycles in zip(rows.tolist(), many.tolist(), strict=True):
        delays = dict(zip(graph.boundaries, row, strict=True))
        assert time_snn(graph, delays, profile).core_cycles == cycles


def test_batch_refuses_what_the_single_evaluation_refuses() -> None:
    with pytest.raises(FalconError, match="expected"):
        core_cycles_many(LARGE, np.ones((2, 3), dtype=int), PAPER)
    with pytest.raises(FalconError, match=r"1\.\.7"):
        core_cycles_many(LARGE, np.full((2, 29), 8), PAPER)


@given(graphs(), profiles(), st.data())
def test_critical_path_has_no_gap_and_fills_the_latency(
    graph: Graph, profile: Profile, data: st.DataObject
) -> None:
    timing = time_snn(graph, data.draw(schedules(graph)), profile)
    for checked in (timing, time_qnn(graph, profile)):
        path = critical_path(checked)
        assert sum(path_parts(path).values()) == checked.core_cycles
        assert all(one.end == two.start for one, two in pairwise(path))


@given(graphs(), profiles(), st.data())
def test_slack_is_never_negative_and_is_zero_somewhere(
    graph: Graph, profile: Profile, data: st.DataObject
) -> None:
    found = slack(time_snn(graph, data.draw(schedules(graph)), profile))
    assert min(found.values()) == 0


def core_with(timing: Timing, late: int, cycles: int) -> int:
    """The core latency when one step takes longer: the longest way through the steps."""
    ends: list[int] = []
    for number, step in enumerate(timing.steps):
        begin = max((ends[before] for before in step.after), default=0)
        ends.append(begin + step.cycles + (cycles if number == late else 0))
    return max(ends[timing.ready_steps[name][-1]] for name in timing.graph.outputs)


@given(graphs(), profiles(), st.data())
def test_slack_is_exactly_how_late_a_result_may_come(
    graph: Graph, profile: Profile, data: st.DataObject
) -> None:
    timing = time_snn(graph, data.draw(schedules(graph)), profile)
    name = data.draw(st.sampled_from([stage.name for stage in graph.stages]))
    allowed, ready = slack(timing)[name], timing.ready_steps[name]
    assert all(core_with(timing, step, allowed) == timing.core_cycles for step in ready)
    assert any(core_with(timing, step, allowed + 1) > timing.core_cycles for step in ready)


@given(graphs(), profiles())
def test_fairer_qnns_are_never_slower_than_the_strict_one(graph: Graph, profile: Profile) -> None:
    strict, *fairer = (qnn_cycles(graph, profile, style) for style in QNN_STYLES)
    assert all(cycles <= strict for cycles in fairer)


@given(graphs(), profiles(), st.data())
def test_one_more_slot_costs_what_timing_it_says(
    graph: Graph, profile: Profile, data: st.DataObject
) -> None:
    delays = data.draw(schedules(graph))
    timing = time_snn(graph, delays, profile)
    for name, cost in next_delay_cost(timing).items():
        if delays[name] == graph.slots:
            assert cost is None
        else:
            later = time_snn(graph, {**delays, name: delays[name] + 1}, profile).core_cycles
            assert cost == later - timing.core_cycles, name


def test_value_has_slack_and_late_boundaries_cost_next_to_nothing() -> None:
    found = slack(time_snn(LARGE, FAST, PAPER))
    assert found["block0.v"] > 0
    assert found["block0.ffn1"] == 0
    cost = next_delay_cost(time_snn(LARGE, FAST, PAPER))
    assert cost["block0.ffn1"] == 188
    assert cost["block4.residual2"] == 3


def test_waiting_is_what_a_prefix_saves() -> None:
    """With delay 1 the path waits only in Q and K: six more slots in each of three blocks."""
    graph = built_in("medium", "gsc").graph
    path = critical_path(time_snn(graph, dict.fromkeys(graph.boundaries, 1), PAPER))
    assert path_parts(path)["waiting"] == 3 * 6 * 188
    waits = {step.stage for step in path if step.part == "waiting"}
    assert waits == {f"block{block}.k.array" for block in range(3)}


def test_a_product_carries_the_last_slot_of_its_operands() -> None:
    """It needs all slots of both: on the way to it none is waited for in vain."""
    product = TimedStage("p", "product", ("a", "b"), rows=4, inner=8, columns=4)
    out = TimedStage("out", "neuron", ("p",), full_lookahead=True)
    layers = (*layer("a", INPUT, 64, 8), *layer("b", INPUT, 64, 8))
    timing = time_snn(Graph("small", 4, (*layers, product, out)), {"a": 1, "b": 1}, PAPER)
    parts = path_parts(critical_path(timing))
    assert parts["waiting"] == 0
    assert parts["analog"] == 4 * 188


def test_products_on_shared_arrays_take_turns() -> None:
    layers = (*layer("a", INPUT, 64, 8), *layer("b", INPUT, 64, 8))
    products = [
        TimedStage(f"{block}.p", "product", ("a", "b"), rows=4, inner=8, columns=4)
        for block in "xy"
    ]
    graph = Graph("two blocks", 4, (*layers, *products))
    for sharing, waits in (("shared", True), ("per-block", False)):
        timing = time_snn(graph, {"a": 1, "b": 1}, replace(PAPER, engine_sharing=sharing))
        one, two = (n for n, step in enumerate(timing.steps) if step.kind == "product")
        assert timing.starts[two] == (timing.ends[one] if waits else timing.starts[one])


def test_local_cycles_are_the_papers() -> None:
    rows = local_cycles(LARGE, PAPER)
    assert {(row.accesses, row.qnn, row.snn) for row in rows} == {(128, 3 * 128, 7 * 128)}


def test_more_heads_than_arrays_run_in_rounds() -> None:
    graph = built_in("medium", "gsc").graph
    one = replace(PAPER, arrays=1, engines=1)
    saved = qnn_cycles(graph, one) - qnn_cycles(graph, PAPER)
    assert saved == 3 * 4 * (574 + 301 + 454)  # three blocks, four more rounds of each


def test_unknown_and_missing_boundaries_are_refused() -> None:
    with pytest.raises(FalconError, match="unknown boundary 'nowhere'"):
        time_snn(LARGE, {**FAST, "nowhere": 1}, PAPER)
    with pytest.raises(FalconError, match=r"no delay is given for boundary 'stem\.conv1'"):
        time_snn(LARGE, {}, PAPER)
    with pytest.raises(FalconError, match=r"must lie in 1\.\.7"):
        time_snn(LARGE, {**FAST, "stem.fc1": 0}, PAPER)
