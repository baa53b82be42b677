"""Wrong designs in Icarus Verilog: one change per kind of fault, all of them caught."""

import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import torch
from tests.hardware_designs import ALL, PAPER, TWO, design_in, needs_icarus, run_in_icarus
from tests.random_networks import trained_like

from falcon_snn.network.convert import convert
from falcon_snn.network.integer import Snn


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
def right_designs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """All modules with real constants and with small integers; arrays that are fought for."""
    place, snn = tmp_path_factory.mktemp("right"), convert(trained_like(ALL, 8))
    arrays_of_3 = replace(PAPER, array_size=3)
    streamed = replace(PAPER, array_size=2, attention="streamed")
    two = convert(trained_like(TWO, 4))
    return [
        design_in(place / "real", snn, arrays_of_3, schedules=6),
        design_in(place / "small", small_integers(snn), arrays_of_3, schedules=6),
        design_in(place / "rounds", two, replace(streamed, arrays=2), schedules=2),
        design_in(place / "slow engine", two, replace(streamed, engine_lanes=1), schedules=2),
    ]


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
    "arrays taken from another": (
        "rtl/falcon_product.sv", "active = free && !whole", "active = !whole"),
    "rounds not apart": ("rtl/falcon_product.sv", " && (group != 0 || count == row)", ""),
    "rows not awaited": ("rtl/falcon_product.sv", "left > row", "left != 0"),
    "right operand turned": ("rtl/falcon_product.sv", "TRANSPOSED != 0", "TRANSPOSED == 0"),
    "one slot of a value": ("rtl/falcon_product.sv", "t < SLOTS", "t < 1"),
    "a cell one cycle late": ("rtl/falcon_array.sv", "(i+j-1)*N_A", "(i+j)*N_A"),
    "map one cycle late": ("model/falcon_consmax.sv", "left <= cycles - 1;\n      if (cycles == 1)",
                           "left <= begins ? cycles : left - 1;\n      if (left == 1)"),
    "map half of its height": ("model/falcon_consmax.sv", "code = code + step", "code = step"),
}  # fmt: skip


def caught(fault: str, right: Path, folder: Path) -> bool:
    file, text, other = WRONG[fault]
    source = (right / file).read_text()
    if text not in source:  # network.sv differs from design to design
        return False
    shutil.copytree(right, folder)
    (folder / file).write_text(source.replace(text, other))
    done = run_in_icarus(folder)
    return done.returncode != 0 and "DIFFERS run" in done.stdout


@needs_icarus
def test_right_designs_pass(right_designs: list[Path], tmp_path: Path) -> None:
    for number, right in enumerate(right_designs):
        shutil.copytree(right, tmp_path / str(number))
        assert run_in_icarus(tmp_path / str(number)).returncode == 0


@needs_icarus
@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_design_is_caught(fault: str, right_designs: list[Path], tmp_path: Path) -> None:
    assert any(
        caught(fault, right, tmp_path / str(number)) for number, right in enumerate(right_designs)
    )
