"""Energy adds up, follows what it should follow, and rests on operations that are counted right."""

from dataclasses import replace
from math import prod

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.cost_checks import assert_adds_up
from tests.random_networks import profiles
from tests.training_data import CONFIG
from torch import Tensor

from falcon_snn.errors import FalconError
from falcon_snn.hardware.energy import (
    ANALOG_PARTS,
    CONDUCTION,
    DIGITAL_PARTS,
    STATIC,
    TILE_SUMS,
    AnalogWork,
    ArrayWork,
    Operations,
    analog_pj,
    arithmetic_pj,
    array_pj,
)
from falcon_snn.hardware.profile import Profile, load_profile, with_value
from falcon_snn.network.activity import measure, network_energy, schedule_energy
from falcon_snn.network.convert import convert
from falcon_snn.network.description import Network
from falcon_snn.network.falcon import PUBLISHED, falcon, falcon_config
from falcon_snn.network.integer import Snn
from falcon_snn.network.qnn import Qnn
from falcon_snn.network.witness import witness
from falcon_snn.neuron.packed import unpack
from falcon_snn.pipeline.energy import Activity, Energy, graph_energy, passes
from falcon_snn.pipeline.graph import INPUT, Graph, TimedStage
from falcon_snn.pipeline.schedule import Delays, parse_delays
from falcon_snn.pipeline.steps import product_cycles

Case = tuple[Network, Delays | None, Profile, float]


def even_activity(network: Network, rate: float) -> Activity:
    """Every neuron spikes in the same share of its slots."""
    arrays = [stage for stage in network.graph.stages if stage.kind == "analog"]
    rows = {s.layer: rate * s.inner * s.copies * network.slots for s in arrays}
    firing = [stage for stage in network.inner_stages if stage.emits == "spikes"]
    neurons = {stage.name: prod(network.shapes[stage.name]) for stage in firing}
    spikes = {name: rate * count * network.slots for name, count in neurons.items()}
    return Activity(network.source.name, rows, spikes, neurons)


def fastest(network: Network) -> Delays:
    return dict.fromkeys(network.boundaries, 1)


def longer(network: Network, tokens: int) -> Network:
    """The same network for clips of other lengths."""
    return network.with_source(input=(tokens, *network.source.input[1:]))


@pytest.mark.parametrize(("model", "mj"), [("medium", 0.8093), ("large", 1.0627)])
def test_accesses_before_any_dependence_on_data(model: str, mj: float) -> None:
    network, profile = falcon(falcon_config(model, "gsc")), load_profile()
    delays = parse_delays("balanced", network.boundaries, 7, PUBLISHED[network.name])
    energy = network_energy(network, even_activity(network, 1.0), delays, profile)
    accesses = sum(work.accesses for work in energy.work.values())
    assert accesses * profile.access_pj * 1e-9 == pytest.approx(mj, abs=5e-5)
    if model == "medium":
        conv1 = energy.work["stem.conv1"]  # 288 rows, 48 columns, 16 x 98 positions, 7 slots
        assert conv1.accesses == 32 * 12 * 16 * 98 * 7
        assert energy.work["block0.ffn2"].accesses == 36 * 40 * 98 * 7
        assert conv1.tile_us == pytest.approx(8 * 16 * 98 * 7 * 1.88)


def test_the_array_stays_between_the_bounds_that_the_papers_sums_leave() -> None:
    for model, low, high in (("medium", 1.4e-3, 3.5e-3), ("large", 0.0, 5.9e-3)):
        network = falcon(falcon_config(model, "gsc"))
        energy = network_energy(network, even_activity(network, 0.1), None, load_profile())
        assert low < energy.digital_mj < high


@st.composite
def cases(draw: st.DrawFn) -> Case:
    slots = draw(st.integers(1, 7))
    prefix = draw(st.integers(1, slots))
    network = falcon(replace(CONFIG, slots=slots, qk_prefix=prefix, blocks=2))
    delays = {name: draw(st.integers(1, slots)) for name in network.boundaries}
    profile = with_value(draw(profiles()), "weight_slices", draw(st.integers(1, 4)))
    return network, draw(st.sampled_from([delays, None])), profile, draw(st.floats(0, 1))


@given(cases())
def test_parts_and_stages_add_up(case: Case) -> None:
    network, delays, profile, rate = case
    energy = network_energy(network, even_activity(network, rate), delays, profile)
    assert tuple(energy.analog_parts) == ANALOG_PARTS
    assert tuple(energy.digital_parts) == DIGITAL_PARTS
    assert_adds_up(energy, profile)


