"""`falcon-snn run` on a few clips: steps, what is done again and what not, a kill, the report."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.training_data import write_spikes
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.errors import FalconError
from falcon_snn.files import write_json
from falcon_snn.training.checkpoint import load_metadata

STEPS = ["features", "qnn", "convert", "search", "adapt", "measure", "report"]


def recipe(folder: Path, forward: str, rates: tuple[float, float]) -> Path:
    path = folder / f"{forward}-{rates[0]}.toml"
    path.write_text(
        f'forward = "{forward}"\nepochs = 1\nbatch = 6\n'
        f"weight_rate = {rates[0]}\nneuron_rate = {rates[1]}\n"
    )
    return path


def arguments(folder: Path, *more: str) -> list[str]:
    """A run that takes seconds."""
    counts = recipe(folder, "counts", (1e-3, 0.0))
    spikes = recipe(folder, "spikes", (1e-3, 0.0))
    return ["run", "--data", str(folder / "spikes"), "--out", str(folder / "run"), "--random", "2",
            "--delta-max", "2", "--phases", "qat", "--recipe", f"qnn={counts}",
            "--recipe", f"qat={spikes}", *more]  # fmt: skip


def call(given: list[str]) -> str:
    result = CliRunner().invoke(app, given)
    if result.exception is not None:
        raise result.exception
    return result.output


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FALCON_CACHE", str(tmp_path / "cache"))
    write_spikes(tmp_path / "spikes")
    return tmp_path


def done_again(folder: Path, given: list[str]) -> list[str]:
    """The steps whose records a command writes anew."""
    records = {step: folder / "run" / "steps" / f"{step}.json" for step in STEPS}
    before = {step: path.stat().st_mtime_ns for step, path in records.items()}
    call(given)
    return [step for step in STEPS if records[step].stat().st_mtime_ns != before[step]]


def test_a_run_its_report_and_what_is_done_again(folder: Path) -> None:
    with pytest.raises(FalconError, match="step 'search' needs 'features'"):
        call(arguments(folder, "--only", "search"))
    said = call(arguments(folder))
    assert "report.html" in said
    check_page(folder / "run" / "report" / "report.html")
    accuracy = json.loads((folder / "run" / "measure" / "accuracy.json").read_text())
    assert accuracy["networks"].keys() == {"QNN", "full", "fastest", "balanced", "accurate"}
    assert accuracy["networks"]["QNN"] == accuracy["networks"]["full"]
    assert accuracy["before"].keys() == {"fastest", "balanced", "accurate"}
    for step in STEPS:  # every file is in its step's record
        record = json.loads((folder / "run" / "steps" / f"{step}.json").read_text())
        inside = [path for path in (folder / "run" / step).rglob("*") if path.is_file()]
        assert len(inside) == len(record["files"]) + 1  # the marker

    assert done_again(folder, arguments(folder)) == []
    assert done_again(folder, arguments(folder, "--random", "1")) == STEPS[3:]
    # The same result again: what comes after it stays valid.
    (folder / "run" / "convert" / "network.safetensors").unlink()
    assert done_again(folder, arguments(folder, "--random", "1")) == ["convert"]
    damaged = folder / "run" / "search" / "balanced.json"
    damaged.write_text(damaged.read_text() + " ")
    assert done_again(folder, arguments(folder, "--random", "1", "--only", "search")) == ["search"]

    pages = [folder / place / "report.html" for place in ("once", "twice")]
    for page in pages:
        call(["report", str(folder / "run"), "--out", str(page.parent)])
    assert pages[0].read_bytes() == pages[1].read_bytes()


def chip_like_paper(folder: Path, table: str, key: str, value: float) -> str:
    """A profile that differs from the paper's in one value; its sums are exact, so it is quick."""
    profile = folder / f"{key}.toml"
    given = f'{{ value = {value}, tag = "assumed", source = "test" }}'
    profile.write_text(f'like = "paper"\n[{table}]\n{key} = {given}\n')
    return str(profile)


def test_a_run_on_chips(folder: Path) -> None:
    profile = chip_like_paper(folder, "errors", "stuck_hrs_rate", 0.01)
    call(arguments(folder, "--hardware", profile, "--chips", "2", "--random", "0"))
    search = json.loads((folder / "run" / "search" / "result.json").read_text())
    assert search["settings"]["chips"] == 2
    measured = json.loads((folder / "run" / "measure" / "chips.json").read_text())["networks"]
    assert [row["name"] for row in measured][:3] == ["QNN", "full", "fastest"]
    for row in measured:
        assert row["effects"][-1]["name"] == "all together"
        assert row["effects"][-1]["chips"] == 2
    page = (folder / "run" / "report" / "report.html").read_text()
    assert "On chips as they are made" in page


def test_a_run_on_chips_adapts_weights_that_they_can_hold(folder: Path) -> None:
    profile = chip_like_paper(folder, "precision", "weight_bits", 3)
    call(arguments(folder, "--hardware", profile, "--chips", "1", "--random", "0"))
    best = folder / "run" / "adapt" / "fastest" / "best.safetensors"
    assert load_metadata(best).network.weight_bits == 3


