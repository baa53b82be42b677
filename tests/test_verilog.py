"""Networks as SystemVerilog in Verilator: spikes and cycles as predicted, wrong designs caught."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.hardware_designs import ALL, PAPER, design_in
from tests.other_networks import CNN, save_cnn
from tests.random_networks import random_inputs, trained_like
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile
from falcon_snn.interchange.verilog.design import Design
from falcon_snn.interchange.verilog.folder import ClipRun, write_folder
from falcon_snn.interchange.verilog.simulate import TOOLS, build, demand_tools, simulate
from falcon_snn.network.convert import convert
from falcon_snn.network.description import Network
from falcon_snn.network.falcon import FalconConfig, falcon
from falcon_snn.network.operations import Fire, FireTerm, Readout, Source
from falcon_snn.network.product import Product

MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]
needs_tools = pytest.mark.skipif(bool(MISSING), reason=f"without {', '.join(MISSING)}")

MLP = Network(
    "MLP",
    6,
    (
        Source("numbers", (1, 1, 9)),
        Fire("hidden", (FireTerm("numbers", Product(12)),)),
        Fire("deep", (FireTerm("hidden", Product(12)),), lookahead=True),
        Fire("sum", (FireTerm("hidden"), FireTerm("deep")), norm=True),
        Readout("classes", "sum", 3),
    ),
)
FALCON = falcon(
    FalconConfig("small Falcon", blocks=1, features=8, tokens=6, classes=3, hidden=8, heads=2,
                 ffn=12, encoder_channels=2, stem_channels=3, slots=5, qk_prefix=3)
)  # fmt: skip
FAST_MACRO = replace(PAPER, t_set_ns=10.0, mux=1, hand_over_cycles=0)  # passes of 2 to 8 cycles
CASES = {
    "MLP": (MLP, PAPER),
    "residual CNN, a pass shorter than the step": (
        CNN, replace(FAST_MACRO, neuron_step_cycles=5)
    ),
    "Falcon, prefix 3, one unit for 5 neurons, streamed attention": (
        FALCON, replace(PAPER, neurons_per_unit=5, attention="streamed", array_size=4, arrays=1)
    ),
}  # fmt: skip


@needs_tools
@pytest.mark.parametrize("case", CASES)
def test_spikes_and_cycles_are_the_predicted_ones(case: str, built: Path, tmp_path: Path) -> None:
    network, profile = CASES[case]
    snn = convert(trained_like(network, 3))
    folder = design_in(tmp_path / "design", snn, profile)
    (folder / "build").mkdir()
    for file in (built / "build").glob("verilated*.o"):  # the simulator's own need not be new
        shutil.copy(file, folder / "build")
    build(folder, "-O0")
    found = simulate(folder)
    assert found.differences == ()
    assert found.right
    emitting = network.inner_stages[1:]
    slots = sum(1 if stage.emits == "codes" else network.slots for stage in emitting)
    assert found.slots == 50 * slots


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network of all modules, built."""
    folder = tmp_path_factory.mktemp("designs") / "all"
    arrays_of_3 = replace(PAPER, array_size=3)  # so that 4 rows take two tiles
    design_in(folder, convert(trained_like(ALL, 8)), arrays_of_3, schedules=12)
    build(folder, "-O0")
    return folder


@needs_tools
def test_the_right_design_of_all_modules(built: Path) -> None:
    assert simulate(built).right


@needs_tools
def test_a_wrong_expected_file_fails_and_names_the_place(built: Path, tmp_path: Path) -> None:
    folder = tmp_path / "design"
    shutil.copytree(built, folder)
    cycles = folder / "expected" / "2" / "sum.cycles"
    lines = cycles.read_text().split()
    lines[1] = f"{int(lines[1], 16) + 1:x}"
    cycles.write_text("\n".join(lines) + "\n")
    done = subprocess.run(
        ["build/testbench"], cwd=folder, capture_output=True, text=True, check=False
    )
    expected = int(lines[1], 16)
    place = f"run 2, stage sum, slot 1: came in cycle {expected - 1}, expected {expected}"
    assert done.returncode != 0
    assert place in done.stdout

    spikes = folder / "expected" / "2" / "first.hex"
    lines = spikes.read_text().split()
    lines[3] = f"{int(lines[3], 16) ^ 4:x}"
    spikes.write_text("\n".join(lines) + "\n")
    found = simulate(folder)
    assert (found.wrong_spikes, found.wrong_cycles) == (1, 1)
    assert "run 2, stage first, slot 3, cycle" in found.differences[0]
    assert "bit 2 of 16" in found.differences[0]


def refused(network: Network, profile: Profile) -> str:
    with pytest.raises(FalconError) as error:
        Design(convert(trained_like(network, 0)), profile)
    return str(error.value)


def test_what_cannot_be_exact_is_refused(tmp_path: Path) -> None:
    doubled = (Source("counts", (1, 1, 4), given=True), Fire("twice", (FireTerm("counts"),) * 2),
               Readout("classes", "twice", 2))  # fmt: skip
    network = Network("twice", 3, doubled)
    snn = convert(trained_like(network, 0))
    run = ClipRun(random_inputs(network, 1, 0), {"twice": 2})
    with pytest.raises(FalconError, match=r"'twice' reads spikes of the source alone .* must be 1"):
        write_folder(tmp_path / "design", snn, PAPER, [run])
    assert not (tmp_path / "design").exists()
    late = Network("twice", 3, (doubled[0], replace(doubled[1], lookahead=True), doubled[2]))
    assert "its delay must be 1" in refused(late, PAPER)
    assert "take 3 cycles or more" in refused(MLP, replace(PAPER, neuron_step_cycles=2))
    assert "takes 1 cycles" in refused(MLP, replace(FAST_MACRO, t_set_ns=0.0, active_rows=36))
    assert "needs 200 or more" in refused(MLP, replace(PAPER, neurons_per_unit=200))


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FalconError, match=r"verilator \(apt-get install verilator"):
        demand_tools()


def test_export_writes_a_folder(tmp_path: Path) -> None:
    checkpoint = save_cnn(tmp_path / "cnn.safetensors")
    target = tmp_path / "hardware"
    command = ["export", "--format", "verilog", "--checkpoint", str(checkpoint)]
    done = CliRunner().invoke(app, [*command, "--out", str(target)])
    assert done.exit_code == 0, done.output
    names = {path.name for path in target.iterdir()}
    assert names == {
        "Makefile", "README.md", "expected", "model", "network.sv", "parameters", "rtl",
        "testbench.sv",
    }  # fmt: skip
    assert "not show that an analog pass takes the cycles" in (target / "README.md").read_text()


def test_verify_wants_something_to_run(tmp_path: Path) -> None:
    checkpoint = save_cnn(tmp_path / "cnn.safetensors")
    done = CliRunner().invoke(app, ["verify", "--checkpoint", str(checkpoint), "--random", "0"])
    assert isinstance(done.exception, FalconError)
    assert "nothing to run" in str(done.exception)


@needs_tools
def test_verify_says_what_was_compared(tmp_path: Path) -> None:
    checkpoint = save_cnn(tmp_path / "cnn.safetensors")
    command = ["verify", "--checkpoint", str(checkpoint), "--clips", "2", "--random", "3"]
    done = CliRunner().invoke(app, [*command, "--schedule", "own"])
    assert done.exit_code == 0, done.output
    assert "8 runs, 96 slots compared, 0 with wrong spikes, 0 in a wrong cycle" in done.output
