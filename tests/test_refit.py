"""A trained network for other words: its readout is fitted anew, everything before it stays."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from tests.random_networks import SEEDS, random_inputs, scheduled, trained_like, trains
from typer.testing import CliRunner

import falcon_snn as falcon
from falcon_snn.cli.main import app
from falcon_snn.data.examples import load_examples
from falcon_snn.data.windows import stream_windows
from falcon_snn.errors import FalconError
from falcon_snn.network.convert import convert
from falcon_snn.network.description import Network
from falcon_snn.training.pretrained import pretrained_path
from falcon_snn.workflow.refitting import refit, with_readout

BODY = "embedded-tiny-t2"


@pytest.fixture(scope="module")
def refitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The shipped network of 35 words, for two of them, unknown and silence."""
    out = tmp_path_factory.mktemp("refit") / "two.safetensors"
    words = ["refit", "--pretrained", BODY, "--data", "embedded", "--words", "yes,house",
             "--unknown", "--silence", "--passes", "2", "--out", str(out), "--json"]  # fmt: skip
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return out, json.loads(done.stdout)


def test_spikes_and_latency_stay_and_the_classes_are_the_new_ones(
    refitted: tuple[Path, dict[str, Any]],
) -> None:
    file, report = refitted
    model, body = falcon.load(file), falcon.load(BODY)
    assert model.classes == ("house", "yes", "silence", "unknown") == tuple(report["classes"])
    assert model.latency().core_us == body.latency().core_us
    x = load_examples("embedded", "testing").x[:8]
    new, old = model.streams(x), body.streams(x)
    assert new.keys() == old.keys()
    assert all(torch.equal(new[name], old[name]) for name in new)
    assert model.metadata.facts["refitted"]["network"] == BODY


def test_it_tells_its_words_apart_on_clips_that_it_never_heard(
    refitted: tuple[Path, dict[str, Any]],
) -> None:
    file, report = refitted
    found = falcon.load(file).evaluate("embedded", "test")
    assert found.accuracy > 80.0  # the best constant answer: 42 %
    assert report["accuracy"] > 80.0


@given(scheduled(), SEEDS)
def test_scores_are_the_new_weights_times_mean_counts(
    case: tuple[Network, dict[str, int]], seed: int
) -> None:
    network, delays = case
    snn, draw = convert(trained_like(network, seed)), np.random.default_rng(seed)
    readout = network.readout
    lines, pixels, channels = network.shapes[readout.source]
    height, width = readout.window[0] or lines, readout.window[1] or pixels
    windows = [(i, j) for i in range(lines // height) for j in range(pixels // width)]
    weight, bias = draw.normal(size=(3, len(windows) * channels)), draw.normal(size=3)
    new = with_readout(snn, torch.from_numpy(weight), torch.from_numpy(bias))
    streams = new.streams(random_inputs(network, 2, seed), None, delays)
    counts = trains(new, streams)[readout.source].sum(axis=0)
    means = [
        counts[:, i * height : (i + 1) * height, j * width : (j + 1) * width].mean(axis=(1, 2))
        for i, j in windows
    ]
    wanted = np.concatenate(means, axis=1) @ weight.T + bias
    np.testing.assert_allclose(new.logits(streams, None), wanted, rtol=1e-4, atol=1e-3)


def test_windows_that_hear_half_a_word_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = 0

    def half_heard(*given: Any) -> tuple[torch.Tensor, torch.Tensor]:
        nonlocal windows
        heard, answers = stream_windows(*given)
        windows += len(heard)
        return heard, torch.full_like(answers, 0.5)

    monkeypatch.setattr("falcon_snn.training.batches.stream_windows", half_heard)
    classes = ("house", "yes", "silence", "unknown")
    found = refit(BODY, "embedded", tmp_path / "out.safetensors", classes=classes, passes=1)
    assert found.samples == windows > 0  # the other half of the clips is heard whole


def test_what_cannot_be_refitted(tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    pictures = {"x_train": np.zeros((40, 8, 8)), "y_train": np.arange(40) % 2,
                "x_test": np.zeros((4, 8, 8)), "y_test": np.arange(4) % 2}  # fmt: skip
    with pytest.raises(FalconError, match="this network takes 98 x 64 x 1"):
        refit(BODY, pictures, out)
    with pytest.raises(FalconError, match="--passes"):
        refit(BODY, "embedded", out, passes=0)
    with pytest.raises(FalconError, match="is the input itself"):
        refit(pretrained_path(BODY), "embedded", pretrained_path(BODY))
    with pytest.raises(FalconError, match="has no recordings of nope"):
        refit(BODY, "embedded", out, classes=("nope", "yes"))
    with pytest.raises(FalconError, match="1 classes; give two or more"):
        refit(BODY, "embedded", out, classes=("yes",))
    assert not out.exists()
    words = ["refit", "--pretrained", BODY, "--data", "embedded", "--unknown", "--out", str(out)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "--unknown and --silence go with --words" in str(done.exception)
