"""What is written: whole or not at all, by one job at a time, with nothing left of those killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.training_data import write_spikes
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.errors import FalconError
from falcon_snn.files import IN_USE, is_temporary, locked, new_folder, replacing, write_text

KILLED = """
import os, signal
from pathlib import Path
from falcon_snn.files import locked, new_folder, replacing
here = Path({here!r})
with locked(here), replacing(here / "sp.h5") as file, new_folder(here / "pack-0") as folder:
    file.write_text("half")
    (folder / "clips-00.opus").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_goes_with_the_next_one(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED.format(here=str(tmp_path))], check=False)
    assert ended.returncode == -signal.SIGKILL
    left = sorted(path.name for path in tmp_path.iterdir())
    assert len(left) == 3
    assert all(is_temporary(name) for name in left if name != IN_USE)
    mine = tmp_path / ".sp.h5.mine"
    mine.write_text("not ours")
    with locked(tmp_path):
        write_text(tmp_path / "sp.h5", "whole")
        with new_folder(tmp_path / "pack-0"):
            pass
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"sp.h5", "pack-0", mine.name}


def test_what_another_process_is_writing_stays(tmp_path: Path) -> None:
    with replacing(tmp_path / "a.json") as first:
        with replacing(tmp_path / "a.json") as second:
            second.write_text("second")
        assert first.exists()
        parent = Path(str(first).replace(str(os.getpid()), str(os.getppid())))
        parent.write_text("of a process that is alive")
        write_text(tmp_path / "a.json", "third")
        assert parent.exists()
        first.write_text("first")
    assert (tmp_path / "a.json").read_text() == "first"


def test_a_folder_is_held_by_one_job(tmp_path: Path) -> None:
    with locked(tmp_path / "out"):
        with pytest.raises(FalconError, match=f"in use by process {os.getpid()} on "):
            locked(tmp_path / "out").__enter__()
        with locked(tmp_path / "other"):
            pass
    with locked(tmp_path / "out"):
        pass
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("command", ["train", "search", "adapt", "run"])
def test_a_second_job_says_who_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("FALCON_CACHE", str(tmp_path / "cache"))
    data, out = write_spikes(tmp_path / "spikes"), tmp_path / "out"
    given = [command, "--data", str(data), "--out", str(out)]
    if command in ("search", "adapt"):
        network = ["--network", "tiny", "--epochs", "1"]
        trained = ["train", "--data", str(data), "--out", str(tmp_path / "qnn"), *network]
        assert CliRunner().invoke(app, trained).exit_code == 0
        given += ["--checkpoint", str(tmp_path / "qnn" / "best.safetensors")]
    if command == "adapt":
        given += ["--schedule", "fastest"]
    with locked(out):
        result = CliRunner().invoke(app, given)
    assert isinstance(result.exception, FalconError)
    assert f"in use by process {os.getpid()} on " in str(result.exception)
    assert list(out.iterdir()) == []
