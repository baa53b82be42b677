"""Networks as SystemVerilog in Verilator: spikes and cycles as predicted, wrong designs caught."""

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import torch
from tests.hardware_designs import ALL, PAPER, design_in
from tests.other_networks import CNN, save_cnn
from tests.random_networks import random_inputs, trained_like
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile
from falcon_snn.interchange.verilog.design import Design
from falcon_snn.interchange.verilog.folder import Run, write_folder
from falcon_snn.interchange.verilog.simulate import TOOLS, build, demand_tools, simulate
from falcon_snn.network.convert import convert
from falcon_snn.network.description import Network
from falcon_snn.network.falcon import FalconConfig, falcon
from falcon_snn.network.integer import Snn
from falcon_snn.network.operations import Fire, Readout, Source, Term
from falcon_snn.network.product import Product

MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]
needs_tools = pytest.mark.skipif(bool(MISSING), reason=f"without {', '.join(MISSING)}")

MLP = Network(
    "MLP",
    6,
    (
        Source("numbers", (1, 1, 9)),
        Fire("hidden", (Term("numbers", Product(12)),)),
        Fire("deep", (Term("hidden", Product(12)),), lookahead=True),
        Fire("sum", (Term("hidden"), Term("deep")), norm=True),
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
def test_spikes_and_cycles_are_the_predicted_ones(
    case: str, designs: tuple[Path, Path], tmp_path: Path
) -> None:
    network, profile = CASES[case]
    snn = convert(trained_like(network, 3))
    folder = design_in(tmp_path / "design", snn, profile)
    (folder / "build").mkdir()
    for file in (designs[0] / "build").glob("verilated*.o"):  # the simulator's own need not be new
        shutil.copy(file, folder / "build")
    build(folder, "-O0")
    found = simulate(folder)
    assert found.differences == ()
    assert found.right
    emitting = network.inner_stages[1:]
    slots = sum(1 if stage.emits == "codes" else network.slots for stage in emitting)
    assert found.slots == 50 * slots


def small_integers(snn: Snn) -> Snn:
    """The same weights with thresholds that sums meet exactly, and codes that are clipped."""
    random = Random(5)
    values = {
        "factor": (1, 2), "factor2": (-1, 3), "static": (-1, 1), "initial": (-2, 2),
        "threshold": (1, 3), "bias": (-40, 40), "shift": (0, 1),
    }  # fmt: skip
    tensors = dict(snn.tensors)
    for name, tensor in snn.tensors.items():
        stage, _, part = name.rpartition(".")
        if part in values and stage != snn.network.readout.name:
            low, high = (30, 60) if (stage, part) in (("q", "factor"), ("k", "factor")) else values[
                part
            ]  # fmt: skip
            drawn = [random.randint(low, high) for _ in range(tensor.numel())]
            tensors[name] = torch.tensor(drawn, dtype=tensor.dtype).reshape(tensor.shape)
    return Snn(snn.network, tensors)


@pytest.fixture(scope="module")
def designs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The network of all modules, right: built with real constants, and with small integers."""
    place = tmp_path_factory.mktemp("designs")
    snn = convert(trained_like(ALL, 8))
    arrays_of_3 = replace(PAPER, array_size=3)  # so that 4 rows take two tiles
    real = design_in(place / "real", snn, arrays_of_3, schedules=12)
    small = design_in(place / "small", small_integers(snn), arrays_of_3, schedules=12)
    build(real, "-O0")
    (small / "build").mkdir()
    return real, small


def caught(real: Path, small: Path) -> list[str]:
    """What differs with real constants and with small integers, in one build."""
    shutil.copy(real / "build" / "testbench", small / "build" / "testbench")
    return [*simulate(real).differences, *simulate(small).differences]


@needs_tools
def test_the_right_design_of_all_modules(designs: tuple[Path, Path]) -> None:
    assert caught(*designs) == []


# One change per kind of fault: file, text, replacement.
WRONG = {
    "above the threshold, not at it": (
        "rtl/falcon_neurons.sv", "now >= threshold", "now > threshold"),
    "no soft reset": ("rtl/falcon_neurons.sv", "now = now - threshold", "now = now"),
    "reset to zero": ("rtl/falcon_neurons.sv", "now = now - threshold", "now = 0"),
    "static term dropped": ("rtl/falcon_neurons.sv", " + VOLTAGE'(constants[c])", ""),
    "first factor for the second term": (
        "rtl/falcon_neurons.sv", "constants[4*CHANNELS+c]", "constants[3*CHANNELS+c]"),
    "membrane starts at zero": (
        "rtl/falcon_neurons.sv", "VOLTAGE'(constants[CHANNELS+i%CHANNELS])", "0"),
    "membrane too narrow": ("rtl/falcon_neurons.sv", "VOLTAGE = 32", "VOLTAGE = 24"),
    "delay off by one": ("rtl/falcon_control.sv", "5'(delay) - 5'd1", "5'(delay)"),
    "ready one cycle late": ("rtl/falcon_control.sv", "STEP + SHARE - 2", "STEP + SHARE - 1"),
    "second input not awaited": ("rtl/falcon_control.sv", "&& count_b > taken", ""),
    "pass before its slot": ("rtl/falcon_pass.sv", "count > slot", "count >= slot"),
    "pass one cycle late": ("model/falcon_macro.sv", "left <= CYCLES - 1", "left <= CYCLES"),
    "one place for all slots": (
        "rtl/falcon_slots.sv", "(DEPTH==1?0:int'(count))*WIDTH", "0*WIDTH"),
    "prefix off by one": ("network.sv", ".delay(4'd2)", ".delay(4'd1)"),
    "code not clipped": ("rtl/falcon_code.sv", "if (value > 127) value = 127;", ""),
    "values not awaited": ("network.sv", ".right(s3_v_count == 4'd4)", ".right(1'b1)"),
    "tiles run into each other": ("rtl/falcon_array.sv", "firsts[i+j] ? 0 : held", "held"),
}  # fmt: skip


def build_wrong(fault: str, right: Path, folder: Path) -> Path:
    """The right design with one fault; of its objects, only what differs is built again."""
    file, text, other = WRONG[fault]
    shutil.copytree(right, folder)
    source = (folder / file).read_text()
    assert text in source
    (folder / file).write_text(source.replace(text, other))
    build(folder, "-O0")
    return folder


@needs_tools
def test_wrong_designs_are_caught(designs: tuple[Path, Path], tmp_path: Path) -> None:
    right, small = designs
    with ThreadPoolExecutor(2) as pool:
        jobs = {
            fault: pool.submit(build_wrong, fault, right, tmp_path / str(number))
            for number, fault in enumerate(WRONG)
        }
    assert [fault for fault, job in jobs.items() if not caught(job.result(), small)] == []


@needs_tools
def test_a_wrong_expected_file_fails_and_names_the_place(
    designs: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "design"
    shutil.copytree(designs[0], folder)
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
    doubled = (Source("counts", (1, 1, 4), given=True), Fire("twice", (Term("counts"),) * 2),
               Readout("classes", "twice", 2))  # fmt: skip
    network = Network("twice", 3, doubled)
    snn = convert(trained_like(network, 0))
    run = Run(random_inputs(network, 1, 0), {"twice": 2})
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


@needs_tools
def test_verify_says_what_was_compared(tmp_path: Path) -> None:
    checkpoint = save_cnn(tmp_path / "cnn.safetensors")
    command = ["verify", "--checkpoint", str(checkpoint), "--clips", "2", "--schedules", "3"]
    done = CliRunner().invoke(app, [*command, "--schedule", "own"])
    assert done.exit_code == 0, done.output
    assert "8 runs, 96 slots compared, 0 with wrong spikes, 0 in a wrong cycle" in done.output
