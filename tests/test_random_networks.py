"""Networks of any operations: every execution equals an oracle that shares no code with it."""

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from hypothesis import assume, given, settings
from tests.network_oracle import Array, Marks, Oracle
from tests.random_networks import (
    SEEDS,
    floats,
    full,
    networks,
    padded,
    random_inputs,
    scheduled,
    trained_like,
    trains,
)

from falcon_snn.network.convert import check, conversion_report, convert
from falcon_snn.network.description import Network, network_from_json
from falcon_snn.network.integer import Snn
from falcon_snn.network.operations import Attention, Code, Fire, Source
from falcon_snn.network.qnn import Qnn
from falcon_snn.network.summary import summary
from falcon_snn.network.temporal import SlotNetwork, Slotwise
from falcon_snn.training.checkpoint import Metadata, load_model, prefixed, save_checkpoint
from falcon_snn.training.export import load_network, save_network

CLIPS = 3
BASE = TemporaryDirectory()


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
