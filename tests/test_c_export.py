"""Networks as C, compiled with the system's compiler: the integers of every stage are ours."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.random_networks import networks, schedules, trained_like
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.data.examples import load_waves
from falcon_snn.data.features import CLIP_SAMPLES
from falcon_snn.errors import FalconError
from falcon_snn.interchange.c.folder import write_c
from falcon_snn.interchange.c.program import c_text
from falcon_snn.network.convert import convert
from falcon_snn.network.kestrel import KestrelConfig, kestrel
from falcon_snn.workflow.model import load

COMPILER = shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="without a C compiler (cc)")
CHECKED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def built(folder: Path, program: str, *flags: str) -> Path:
    """Compile a program of the folder, warnings being errors."""
    sources = ["network.c", "runtime.c"]
    sources += ["features.c"] if (folder / "features.c").exists() else []
    watch = ["-DFALCON_WATCH"] if program == "compare" else []
    command = [COMPILER or "", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *flags,
               *watch, "-o", program, f"{program}.c", *sources, "-lm"]  # fmt: skip
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / program


def compare(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Compile a folder's test and run it."""
    built(folder, "compare", *flags)
    command = ["./compare", "expected/clips", "expected/stages"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def spoken(clips: int) -> NDArray[np.int16]:
    """Recordings of words that come along, evenly chosen."""
    waves = load_waves("embedded", "testing")
    rows = [index * len(waves) // clips for index in range(clips)]
    return waves.waves[rows, :CLIP_SAMPLES].numpy()


@needs_compiler
@pytest.mark.parametrize(
    ("name", "schedule", "clips"),
    [("embedded-tiny", "uniform:3", 4), ("embedded-tiny-t2", "full", 3)],
)  # fmt: skip
def test_every_stage_equals_ours_on_recordings(
    tmp_path: Path, name: str, schedule: str, clips: int
) -> None:
    model = load(name)
    write_c(tmp_path / "c", model.snn, model.delays(schedule), model.classes, spoken(clips))
    found = compare(tmp_path / "c", *CHECKED)
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.startswith(f"{clips} clips, ")


@needs_compiler
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_every_stage_of_any_network_equals_ours(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    network = data.draw(networks())
    snn = convert(trained_like(network, data.draw(st.integers(0, 99))))
    words = [f"class {number}" for number in range(network.classes)]
    folder = tmp_path_factory.mktemp("c") / "c"
    write_c(folder, snn, data.draw(schedules(network)), words)
    found = compare(folder, *CHECKED)
    assert found.returncode == 0, found.stdout + found.stderr


@needs_compiler
def test_a_residual_network_that_hears(tmp_path: Path) -> None:
    network = kestrel(KestrelConfig("small", (8, 12), 2, classes=4, encoder_channels=4,
                                    stem_channels=6, slots=3))  # fmt: skip
    snn = convert(trained_like(network, 1))
    delays = dict.fromkeys(network.boundaries, 2) | {"block0": 1, "block1": 3}
    write_c(tmp_path / "c", snn, delays, ("a", "b", "c", "d"), spoken(2))
    assert compare(tmp_path / "c", *CHECKED).returncode == 0


@needs_compiler
def test_silence_and_full_scale(tmp_path: Path) -> None:
    model = load("embedded-tiny-t2")
    square = np.where(np.arange(CLIP_SAMPLES) // 40 % 2, 32767, -32768)
    clips = np.stack([np.zeros(CLIP_SAMPLES), square]).astype(np.int16)
    write_c(tmp_path / "c", model.snn, model.delays("fastest"), model.classes, clips)
    assert compare(tmp_path / "c", *CHECKED).returncode == 0


@needs_compiler
def test_on_200_recordings_bit_for_bit(tmp_path: Path, gsc_v1: Path) -> None:
    waves = load_waves(gsc_v1, "testing")
    rows = [index * len(waves) // 200 for index in range(200)]
    model = load("embedded-tiny-t2")
    clips = waves.waves[rows, :CLIP_SAMPLES].numpy()
    write_c(tmp_path / "c", model.snn, model.delays("fastest"), model.classes, clips)
    found = compare(tmp_path / "c", "-O2")
    assert found.stdout.startswith("200 clips, "), found.stdout


@needs_compiler
@pytest.mark.parametrize("at", [100, 40_000, -8])
def test_a_wrong_integer_is_found(tmp_path: Path, at: int) -> None:
    model = load("embedded-tiny-t2")
    write_c(tmp_path / "c", model.snn, model.delays("fastest"), model.classes, spoken(1))
    stages = tmp_path / "c" / "expected" / "stages"
    content = bytearray(stages.read_bytes())
    content[at] ^= 1
    stages.write_bytes(content)
    found = compare(tmp_path / "c", "-O0")
    assert found.returncode == 1
    assert "differs" in found.stdout


@needs_compiler
def test_the_folder_of_the_command_runs_and_says_its_sizes(tmp_path: Path) -> None:
    folder = tmp_path / "device"
    words = ["export", "--pretrained", "embedded-tiny-t2", "--format", "c", "--out", str(folder)]
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    made = subprocess.run(["make", "CFLAGS=-O0"], cwd=folder, capture_output=True, text=True,
                          check=True)  # fmt: skip
    assert "2 clips" in made.stdout
    # The sizes are those that the compiler gives: constants, and what is static.
    for name in ("network", "runtime", "features"):
        subprocess.run([COMPILER or "", "-c", f"{name}.c"], cwd=folder, check=True)
    sized = subprocess.run(["size", "network.o", "runtime.o", "features.o"], cwd=folder,
                           capture_output=True, text=True, check=True)  # fmt: skip
    rows = sized.stdout.split("\n")[1:4]
    text, _, bss = (sum(int(row.split()[column]) for row in rows) for column in range(3))
    assert 0 <= bss - facts["ram_bytes"] < 200
    assert 0 < text - facts["flash_bytes"] < 40_000
    assert text < 512 * 1024
    # What it says is what Python says.
    built(folder, "say", "-O1")
    clips = spoken(3)
    said = subprocess.run(["./say"], input=clips.tobytes(), cwd=folder, capture_output=True,
                          check=True).stdout.decode().split()  # fmt: skip
    model = load("embedded-tiny-t2")
    wanted = [model.classify(clip / 32768, schedule="fastest")[0][0] for clip in clips]
    assert said == wanted


def test_bad_requests_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    words = ["export", "--pretrained", "embedded-tiny-t2", "--format", "c"]
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "taken")])
    assert isinstance(result.exception, FalconError)
    assert "already exists" in str(result.exception)
    assert c_text('a "b"\\ä??') == '"a \\042b\\042\\134\\303\\244\\077\\077"'
    with pytest.raises(FalconError, match="too long a name"):
        c_text("x" * 501)
