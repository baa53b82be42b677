"""Networks of any operations: every execution equals an oracle that shares no code with it."""

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.event_simulation import quantised, simulate, spiking
from tests.network_oracle import Array, Marks, Oracle
from tests.random_networks import (
    networks,
    profiles,
    random_inputs,
    schedules,
    trained_like,
)
from torch import Tensor

from falcon_snn.errors import FalconError
from falcon_snn.hardware.energy import Operations, arithmetic_pj
from falcon_snn.hardware.profile import Profile
from falcon_snn.network.activity import measure, network_energy
from falcon_snn.network.convert import check, conversion_report, convert
from falcon_snn.network.description import Network, network_from_json
from falcon_snn.network.integer import Snn, Streams
from falcon_snn.network.operations import Attention, Code, Fire, Readout, Source, Term
from falcon_snn.network.product import Product
from falcon_snn.network.qnn import Qnn
from falcon_snn.network.summary import summary
from falcon_snn.network.temporal import SlotNetwork, Slotwise
from falcon_snn.neuron.packed import unpack
from falcon_snn.pipeline.timing import time_qnn, time_snn
from falcon_snn.training.checkpoint import Metadata, load_model, prefixed, save_checkpoint
from falcon_snn.training.export import load_network, save_network

CLIPS = 3
BASE = TemporaryDirectory()
SEEDS = st.integers(0, 10_000)
Made = TypeVar("Made")


@st.composite
def scheduled(draw: st.DrawFn) -> tuple[Network, dict[str, int]]:
    network = draw(networks())
    return network, draw(schedules(network))


def full(network: Network) -> dict[str, int]:
    return dict.fromkeys(network.boundaries, network.slots)


def floats(tensor: Tensor) -> Array:
    return tensor.detach().double().numpy()


def trains(snn: Snn, streams: Streams) -> dict[str, Array]:
    """Spikes [slot, clip, line, pixel, channel]; codes without slots."""
    return {
        stage.name: floats(
            streams[stage.name]
            if stage.emits == "codes"
            else unpack(snn.network.inner(stage.name, streams[stage.name]), snn.network.slots)
        )
        for stage in snn.network.inner_stages
    }


def spread(count: Array, slots: int, encoding: str) -> Array:
    """Spikes of a count, by the definitions of the two encodings."""
    slot = np.arange(slots).reshape(-1, *[1] * count.ndim)
    if encoding == "first":
        return (slot < count).astype(np.float64)
    return np.floor((slot + 1) * count / slots + 1e-9) - np.floor(slot * count / slots + 1e-9)


def expected_spikes(
    oracle: Oracle,
    network: Network,
    given: Mapping[str, Array],
    delays: Mapping[str, int],
    x: Array,
) -> dict[str, tuple[Array, Marks]]:
    """What every stage must give, from what it was given, and where rounding decides."""
    slots = network.slots
    found: dict[str, tuple[Array, Marks]] = {}
    for stage in network.inner_stages:
        if isinstance(stage, Source):
            count, near = oracle.source_count(x)
            found[stage.name] = spread(count, slots, stage.encoding), near
        elif isinstance(stage, Fire):
            delay = slots if stage.lookahead else delays[stage.name]
            found[stage.name] = oracle.fire_spikes(stage, given, delay)
        elif isinstance(stage, Code):
            first = stage.prefix or slots
            early: Array = given[stage.source][:first].sum(axis=0)
            found[stage.name] = oracle.code(stage, early, first)
        else:
            assert isinstance(stage, Attention)
            values: Array = given[stage.v].sum(axis=0)
            count, near = oracle.context(stage, given[stage.q], given[stage.k], values)
            found[stage.name] = spread(count, slots, "first"), near
    return found


def expected_counts(
    oracle: Oracle, network: Network, counts: Mapping[str, Array], x: Array
) -> dict[str, tuple[Array, Marks]]:
    """The same for the QNN, which knows counts only."""
    found = {network.source.name: oracle.source_count(x)}
    for stage in network.inner_stages[1:]:
        if isinstance(stage, Fire):
            found[stage.name] = oracle.fire_count(stage, counts)
        elif isinstance(stage, Code):
            found[stage.name] = oracle.code(stage, counts[stage.source], network.slots)
        else:
            assert isinstance(stage, Attention)
            found[stage.name] = oracle.context(stage, *(counts[read] for read in stage.reads))
    return found


