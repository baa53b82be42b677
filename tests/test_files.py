"""What is written: whole or not at all, by one job at a time, with nothing left of those killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.data_files import write_folder
from tests.run_folder import write_run
from tests.training_data import write_spikes
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.errors import FalconError
from falcon_snn.files import (
    IN_USE,
    is_temporary,
    locked,
    new_folder,
    read_text,
    replacing,
    write_text,
)

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
    assert not (tmp_path / "out").exists()


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
    assert not out.exists()


def test_a_file_takes_the_place_of_files_only(tmp_path: Path) -> None:
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    for target, kind in ((pipe, "a device or a pipe"), (folder, "a folder")):
        with pytest.raises(FalconError, match=f"{target.name}: is {kind}; name a file"):
            write_text(target, "lost")
    assert pipe.is_fifo()
    assert not list(folder.iterdir())


def test_a_device_that_never_ends_is_not_read() -> None:
    with pytest.raises(FalconError, match="/dev/zero: is a device, not a file"):
        read_text("/dev/zero")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds data, what was trained on it, and a file of somebody else's."""
    home = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FALCON_CACHE", str(home / "cache"))
        data = str(write_spikes(home / "spikes"))
        given = ["train", "--data", data, "--network", "tiny", "--epochs", "1"]
        assert CliRunner().invoke(app, [*given, "--out", str(home / "qnn")]).exit_code == 0
    for name in ("mine/best.safetensors", "mine/curves.jsonl", "mine/balanced.json"):
        write_text(home / name, "mine")
    return home


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("convert --checkpoint {net} --out {net}", "is the input itself"),
        ("calibrate --checkpoint {net} --out {net}", "is the input itself"),
        ("export --checkpoint {net} --out {net} --format nir", "is the input itself"),
        (
            "export --checkpoint {net} --out mine/curves.jsonl --format onnx",
            "not written by Falcon",
        ),
        ("calibrate --checkpoint {net} --out mine/curves.jsonl", "not written by Falcon"),
        ("adapt --checkpoint {net} --schedule fastest --out qnn", "is the input itself"),
        ("adapt --checkpoint {net} --schedule fastest --out qnn --resume", "is the input itself"),
        ("adapt --checkpoint {net} --schedule fastest --out mine", "already holds best.safe"),
        ("train --network tiny --out mine", "already holds best.safetensors"),
        ("train --network tiny --out qnn", "already holds a run; add --resume"),
        ("search --checkpoint {net} --out mine", "already holds balanced.json; choose another"),
        ("search --checkpoint {net} --out mine --resume", "already holds balanced.json"),
    ],
)
def test_nothing_that_is_there_is_lost(
    trained: Path, monkeypatch: pytest.MonkeyPatch, given: str, message: str
) -> None:
    monkeypatch.setenv("FALCON_CACHE", str(trained / "cache"))
    monkeypatch.chdir(trained)
    words = given.format(net="qnn/best.safetensors").split()
    if words[0] != "export":
        words += ["--data", "spikes"]
    before = {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}
    with pytest.raises(FalconError, match=message):
        raise CliRunner().invoke(app, words).exception or AssertionError
    assert {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "given",
    [
        "calibrate --pretrained embedded-tiny-t2 --out FOLDER",
        "convert --checkpoint qnn/best.safetensors --data spikes --out FOLDER",
        "data spikes --data embedded --out FOLDER",
        "energy --checkpoint qnn/best.safetensors --data spikes --plot FOLDER",
        "evaluate --checkpoint qnn/best.safetensors --data spikes --plot FOLDER",
        "classify --pretrained embedded-tiny-t2 none.wav --raster FOLDER",
        "detect --pretrained embedded-tiny-t2 none.wav --plot FOLDER",
        "classify --pretrained embedded-tiny-t2 none.wav --raster spikes.txt",
    ],
)
def test_where_nothing_can_be_written_is_said_before_the_work(
    trained: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.chdir(trained)
    (trained / "folder.png").mkdir(exist_ok=True)
    monkeypatch.setattr("falcon_snn.training.checkpoint.model_of", None)  # no network is made
    words = given.replace("FOLDER", "folder.png").split()
    with pytest.raises(FalconError, match=r"is a folder; name a file|a picture is written as"):
        raise CliRunner().invoke(app, words).exception or AssertionError


NET = "--checkpoint qnn/best.safetensors"


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (f"convert {NET} --out net.safetensors", "net.safetensors"),
        ("data spikes --data embedded --limit 1 --out some.h5", "some.h5"),
        (f"export {NET} --format nir --out net.nir", "net.nir"),
        ("latency --network tiny --trace trace.json", "trace.json"),
        ("latency --network tiny --gantt line.html", "line.html"),
        ("latency --network tiny --gantt line.png", "line.png"),
        ("latency --network tiny --gantt line.png --format svg", "line.svg"),
        ("latency --network tiny --gantt line.png --format pdf", "line.pdf"),
        ("latency --network tiny --gantt line.png --format csv", "line.csv"),
        ("search random --like balanced -n 1 --out any", "any/random-01.json"),
        ("report run", "run/report/report.html"),
        (
            "results record qnn --setting x --configuration qnn --data spikes",
            "results/x-qnn-seed0.json",
        ),
    ],
)
def test_only_what_falcon_wrote_is_replaced(
    trained: Path, monkeypatch: pytest.MonkeyPatch, given: str, written: str
) -> None:
    monkeypatch.setenv("FALCON_CACHE", str(trained / "cache"))
    monkeypatch.chdir(trained)
    if given.startswith("report"):
        write_run(trained / "run")
    path = Path(written)
    write_text(path, "")  # an empty file is nobody's
    for _ in range(2):
        done = CliRunner().invoke(app, given.split())
        assert done.exit_code == 0, done.exception
        assert path.stat().st_size
    path.write_text("mine")
    with pytest.raises(FalconError, match=f"{path.name}: exists and was not written by Falcon; "):
        raise CliRunner().invoke(app, given.split()).exception or AssertionError
    assert path.read_text() == "mine"
    path.unlink()


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("graph --network tiny --out mine.toml", "mine.toml"),
        ("hardware new mine.toml", "mine.toml"),
        ("data split words --by clip", "words/split.csv"),
    ],
)
def test_what_may_have_been_edited_is_never_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, written: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "words")
    assert CliRunner().invoke(app, given.split()).exit_code == 0
    before = Path(written).read_bytes()
    with pytest.raises(FalconError, match=f"{written}: already exists; choose another name or"):
        raise CliRunner().invoke(app, given.split()).exception or AssertionError
    assert Path(written).read_bytes() == before


@pytest.mark.parametrize("command", ["train", "search"])
def test_a_job_that_never_began_leaves_no_folder(
    trained: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("FALCON_CACHE", str(trained / "cache"))
    monkeypatch.chdir(trained)
    given = {
        "train": "--data spikes --network tiny --init none.safetensors",
        "search": f"{NET} --data none",
    }[command]
    for out in ("new", "a\udcff"):
        failed = CliRunner().invoke(app, [command, *given.split(), "--out", out])
        assert isinstance(failed.exception, FalconError)
        assert not Path(out).exists()
    assert str(failed.exception) == "a\udcff: this name is not UTF-8; choose another"


def test_a_link_stays_and_what_it_points_to_is_written(tmp_path: Path) -> None:
    link, there = tmp_path / "link.json", tmp_path / "disk" / "file.json"
    link.symlink_to(there)
    for text in ("first", "second"):
        write_text(link, text)
        assert link.is_symlink()
        assert there.read_text() == text
