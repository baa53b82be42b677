"""The studio without a browser: its state, its address, its numbers, its clips."""

import json
import re
from dataclasses import replace
from importlib import resources
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.random_networks import networks
from tests.training_data import WORDS, make_examples

from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import KEYS, load_profile, parse_profile
from falcon_snn.network.activity import schedule_energy
from falcon_snn.network.chip import sampled
from falcon_snn.network.description import Network
from falcon_snn.network.falcon import DATASETS, MODELS
from falcon_snn.network.qnn import Qnn
from falcon_snn.pipeline.graph import read_graph
from falcon_snn.pipeline.schedule import read_schedule
from falcon_snn.report.latency import snn_report
from falcon_snn.report.throughput import throughput_report
from falcon_snn.studio import numbers
from falcon_snn.studio import state as states
from falcon_snn.studio.comparison import Side, comparison
from falcon_snn.studio.front import read_front
from falcon_snn.studio.history import History
from falcon_snn.studio.sample import ClipSample
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
    with pytest.raises(FalconError, match=r"the studio was started without one; start it with"):
        from_query(query, first_state())
    other = own_state(replace(network, name="another"), None)
    with pytest.raises(FalconError, match="the studio was started with 'another'"):
        from_query(query, other)
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


def test_a_graph_of_ones_own_is_timed(tmp_path: Path) -> None:
    text = """name = "mine"
slots = 12
[[stage]]
name = "attention"
kind = "layer"
after = ["input"]
inner = 64
columns = 32
[[stage]]
name = "second"
kind = "layer"
after = ["attention"]
inner = 32
columns = 8
"""
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    start = own_state(read_graph(file), None)
    assert (start.highest_slots, start.has_prefix) == (64, False)
    # A boundary may have the name of a value of the hardware.
    state = states.with_delay(states.with_slots(start, "20"), "attention", "15")
    query = dict(parse_qsl(to_query(state)))
    assert (query["delay.attention"], query["of"]) == ("15", "mine")
    assert from_query(query, start) == state
    assert numbers.latency(state).core_us > numbers.latency(start).core_us
    with pytest.raises(FalconError, match="has no Q and K"):
        states.with_prefix(start, "3")
    with pytest.raises(FalconError, match=r"slots is 65; allowed: 1\.\.64"):
        states.with_slots(start, "65")


def test_any_value_of_the_hardware_can_be_changed() -> None:
    state = first_state()
    for key in KEYS.values():
        if key.choices is not None:
            typed = key.choices[-1]
        else:
            typed = "7" if getattr(state.profile, key.name) != 7 else "8"
            typed = typed if key.accepts(int(typed)) else "0.5"  # a rate or a sigma
        changed = states.with_hardware(state, key.name, typed)
        assert str(getattr(changed.profile, key.name)) in (typed, f"{typed}.0")
        assert from_query(dict(parse_qsl(to_query(changed))), first_state()) == changed
        again = parse_profile(states.profile_file(changed), "saved.toml")
        assert replace(again, name=changed.profile.name) == changed.profile
        assert again.sources[key.name].text == "set in the studio"
    shares = [key for key in KEYS if key.endswith("_percent")]
    changed = states.with_hardware(state, "adc_percent", "50")
    assert sum(getattr(changed.profile, key) for key in shares) == pytest.approx(100)
    old, new = state.profile, changed.profile
    assert new.control_percent / new.reference_percent == pytest.approx(
        old.control_percent / old.reference_percent
    )
    with pytest.raises(FalconError, match="adc_percent = 101"):
        states.with_hardware(state, "adc_percent", "101")


def test_undo_and_redo() -> None:
    first = first_state()
    history = History(first).undone().redone()
    assert history.present == first
    second = states.with_schedule(first, "balanced")
    third = states.with_slots(second, "5")
    history = history.changed(second, 1.0).changed(third, 1.1)
    assert history.undone().present == second
    assert history.undone().undone().present == first
    assert history.undone().redone().present == third
    assert not history.undone().changed(first, 5.0).future
    # A number on its way to the one that is meant is no step of its own.
    for at_s, typed in ((9.0, "1"), (9.2, "12"), (9.4, "125")):
        history = history.changed(states.with_hardware(history.present, "mux", typed), at_s)
    assert history.present.profile.mux == 125
    assert history.undone().present == third
    later = history.changed(states.with_hardware(history.present, "mux", "4"), 20.0)
    assert later.undone().present.profile.mux == 125