def compare(given: Mapping[str, Array], expected: Mapping[str, tuple[Array, Marks]]) -> bool:
    """Equal but for what rounding decides, which is little; whether it decided nothing at all."""
    close, all_ = 0, 0
    for name, (value, near) in expected.items():
        assert given[name].shape == value.shape, name
        wrong = (given[name] != value) & ~near
        assert not wrong.any(), f"{name}: {int(wrong.sum())} of {wrong.size}"
        close, all_ = close + int(near.sum()), all_ + near.size
    assert close <= 0.1 * all_ + 20
    return close == 0


@settings(max_examples=100)
@given(networks(), SEEDS)
def test_the_qnn_and_full_lookahead_are_what_the_parameters_say(
    network: Network, seed: int
) -> None:
    model, x = trained_like(network, seed), random_inputs(network, CLIPS, seed)
    oracle = Oracle(network, model.state_dict())
    with torch.no_grad():
        scores, counts = model.execute(x)
    values = {name: floats(value) for name, value in counts.items()}
    sure = compare(values, expected_counts(oracle, network, values, floats(x)))
    wanted, slack = oracle.scores(values[network.readout.source])
    assert (np.abs(floats(scores) - wanted) <= slack).all()

    snn = convert(model, network.with_prefix(None))
    check(snn, x, None)  # not one count differs
    streams = snn.streams(x, None, full(network))
    integers = {name: floats(value) for name, value in snn.counts(streams).items()}
    sure &= compare(integers, expected_counts(oracle, network, integers, floats(x)))
    wanted, slack = oracle.scores(integers[network.readout.source])
    assert (np.abs(floats(snn.logits(streams, None)) - wanted) <= slack).all()
    if sure:
        for name, value in values.items():
            assert (integers[name] == value).all(), name
    assert [row.name for row in conversion_report(snn)] == [s.name for s in network.inner_stages]


@settings(max_examples=100)
@given(scheduled(), SEEDS)
def test_spikes_under_delays_are_what_the_parameters_say(
    case: tuple[Network, dict[str, int]], seed: int
) -> None:
    network, delays = case
    model, x = trained_like(network, seed), random_inputs(network, CLIPS, seed)
    oracle, snn = Oracle(network, model.state_dict()), convert(model)
    streams = snn.streams(x, None, delays)
    found = trains(snn, streams)
    compare(found, expected_spikes(oracle, network, found, delays, floats(x)))
    for name, border in network.borders.items():  # nothing spikes in a border
        if name in streams and border != (0, 0):
            inside = network.inner(name, streams[name])
            assert int(streams[name].long().sum()) == int(inside.long().sum()), name
    wanted, slack = oracle.scores(found[network.readout.source].sum(axis=0))
    assert (np.abs(floats(snn.logits(streams, None)) - wanted) <= slack).all()


@settings(max_examples=60)
@given(scheduled(), SEEDS)
def test_backends_agree_and_any_stage_can_be_the_first(
    case: tuple[Network, dict[str, int]], seed: int
) -> None:
    network, delays = case
    snn = convert(trained_like(network, seed))
    x = random_inputs(network, CLIPS, seed)
    first = snn.streams(x, None, delays, "torch")
    second = snn.streams(x, None, delays, "numba")
    for name, stream in first.items():
        assert torch.equal(stream, second[name]), name
    scores = snn.scores(first, None, "torch")
    assert torch.equal(scores, snn.scores(second, None, "numba"))
    assert torch.equal(scores.argmax(dim=1), snn.predict(x, None, delays))
    other = snn.streams(x, None, full(network), "numba")
    for number, stage in enumerate(network.inner_stages[1:], 1):
        kept = {each.name: first[each.name] for each in network.inner_stages[:number]}
        again = snn.resume({**other, **kept}, stage.name, None, delays)
        assert list(again) == list(first)
        assert all(torch.equal(again[name], stream) for name, stream in first.items()), stage.name


