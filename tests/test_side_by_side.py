"""Steps of a run in several processes: in the right order, and stopped in the right way."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.heard import Heard

from falcon_snn.errors import FalconError
from falcon_snn.workflow.steps import Run, RunStep, execute_steps
from falcon_snn.workflow.watch import Watch

_JOB = """
import sys
from pathlib import Path
from tests.test_side_by_side import A, LONG
from falcon_snn.workflow.steps import Run, execute_steps
from falcon_snn.workflow.watch import SILENT
execute_steps(Run(Path(sys.argv[1]), {}), [A, LONG], SILENT, workers=2)
"""


def write(run: Run, folder: Path) -> None:
    """Each step says which ones were done before it."""
    done = sorted(path.parent.name for path in run.folder.glob("*/result.json"))
    (folder / "result.json").write_text(" ".join(done))


def refuse(run: Run, folder: Path) -> None:
    raise FalconError("this step cannot be done")


def die(run: Run, folder: Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sleep(run: Run, folder: Path) -> None:
    (folder / "pid.json").write_text(str(os.getpid()))
    time.sleep(600)


A, B = RunStep("a", "", write), RunStep("b", "", write)
BOTH = RunStep("both", "", write, after=("a", "b"))
LAST = RunStep("last", "", write, after=("both",))
LONG = RunStep("long", "", sleep, after=("a",))


def test_a_step_begins_when_all_that_it_reads_is_done(tmp_path: Path) -> None:
    job, heard = Run(tmp_path / "run", {}), Heard()
    job.execute(B)
    execute_steps(job, [A, B, BOTH, LAST], heard, workers=2)
    assert job.path("both", "result.json").read_text() == "a b"
    assert job.path("last", "result.json").read_text() == "a b both"
    assert "b: done already" in heard.said
    again = Heard()
    execute_steps(job, [A, B, BOTH, LAST], again, workers=2)
    assert again.said == [f"{name}: done already" for name in ("a", "b", "both", "last")]


def test_what_needs_a_step_that_failed_does_not_begin(tmp_path: Path) -> None:
    job = Run(tmp_path / "run", {})
    bad = RunStep("bad", "", refuse, after=("a",))
    needs = RunStep("needs", "", write, after=("bad",))
    with pytest.raises(FalconError, match="this step cannot be done"):
        execute_steps(job, [A, bad, needs, B, BOTH], Watch(), workers=2)
    assert job.valid(BOTH)
    assert not job.path("needs").exists()


def test_a_killed_process_is_told_and_the_rest_is_kept(tmp_path: Path) -> None:
    job = Run(tmp_path / "run", {})
    with pytest.raises(FalconError, match="a process was killed"):
        execute_steps(job, [A, RunStep("bad", "", die, after=("a",))], Watch(), workers=2)
    assert job.valid(A)


@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL])
def test_the_processes_end_with_the_first(kill: signal.Signals, tmp_path: Path) -> None:
    job = subprocess.Popen(
        [sys.executable, "-c", _JOB, str(tmp_path / "run")], stderr=subprocess.PIPE, text=True
    )
    note = tmp_path / "run" / "long" / "pid.json"
    while job.poll() is None and not (note.exists() and note.read_text()):
        time.sleep(0.05)
    worker = int(note.read_text())
    job.send_signal(kill)
    _, said = job.communicate(timeout=30)
    if kill == signal.SIGINT:
        assert "stopped in long; the same command continues from there" in said
    for _ in range(200):
        if not os.path.exists(f"/proc/{worker}"):
            break
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{worker}")