def test_two_states_side_by_side() -> None:
    pinned = first_state()
    present = states.with_hardware(
        states.with_delay(states.with_slots(pinned, "6"), "stem.fc1", "3"), "mux", "16"
    )
    sides = [Side(state, numbers.latency(state)) for state in (pinned, present)]
    rows = {row.what: row for row in comparison(*sides)}
    assert rows["core latency (µs)"].pinned == "115.82"
    difference = sides[1].now.core_us - sides[0].now.core_us
    assert float(rows["core latency (µs)"].change) == pytest.approx(difference, abs=0.006)
    assert rows["delay of stem.fc1"][1:] == ("1", "3", "+2")
    assert rows["spike slots T"][1:3] == ("7", "6")
    assert rows["mux"][1:3] == (str(pinned.profile.mux), "16")
    assert not {"delay of stem.fc2", "accuracy (%)", "energy (mJ)", "network"} & rows.keys()
    one = sides[0]._replace(accuracy=0.9, energy_mj=0.3)
    rows = {row.what: row for row in comparison(one, one._replace(accuracy=0.925))}
    assert rows["accuracy (%)"][1:] == ("90.00", "92.50", "+2.50")
    assert rows["energy (mJ)"].change == "the same"


def test_the_front_of_a_search(tmp_path: Path) -> None:
    source = resources.files("falcon_snn") / "results" / "search-gsc-medium.json"
    file = tmp_path / "result.json"
    file.write_text(source.read_text("utf-8"), encoding="utf-8")
    start = first_state()
    front = read_front(file, start)
    found = front.evaluated(start)
    written = json.loads(file.read_text())
    for one, row in zip(found, written["evaluated"], strict=True):
        assert one.latency_us == pytest.approx(row["latency_us"])
        assert one.accuracy == pytest.approx(row["accuracy"])
    assert front.accuracy(start) == written["evaluated"][0]["accuracy"]
    assert front.accuracy(states.with_schedule(start, "full")) is not None  # uniform:7
    assert front.accuracy(states.with_delay(start, "stem.conv1", "7")) is None
    slower = states.with_hardware(start, "t_adc_ns", "40")
    assert front.fits(slower)
    assert front.evaluated(slower)[0].latency_us > found[0].latency_us
    assert not front.fits(states.with_prefix(start, "5"))
    assert {name for one in found for name in one.names} == {"fastest", "balanced", "accurate"}
    with pytest.raises(FalconError, match=r"about another network \(.*, not 'Falcon-Large GSC'"):
        read_front(file, first_state("large"))
    file.write_text(json.dumps({**written, "evaluated": [{}]}), encoding="utf-8")
    with pytest.raises(FalconError, match="evaluated, item 1 lacks"):
        read_front(file, start)


def test_unpublished_schedules_are_refused() -> None:
    with pytest.raises(FalconError, match="no schedule 'balanced' is published for this"):
        states.with_schedule(first_state("tiny"), "balanced")


def test_the_saved_schedule_is_one(tmp_path: Path) -> None:
    state = states.with_schedule(first_state("large"), "accurate")
    file = tmp_path / "schedule.json"
    file.write_text(states.schedule_file(state), encoding="utf-8")
    assert read_schedule(file, state.network.boundaries, 7) == state.delays
    assert json.loads(file.read_text())["qk_prefix"] == 7


def test_a_schedule_is_loaded() -> None:
    saved = states.with_prefix(states.with_schedule(first_state(), "accurate"), "5")
    assert states.with_schedule_file(first_state(), states.schedule_file(saved), "a.json") == saved
    plain = states.with_schedule_file(first_state(), '{"delays": {"stem.fc1": 2}}', "b.json")
    assert plain == states.with_delay(first_state(), "stem.fc1", "2")
    for text, message in {
        "{": "c.json: not valid JSON",
        "[1]": "c.json: not a schedule",
        '{"delays": {"stem.fc1": 8}}': "c.json: delay of stem.fc1 is 8",
        '{"delays": {"stem.fc9": 2}}': "c.json: unknown boundary 'stem.fc9'",
        '{"delays": {}, "qk_prefix": 9}': "Q/K prefix is 9",
        "[" * 100_000: "c.json: ",
    }.items():
        with pytest.raises(FalconError, match=re.escape(message)):
            states.with_schedule_file(first_state(), text, "c.json")


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
    sample = ClipSample(checkpoint, fastest, clips)
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
    snn_mj, qnn_mj = sample.energies_mj(waiting)
    energy, _ = schedule_energy(network, [(clips.x, clips.lengths)], waiting.delays, load_profile())
    rival, _ = schedule_energy(network, [(clips.x, clips.lengths)], None, load_profile())
    assert (snn_mj, qnn_mj) == pytest.approx((energy.core_mj, rival.core_mj))
    dearer = states.with_hardware(waiting, "access_pj", "1000")
    assert sample.energies_mj(dearer)[0] > snn_mj
    assert sample.right_on_chip(waiting) == effect.right  # the paper's chip is ideal
    stuck = states.with_hardware(waiting, "stuck_lrs_rate", "1")
    chip = sampled(network, stuck.profile, 0, {})
    found = chip.predict(clips.x, clips.lengths, waiting.delays)
    assert sample.right_on_chip(stuck) == int((found == clips.labels).sum())