@given(cases())
def test_silence_saves_conduction_and_nothing_else(case: Case) -> None:
    network, delays, profile, rate = case
    busy = network_energy(network, even_activity(network, rate), delays, profile)
    silent = network_energy(network, even_activity(network, 0.0), delays, profile)
    assert silent.analog_parts[CONDUCTION] == 0
    for part in ANALOG_PARTS[1:]:
        assert silent.analog_parts[part] == busy.analog_parts[part] > 0
    assert silent.digital_parts == busy.digital_parts


def test_what_an_access_a_product_and_an_operation_cost() -> None:
    """Each constant in its own place: on the paper's chip some are equal by chance."""
    profile = replace(
        load_profile(), active_rows=7, conduction_rows=9.0, access_pj=50.0, tile_sum_pj=0.3,
        tile_static_uw=11.0, accumulate_pj=0.5, mac_8x8_pj=1.7, mac_8x4_pj=1.1, array_size=16,
        array_mac_pj=0.9, register_pj=0.02, array_control_pj=3.0, array_leakage_uw=40.0,
        clock_mhz=200.0,
    )  # fmt: skip
    parts = analog_pj(AnalogWork(accesses=20, rows_on=90, tile_sums=6, tile_us=4), profile)
    assert parts[CONDUCTION] == pytest.approx(90 / 9 * 50 * profile.cablc_percent / 100)
    assert parts["ADC"] == pytest.approx(20 * 50 * profile.adc_percent / 100)
    readout = profile.weighting_percent + profile.input_bits_percent + profile.subtraction_percent
    assert parts["Readout (except ADC)"] == pytest.approx(20 * 50 * readout / 100)
    assert (parts[TILE_SUMS], parts[STATIC]) == pytest.approx((6 * 0.3, 4 * 11.0))
    assert array_pj(ArrayWork(macs=1000, array_cycles=50), profile) == pytest.approx(
        {"Arithmetic": 900, "Registers": 50 * 256 * 0.02, "Control": 150, "Leakage": 0.25 * 40}
    )
    assert arithmetic_pj(Operations(2, 3, 5), profile) == pytest.approx(2 * 0.5 + 3 * 1.7 + 5 * 1.1)


def test_rows_and_additions_of_a_small_graph_by_hand() -> None:
    """A layer of 40 columns, read 16 at once, a sum of its spikes and the input's, a product."""
    product = TimedStage("p", "product", ("a", "r"), rows=4, inner=8, columns=4, copies=2)
    array = TimedStage("a.array", "analog", (INPUT,), inner=10, columns=40, copies=5)
    fires = TimedStage("a", "neuron", ("a.array",))
    added = TimedStage("r", "residual", ("a", INPUT))
    graph = Graph("small", 4, (array, fires, added, product))
    spikes, neurons = {"in": 5.0, "a": 7.0, "r": 3.0}, {"in": 10, "a": 40, "r": 40}
    activity = Activity("in", {"a": 30.0}, spikes, neurons)
    outside = {"in": Operations(), "out": Operations()}
    profile = replace(
        load_profile(), outputs_per_access=16, weight_slices=1, tokens_per_copy=2, tile_rows=32,
        array_control_pj=3.0,
    )  # fmt: skip
    snn = graph_energy(graph, {"a": 1, "r": 1}, activity, outside, profile)
    qnn = graph_energy(graph, None, activity, outside, profile)
    assert snn.work["a"].rows_on == 30 * 3
    assert snn.operations["r"].accumulates == 5 + 7
    assert qnn.operations["r"].accumulates == 10 + 40
    ends = snn.timing.ready("a.array")
    assert snn.work["a"].tile_us == profile.tiles(10, 40) * 3 * snn.timing.us(ends[-1])
    cycles = product_cycles(product, profile)
    assert snn.digital_pj["p"]["Control"] == pytest.approx(2 * cycles * 3.0)


def test_an_array_runs_as_long_as_its_most_patient_reader() -> None:
    array = TimedStage("x", "analog", (INPUT,), inner=10, columns=4)
    readers = [TimedStage(f"q{p}", "quantise", ("x",), prefix=p) for p in (2, 3)]
    graph = Graph("codes", 4, (array, *readers))
    profile = load_profile()
    assert passes(graph, array, profile, qnn=False) == 3
    whole = Graph("codes and spikes", 4, (array, *readers, TimedStage("n", "neuron", ("x",))))
    assert passes(whole, array, profile, qnn=False) == 4
    assert passes(whole, array, profile, qnn=True) == 3  # bits of a count up to 4


