"""Checkpoint files: what goes in comes out; a damaged or foreign one is one clear line."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from tests.training_data import NETWORK, WORDS, make_examples
from torch import Tensor

from falcon_snn.errors import FalconError
from falcon_snn.network.convert import convert
from falcon_snn.network.qnn import Qnn
from falcon_snn.training.checkpoint import (
    Metadata,
    demand_same_network,
    demand_words,
    load_model,
    prefixed,
    save_checkpoint,
)
from falcon_snn.training.export import load_network, save_network


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    torch.manual_seed(1)
    path = tmp_path / "kept.safetensors"
    metadata = Metadata(NETWORK, WORDS, {"epochs": 3}, 3, 7, {"best_accuracy": 90.0})
    save_checkpoint(path, metadata, prefixed("model.", Qnn(NETWORK).state_dict()))
    return path


def test_what_goes_in_comes_out(kept: Path) -> None:
    model, metadata = load_model(kept)
    assert metadata.network == model.network == NETWORK
    assert (metadata.words, metadata.epoch, metadata.seed) == (WORDS, 3, 7)
    assert not model.training
    assert load_model(kept, qk_prefix=2)[0].network.prefix == 2
    for prefix in (0, 4):
        with pytest.raises(FalconError, match=rf"Q/K prefix is {prefix}; it must lie in 1\.\.3"):
            load_model(kept, qk_prefix=prefix)


@pytest.mark.parametrize("part", [0.0, 0.01, 0.5, 0.999])
def test_a_checkpoint_cut_short(kept: Path, part: float) -> None:
    data = kept.read_bytes()
    kept.write_bytes(data[: int(part * len(data))])
    with pytest.raises(FalconError, match="cut short") as caught:
        load_model(kept)
    assert "\n" not in str(caught.value)


def test_foreign_files(kept: Path, tmp_path: Path) -> None:
    with pytest.raises(FalconError, match="no such checkpoint"):
        load_model(tmp_path / "none.safetensors")
    foreign = tmp_path / "foreign.safetensors"
    save_file({"a": torch.zeros(2)}, foreign)
    with pytest.raises(FalconError, match="not a Falcon checkpoint"):
        load_model(foreign)
    save_file({"a": torch.zeros(2)}, foreign, metadata={"falcon": "{}"})
    with pytest.raises(FalconError, match="header"):
        load_model(foreign)
    metadata = load_model(kept)[1]
    save_checkpoint(foreign, metadata, {"model.parts.encoder.weights.weight": torch.zeros(3)})
    with pytest.raises(FalconError, match="lacks"):
        load_model(foreign)


def damage(path: Path, **changes: Any) -> None:
    """Write a checkpoint again with other entries in its header."""
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["falcon"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    header.update(changes)
    save_file(tensors, path, metadata={"falcon": json.dumps(header)})


HEADERS: list[tuple[dict[str, Any], str]] = [
    ({"format": 1}, "written in format 1, this version reads 2"),
    ({"format": "9" * 500}, "written in format 9999"),
    ({"words": list(WORDS[:2])}, "names 2 classes, its network has 3"),
    ({"words": [*WORDS[:2], WORDS[0]]}, "two of its classes have the same name"),
    ({"words": [1, 2, 3]}, "wrong kind"),
    ({"words": None}, "header"),
    ({"epoch": "three"}, "wrong kind"),
    ({"recipe": []}, "wrong kind"),
    ({"metrics": 1}, "wrong kind"),
    ({"facts": None}, "wrong kind"),
    ({"teacher": "yes"}, "wrong kind"),
    ({"delays": [1]}, "wrong kind"),
    ({"delays": {"stem.conv9": 1}}, "unknown boundary 'stem.conv9'"),
    ({"delays": {"stem.conv1": 9}}, "delay of stem.conv1 is 9"),
    ({"delays": {"stem.conv1": True}}, "delay of stem.conv1 is True"),
    ({"more": 1}, "header"),
    ({"network": None}, "a network is a table"),
    ({"network": {"stages": []}}, "lacks one of|must begin"),
    ({"network": {**NETWORK.as_json(), "slots": 10**400}}, "is not allowed"),
]


@pytest.mark.parametrize(("changes", "message"), HEADERS)
def test_a_damaged_header_is_one_line(kept: Path, changes: dict[str, Any], message: str) -> None:
    damage(kept, **changes)
    for load in (load_model, load_network):
        with pytest.raises(FalconError, match=message) as caught:
            load(kept)
        assert "\n" not in str(caught.value)
        assert str(kept) in str(caught.value)


def test_a_header_of_many_brackets(kept: Path) -> None:
    save_file({"a": torch.zeros(1)}, kept, metadata={"falcon": "[" * 100_000})
    with pytest.raises(FalconError, match="header"):
        load_model(kept)


def converted(kept: Path) -> tuple[Path, dict[str, Tensor], Metadata]:
    model, metadata = load_model(kept)
    snn = convert(model)
    path = kept.with_name("integer.safetensors")
    save_network(path, snn, metadata)
    return path, snn.tensors, metadata


def first_entry(tensor: Tensor, value: float) -> Tensor:
    tensor = tensor.clone()
    tensor.view(-1)[0] = value
    return tensor


def test_damaged_tensors_are_named(kept: Path) -> None:
    model, metadata = load_model(kept)
    good = model.state_dict()
    threshold, variance = "parts.stem/fc1.fire.threshold", "parts.stem/fc1.weights.norm.running_var"
    weight = "parts.stem/fc1.weights.weight"
    for name, tensor, message in (
        (threshold, first_entry(good[threshold], 0.0), "must be above 0"),
        (threshold, first_entry(good[threshold], -1.0), "must be above 0"),
        (variance, first_entry(good[variance], -1.0), "must be above 0"),
        (weight, first_entry(good[weight], float("nan")), "not finite"),
        (weight, first_entry(good[weight], float("inf")), "not finite"),
        (weight, good[weight].double(), "is torch.float64, not torch.float32"),
        (weight, good[weight][1:], "another configuration"),
        ("parts.more", torch.zeros(1), "which this network does not have"),
    ):
        save_checkpoint(kept, metadata, prefixed("model.", {**good, name: tensor}))
        with pytest.raises(FalconError, match=message) as caught:
            load_model(kept)
        assert f"'{name}'" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_damaged_integers_are_named(kept: Path) -> None:
    path, good, metadata = converted(kept)
    curve = "block0.context.curve.table"
    for name, tensor, message in (
        ("stem.fc1.threshold", first_entry(good["stem.fc1.threshold"], 0), "must be above 0"),
        ("classifier.grid", torch.zeros_like(good["classifier.grid"]), "must be above 0"),
        ("classifier.grid", good["classifier.grid"] * torch.nan, "not finite"),
        ("block0.q.shift", first_entry(good["block0.q.shift"], 40), r"must lie in 0\.\.24"),
        (curve, good[curve].flip(1), "must rise from end to end"),
        (curve, torch.zeros_like(good[curve]), "must rise from end to end"),
        ("stem.fc1.weight", good["stem.fc1.weight"].int(), "is torch.int32, not torch.int8"),
        ("stem.fc1.weight", good["stem.fc1.weight"][1:], "another configuration"),
        ("more", torch.zeros(1), "which this network does not have"),
    ):
        save_checkpoint(path, metadata, prefixed("integer.", {**good, name: tensor}))
        with pytest.raises(FalconError, match=message) as caught:
            load_network(path)
        assert f"'{name}'" in str(caught.value)
        assert "\n" not in str(caught.value)
    deaf = {"block0.context.factor": torch.zeros_like(good["block0.context.factor"])}
    save_checkpoint(path, metadata, prefixed("integer.", {**good, **deaf}))
    load_network(path)  # they can be computed with, but no training gives them
    with pytest.raises(FalconError, match=r"context.*holds values that are not finite"):
        load_model(path)
    del good["stem.fc1.static"]
    save_checkpoint(path, metadata, prefixed("integer.", good))
    with pytest.raises(FalconError, match=r"lacks 'stem\.fc1\.static'"):
        load_network(path)


def test_a_converted_network_comes_back_whole(kept: Path) -> None:
    path, tensors, _ = converted(kept)
    network, _ = load_network(kept)
    again, held = load_network(path)
    assert tensors.keys() == again.tensors.keys()
    examples = make_examples(6, 3)
    delays = dict.fromkeys(NETWORK.boundaries, 2)
    first = network.streams(examples.x, None, delays)
    second = again.streams(examples.x, None, delays)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert torch.equal(network.scores(first, None), again.scores(second, None))
    assert held.words == WORDS
    with pytest.raises(FalconError, match="Q/K prefix"):
        load_network(path, qk_prefix=9)
    for prefix in (None, 1):  # and can be trained again, or converted for another prefix
        model, held = load_model(path, qk_prefix=prefix)
        assert model.network == held.network == network.network.with_prefix(prefix)
        short, held = load_network(path, qk_prefix=prefix)
        assert short.network == held.network == model.network


def test_logits_are_the_scores_of_training(kept: Path) -> None:
    snn, _ = load_network(kept)
    model, _ = load_model(kept)
    examples = make_examples(6, 3)
    full = dict.fromkeys(NETWORK.boundaries, NETWORK.slots)
    streams = snn.streams(examples.x, None, full)
    with torch.no_grad():
        scores = model(examples.x, None, snn.counts(streams))
    assert torch.allclose(snn.logits(streams, None).float(), scores, atol=1e-3)


def test_another_network_is_named_by_what_differs(tmp_path: Path) -> None:
    demand_same_network(tmp_path, NETWORK, NETWORK)
    with pytest.raises(FalconError, match=r"made with network slots 3, not 4"):
        demand_same_network(tmp_path, NETWORK, NETWORK.with_slots(4))
    with pytest.raises(FalconError, match=r"another stage 'block0\.q'"):
        demand_same_network(tmp_path, NETWORK, NETWORK.with_prefix(1))


def test_another_word_list_is_named_by_what_differs(tmp_path: Path) -> None:
    words = tuple(f"word{n:02}" for n in range(30))
    wanted = r"made with 30 classes, not 31 \(only one has zero\)"
    with pytest.raises(FalconError, match=wanted):
        demand_words(tmp_path, words, (*words, "zero"))
    with pytest.raises(FalconError, match="not in this order"):
        demand_words(tmp_path, words, words[::-1])
