"""The paper beside ours: exact where a model decides, honest where an experiment does."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.errors import FalconError
from falcon_snn.network.falcon import FalconConfig, falcon, falcon_config
from falcon_snn.report import results as results_module
from falcon_snn.report.exhibit import CLOSE, DIFFERS, EXACT, NOT_RUN, line
from falcon_snn.report.kernel_figure import INPUTS, decisions, draw_kernel
from falcon_snn.report.reproduce import EXHIBITS, exhibits, write_reproduction
from falcon_snn.report.results import Result, load_results, read_result, table, write_result
from falcon_snn.workflow.networks import built_in


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A results folder of our own."""
    monkeypatch.setattr(results_module, "results_folder", lambda: tmp_path)
    return tmp_path


def made(configuration: str, test_percent: float, seed: int = 0, **changes: Any) -> Result:
    network = built_in("medium", classes=30)
    values: dict[str, Any] = {
        "setting": "gsc-medium", "configuration": configuration, "data": "gsc-v1", "words": 30,
        "network": network, "delays": dict.fromkeys(network.boundaries, 1),
        "attention": "serial", "seed": seed, "commit": None, "versions": {}, "machine": "",
        "phases": [{"name": "qat", "recipe": {}, "validation_percent": [96.0, 96.5]}],
        "validation_percent": 96.5, "test_percent": test_percent, "test_clips": 6835,
    }  # fmt: skip
    return Result(**values | changes)


def test_marks() -> None:
    assert line("a", 1.13, 1.1299).mark == EXACT
    assert line("a", 96.31, 96.4, close=0.1).mark == CLOSE
    assert line("a", 96.31, 97.3, close=0.1).mark == DIFFERS
    assert line("a", 96.31, None).mark == NOT_RUN


def test_all_that_a_model_decides_is_exact(results: Path) -> None:
    found = {exhibit.name: exhibit for exhibit in exhibits()}
    assert list(found) == list(EXHIBITS)
    for exhibit in found.values():
        for each in exhibit.lines:
            if each.ours is not None and each.published is not None:
                related = exhibit.name == "latency-comparison" and "Falcon" not in each.what
                assert each.mark == (CLOSE if related else EXACT), (exhibit.name, each)
    derived = [each.published for each in found["claims"].lines if each.mark == EXACT]
    assert derived == [1.13, 8.6, 52.6, 52.2, 7.58, 4.71, 9.43, 180.42, 231.24, 73.9]


def test_results_take_their_places(results: Path) -> None:
    write_result(results / "a.json", made("qnn", 97.3, delays=None))
    write_result(results / "b.json", made("fastest", 97.1))
    write_result(results / "c.json", made("fastest", 97.3, seed=1))
    write_result(results / "d.json", made("T=4 p=2", 96.9))
    assert read_result(results / "b.json") == made("fastest", 97.1)
    rows = {(row["setting"], row["configuration"]): row for row in table(load_results(results))}
    fastest = rows["gsc-medium", "fastest"]
    assert fastest["test_percent"] == pytest.approx(97.2)
    assert (fastest["seeds"], fastest["epochs"], fastest["paper_test_percent"]) == (2, 2, 96.11)
    assert fastest["latency_us"] == pytest.approx(115.82)
    assert rows["gsc-medium", "qnn"]["latency_us"] == pytest.approx(130.86)
    assert rows["gsc-medium", "T=4 p=2"]["paper_test_percent"] is None
    assert rows["gsc-large", "fastest"]["test_percent"] is None
    (claims,) = exhibits("claims")
    lost = next(each for each in claims.lines if each.published == 0.57)
    assert lost.ours == pytest.approx(0.1)
    assert "30 words" in lost.why


def test_page_and_commands(results: Path) -> None:
    chosen = exhibits("pipeline-detail") + exhibits("schedules")
    page = write_reproduction(chosen, results / "out").read_text(encoding="utf-8")
    assert "data:image/svg+xml;base64," in page
    assert "block2.attn_out 2" in page
    shown = CliRunner().invoke(app, ["reproduce", "--only", "qk-prefix", "--json"])
    (found,) = json.loads(shown.stdout)
    assert [each["ours"] for each in found["lines"] if each["unit"] == "us"] == pytest.approx(
        [119.64, 114.0, 108.36, 102.72, 97.08]
    )
    printed = CliRunner().invoke(app, ["results"]).stdout
    assert "not run yet" in printed
    with pytest.raises(FalconError, match="no exhibit 'tables'"):
        exhibits("tables")


def test_older_results_hold_sizes_instead_of_a_network(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_result(path, made("fastest", 97.1))
    values = json.loads(path.read_text())
    del values["network"]
    sizes = vars(falcon_config("medium", "gsc", classes=30)).copy()
    del sizes["name"]
    path.write_text(json.dumps(values | {"config": sizes}))
    older = read_result(path)
    assert older.network == falcon(FalconConfig(name="gsc-medium", **sizes))
    assert older.latency_us == made("fastest", 97.1).latency_us
    mistakes: list[dict[str, Any]] = [
        {"config": {"sizes": 3}}, {"config": {}}, {"network": {"stages": []}}, {},
    ]  # fmt: skip
    for wrong in mistakes:
        path.write_text(json.dumps(values | wrong))
        with pytest.raises(FalconError, match="not the result of an experiment"):
            read_result(path)


def test_broken_results_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"format": "something else"}')
    with pytest.raises(FalconError, match="not the result of an experiment"):
        read_result(path)
    path.write_text('{"format": "falcon result 1", "accuracy": 3}')
    with pytest.raises(FalconError, match="not the result of an experiment"):
        read_result(path)


def test_the_kernel_picture_shows_decisions_of_the_rule(tmp_path: Path) -> None:
    made = {delay: decisions(INPUTS, delay) for delay in (1, 3, 7)}
    assert {delay: sum(d.fired for d in rows) for delay, rows in made.items()} == {1: 2, 3: 1, 7: 1}
    assert [d.round for d in made[3]] == [2, 3, 4, 5, 6, 7, 8]  # slot t after input slot t + 2
    assert all(d.fired == (d.potential >= 1) for rows in made.values() for d in rows)
    draw_kernel(tmp_path / "kernel.svg", (1, 3, 7))
    assert (tmp_path / "kernel.svg").stat().st_size > 10_000
