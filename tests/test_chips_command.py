"""Accuracy over chips, as a person asks for it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.other_networks import save_cnn
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.errors import FalconError
from falcon_snn.hardware.effects import effects, is_random
from falcon_snn.hardware.profile import load_profile
from falcon_snn.network.calibrate import calibrate
from falcon_snn.network.chip import FIRST_CHIP, sampled
from falcon_snn.training.evaluate import snn_predictions
from falcon_snn.training.export import load_network
from falcon_snn.workflow.chips import evaluate_on_chips
from falcon_snn.workflow.measuring import evaluate
from falcon_snn.workflow.sources import load_split

NOISY = load_profile("noisy")
EFFECTS = ["3-bit weights", "converter, 15 levels", "both", "programming, wan2022-1d",
           "read noise, 1 %", "stuck cells, 0.1 %", "both and offset",
           "both, untrimmed offset", "all together"]  # fmt: skip


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A checkpoint and clips for it."""
    folder = tmp_path_factory.mktemp("chips")
    draw = np.random.default_rng(2)
    x, y = draw.normal(0, 2, (60, 8, 8, 1)).astype(np.float32), np.arange(60) % 3
    data = folder / "set.npz"
    np.savez(data, x_train=x[:40], y_train=y[:40], x_test=x[40:], y_test=y[40:],
             class_names=np.array(["a", "b", "c"]))  # fmt: skip
    return save_cnn(folder / "cnn.safetensors"), data


def call(*arguments: object) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None:
        raise result.exception
    return json.loads(result.stdout) if "--json" in arguments else result.stdout


def test_each_effect_alone_and_all_together(case: tuple[Path, Path], tmp_path: Path) -> None:
    checkpoint, data = case
    words = ("evaluate", "--checkpoint", checkpoint, "--data", data, "--hardware", "noisy",
             "--chips", 3, "--split", "test")  # fmt: skip
    picture = tmp_path / "chips.svg"
    found = call(*words, "--one-layer-at-a-time", "--plot", picture, "--json")
    assert picture.stat().st_size > 1000
    assert [row["name"] for row in found["effects"]] == EFFECTS
    assert [row["chips"] for row in found["effects"]] == [1, 1, 1, 3, 3, 3, 3, 3, 3]
    assert {row["name"] for row in found["layers"]} == {"first", "body", "sum", "sum2"}
    means = [row["mean"] for row in found["layers"]]
    assert means == sorted(means)
    for row in found["effects"] + found["layers"]:
        assert row["worst"] <= row["mean"] <= row["best"]
        assert len(row["accuracies"]) == row["chips"]
        assert 0 < row["changed_percent"] < 100
    plain = evaluate(checkpoint, data, split="test")
    assert found["ideal"]["accuracy"] == plain.accuracy
    again = call(*words, "--json")
    assert again["effects"] == found["effects"]
    later = call(*words, "--seed", 2, "--chips", 1, "--json")  # the third chip
    assert later["effects"][-1]["accuracies"][0] == found["effects"][-1]["accuracies"][2]
    text = call(*words)
    assert "all together" in text
    noisy = call(*words, "--chips", 1, "--noise", 0, "--json")
    assert (
        noisy["ideal"]["accuracy"] == evaluate(checkpoint, data, split="test", noise_db=0).accuracy
    )
    assert noisy["effects"] != found["effects"]
    assert "with noise at 0 dB" in call(*words, "--chips", 1, "--noise", 0)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("schedule", ["own", "full", "qnn"])
def test_a_perfect_chip_changes_nothing(case: tuple[Path, Path], schedule: str) -> None:
    checkpoint, data = case
    perfect = replace(
        load_profile("xue2020"), weight_bits=8, weight_slices=4, converter_levels=4095,
        converter_range="unit",
    )  # fmt: skip
    report = evaluate_on_chips(checkpoint, data, perfect, schedule=schedule)
    (together,) = report.effects
    assert together.changed == (0.0,)
    assert together.accuracies == (report.ideal.accuracy,)


def test_options_that_need_each_other(case: tuple[Path, Path]) -> None:
    checkpoint, data = case
    words = ("evaluate", "--checkpoint", checkpoint, "--data", data)
    with pytest.raises(FalconError, match="add --hardware"):
        call(*words, "--one-layer-at-a-time")
    with pytest.raises(FalconError, match="leave out --backend"):
        call(*words, "--hardware", "noisy", "--backend", "numba")
    with pytest.raises(FalconError, match="no such file; shipped profiles are"):
        call(*words, "--hardware", "none.toml")


def test_delays_are_searched_on_chips(case: tuple[Path, Path], tmp_path: Path) -> None:
    checkpoint, data = case
    words = ("search", "--checkpoint", checkpoint, "--data", data, "--hardware", "noisy",
             "--budget-us", 100, "--random", 1, "--tau", 0, "--eps", 0)  # fmt: skip
    on_chips = tmp_path / "chips"
    call(*words, "--chips", 3, "--out", on_chips, "--json")
    call(*words, "--out", tmp_path / "ideal", "--json")
    found, ideal = (
        json.loads((folder / "result.json").read_text())
        for folder in (on_chips, tmp_path / "ideal")
    )
    assert found["settings"]["chips"] == 3
    assert "chips" not in ideal["settings"]
    # The first schedule is delay 1 everywhere: right are clips that most of the chips name rightly.
    snn, metadata = load_network(checkpoint)
    clips = load_split(data, "validation", None, metadata.words)
    first = dict.fromkeys(snn.network.boundaries, 1)
    ranges = calibrate(snn, NOISY, clips.x, None, first)
    votes = sum(
        (snn_predictions(sampled(snn, NOISY, FIRST_CHIP + n, ranges), clips, first)
         == clips.labels).int()
        for n in range(3)
    )  # fmt: skip
    assert isinstance(votes, torch.Tensor)
    start = next(one for one in found["evaluated"] if set(one["delays"].values()) <= {1})
    assert start["accuracy"] == pytest.approx(float((votes >= 2).double().mean()))
    with pytest.raises(FalconError, match="--chips is -1"):
        call(*words, "--chips", -1, "--out", tmp_path / "none")
    with pytest.raises(FalconError, match="settings"):
        call(*words, "--chips", 2, "--out", on_chips, "--resume")


def test_effects_are_those_that_a_profile_has() -> None:
    assert list(effects(load_profile(), 8)) == ["all together"]
    assert list(effects(load_profile("xue2020"), 8)) == [*EFFECTS[:2], EFFECTS[-1]]
    trained = effects(NOISY, 3)  # weights that the chip holds as they are
    assert "3-bit weights" not in trained
    assert [name for name, one in effects(NOISY, 8).items() if not is_random(one)] == EFFECTS[:3]
    wired = effects(replace(load_profile("xue2020"), column_ohm=5.0), 8)
    assert list(wired)[-2:] == ["wires", "all together"]