@settings(max_examples=20)
@given(scheduled(), SEEDS)
def test_the_gpu_kernels_agree(case: tuple[Network, dict[str, int]], seed: int) -> None:
    """In Triton's interpreter where there is no GPU; its heads have a power of two channels."""
    network, delays = case
    contexts = [stage for stage in network.stages if isinstance(stage, Attention)]
    sizes = [network.shapes[stage.name][2] // stage.heads for stage in contexts]
    assume(all(size.bit_count() == 1 for size in sizes))
    snn, x = convert(trained_like(network, seed)), random_inputs(network, 1, seed)
    if torch.cuda.is_available():
        snn, x = snn.to("cuda"), x.to("cuda")
    first, second = (snn.streams(x, None, delays, backend) for backend in ("torch", "triton"))
    for name, stream in first.items():
        assert torch.equal(stream, second[name]), name
    assert torch.equal(snn.scores(first, None, "torch"), snn.scores(second, None, "triton"))


@st.composite
def padded(draw: st.DrawFn) -> tuple[Network, dict[str, int], list[Network]]:
    """A network whose clips may be short, and the networks that those clips alone would have."""
    network = draw(networks(in_time=True))
    lines, pixels, channels = network.source.input
    short = []
    for length in range(1, lines + 1):
        try:
            one = network.with_source(input=(length, pixels, channels))
        except FalconError:
            continue
        real = network.lines(torch.tensor([length]))
        if all(int(real[s.name]) == one.shapes[s.name][0] for s in network.inner_stages):
            short.append(one)
    chosen = draw(st.lists(st.sampled_from(short), min_size=1, max_size=3))
    return network, draw(schedules(network)), chosen


@settings(max_examples=60)
@given(padded(), SEEDS)
def test_a_padded_clip_is_the_clip_alone(
    case: tuple[Network, dict[str, int], list[Network]], seed: int
) -> None:
    network, delays, short = case
    model = trained_like(network, seed)
    x = random_inputs(network, len(short), seed)  # what is beyond a length is there to mislead
    lengths = torch.tensor([one.source.input[0] for one in short])
    snn = convert(model)
    check(convert(model, network.with_prefix(None)), x, lengths)
    by_backend = {name: snn.streams(x, lengths, delays, name) for name in ("torch", "numba")}
    assert all(torch.equal(s, by_backend["torch"][n]) for n, s in by_backend["numba"].items())
    streams = by_backend["numba"]
    scores, logits = snn.scores(streams, lengths), snn.logits(streams, lengths)
    with torch.no_grad():
        qnn, temporal = model(x, lengths), SlotNetwork(model, delays)(x, lengths)
    for clip, network_alone in enumerate(short):
        alone = Snn(network_alone, snn.tensors)
        own = x[clip : clip + 1, : int(lengths[clip])]
        theirs = alone.streams(own, None, delays)
        for stage in network.inner_stages:
            inside = snn.decode(stage.name, streams[stage.name])[clip]
            wanted = alone.decode(stage.name, theirs[stage.name])[0]
            assert torch.equal(inside[: len(wanted)], wanted), stage.name
        assert torch.equal(scores[clip], alone.scores(theirs, None)[0])
        assert torch.allclose(logits[clip], alone.logits(theirs, None)[0])
        again = Qnn(network_alone)
        again.load_state_dict(model.state_dict())
        with torch.no_grad():
            assert torch.allclose(qnn[clip], again.eval()(own)[0], rtol=1e-3, atol=1e-3)
            slotwise = SlotNetwork(again.eval(), delays)(own)[0]
        assert torch.allclose(temporal[clip], slotwise, rtol=1e-3, atol=1e-3)


@settings(max_examples=50)
@given(scheduled(), SEEDS)
def test_slot_by_slot_in_float(case: tuple[Network, dict[str, int]], seed: int) -> None:
    network, delays = case
    model, x = trained_like(network, seed), random_inputs(network, CLIPS, seed)
    oracle = Oracle(network, model.state_dict())
    snn = convert(model)
    run = Slotwise(model, x, None, delays)
    with torch.no_grad():
        for stage in network.inner_stages:
            run.values[stage.name] = stage.slots(model.part(stage.name), run)
    found = {
        name: np.rint(floats(value) / (1 if name.endswith((".q", ".k")) else oracle.step(name)))
        for name, value in run.values.items()
    }
    sure = compare(found, expected_spikes(oracle, network, found, delays, floats(x)))
    if sure:
        for name, value in trains(snn, snn.streams(x, None, delays)).items():
            assert (found[name] == value).all(), name
    whole = network.with_prefix(None)
    again = Qnn(whole)
    again.load_state_dict(model.state_dict())
    with torch.no_grad():
        scores, counts = again.eval().execute(x)
        slotwise = SlotNetwork(again, full(network))(x)
    values = {name: floats(value) for name, value in counts.items()}
    if compare(values, expected_counts(oracle, whole, values, floats(x))):
        assert torch.allclose(scores, slotwise, rtol=1e-3, atol=1e-3)


@settings(max_examples=40)
@given(scheduled(), SEEDS)
def test_gradients_reach_every_parameter(case: tuple[Network, dict[str, int]], seed: int) -> None:
    network, delays = case
    model, x = trained_like(network, seed), random_inputs(network, CLIPS, seed)
    moving = {name: p for name, p in model.named_parameters() if p.requires_grad}
    spikes = convert(model).counts(convert(model).streams(x, None, delays))
    for scores in (model(x), model(x, None, spikes), SlotNetwork(model, delays)(x)):
        gradients = torch.autograd.grad(scores.square().sum(), list(moving.values()))
        for name, gradient in zip(moving, gradients, strict=True):  # an unused one is an error
            assert torch.isfinite(gradient).all(), name
    _, counts = model.execute(x, None, spikes)
    for name, value in spikes.items():
        assert torch.equal(counts[name].round().long(), value.long()), name


@settings(max_examples=60)
@given(scheduled(), profiles())
def test_the_graph_is_timed_as_the_event_simulation_times_it(
    case: tuple[Network, dict[str, int]], profile: Profile
) -> None:
    network, delays = case
    graph = network.graph
    assert graph.boundaries == network.boundaries
    cases = (
        (time_snn(graph, delays, profile), spiking(graph, delays, profile)),
        (time_qnn(graph, profile, "strict"), quantised(graph, profile, graph.bits)),
        (time_qnn(graph, profile, "bit-parallel"), quantised(graph, profile, 1)),
    )
    for timing, simulated in cases:
        (sample,) = simulate(simulated)
        assert {s.name: list(timing.ready(s.name)) for s in graph.stages} == sample.ready


def slow_rows(
    network: Network, stage: str, read: str, product: Product, bits: Array
) -> tuple[int, int]:
    """Rows on in all windows of a layer, tap by tap, and the accumulates of its outputs."""
    lines, pixels, _ = network.shapes[stage]
    height, width, channels = network.shapes[read]
    rows = accumulates = 0
    high, wide = product.kernel[0] * product.pool[0], product.kernel[1] * product.pool[1]
    each = product.outputs // product.groups
    for each_bit in bits:
        for clip in each_bit:
            for line in range(lines):
                for pixel in range(pixels):
                    top = (line * product.stride[0] - product.padding[0]) * product.pool[0]
                    left = (pixel * product.stride[1] - product.padding[1]) * product.pool[1]
                    for y in range(top, top + high):
                        for x in range(left, left + wide):
                            if 0 <= y < height and 0 <= x < width:
                                for channel in range(channels):
                                    on = int(clip[y][x][channel])
                                    rows += on
                                    accumulates += on * each
    return rows, accumulates


@settings(max_examples=25)
@given(scheduled(), SEEDS, st.booleans(), profiles())
def test_activity_and_energy_equal_a_slow_count(
    case: tuple[Network, dict[str, int]], seed: int, qnn: bool, profile: Profile
) -> None:
    network, delays = case
    snn, x = convert(trained_like(network, seed)), random_inputs(network, 2, seed)
    used = full(network) if qnn else delays
    activity, predictions = measure(snn, [(x[:1], None), (x[1:], None)], None if qnn else delays)
    assert torch.equal(predictions, snn.predict(x, None, used))
    energy = network_energy(network, activity, None if qnn else delays, profile)
    streams = trains(snn, snn.streams(x, None, used))
    bits = {
        name: np.stack([train.sum(axis=0).astype(int) >> bit & 1 for bit in range(4)])
        if qnn
        else train
        for name, train in streams.items()
        if train.ndim == 5
    }
    for name, train in bits.items():
        assert activity.spikes[name] == pytest.approx(train.sum() / 2)
        assert activity.neurons[name] == train[0, 0].size
    added: dict[str, float] = {}
    for stage in network.inner_stages[1:]:
        for suffix, read, product in stage.products:
            seen = bits[read]
            if isinstance(stage, Code) and not qnn:
                seen = seen[: stage.prefix or network.slots]
            rows, accumulates = slow_rows(network, stage.name, read, product, seen)
            layer = f"{stage.name}.array2" if suffix else stage.name
            assert activity.rows[layer] == pytest.approx(rows / 2), layer
            added[layer] = added.get(layer, 0.0) + accumulates / 2
            if qnn:
                macs = int(np.prod(network.shapes[stage.name])) * product.rows(
                    network.shapes[read][2]
                )
                assert energy.operations[layer].macs_8x4 == macs
        if isinstance(stage, Fire):
            plain = [term.reads for term in stage.terms if term.product is None]
            if plain:
                sums = [activity.neurons[n] if qnn else activity.spikes[n] for n in plain]
                added[stage.name] = (0 if qnn else added.get(stage.name, 0.0)) + sum(sums)
                assert energy.operations[stage.name].accumulates == pytest.approx(added[stage.name])
    if not qnn:
        found = {n: o.accumulates for n, o in energy.operations.items() if n in added}
        assert found == pytest.approx(added)
    parts = sum(energy.analog_parts.values()) + sum(energy.digital_parts.values())
    assert parts * 1e-9 == pytest.approx(energy.core_mj)
    assert sum(energy.stages_mj.values()) == pytest.approx(energy.core_mj)
    counted = Operations()
    for one in energy.operations.values():
        counted = counted.plus(one)
    assert arithmetic_pj(counted, profile) * 1e-9 == pytest.approx(energy.arithmetic_mj)


@settings(max_examples=25)
@given(padded(), SEEDS)
def test_activity_does_not_count_padding(
    case: tuple[Network, dict[str, int], list[Network]], seed: int
) -> None:
    network, delays, short = case
    snn = convert(trained_like(network, seed))
    x = random_inputs(network, 2, seed)
    (length, *_), alone = short[0].source.input, Snn(short[0], snn.tensors)
    masked, _ = measure(snn, [(x, torch.full((2,), length))], delays)
    plain, _ = measure(alone, [(x[:, :length], None)], delays)
    for stage in network.inner_stages:  # both are of a clip of their network's full length
        ratio = network.shapes[stage.name][0] / short[0].shapes[stage.name][0]
        if stage.emits == "spikes":
            wanted = plain.spikes[stage.name] * ratio
            assert masked.spikes[stage.name] == pytest.approx(wanted)
        for suffix, _, _ in stage.products:
            layer = f"{stage.name}.array2" if suffix else stage.name
            assert masked.rows[layer] == pytest.approx(plain.rows[layer] * ratio)


@settings(max_examples=25)
@given(scheduled(), SEEDS)
def test_files_bring_a_network_back(case: tuple[Network, dict[str, int]], seed: int) -> None:
    network, delays = case
    again = network_from_json(json.loads(json.dumps(network.as_json())))
    assert again == network
    assert hash(again) == hash(network)
    model = trained_like(network, seed)
    words = tuple(f"word{n}" for n in range(network.classes))
    metadata = Metadata(network, words, {}, 1, seed, {}, delays)
    path = Path(f"{BASE.name}/kept.safetensors")
    save_checkpoint(path, metadata, prefixed("model.", model.state_dict()))
    loaded, held = load_model(path)
    assert held == metadata
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
    snn = convert(model)
    save_network(path, snn, metadata)
    kept, held = load_network(path)
    assert (kept.network, held) == (network, metadata)
    assert kept.tensors.keys() == snn.tensors.keys()
    assert all(torch.equal(kept.tensors[name], tensor) for name, tensor in snn.tensors.items())


@settings(max_examples=40)
@given(networks())
def test_the_summary_adds_up(network: Network) -> None:
    facts = summary(network)
    assert facts["parameters"] == sum(row["parameters"] for row in facts["stages"])
    assert facts["macs"] == sum(row["macs"] for row in facts["stages"])
    assert [row["name"] for row in facts["stages"]] == list(network.by_name)


SMALL = Network(
    "small", 3,
    (
        Source("source", (4, 4, 1), Product(2, (3, 3), padding=(1, 1))),
        Fire("conv", (Term("source", Product(2, (3, 3), padding=(1, 1))),)),
        Fire("pooled", (Term("conv", Product(4, (1, 2), pool=(2, 2))),)),
        Code("q", "pooled", Product(4), 2),
        Code("k", "pooled", Product(4)),
        Fire("v", (Term("pooled", Product(4)),), lookahead=True),
        Attention("context", "q", "k", "v", 2),
        Fire("residual", (Term("context"), Term("pooled")), norm=True),
        Readout("classes", "residual", 3),
    ),
)  # fmt: skip
STAGE = {name: number for number, name in enumerate(SMALL.by_name)}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The small network's description with one value changed, `stage.key.key`."""
    document: dict[str, Any] = json.loads(json.dumps(SMALL.as_json()))
    first, *keys = path.split(".")
    table: Any = document
    if first in STAGE:
        table = document["stages"][STAGE[first]]
    else:
        keys = [first, *keys]
    for key in keys[:-1]:
        table = table[int(key) if isinstance(table, list) else key]
    table[keys[-1]] = value
    return document


HUGE = 2**31 - 1
DAMAGED: list[tuple[dict[str, Any], str]] = [
    (changed("slots", "3"), "slots is '3', which is not allowed"),
    (changed("slots", True), "slots is 'True'"),
    (changed("slots", 0), r"slots is 0; it must lie in 1\.\.8"),
    (changed("slots", 256), r"slots is 256"),
    (changed("slots", 10**400), "slots is an integer of 1329 bits"),
    (changed("weight_bits", 9), "weight bits is 9"),
    (changed("name", "two\nlines"), "cannot be"),
    (changed("name", "x" * 1000), "cannot be"),
    (changed("nested", {"deep": 1}), "unknown key 'nested'"),
    (changed("stages", []), "must begin with a source"),
    (changed("stages", "none"), "list of stages"),
    (changed("stages", [None]), "unknown operation 'None'"),
    (changed("conv.operation", ["fire"]), "unknown operation"),
    (changed("conv.operation", "dense"), "unknown operation 'dense'"),
    (changed("conv.colour", 1), "unknown key 'colour'"),
    (changed("conv.co\nlour", 1), "unknown key"),
    (changed("conv.name", "input"), "stage name 'input' is not allowed"),
    (changed("conv.name", "source"), "two stages have the name 'source'"),
    (changed("conv.name", None), "is not allowed"),
    (changed("conv.terms", []), "nothing reads stage 'source'"),
    (changed("conv.terms", [{"reads": "source"}]), "fires on spikes alone"),
    (changed("conv.terms", [{"product": None}]), "lacks one of reads"),
    (changed("conv.terms", [1]), "is not a table"),
    (changed("conv.terms", {"reads": "source"}), "is not allowed|is not a table"),
    (changed("conv.terms.0.reads", "pooled"), "reads 'pooled', which is not a stage before it"),
    (changed("conv.terms.0.reads", "conv"), "reads 'conv', which is not a stage before it"),
    (changed("conv.terms.0.reads", "nowhere"), "which is not a stage before it"),
    (changed("conv.terms.0.product.kernel", [3]), "is not allowed"),
    (changed("conv.terms.0.product.kernel", [9, 9]), "does not fit into a map"),
    (changed("conv.terms.0.product.kernel", [0, 3]), "kernel is"),
    (changed("conv.terms.0.product.stride", [0, 1]), "stride is"),
    (changed("conv.terms.0.product.pool", [-1, 1]), "pool is"),
    (changed("conv.terms.0.product.pool", [3, 1]), "do not divide"),
    (changed("conv.terms.0.product.padding", [3, 3]), "not below kernel"),
    (changed("conv.terms.0.product.padding", [-1, 0]), "padding 0 or more"),
    (changed("conv.terms.0.product.groups", 3), "3 groups"),
    (changed("conv.terms.0.product.groups", 0), "1 or more"),
    (changed("conv.terms.0.product.norm", "layer"), "norm is batch or bias"),
    (changed("conv.terms.0.product.dropout", float("nan")), "is not allowed"),
    (changed("conv.terms.0.product.dropout", 10**400), "is not allowed"),
    (changed("conv.terms.0.product.outputs", HUGE), "weights; too many"),
    (changed("conv.terms.0.product.outputs", 2**40), "is not allowed"),
    (changed("source.product.outputs", HUGE), "weights; too many"),
    (changed("source.input", [4, 4, HUGE]), "weights; too many"),
    (changed("source.input", [4, 4]), "is not allowed"),
    (changed("source.input", [4, 0, 1]), "sizes are 1 or more"),
    (changed("source.levels", 0), "levels is 0"),
    (changed("source.levels", float("inf")), "is not allowed"),
    (changed("source.zero", float("nan")), "is not allowed"),
    (changed("source.given", True), "take no convolution"),
    (changed("source.given", 1), "is not allowed"),
    (changed("source.encoding", "rate"), "unknown encoding 'rate'"),
    (changed("q.prefix", 4), r"Q/K prefix is 4; it must lie in 1\.\.3"),
    (changed("q.prefix", 0), r"Q/K prefix is 0"),
    (changed("q.product.kernel", [2, 1]), "weights per position only"),
    (changed("q.source", "k"), "which is not a stage before it"),
    (changed("k.source", "q"), "needs the spikes of 'q', which gives codes"),
    (changed("context.q", "v"), "needs the codes of 'v', which gives spikes"),
    (changed("context.heads", 3), "heads can share"),
    (changed("context.heads", 0), "heads can share"),
    (changed("residual.terms.1.reads", "conv"), "they must be of one size"),
    (changed("classes.classes", 1), "two or more"),
    (changed("classes.classes", HUGE), "weights; too many"),
    (changed("classes.window", [1, 9]), "do not fit a map"),
    (changed("classes.source", "pooled"), "nothing reads stage 'residual'"),
    ({**SMALL.as_json(), "stages": SMALL.as_json()["stages"][1:]}, "must begin with a source"),
    ({**SMALL.as_json(), "stages": SMALL.as_json()["stages"][:-1]}, "end in a readout"),
    ({**SMALL.as_json(), "stages": SMALL.as_json()["stages"][::-1]}, "must begin with a source"),
    (changed("stages", [
        SMALL.as_json()["stages"][0],
        {**SMALL.as_json()["stages"][0], "name": "again"},
        SMALL.as_json()["stages"][-1],
    ]), "two sources"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "message"), DAMAGED)
def test_a_damaged_description_is_one_line(document: dict[str, Any], message: str) -> None:
    with pytest.raises(FalconError, match=message) as caught:
        network_from_json(document)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_what_is_no_description() -> None:
    values: list[Any] = [None, 1, "network", [], [1], {}, {"stages": None}, {"stages": {}}]
    for value in values:
        with pytest.raises(FalconError, match="a network is a table with a list of stages"):
            network_from_json(value)


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 0, 1, 2, 7, 300, 2**16, HUGE, 2**31, 10**400, 0.5, -1.0, float("nan"),
     float("inf"), "", "source", "conv", "a\nb", "x" * 500, [], [1, 1], [0, 0], [HUGE, HUGE],
     [1, 1, 1], {}, {"reads": "source"}, [[]], [None]]
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in a document."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path, *(found for key, each in inner for found in places(each, (*path, key)))]


def attempt(make: Callable[[], Made]) -> tuple[Made | None, str]:
    """What was made, or the message that says why not; any other exception is a fault."""
    try:
        return make(), ""
    except FalconError as error:
        return None, str(error)


@settings(max_examples=400)
@given(st.data())
def test_any_damage_is_one_line_or_a_network_of_sane_size(data: st.DataObject) -> None:
    document: Any = json.loads(json.dumps(SMALL.as_json()))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(document)[1:]))
        table = document
        for key in path[:-1]:
            table = table[key]
        if data.draw(st.integers(0, 3)):
            table[path[-1]] = deepcopy(data.draw(ODD))
        else:
            del table[path[-1]]
        if not isinstance(document, dict) or not document.get("stages"):
            break
    network, fault = attempt(lambda: network_from_json(document))
    if network is None:
        assert "\n" not in fault
        assert 0 < len(fault) < 300
        return
    assert network_from_json(json.loads(json.dumps(network.as_json()))) == network
    with torch.device("meta"):
        model = Qnn(network)
    assert sum(p.numel() for p in model.parameters()) < 2**30
    graph, fault = attempt(lambda: network.graph)
    assert "\n" not in fault
    assert graph is None or graph.boundaries == network.boundaries