def test_chips_are_not_left_out_of_a_run_without_a_word(folder: Path) -> None:
    given = arguments(folder, "--chips", "1")
    slots = folder / "temporal.toml"
    slots.write_text((folder / "spikes-0.001.toml").read_text() + 'gradient = "temporal"\n')
    with pytest.raises(FalconError, match="chips run whole slots"):
        call([*given, "--recipe", f"qat={slots}"])
    assert not (folder / "run").exists()


def test_the_page_says_what_waiting_cost_and_brought(folder: Path) -> None:
    call(arguments(folder))
    run, out = folder / "run", folder / "page"

    def page() -> str:
        call(["report", str(run), "--out", str(out)])
        text = (out / "report.html").read_text(encoding="utf-8")
        return " ".join(re.sub(r"<[^>]+>", "", text).split())

    adapted = json.loads((run / "adapt" / "adapted.json").read_text())
    fastest = adapted["fastest"]
    write_json(run / "adapt" / "adapted.json", dict.fromkeys(adapted, fastest))
    said = page()
    assert "Waiting did not pay here" in said
    assert said.count("Fastest, Balanced and Accurate") > 3  # one row in each table, one timeline
    assert "Balanced 5" not in said
    # Accurate waits, and the intervals do not touch.
    found = {**fastest["delays"], "stem.fc1": 2}
    other = {"folder": "accurate", "delays": found, "validation_percent": 90.0}
    if not (run / "adapt" / "accurate").exists():
        shutil.copytree(run / "adapt" / "fastest", run / "adapt" / "accurate")
    write_json(run / "adapt" / "adapted.json", {**adapted, "balanced": fastest, "accurate": other})
    tested = json.loads((run / "measure" / "accuracy.json").read_text())
    tested["before"]["fastest"] |= {"percent": 40.0, "interval": [0.3, 0.5]}
    tested["before"]["accurate"] |= {"percent": 70.0, "interval": [0.6, 0.8]}
    write_json(run / "measure" / "accuracy.json", tested)
    said = page()
    assert "costs 1.88 µs: Accurate answers in" in said
    before = "Accurate names 70.0 % (60.0 – 80.0) of the test clips correctly and Fastest 40.0 %"
    assert f"{before} (30.0 – 50.0);" in said
    assert "the 95 % intervals touch" not in said
    number = r"0\.\d+ mJ"
    energy = f"An inference takes {number}, under Fastest {number}, and as a QNN {number}"
    assert re.search(energy, said)
    tested["before"]["accurate"] |= {"interval": [0.45, 0.8]}
    write_json(run / "measure" / "accuracy.json", tested)
    assert "the 95 % intervals touch" in page()


def check_page(page: Path) -> None:
    """One file with everything inside it."""
    text = page.read_text(encoding="utf-8")
    for section in ("schedules", "front", "timelines", "delays", "adaptation", "energy", "related",
                    "made"):  # fmt: skip
        assert f'id="{section}"' in text
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", text)
    assert "<script" not in text
    assert "@import" not in text
    assert "prefers-color-scheme: dark" in text
    assert len(text) < 5_000_000


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--only", "serch"], "no step 'serch'"),
        (["--epochs", "3"], "--epochs '3': write PHASE=VALUE"),
        (["--epochs", "qat=many"], "write a whole number"),
        (["--recipe", "tune=x.toml"], "PHASE one of qnn, qat"),
        (["--checkpoint", "no.safetensors"], "PHASE one of qat"),
        (["--pretrained", "nobody"], "no pretrained network 'nobody'"),
        (["--data", "/nowhere"], "no data at '/nowhere'"),
    ],
)
def test_bad_options_are_one_line(folder: Path, more: list[str], message: str) -> None:
    with pytest.raises(FalconError, match=re.escape(message)):
        call(arguments(folder, *more))


@pytest.mark.parametrize("phases", ["small", "qnn", "qat,teacher", ""])
def test_the_recipe_of_a_qnn_is_no_phase_of_an_adaptation(tmp_path: Path, phases: str) -> None:
    with pytest.raises(FalconError, match=r"unknown phase '.*'; choose from qat, tune, joint"):
        call(["run", "--phases", phases, "--only", "report", "--out", str(tmp_path / "run")])
    assert not (tmp_path / "run").exists()


def test_a_killed_run_goes_on_where_it_was(folder: Path) -> None:
    given = arguments(folder, "--epochs", "qat=8")
    curves = folder / "run" / "adapt" / "fastest" / "qat" / "curves.jsonl"
    state = curves.with_name("last.safetensors")
    running = subprocess.Popen(
        [sys.executable, "-m", "falcon_snn.cli.main", *given], env=dict(os.environ)
    )
    patience = time.monotonic() + 300
    while not state.exists() and running.poll() is None and time.monotonic() < patience:
        time.sleep(0.02)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert running.returncode == -signal.SIGKILL
    held = lines_of(curves)[: load_metadata(state).epoch]  # a kill may come between two files
    assert 0 < len(held) < 8
    said = call(given)
    assert said.count("done already") == 4
    # Epochs before the kill are not trained again: even their seconds are the same.
    assert lines_of(curves)[: len(held)] == held
    assert len(lines_of(curves)) == 8


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
