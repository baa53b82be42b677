"""The studio without a browser: its state, its address, its numbers, its clips."""

import json
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.random_networks import networks
from tests.training_data import WORDS, make_examples

from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import load_profile
from falcon_snn.network.description import Network
from falcon_snn.network.falcon import DATASETS, MODELS
from falcon_snn.network.qnn import Qnn
from falcon_snn.pipeline.schedule import read_schedule
from falcon_snn.report.latency import snn_report
from falcon_snn.report.throughput import throughput_report
from falcon_snn.studio import numbers
from falcon_snn.studio import state as states
from falcon_snn.studio.sample import Sample
from falcon_snn.studio.state import OWN, StudioState, first_state, from_query, own_state, to_query
from falcon_snn.training.checkpoint import Metadata, prefixed, save_checkpoint
from falcon_snn.training.export import load_network
from falcon_snn.workflow.networks import built_in


@st.composite
def any_state(draw: st.DrawFn) -> StudioState:
    name, dataset = draw(st.sampled_from(MODELS)), draw(st.sampled_from(DATASETS))
    slots = draw(st.integers(1, 8))
    names = built_in(name, dataset).boundaries
    wait = st.integers(1, slots)
    profile = replace(
        load_profile(),
        name=draw(st.sampled_from(["paper", "my chip & yours", "größer=1"])),
        active_rows=draw(st.integers(1, 64)),
        t_adc_ns=draw(st.floats(0.01, 100)),
        attention=draw(st.sampled_from(["serial", "streamed"])),
        array_area_mm2=draw(st.none() | st.floats(0, 2)),
    )
    return StudioState(
        name, dataset, slots, draw(wait), {name: draw(wait) for name in names}, profile,
        draw(st.sampled_from(list(states.BELOW))),
    )  # fmt: skip


@given(any_state())
def test_the_address_gives_the_state_back(state: StudioState) -> None:
    query = dict(parse_qsl(to_query(state), keep_blank_values=True))
    assert from_query(query, first_state()) == state


@given(networks(), st.data())
def test_a_network_of_ones_own_is_in_the_address_too(network: Network, data: st.DataObject) -> None:
    delays = {name: data.draw(st.integers(1, network.slots)) for name in network.boundaries}
    start = own_state(network, delays)
    assert (start.network, start.delays) == (network, delays)
    query = dict(parse_qsl(to_query(start)))
    assert query["network"] == OWN
    assert from_query(query, start) == start
    with pytest.raises(FalconError, match="unknown network 'own'; choose one of tiny, medium"):
        from_query(query, first_state())
    assert numbers.latency(start).core_us > 0
    tiny = states.with_network(start, "tiny", "ssc")
    assert (tiny.network.name, tiny.slots) == ("Falcon-Tiny SSC", network.slots)
    shorter = states.with_slots(start, "1")
    assert (shorter.network.slots, set(shorter.delays.values()) <= {1}) == (1, True)
    if not start.has_prefix and network.slots > 1:
        with pytest.raises(FalconError, match="has no Q and K, so no Q/K prefix"):
            states.with_prefix(start, "1")
        assert states.with_network(states.with_prefix(tiny, "1"), OWN, "gsc").network == network


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"network": "huge"}, "unknown network 'huge'"),
        ({"T": "seven"}, "T is 'seven'; it must be a whole number"),
        ({"T": "9"}, "slots is 9"),
        ({"prefix": "8"}, "Q/K prefix is 8"),
        ({"prefix": "0"}, "Q/K prefix is 0"),
        ({"block0.ffn1": "9"}, "delay of block0.ffn1 is 9; it must lie in 1..7"),
        ({"block9.ffn1": "2"}, "unknown boundary 'block9.ffn1'"),
        ({"active_rows": "0"}, "active_rows = 0"),
        ({"t_adc_ns": "nan"}, "t_adc_ns = nan"),
        ({"attention": "lazy"}, "attention = 'lazy'"),
        ({"below": "above"}, "below is 'above'"),
    ],
)
def test_a_bad_address_is_refused(query: dict[str, str], message: str) -> None:
    with pytest.raises(FalconError, match=re.escape(message)):
        from_query(query, first_state())


