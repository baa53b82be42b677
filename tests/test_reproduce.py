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
from falcon_snn.report.exhibit import (
    CLOSE,
    EXACT,
    NOT_PUBLISHED,
    NOT_RUN,
    OTHER,
    Line,
    accuracy_line,
    line,
    other_line,
)
from falcon_snn.report.kernel_figure import INPUTS, decisions, draw_kernel
from falcon_snn.report.reproduce import EXHIBITS, exhibits, write_reproduction
from falcon_snn.report.results import Result, load_results, read_result, write_result
from falcon_snn.report.results_table import compare, differences, results_table
from falcon_snn.workflow.networks import built_in


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A results folder of our own."""
    monkeypatch.setattr(results_module, "results_folder", lambda: tmp_path)
    return tmp_path


def made(configuration: str, test_percent: float | None, seed: int = 0, **changes: Any) -> Result:
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
    assert line("a", 100.0, 102.0).mark == CLOSE
    assert line("a", 100.0, 102.1).verdict == "differs: +2.10"
    assert line("a", 96.31, None).mark == NOT_RUN
    assert other_line("a", 96.31, 96.31).mark == OTHER  # other data cannot be exact
    assert other_line("a", 96.31, 95.32).verdict == "other data: −0.99"
    assert other_line("a", 0.37, -0.01).shown(-0.01) == "−0.01"
    assert other_line("a", None, 95.32).mark == NOT_PUBLISHED
    assert accuracy_line("a", 96.31, []).mark == NOT_RUN


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
    rows = {
        (row["setting"], row["configuration"]): row for row in results_table(load_results(results))
    }
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
    assert lost.why.endswith("PDS–Fastest: these clips show no difference (intervals overlap).")
    (main,) = exhibits("main-results")
    fastest_row = main.grid.rows[2].cells
    assert fastest_row[0] == "PDS–Fastest"
    cells = [cell for cell in fastest_row if isinstance(cell, Line)]
    assert [cell.published for cell in cells] == [81.24, 116.42, 96.11, 115.82, 95.46, 180.42]
    assert (cells[2].verdict, cells[2].spread) == ("other data: +1.09", "2 seeds: 97.10–97.30")
    assert "30 words" in cells[2].why
    write_result(results / "own" / "e.json", made("fastest", 90.0))  # in place of both
    (main,) = exhibits("main-results", [results / "own"])
    assert [each.ours for each in main.lines if each.published == 96.11] == [90.0]


def test_a_difference_is_called_one_only_where_seeds_or_clips_show_it() -> None:
    def seeds(*percents: float) -> list[Result]:
        return [made("fastest", percent, seed) for seed, percent in enumerate(percents)]

    def kept(percent: float, wrong: list[int], key: str = "ab") -> list[Result]:
        return [made("fastest", percent, test_wrong=wrong, data_key=key)]

    near = compare(seeds(97.0), seeds(96.6))  # 0.4 points of 6,835 clips: not by one run each
    assert near is not None
    assert (near.differs, near.why) == (False, "intervals overlap")
    assert near.points == pytest.approx(0.4)
    assert compare(seeds(96.6), seeds(97.0)) == near._replace(points=-near.points)
    for far in (compare(seeds(97.0), seeds(95.0)), compare(seeds(95.0), seeds(97.0))):
        assert far is not None
        assert far.differs
    # The same 0.4 points: 30 against 3 of the same clips, or three seeds each without overlap.
    paired = compare(kept(97.0, [1, 2, 3]), kept(96.6, list(range(4, 34))))
    assert paired is not None
    assert (paired.differs, paired.why) == (True, "same clips, p < 0.001")
    both_wrong = compare(kept(97.0, list(range(30))), kept(96.9, list(range(32))))
    assert both_wrong is not None
    assert (both_wrong.differs, both_wrong.why) == (False, "same clips, p = 0.500")
    other_clips = compare(kept(97.0, [1, 2, 3]), kept(96.6, list(range(4, 34)), "cd"))
    assert other_clips is not None
    assert not other_clips.differs
    mixed = compare(kept(97.0, [1, 2, 3]), 2 * kept(96.6, list(range(4, 34))))
    assert mixed is not None
    assert mixed.why == "intervals overlap"  # one network says nothing about two
    several = compare(seeds(97.0, 97.02, 96.98), seeds(96.6, 96.62, 96.58))
    assert several is not None
    assert several.differs
    wide = compare(seeds(97.5, 97.0, 96.5), seeds(96.6, 97.1, 96.1))
    assert wide is not None
    assert (wide.differs, wide.why.split(",")[0]) == (False, "3 and 3 runs")
    assert compare(seeds(97.0), [made("full", None)]) is None


def test_rows_give_intervals_seeds_and_teachers() -> None:
    taught = [{"name": "qat", "recipe": {}, "validation_percent": [96.0],
               "teachers": [{"file": "t.safetensors", "sha256": None}]}]  # fmt: skip
    found = [made("full", 97.0), made("fastest", 94.0, phases=taught), made("balanced", 97.0),
             made("balanced", 97.4, seed=3)]  # fmt: skip
    rows = {
        row["configuration"]: row for row in results_table(found) if row["setting"] == "gsc-medium"
    }
    assert rows["fastest"]["test_interval"] == pytest.approx([93.41, 94.54], abs=0.01)
    assert rows["fastest"]["teachers"] == ["t.safetensors"]
    assert rows["full"]["teachers"] is None  # the file does not say
    assert rows["balanced"]["test_range"] == [97.0, 97.4]
    assert rows["balanced"]["seed_numbers"] == [0, 3]
    said = differences(list(rows.values()))
    assert said[0] == "Differ from full lookahead: fastest -3.00 (intervals apart)."
    assert said[1].endswith("no difference from full lookahead: balanced.")


def test_random_schedules_have_the_budget_that_was_planned(results: Path) -> None:
    for name, percent in (("balanced", 97.0), ("random-1", 96.8), ("balanced-10", 90.0)):
        write_result(results / f"m-{name}.json", made(name, percent))
    for name in ("balanced", "balanced-10", "random-1-10", "random-1-30"):
        percent = 95.0 if name == "balanced" else 94.0
        path = results / f"l-{name}.json"
        write_result(path, made(name, percent, setting="gsc-large"))
    (table,) = exhibits("random-adaptation")
    ours = {each.what: each.ours for each in table.lines if each.ours is not None}
    assert (ours["gsc-medium PDS"], ours["gsc-medium Random 1"]) == (97.0, 96.8)
    assert (ours["gsc-large PDS"], ours["gsc-large Random 1"]) == (94.0, 94.0)
    assert ours["gsc-large PDS gain"] == 0
    (curves,) = exhibits("qat-curves")
    run = [each.what for each in curves.lines if each.mark != NOT_RUN]
    assert [what.removesuffix(", best validation") for what in run] == [
        "GSC Falcon-Medium, PDS Balanced", "GSC Falcon-Medium, random schedule",
        "GSC Falcon-Large, PDS Balanced", "GSC Falcon-Large, random schedule",
    ]  # fmt: skip
    assert len(curves.lines) == 9
    ended = [{"name": "qat", "recipe": {}, "validation_percent": [96.5, 96.0]}]
    write_result(results / "m-balanced-10.json", made("balanced-10", None, phases=ended))
    (curves,) = exhibits("random-curves-gsc-medium")
    assert curves.lines[0].ours == 96.0  # where it ended, not its best epoch


def test_page_and_commands(results: Path) -> None:
    chosen = exhibits("pipeline-detail") + exhibits("schedules")
    page = write_reproduction(chosen, results / "out").read_text(encoding="utf-8")
    assert "data:image/svg+xml;base64," in page
    assert "block0.ffn1, block2.attn_out" in page
    assert page.count("<details open>") == 0  # of several, only the main table is open
    assert page.count("<details>") == 2
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
