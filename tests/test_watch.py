"""What long jobs say while they work, and when somebody stops them."""

import io
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.training_data import write_spikes
from typer.testing import CliRunner

from falcon_snn.cli import output
from falcon_snn.cli.main import PANELS, app
from falcon_snn.errors import FalconError, Stopped
from falcon_snn.neuron import layers
from falcon_snn.training.loop import EpochResult
from falcon_snn.training.step import TrainingStep
from falcon_snn.workflow import doctor, searching
from falcon_snn.workflow.steps import Run


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FALCON_CACHE", str(tmp_path / "cache"))
    return write_spikes(tmp_path / "spikes")


@pytest.fixture
def quick(tmp_path: Path) -> Path:
    path = tmp_path / "quick.toml"
    path.write_text(
        'forward = "counts"\nepochs = 3\nbatch = 5\nweight_rate = 1e-3\nneuron_rate = 0\n'
    )
    return path


def train(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["train", "--network", "tiny", *map(str, arguments)])


def test_one_line_per_epoch_where_stderr_is_no_terminal(data: Path, quick: Path) -> None:
    out = quick.parent / "qnn"
    said = train("--data", data, "--recipe", quick, "--out", out).stderr
    assert "qnn: 12 clips in batches of 5, 3 steps an epoch, 3 epochs\n" in said
    for epoch in (1, 2, 3):
        assert re.search(rf"^qnn: epoch {epoch}/3, loss [\d.]+, validation [\d.]+ %", said, re.M)
    assert "\n\n" not in said


def test_ctrl_c_says_how_to_go_on(data: Path, quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = quick.parent / "qnn"
    words = ("--data", data, "--recipe", quick, "--out", out)
    plain, calls = TrainingStep.__call__, 0

    def stopping(step: TrainingStep, batch: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 8:  # in epoch 3
            raise KeyboardInterrupt
        plain(step, batch)

    with monkeypatch.context() as patched:
        patched.setattr(TrainingStep, "__call__", stopping)
        stopped = train(*words)
    assert stopped.exit_code == 130
    assert stopped.stderr.splitlines()[-1] == "stopped after epoch 2 of qnn; continue with --resume"
    resumed = train(*words, "--resume")
    assert resumed.exit_code == 0
    assert "continuing at epoch 3\n" in resumed.stderr
    assert "all 3 epochs are done" in train(*words, "--resume").stderr


def test_ctrl_c_in_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopping(*args: Any, progress: Any, **more: Any) -> None:
        progress(4, 9)
        raise KeyboardInterrupt

    monkeypatch.setattr(searching, "run_search", stopping)
    words = ["search", "--data", "embedded", "--pretrained", "embedded-tiny-t2", "--limit", "2"]
    stopped = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out")])
    assert stopped.exit_code == 130
    assert stopped.stderr == "stopped after 4 schedules; continue with --resume\n"
    assert isinstance(Stopped("here"), KeyboardInterrupt)  # as callers of the library expect


def test_a_real_interrupt_ends_with_130(data: Path, quick: Path) -> None:
    out = quick.parent / "qnn"
    words = ["--network", "tiny", "--data", data, "--recipe", quick, "--epochs", "500"]
    running = subprocess.Popen(
        [sys.executable, "-m", "falcon_snn.cli.main", "train", *map(str, words), "--out", str(out)],
        env=dict(os.environ), stderr=subprocess.PIPE, text=True,
        # Tests that a shell runs in the background ignore the signal, and so would this process.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    patience = time.monotonic() + 300
    while not (out / "last.safetensors").exists() and time.monotonic() < patience:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=120)[1]
    assert running.returncode == 130
    assert re.search(r"stopped after epoch \d+ of qnn; continue with --resume\n$", said)
    assert "Traceback" not in said


def test_a_bar_moves_inside_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=120)
    monkeypatch.setattr(output, "err", screen)
    with output.TerminalWatch().phase("balanced qat", 2, 4, done=1) as told:
        told(8, None)
        told(8, None)
        screen.file.write("|")
        told(0, EpochResult(2, 0.5, 90.0, 80.0, 80.0, 100.0, 1.0))
    shown = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "balanced qat" in shown
    assert "epoch 2/2" in shown
    assert "validation 80.00 %" in shown


def test_equal_schedules_are_shown_once_and_not_compared(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["search", "--data", "embedded", "--pretrained", "embedded-tiny-t2", "--limit", "2",
             "--random", "0", "--budget-us", "33", "--out", str(tmp_path / "out")]  # fmt: skip
    said = " ".join(CliRunner().invoke(app, words).stdout.split())
    assert "the three names stand for one schedule" in said
    assert "McNemar" not in said


def test_help_names_values_in_words_and_completion_can_be_installed() -> None:
    for command in ([], *([name] for commands in PANELS.values() for name in commands)):
        said = CliRunner().invoke(app, [*command, "--help"]).stdout
        assert "--help" in said
        assert not re.search(r"<(bool|int|float|str|path|list)|--no-resume", said)
    said = CliRunner().invoke(app, ["--help"]).stdout
    assert "--install-completion" in said
    places = [said.index(f"─ {panel} ─") for panel in PANELS]
    assert places == sorted(places)
    assert ".png, .svg, .pdf or .html" in " ".join(
        CliRunner().invoke(app, ["latency", "--help"], env={"COLUMNS": "200"}).stdout.split()
    )


def test_doctor_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        doctor, "examine", lambda: [doctor._row("triton", False, "", "install falcon-snn[gpu]")]
    )
    said = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "200"})
    assert "falcon-snn[gpu]" in said.output


def test_a_backend_that_cannot_run_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["evaluate", "--pretrained", "embedded-tiny-t2", "--limit", "2", "--backend", "triton"]
    ignored = CliRunner().invoke(app, words)
    assert isinstance(ignored.exception, FalconError)
    assert "the QNN runs in float, not with backend 'triton'" in str(ignored.exception)
    monkeypatch.setattr(layers, "find_spec", lambda name: None)
    absent = CliRunner().invoke(app, [*words, "--schedule", "full"])
    assert isinstance(absent.exception, FalconError)
    assert "triton is not installed (pip install 'falcon-snn[gpu]')" in str(absent.exception)


def test_ctrl_c_in_a_run(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopping(*args: Any) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "execute", stopping)
    words = ["run", "--data", str(data), "--out", str(tmp_path / "run")]
    stopped = CliRunner().invoke(app, words)
    assert stopped.exit_code == 130
    last = stopped.stderr.splitlines()[-1]
    assert last == "stopped in step 'features'; the same command continues from there"
