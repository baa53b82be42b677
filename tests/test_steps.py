"""Steps of a run never remove or overwrite what they did not write."""

import os
import signal
import sys
from pathlib import Path

import pytest
from tests.training_data import write_spikes

from falcon_snn.cli.main import main
from falcon_snn.errors import FalconError
from falcon_snn.workflow.steps import MARKER, Run, RunStep


def write(run: Run, folder: Path) -> None:
    """A step that writes two files, one of them in a folder of its own."""
    (folder / "part").mkdir(exist_ok=True)
    (folder / "part" / "curves.jsonl").write_text("{}\n")
    (folder / "result.json").write_text(str(run.settings["size"]))


STEP = RunStep("train", "writes", write, uses=("size",))


def run_of(tmp_path: Path, size: int = 1) -> Run:
    return Run(tmp_path / "run", {"size": size})


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


OWN = {MARKER, "part/curves.jsonl", "result.json"}


def test_foreign_files_change_nothing_and_stay(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    run.execute(STEP)
    folder = run.path("train")
    assert names(folder) == OWN
    assert (folder / MARKER).read_text() == "train\n"
    strays = {".DS_Store", "notes.txt", "part/.DS_Store", "own.json", "part/own.json"}
    for stray in strays:
        (folder / stray).write_text("mine")
    assert run.valid(STEP)

    changed = run_of(tmp_path, size=2)
    assert not changed.valid(STEP)
    changed.execute(STEP)
    assert (folder / "result.json").read_text() == "2"
    assert names(folder) == OWN | strays
    assert all((folder / stray).read_text() == "mine" for stray in strays)
    assert changed.record("train")["files"].keys() == OWN - {MARKER}
    (folder / "own.json").write_text("changed")
    assert changed.valid(STEP)
    (folder / "result.json").write_text("3")
    assert not changed.valid(STEP)


def test_what_a_new_start_no_longer_writes_is_removed(tmp_path: Path) -> None:
    run_of(tmp_path).execute(STEP)

    def less(run: Run, folder: Path) -> None:
        assert not (folder / "part").exists()
        (folder / "result.json").write_text("less")

    folder = run_of(tmp_path).path("train")
    half = folder / ".result.json.0123abcd-77-abcd_123.json"
    half.write_text("{")
    run_of(tmp_path, 2).execute(RunStep("train", "writes less", less, uses=("size",)))
    assert names(folder) == {MARKER, "result.json"}


@pytest.mark.parametrize("marked", [False, True])
def test_a_folder_that_no_step_made_is_left_alone(tmp_path: Path, marked: bool) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine.json").write_text("mine")
    (tmp_path / "run").mkdir()
    if marked:  # even a marked folder is not written into through a link
        (elsewhere / MARKER).write_text("train\n")
        (tmp_path / "run" / "train").symlink_to(elsewhere)
    else:
        elsewhere.rename(tmp_path / "run" / "train")
        elsewhere = tmp_path / "run" / "train"
    before = names(elsewhere)
    with pytest.raises(FalconError, match="run/train: was not made by a run"):
        run_of(tmp_path).execute(STEP)
    assert names(elsewhere) == before


def test_links_inside_a_folder_are_not_followed(tmp_path: Path) -> None:
    run_of(tmp_path).execute(STEP)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine.json").write_text("mine")
    link = run_of(tmp_path).path("train", "more")
    link.symlink_to(tmp_path / "elsewhere")
    assert run_of(tmp_path).valid(STEP)
    with pytest.raises(FalconError, match="more: is a link"):
        run_of(tmp_path, 2).execute(STEP)
    assert (tmp_path / "elsewhere" / "mine.json").read_text() == "mine"


def test_a_step_that_failed_starts_anew_without_its_own_files_only(tmp_path: Path) -> None:
    def fail(run: Run, folder: Path) -> None:
        write(run, folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_of(tmp_path).execute(RunStep("train", "fails", fail, uses=("size",)))
    folder = run_of(tmp_path).path("train")
    (folder / "mine.json").write_text("mine")

    def look(run: Run, folder: Path) -> None:
        assert names(folder) == {MARKER, "mine.json"}

    run_of(tmp_path, 2).execute(RunStep("train", "looks", look, uses=("size",)))


def test_after_a_kill_only_the_same_step_goes_on(tmp_path: Path) -> None:
    """Which files are whose cannot be known then; nothing is removed until a person looked."""
    run = run_of(tmp_path)

    def die(run: Run, folder: Path) -> None:
        write(run, folder)
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        run.execute(RunStep("train", "dies", die, uses=("size",)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    folder = run.path("train")
    (folder / "mine.json").write_text("mine")
    for _ in range(2):  # cut off at first, done then
        with pytest.raises(FalconError, match=r"mine\.json may be its own or yours; delete this"):
            run_of(tmp_path, 2).execute(STEP)
        assert names(folder) == OWN | {"mine.json"}
        if not run.valid(STEP):
            run.execute(STEP)
    assert run.valid(STEP)


def test_a_run_from_python_is_gone_on_with(tmp_path: Path) -> None:
    """`run.json` says what the run is, whoever began it."""
    for _ in range(2):
        with Run(tmp_path / "run", {"seed": 0}).opened({}):
            (tmp_path / "run" / "result.json").touch()


def test_records_that_are_lost(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    run.execute(STEP)
    (tmp_path / "run" / "steps" / "train.json").unlink()
    with pytest.raises(FalconError, match="delete this folder"):
        run.execute(STEP)
    assert names(run.path("train")) == OWN


# the command


def test_out_must_be_new_empty_or_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    (home / "features").mkdir(parents=True)
    (home / "features" / "mine.txt").write_text("mine")
    monkeypatch.setenv("FALCON_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(home)
    data = str(write_spikes(tmp_path / "spikes"))

    def said(out: str) -> str:
        """What the command says, and its exit status as the last word."""
        given = ["run", "--data", data, "--only", "features", "--out", out]
        monkeypatch.setattr(sys, "argv", ["falcon-snn", *given])
        with pytest.raises(SystemExit) as end:
            main()
        return f"{capsys.readouterr().err}{end.value.code or 0}"

    refusal = "error: .: holds files and is not the folder of a run; choose a new or an empty"
    assert said(".") == f"{refusal} folder as --out\n1"
    assert names(home) == {"features/mine.txt"}
    (home / "run.json").write_text('{"name": "mine"}')
    assert said(".").startswith(refusal)
    assert (home / "run.json").read_text() == '{"name": "mine"}'

    (home / "run").mkdir()
    assert said("run").endswith("0")
    (home / "run" / "features" / ".DS_Store").write_text("mine")
    assert "features: done already" in said("run")
