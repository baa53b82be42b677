"""The networks that come along: listed, loaded by name, and what they say about themselves."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.other_networks import DELAYS, save_cnn
from tests.training_data import write_spikes
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.data.examples import data_key
from falcon_snn.errors import FalconError
from falcon_snn.files import sha256_of
from falcon_snn.report.results import read_result
from falcon_snn.training import pretrained
from falcon_snn.training.checkpoint import load_metadata
from falcon_snn.training.export import load_network
from falcon_snn.training.loop import BEST
from falcon_snn.training.pretrained import all_pretrained, pretrained_names, trained_file


def call(*arguments: object) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None:
        raise result.exception
    return json.loads(result.stdout)


def test_all_load_and_are_small() -> None:
    rows = {row["name"]: row for row in call("models", "--json")}
    assert list(rows) == pretrained_names()
    assert "embedded-tiny" in rows
    for one in all_pretrained():
        network, metadata = load_network(one.path)
        assert network.network == one.metadata.network
        assert metadata.words == one.metadata.words
        assert one.path.stat().st_size < 4_000_000
        assert rows[one.name]["words"] == len(metadata.words)


def test_a_network_without_codes_is_listed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_cnn(tmp_path / "cnn.safetensors")
    monkeypatch.setattr(pretrained, "models_folder", lambda: tmp_path)
    (row,) = call("models", "--json")
    assert (row["network"], row["slots"], row["qk_prefix"]) == ("small CNN", 4, None)
    assert row["delays"] == DELAYS
    assert "│ - │" in CliRunner().invoke(app, ["models"]).stdout.replace("  ", " ")


def test_evaluate_by_name() -> None:
    found = call("evaluate", "--pretrained", "embedded-tiny", "--schedule", "full", "--limit", 70,
                 "--json")  # fmt: skip
    assert found["clips"] == 70
    assert found["accuracy"] > 40


def test_exactly_one_network_must_be_named(tmp_path: Path) -> None:
    for given in ([], ["--pretrained", "embedded-tiny", "--checkpoint", "x.safetensors"]):
        with pytest.raises(FalconError, match="either --checkpoint FILE or --pretrained NAME"):
            call("evaluate", *given)
    with pytest.raises(FalconError, match="no pretrained network 'nobody'"):
        call("evaluate", "--pretrained", "nobody")


def test_record_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FALCON_CACHE", str(tmp_path / "cache"))
    data = write_spikes(tmp_path / "spikes")
    quick = tmp_path / "quick.toml"
    quick.write_text(
        'forward = "counts"\nepochs = 2\nbatch = 6\nweight_rate = 1e-3\nneuron_rate = 0\n'
    )
    trained = tmp_path / "qnn"
    train = ["train", "--recipe", quick, "--data", data, "--network", "tiny", "--out", trained]
    assert CliRunner().invoke(app, list(map(str, train))).exception is None
    record = ["results", "record", trained, "--setting", "ssc-tiny", "--configuration", "qnn",
              "--data", data, "--out", tmp_path / "results"]  # fmt: skip
    assert CliRunner().invoke(app, list(map(str, record))).exception is None
    (file,) = (tmp_path / "results").iterdir()
    shown = CliRunner().invoke(app, ["results", "--from", str(tmp_path / "results")]).stdout
    assert "ssc-tiny, ours on" in shown
    held = json.loads(file.read_text())
    assert held["delays"] is None
    assert len(held["phases"][0]["validation_percent"]) == 2
    assert held["phases"][0]["recipe"]["batch"] == 6
    assert held["test_clips"] == 12
    assert held["phases"][0]["teachers"] == []
    assert held["data_key"] == data_key(data)
    assert held["seed"] == 0


def distilling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[object]]:
    """Data, and a short training on it that may have a teacher; its folder is still to be named."""
    monkeypatch.setenv("FALCON_CACHE", str(tmp_path / "cache"))
    data = write_spikes(tmp_path / "spikes")
    quick = tmp_path / "quick.toml"
    quick.write_text(
        'forward = "counts"\nepochs = 1\nbatch = 6\nweight_rate = 1e-3\nneuron_rate = 0\n'
        "distil = 0.5\n"
    )
    return data, ["train", "--recipe", quick, "--data", data, "--network", "tiny", "--out"]


def test_a_result_names_its_teacher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, train = distilling(tmp_path, monkeypatch)
    teacher = tmp_path / "first" / "best.safetensors"
    for more in ([teacher.parent], [tmp_path / "student", "--teacher", teacher]):
        assert CliRunner().invoke(app, list(map(str, [*train, *more]))).exception is None
    record = ["results", "record", tmp_path / "student", "--setting", "ssc-tiny",
              "--configuration", "qnn", "--data", data, "--out", tmp_path / "results"]  # fmt: skip
    assert CliRunner().invoke(app, list(map(str, record))).exception is None
    (file,) = (tmp_path / "results").iterdir()
    expected = [{"file": "best.safetensors", "sha256": sha256_of(teacher)}]
    assert read_result(file).phases[0]["teachers"] == expected


def test_a_network_begins_and_teaches_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, train = distilling(tmp_path, monkeypatch)
    ships, student = tmp_path / "ships", tmp_path / "student"
    for more in ([ships], [student, "--init", "best", "--teacher", "best"]):
        assert CliRunner().invoke(app, list(map(str, [*train, *more]))).exception is None
        monkeypatch.setattr(pretrained, "models_folder", lambda: ships)
    facts = load_metadata(student / BEST).facts
    assert facts["teachers"] == [facts["start"]] == [sha256_of(ships / BEST)]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "best").write_text("a file of this name comes first")
    assert trained_file("best") == Path("best")


def test_waiting_pays_in_the_demo(tmp_path: Path) -> None:
    """Three schedules that differ, and intervals that do not touch, before any adaptation."""
    words = ["search", "--data", "embedded", "--pretrained", "embedded-tiny-t2", "--random", 0]
    found = call(*words, "--out", tmp_path / "search", "--json")["chosen"]
    assert [found[name]["delays"] for name in ("fastest", "balanced", "accurate")] == [
        {},
        {"stem.fc1": 2},
        {"stem.conv2": 2, "stem.fc1": 2, "block0.residual2": 2},
    ]
    assert found["fastest"]["interval"][1] < found["balanced"]["interval"][0] - 0.1
    assert found["balanced"]["accuracy"] < found["accurate"]["accuracy"]
    assert found["accurate"]["latency_us"] == pytest.approx(36.21)
