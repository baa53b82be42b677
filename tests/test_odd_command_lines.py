"""Command lines that nobody should type, and files with names that nobody should give."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import soundfile
from tests.data_files import tone
from tests.run_folder import write_run
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.data.cache import cache_folder, cached_array
from falcon_snn.errors import FalconError
from falcon_snn.files import write_json
from falcon_snn.pipeline.graph import read_graph

TINY = ["--pretrained", "embedded-tiny-t2"]


def falcon(*words: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    given = [sys.executable, "-m", "falcon_snn.cli.main", *words]
    return subprocess.run(given, capture_output=True, check=False, cwd=cwd)


@pytest.mark.parametrize("name", ["[/red]", ":star:", "a\udcff"])
def test_names_of_files_are_shown_as_they_are(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir(parents=True)
    for number in range(2):
        soundfile.write(os.fsencode(folder / f"{number}.wav"), tone(440, 4_000), 16_000)
    done = falcon("classify", *TINY, name, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    shown = name.encode(errors="backslashreplace").decode()
    assert f"  {shown}/1.wav\n" in done.stdout.decode()


def test_names_of_networks_and_folders_are_no_markup(tmp_path: Path) -> None:
    run = tmp_path / "[/red]"
    write_run(run)
    told = CliRunner().invoke(app, ["report", str(run)])
    assert f"report: {run}/report/report.html" in told.stdout
    made = CliRunner().invoke(app, ["graph", "--network", "tiny", "--out", str(run / "g.toml")])
    assert made.exit_code == 0
    graph = (run / "g.toml").read_text().replace("Falcon-Tiny GSC", "[/bold]")
    (run / "g.toml").write_text(graph)
    told = CliRunner().invoke(app, ["latency", "--graph", str(run / "g.toml")])
    assert told.stdout.startswith("[/bold], T = ")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["results", "--setting", "nonsense"], "--setting is what --plot draws; add --plot"),
        (["evaluate", *TINY, "--hours", "-1"], "--hours is about a stream; add --stream"),
        (["evaluate", *TINY, "--seed", "0"], "--seed is about chips and streams; add --hardware"),
        (["evaluate", *TINY, "--chips", "3"], "--chips is about chips; add --hardware"),
        (["convert", "--out", "c", "--checkpoint", "x", "--split", "x"], "add --data"),
        (["listen", "-", *TINY, "--device", "x"], "--device is the microphone's"),
        (["classify", *TINY, "--schedule", "", "x.wav"], "unknown schedule ''"),
        (["export", *TINY, "--schedule", "", "--format", "c", "--out", "c"], "unknown schedule ''"),
        (["reproduce", "--from", "."], ".: no results in it"),
        (["latency", "--schedule", "."], "unknown schedule '.'"),
        (
            ["latency", "--qnn", "--delay", "stem.conv1=7"],
            "--schedule and --delay are about spikes",
        ),
        (["latency", "--qnn", "--schedule", "full"], "--schedule and --delay are about spikes"),
        (["latency", *TINY, "--network", "medium"], "--network and --dataset choose a built-in"),
        (["graph", *TINY, "--dataset", "ssc"], "--network and --dataset choose a built-in"),
        (["studio", *TINY, "--network", "x"], "--network and --dataset choose a built-in"),
        (["describe", *TINY, "--network", "x"], "--network and --dataset choose a built-in"),
        (["run", *TINY, "--network", "x"], "--network and --slots are for training"),
        (["run", *TINY, "--slots", "3"], "--network and --slots are for training"),
        (["studio", "--host", "a\udcff"], "cannot serve at a\udcff:8080"),
        (
            ["train", "--out", "t", "--network", "teacher", "--slots", "3"],
            "leave out --init, --slots",
        ),
        (["train", "--out", "t", "--network", "teacher", "--weight-bits", "3"], "--weight-bits"),
        (["export", *TINY, "--format", "c", "--out", "c", "--hardware", "45nm"], "verilog, not c"),
        (["export", *TINY, "--format", "nir", "--out", "c", "--attention", "streamed"], "not nir"),
        (["studio", "--host", ""], "--host is empty; give an address"),
        (["run", "--phases", "qat,qat"], "--phases names a phase twice"),
        (["run", "--only", "nothing"], "no step 'nothing'; choose one of features"),
        (["run", "--only", "report"], "step 'report' needs 'features', whose result is missing"),
        (["search", *TINY, "--data", "embedded", "--evaluations", "3"], "is for --method frontier"),
        *(
            (
                ["search", *TINY, "--data", "embedded", "--method", "frontier", gate, "0"],
                "--tau and --eps are for --method pds; frontier has no gates",
            )
            for gate in ("--tau", "--eps")
        ),
        (
            ["search", *TINY, "--data", "embedded", "--limit", "1", "--split-half"],
            "one validation clip has no halves",
        ),
        (["studio", "--data", "embedded"], "--data needs a checkpoint"),
        (["design", "--out", "d", "--noise", "5", "--no-noise"], "give --noise or --no-noise"),
        (["design", "--out", "d", "--teacher", "none"], "none: no such ch"),
        (["run", "--checkpoint", "none"], "none: no such checkpoint"),
        (["latency", "--style", "paper"], "--style and --format are about a picture; ask for one"),
        (["latency", "--trace", "t.json", "--format", "pdf"], "are about a picture; ask for one"),
        (["graph", "--out", "g.toml", "--style", "paper"], "are about a picture; ask for one"),
        (["results", "--format", "csv"], "are about a picture; ask for one"),
        (["detect", *TINY, "x.wav", "--style", "paper"], "are about a picture; ask for one"),
    ],
)
def test_options_that_do_nothing_here_are_refused(
    given: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FalconError, match=message.replace(".", r"\.")):
        raise CliRunner().invoke(app, given).exception or AssertionError
    assert not list(tmp_path.iterdir())


NUMBERS = [
    ("run", "--tau nan", "--tau is nan; it must be 0 or more"),
    ("run", "--noise 1e9", "give a ratio from -100 to 100 dB"),
    ("run", "--seed 99999999999999999", "--seed is 99999999999999999; it must be 1,099,511,627"),
    ("run", "--chips 99999999999", "--chips is 99999999999; it must be 10,000 or less"),
    ("search", "--budget-us 1e308", r"--budget-us is 1e\+308; it must be 1,000,000,000 or less"),
    ("train", "--devices 99999999999", "99999999999 devices; choose 1.."),
    ("search", "--seed -1", "--seed is -1; it must be 0 or more"),
    ("search", "--workers 9999999999", "--workers is 9999999999; it must be 1,000 or less"),
    ("search", "--ray-address x", "--ray-address is for --engine ray"),
    ("design", "--within-us 1e308", r"--within-us is 1e\+308; it must be a number above 0"),
    ("design", "--bands 2147483648", "--bands is 2147483648; it must be 1,000 or less"),
    ("design", "--workers 2147483648", "--workers is 2147483648; it must be 1,000 or less"),
    ("design", "--noise nan", "--noise is nan; give a ratio"),
    ("design", "--seed 99999999999999999999999", "--seed is 99999999999999999999999; it must be"),
    ("design", "--epochs 9223372036854775808", "'epochs' is .* it must be a million or less"),
]


@pytest.mark.parametrize(("command", "given", "message"), NUMBERS)
def test_numbers_are_checked_before_the_work(
    command: str, given: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    network = TINY if command == "search" else []
    words = [command, *network, "--data", "embedded", "--out", "new", *given.split()]
    with pytest.raises(FalconError, match=message):
        raise CliRunner().invoke(app, words).exception or AssertionError
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--clips 99999999999999999999", "--clips is 99999999999999999999; it must be 10,000 or"),
        ("--random 99999999999999999999", "it must be 10,000 or less"),
        ("--seed 99999999999999999999", "--seed is 99999999999999999999; it must be"),
        ("--seed -1", "--seed is -1; it must be 0 or more"),
        ("--random 0", "nothing to run; give --random 1 or more, or a --schedule"),
    ],
)
def test_verify_says_at_once_what_it_cannot_run(given: str, message: str) -> None:
    with pytest.raises(FalconError, match=message):
        raise CliRunner().invoke(app, ["verify", *TINY, *given.split()]).exception or AssertionError


@pytest.mark.parametrize(
    "given",
    [
        "--setting /tmp/x --configuration qnn",
        "--setting ../x --configuration qnn",
        "--setting gsc-medium --configuration a/b",
        "--setting search-x --configuration qnn",
        f"--setting {300 * 'x'} --configuration qnn",
        "--setting gsc-medium --configuration qnn --attention none",
    ],
)
def test_a_result_without_a_possible_name_is_refused_before_the_test_clips_are_read(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["results", "record", "no-folder", "--data", "embedded", *given.split()]
    with pytest.raises(FalconError, match=r"give a name such as|attention = 'none'; allowed"):
        raise CliRunner().invoke(app, words).exception or AssertionError
    assert not list(tmp_path.iterdir())


def test_a_graph_with_quotes_in_a_name_is_written_so_that_it_can_be_read(tmp_path: Path) -> None:
    named = tmp_path / "named.toml"
    text = 'name = "a \\"b\\" \\\\"\nslots = 2\n'
    text += '[[stage]]\nname = "x"\nkind = "neuron"\nafter = ["input"]\n'
    named.write_text(text)
    given = ["graph", "--graph", str(named), "--out", str(tmp_path / "again.toml")]
    assert CliRunner().invoke(app, given).exit_code == 0
    assert read_graph(tmp_path / "again.toml") == read_graph(named)


def test_an_unknown_backend_is_refused_without_data_too(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    given = ["convert", "--checkpoint", str(tmp_path / "run" / "qnn" / "best.safetensors")]
    given += ["--out", str(tmp_path / "c.safetensors"), "--backend", "fast"]
    with pytest.raises(FalconError, match="unknown backend 'fast'"):
        raise CliRunner().invoke(app, given).exception or AssertionError


@pytest.mark.parametrize("value", [[], {}, {"configurations": []}, {"published": None}])
def test_an_energy_file_of_another_form_is_one_line(tmp_path: Path, value: object) -> None:
    import falcon_snn.report.results as results

    shutil.copy(results.results_folder() / "gsc-medium-qnn.json", tmp_path)
    write_json(tmp_path / "energy-gsc-medium.json", value)
    given = ["reproduce", "--only", "energy", "--from", str(tmp_path)]
    with pytest.raises(FalconError, match=r"energy-gsc-medium\.json"):
        raise CliRunner().invoke(app, given).exception or AssertionError


def test_a_cache_that_cannot_be_written_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FALCON_CACHE", "/proc/none")
    with pytest.raises(
        FalconError, match=r"/proc/none: cannot write here \(.*\); set FALCON_CACHE"
    ):
        cached_array("x", (1,), "int8", lambda array: None)
    monkeypatch.delenv("FALCON_CACHE")
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError))
    with pytest.raises(FalconError, match="no home to keep computed arrays in; set FALCON_CACHE"):
        cache_folder()


def test_a_full_or_closed_output_is_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        given = [sys.executable, "-m", "falcon_snn.cli.main", "graph", "--network", "tiny"]
        done = subprocess.run(given, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, b"error: No space left on device\n")
    given = [sys.executable, "-m", "falcon_snn.cli.main", "listen", "-", *TINY]
    closed = subprocess.run(
        ["bash", "-c", '"$@" <&-', "bash", *given], capture_output=True, check=False
    )
    assert closed.stderr == (
        b"error: no samples can come; give raw samples on standard input, or leave out -\n"
    )