def test_the_numbers_are_those_of_the_commands() -> None:
    state = states.with_schedule(first_state(), "balanced")
    for chosen in (state, states.with_hardware(states.with_slots(state, "5"), "active_rows", "18")):
        now, later = numbers.latency(chosen), numbers.outlook(chosen)
        report = snn_report(chosen.graph, chosen.delays, chosen.profile)
        assert round(now.core_us, 4) == report["core_latency_us"]
        assert round(now.qnn.core_us, 4) == report["matched_qnn_us"]
        assert round(now.full.core_us, 4) == report["full_lookahead_us"]
        assert sum(now.parts_us.values()) == pytest.approx(now.core_us)
        for row in report["boundaries"]:
            assert round(now.slack_us[row["name"]], 4) == row["slack_us"]
            assert later.next_delay_us[row["name"]] == pytest.approx(row["next_delay_us"])
        snn, qnn = throughput_report(chosen.graph, chosen.delays, chosen.profile)[0][:2]
        assert round(later.snn.interval_us, 4) == snn["interval_us"]
        assert round(later.qnn.interval_us, 4) == qnn["interval_us"]


def test_a_change_of_network_or_slots_keeps_what_fits() -> None:
    state = states.with_delay(states.with_delay(first_state(), "block0.ffn1", "7"), "stem.fc1", "3")
    large = states.with_network(state, "large", "gsc")
    assert (large.delays["block0.ffn1"], large.delays["block4.ffn1"]) == (7, 1)
    short = states.with_slots(state, "2")
    assert (short.prefix, short.delays["block0.ffn1"], short.delays["stem.fc1"]) == (2, 2, 2)
    longer = states.with_slots(state, "8")
    assert (longer.prefix, longer.delays["block0.ffn1"], longer.delays["stem.fc1"]) == (8, 7, 3)
    without_codes = states.with_network(states.with_prefix(state, "4"), "kestrel-5", "gsc")
    assert (without_codes.prefix, without_codes.slots, without_codes.has_prefix) == (7, 7, False)
    waiting_less = states.with_slots(states.with_prefix(state, "4"), "8")
    assert waiting_less.prefix == 4


def test_t_cycle_is_exact() -> None:
    state = first_state()
    assert states.with_t_cycle(state, "20").profile.t_cycle_ns == 20
    assert states.with_t_cycle(state, "3.3").profile.t_cycle_ns == 3.3
    assert states.with_t_cycle(states.with_t_cycle(state, "20"), "14.6").profile == state.profile
    for typed in ("", "fast", "0", "-4", "inf", "nan"):
        with pytest.raises(FalconError):
            states.with_t_cycle(state, typed)


def test_unpublished_schedules_are_refused() -> None:
    with pytest.raises(FalconError, match="no schedule 'balanced' is published for this"):
        states.with_schedule(first_state("tiny"), "balanced")


def test_the_saved_schedule_is_one(tmp_path: Path) -> None:
    state = states.with_schedule(first_state("large"), "accurate")
    file = tmp_path / "schedule.json"
    file.write_text(states.schedule_file(state), encoding="utf-8")
    assert read_schedule(file, state.network.boundaries, 7) == state.delays
    assert json.loads(file.read_text())["qk_prefix"] == 7


def test_the_clips_show_what_a_schedule_does(tmp_path: Path) -> None:
    tiny = built_in("tiny", classes=len(WORDS))
    torch.manual_seed(1)
    checkpoint = tmp_path / "tiny.safetensors"
    metadata = Metadata(tiny, WORDS, {}, 1, 0, {})
    save_checkpoint(checkpoint, metadata, prefixed("model.", Qnn(tiny).state_dict()))
    draw = torch.Generator().manual_seed(2)
    clips = replace(
        make_examples(6, 0),
        x=torch.randn(6, 98, 64, generator=draw),
        lengths=torch.tensor([98, 98, 60, 98, 40, 98]),
    )
    fastest = own_state(tiny, None)
    sample = Sample(checkpoint, fastest, clips)
    assert sample.fits(fastest)
    assert not sample.fits(states.with_slots(fastest, "6"))
    assert not sample.fits(states.with_network(fastest, "medium", "gsc"))
    assert set(sample.effect(fastest).changed.values()) == {0.0}
    waiting = states.with_delay(states.with_prefix(fastest, "4"), "stem.fc1", "3")
    effect = sample.effect(waiting)
    network, _ = load_network(checkpoint, 4)
    found = network.predict(clips.x, clips.lengths, waiting.delays)
    assert effect.right == int((found == clips.labels).sum())
    before = [name for name, share in effect.changed.items() if not share]
    assert before[:3] == ["encoder", "stem.conv1", "stem.conv2"]
    assert 0 < effect.changed["stem.fc1"] < 1