@given(cases(), st.integers(1, 20))
def test_twice_the_tokens_take_twice_the_dynamic_energy(case: Case, tokens: int) -> None:
    network, delays, profile, rate = case

    def dynamic(length: int) -> dict[str, float]:
        clip = longer(network, length)
        energy = network_energy(clip, even_activity(clip, rate), delays, profile)
        return {part: pj for part, pj in energy.analog_parts.items() if part != STATIC}

    once, twice = dynamic(tokens), dynamic(2 * tokens)
    assert twice == pytest.approx({part: 2 * pj for part, pj in once.items()})


@given(cases())
def test_more_slices_cost_more(case: Case) -> None:
    network, delays, profile, rate = case
    activity = even_activity(network, rate)

    def analog_mj(slices: int) -> float:
        chip = with_value(profile, "weight_slices", slices)
        return network_energy(network, activity, delays, chip).analog_mj

    energies = [analog_mj(slices) for slices in (1, 2, 4)]
    assert energies[0] < energies[1] < energies[2] <= 4 * energies[0] * (1 + 1e-9)


def test_a_prefix_saves_passes_of_q_and_k() -> None:
    network, profile = falcon(falcon_config("medium", "gsc")), load_profile()
    activity = even_activity(network, 0.1)

    def accesses(prefix: int) -> dict[str, float]:
        chosen = network.with_prefix(prefix)
        work = network_energy(chosen, activity, fastest(network), profile).work
        return {name: one.accesses for name, one in work.items()}

    whole, three = accesses(7), accesses(3)
    for name, count in whole.items():
        expected = count * 3 / 7 if name.endswith((".q", ".k")) else count
        assert three[name] == pytest.approx(expected)


def small_network(prefix: int | None = None) -> Snn:
    """A network whose random weights make it spike everywhere."""
    torch.manual_seed(7)
    model = Qnn(falcon(replace(CONFIG, qk_prefix=prefix, blocks=2))).train()
    with torch.no_grad():
        for _ in range(20):
            model(clips(8))
    return convert(model.eval())


def clips(count: int) -> Tensor:
    return torch.randn(count, 10, 8, generator=torch.Generator().manual_seed(4))


def slow_accumulates(snn: Snn, x: Tensor, delays: Delays) -> dict[str, float]:
    """Walk over every output, every tap and every slot, and count the spikes that arrive."""
    config, network = replace(CONFIG, blocks=2), snn.network
    streams = snn.streams(x, None, delays, "torch")
    trains = {
        name: unpack(network.inner(name, stream), config.slots).tolist()
        for name, stream in streams.items()
        if network.by_name[name].emits == "spikes"
    }
    found: dict[str, float] = {}
    tokens, quarter = x.shape[1], config.features // 4
    for name, before, stride in (
        ("stem.conv1", "encoder", 2), ("stem.conv2", "stem.conv1", 1)
    ):  # fmt: skip
        wide = len(trains[before][0][0][0])
        total = 0
        for slot in trains[before]:
            for clip in slot:
                for token in range(tokens):
                    for feature in range(quarter):
                        for dt in (-1, 0, 1):
                            for df in (-1, 0, 1):
                                t, f = token + dt, stride * feature + df
                                if 0 <= t < tokens and 0 <= f < wide:
                                    total += sum(clip[t][f]) * config.stem_channels
        found[name] = total / len(x)
    # A dense layer: each spike reaches every output once.
    dense = {"stem.fc1": ("stem.conv2", config.hidden), "stem.fc2": ("stem.fc1", config.hidden)}
    before = "stem.fc2"
    for block in range(config.blocks):
        b = f"block{block}"
        dense |= {f"{b}.{role}": (before, config.hidden) for role in ("q", "k", "v")}
        dense[f"{b}.attn_out"] = (f"{b}.context", config.hidden)
        dense[f"{b}.ffn1"] = (f"{b}.residual1", config.ffn)
        dense[f"{b}.ffn2"] = (f"{b}.ffn1", config.hidden)
        for name, branches in (
            (f"{b}.residual1", (before, f"{b}.attn_out")),
            (f"{b}.residual2", (f"{b}.residual1", f"{b}.ffn2")),
        ):
            found[name] = sum(spikes_in(trains[branch]) for branch in branches) / len(x)
        before = f"{b}.residual2"
    for name, (source, outputs) in dense.items():
        read = trains[source][: network.prefix] if name.endswith((".q", ".k")) else trains[source]
        found[name] = sum(spikes_in(read) for _ in range(outputs)) / len(x)
    found["classifier"] = spikes_in(trains[before]) / len(x)
    return found


