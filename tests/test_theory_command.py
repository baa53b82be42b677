"""`falcon-snn theory`: the table as JSON, the picture as a file, bad input as one line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.errors import FalconError


def test_json_and_picture(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["theory", "--json", "--out", str(tmp_path)])
    assert result.exit_code == 0
    rows = json.loads(result.stdout)["by_delay"]
    assert [row["accuracy"] for row in rows] == ["1", "1", "1/2", "1/2", "1", "1", "1"]
    assert [row["count_error_tight"] for row in rows] == [6, 5, 4, 3, 2, 1, 0]
    for row in rows:
        assert row["count_error_random_max"] <= row["count_error_bound"]
    picture = (tmp_path / "theory.svg").read_text()
    assert "<svg" in picture


def test_a_picture_for_a_paper(tmp_path: Path) -> None:
    for style in ("paper", "paper-wide"):
        words = ["theory", "--out", str(tmp_path), "--style", style, "--format", "png,pdf,csv"]
        assert CliRunner().invoke(app, words).exit_code == 0
        assert {file.suffix for file in tmp_path.iterdir()} == {".svg", ".png", ".pdf", ".csv"}
        rows = (tmp_path / "theory.csv").read_text().splitlines()
        assert len(rows) == 8  # a heading and seven delays


def test_table_fits_100_columns() -> None:
    result = CliRunner().invoke(app, ["theory", "--delays", "2,4,6", "--slots", "8"])
    assert result.exit_code == 0
    assert "1/2" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()) <= 100


@pytest.mark.parametrize(
    "arguments", [["--delays", "1,x,3"], ["--delays", "5,3,1"], ["--slots", "9"]]
)
def test_bad_input_is_one_clear_error(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, ["theory", *arguments])
    assert isinstance(result.exception, FalconError)
