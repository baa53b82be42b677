"""Checkpoint files: what goes in comes out; a damaged or foreign one is one clear line."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tests.training_data import CONFIG, WORDS, make_examples

from falcon_snn.errors import FalconError
from falcon_snn.network.convert import convert
from falcon_snn.network.model import Falcon
from falcon_snn.training.checkpoint import (
    Metadata,
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
    model = Falcon(CONFIG)
    metadata = Metadata(CONFIG, WORDS, {"encoding": "even"}, 3, 7, {"best_accuracy": 90.0})
    save_checkpoint(path, metadata, prefixed("model.", model.state_dict()))
    return path


def test_what_goes_in_comes_out(kept: Path) -> None:
    model, metadata = load_model(kept)
    assert metadata.config == CONFIG
    assert (metadata.words, metadata.epoch, metadata.seed) == (WORDS, 3, 7)
    assert not model.training
    assert load_model(kept, qk_prefix=2)[0].config.prefix == 2


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
    with pytest.raises(FalconError, match="no Falcon checkpoint"):
        load_model(foreign)
    save_file({"a": torch.zeros(2)}, foreign, metadata={"falcon": "{}"})
    with pytest.raises(FalconError, match="header"):
        load_model(foreign)
    metadata = load_model(kept)[1]
    save_checkpoint(foreign, metadata, {"model.norm.weight": torch.zeros(3)})
    with pytest.raises(FalconError, match="lacks"):
        load_model(foreign)


def test_a_converted_network_comes_back_whole(kept: Path, tmp_path: Path) -> None:
    model, metadata = load_model(kept)
    network = convert(model)
    path = tmp_path / "integer.safetensors"
    save_network(path, network, metadata)
    again, held = load_network(path)
    examples = make_examples(6, 3)
    delays = dict.fromkeys(CONFIG.boundaries, 2)
    first = network.streams(examples.x, None, delays)
    second = again.streams(examples.x, None, delays)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert torch.equal(network.scores(first, None), again.scores(second, None))
    assert held.words == WORDS
    with pytest.raises(FalconError, match="Q/K prefix"):
        load_network(path, qk_prefix=1)
    with pytest.raises(FalconError, match="cannot be trained"):
        load_model(path)


def test_logits_are_the_scores_of_training(kept: Path) -> None:
    network, _ = load_network(kept)
    model, _ = load_model(kept)
    examples = make_examples(6, 3)
    full = dict.fromkeys(CONFIG.boundaries, CONFIG.slots)
    streams = network.streams(examples.x, None, full)
    counts = network.counts(examples.x, None, full)
    with torch.no_grad():
        scores = model(examples.x, None, counts)
    assert torch.allclose(network.logits(streams, None).float(), scores, atol=1e-3)


def test_another_word_list_is_named_by_what_differs(tmp_path: Path) -> None:
    words = tuple(f"word{n:02}" for n in range(30))
    with pytest.raises(FalconError, match=r"\(30 words\) than asked for \(31; only one has zero\)"):
        demand_words(tmp_path, words, (*words, "zero"))
    with pytest.raises(FalconError, match="another order"):
        demand_words(tmp_path, words, words[::-1])