def spikes_in(train: object) -> int:
    return sum(map(spikes_in, train)) if isinstance(train, list) else int(bool(train))


@pytest.mark.parametrize("prefix", [None, 2])
def test_operations_equal_a_slow_count(prefix: int | None) -> None:
    snn, x = small_network(prefix), clips(3)
    delays = fastest(snn.network) | {"stem.conv2": 2, "block0.ffn1": 3}
    energy, predictions = schedule_energy(snn, [(x[:2], None), (x[2:], None)], delays,
                                          load_profile())  # fmt: skip
    assert torch.equal(predictions, snn.predict(x, None, delays))
    expected = slow_accumulates(snn, x, delays)
    assert min(expected.values()) > 0
    counted = {name: n.accumulates for name, n in energy.operations.items() if n.accumulates}
    assert counted == pytest.approx(expected)
    # every head, query and key: one product per channel of a head, in Q K^T and in A V
    products = sum(1 for _ in range(CONFIG.heads * 10 * 10 * (CONFIG.hidden // CONFIG.heads)))
    assert energy.operations["block1.qk"] == Operations(macs_8x8=products)
    assert energy.operations["block1.av"] == Operations(macs_8x4=products)
    assert energy.operations["encoder"].macs_8x8 == 10 * 4 * CONFIG.encoder_channels * 25
    assert energy.operations["classifier"].macs_8x8 == CONFIG.hidden * CONFIG.classes


def test_the_qnn_drives_the_bits_of_its_counts() -> None:
    snn, x = small_network(), clips(3)
    energy, predictions = schedule_energy(snn, [(x, None)], None, load_profile())
    values, scores = witness(snn, x, None)
    assert torch.equal(predictions, scores.argmax(dim=1))
    for layer, source in (("stem.fc1", "stem.conv2"), ("block0.q", "stem.fc2"),
                          ("block1.ffn2", "block1.ffn1")):  # fmt: skip
        bits = sum(int(n).bit_count() for n in values[source].flatten().tolist()) / len(x)
        assert energy.activity.rows[layer] == pytest.approx(bits)
    assert (
        energy.operations["stem.fc1"].macs_8x4
        == CONFIG.features // 4 * CONFIG.stem_channels * 16 * 10
    )
    assert energy.work["stem.fc1"].accesses == 1 * 4 * 10 * 2  # 8 rows, 16 columns, 2 bits


def test_padding_is_not_counted() -> None:
    snn, x = small_network(), clips(4)[:, :6]
    delays = fastest(snn.network)
    padded = torch.nn.functional.pad(x, (0, 0, 0, 4), value=3.0)
    short, _ = measure(snn, [(x, None)], delays)
    masked, _ = measure(snn, [(padded, torch.full((4,), 6))], delays)
    assert masked.rows == pytest.approx(short.rows)
    assert masked.spikes == pytest.approx(short.spikes)
    with pytest.raises(FalconError, match="no clips"):
        measure(snn, [], delays)


def test_a_qnn_makes_fewer_accesses_but_multiplies() -> None:
    network = falcon(falcon_config("medium", "gsc"))

    def energy(delays: Delays | None, hardware: str) -> Energy:
        return network_energy(network, even_activity(network, 0.1), delays, load_profile(hardware))

    qnn, snn = energy(None, "45nm"), energy(fastest(network), "45nm")
    assert sum(w.accesses for w in qnn.work.values()) * 7 == pytest.approx(
        sum(w.accesses for w in snn.work.values()) * 3
    )
    macs = 25 * 32 * 32 * 98 + 3 * 2 * 98 * 98 * 160 + 160 * 35
    accumulates = sum(n.accumulates for n in snn.operations.values())
    assert snn.arithmetic_mj == pytest.approx((4.6 * macs + 0.9 * accumulates) * 1e-9)
    assert qnn.arithmetic_mj > 4 * snn.arithmetic_mj
    assert energy(None, "45nm").core_mj == energy(None, "paper").core_mj


@given(st.data())
def test_on_the_papers_chip_a_schedule_moves_no_static_energy(data: st.DataObject) -> None:
    """All passes take the same time there, so a layer never pauses between two of them."""
    network = falcon(falcon_config("medium", "gsc"))
    delays = {name: data.draw(st.integers(1, 7)) for name in network.boundaries}
    activity = even_activity(network, 0.1)
    one = network_energy(network, activity, delays, load_profile())
    other = network_energy(network, activity, fastest(network), load_profile())
    assert one.analog_parts == pytest.approx(other.analog_parts)
