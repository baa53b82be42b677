"""`falcon-snn data` as a person or a script calls it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.data_files import write_folder
from typer.testing import CliRunner

from falcon_snn.cli.main import app


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FALCON_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FALCON_DATA", str(tmp_path / "home"))
    write_folder(tmp_path / "home" / "mine")
    (tmp_path / "home" / "empty").mkdir()
    return tmp_path / "home"


def test_list_shows_what_is_there_and_what_can_be_downloaded() -> None:
    result = CliRunner().invoke(app, ["data", "list", "--json"])
    sets = {row["name"]: row for row in json.loads(result.stdout)["sets"]}
    assert set(sets) == {"embedded", "mine", "empty", "gsc-v1", "gsc-v2"}
    assert "no recordings" in sets["empty"]["problem"]
    assert sets["embedded"]["splits"] == {"training": 1750, "validation": 490, "testing": 490}
    assert sets["mine"]["splits"] == {"training": 4, "validation": 4, "testing": 4}
    assert sets["gsc-v2"]["place"] == "to download"
    table = CliRunner().invoke(app, ["data", "list"]).stdout
    assert "CC BY 4.0" in table
    assert "1,750" in table


def test_features_are_described() -> None:
    result = CliRunner().invoke(app, ["data", "features", "mine", "--split", "test", "--json"])
    facts = json.loads(result.stdout)
    assert (facts["clips"], facts["tokens"], facts["features"]) == (4, 98, 64)
    assert abs(facts["mean"]) < 1e-3


def test_bad_input_is_one_line_and_exit_1(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "falcon_snn.cli.main", "data", "features", str(home / "empty")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "no recordings" in done.stderr
    assert "Traceback" not in done.stderr
