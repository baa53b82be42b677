"""Attention on systolic arrays, every mode of a profile, in Icarus Verilog: spikes and cycles."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.hardware_designs import ALL, PAPER, TWO, design_in
from tests.random_networks import trained_like

from falcon_snn.network.convert import convert
from falcon_snn.network.description import Network

MISSING = [tool for tool in ("iverilog", "vvp", "make") if shutil.which(tool) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"without {', '.join(MISSING)}")

Settings = dict[str, Any]
MODES: dict[str, tuple[Network, Settings]] = {
    "serial, shared": (TWO, {"array_size": 2}),
    "serial, heads in rounds": (TWO, {"array_size": 3, "arrays": 2, "engines": 1}),
    "serial, arrays per block": (TWO, {"array_size": 2, "engine_sharing": "per-block"}),
    "streamed, shared, a slow engine": (
        TWO, {"array_size": 2, "engine_lanes": 1, "attention": "streamed"}
    ),
    "streamed, heads in rounds": (
        TWO, {"array_size": 2, "arrays": 2, "engine_lanes": 3, "attention": "streamed"}
    ),
    "streamed, arrays per block, one cell": (
        TWO, {"array_size": 1, "engine_sharing": "per-block", "attention": "streamed"}
    ),
    "streamed, one unit for 3 neurons": (
        ALL, {"array_size": 3, "arrays": 1, "neurons_per_unit": 3, "attention": "streamed"}
    ),
}  # fmt: skip


def run_in_icarus(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "icarus", "ARGS=+all"], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_is_exact(mode: str, tmp_path: Path) -> None:
    network, settings = MODES[mode]
    snn = convert(trained_like(network, 4))
    folder = design_in(tmp_path / "design", snn, replace(PAPER, **settings), schedules=4)
    done = run_in_icarus(folder)
    slots = {"codes": 1, "spikes": network.slots}
    expected = 4 * sum(slots[stage.emits] for stage in network.inner_stages[1:])
    assert f"RESULT slots {expected}, wrong spikes 0, wrong cycles 0" in done.stdout
    assert done.returncode == 0


# One change per kind of fault: file, text, replacement.
WRONG = {
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


def test_wrong_designs_are_caught(tmp_path: Path) -> None:
    found = set()
    for mode in ("streamed, heads in rounds", "streamed, shared, a slow engine"):
        network, settings = MODES[mode]
        snn = convert(trained_like(network, 4))
        right = design_in(tmp_path / mode, snn, replace(PAPER, **settings), schedules=2)
        for fault, (file, text, other) in WRONG.items():
            if fault in found:
                continue
            folder = tmp_path / f"{mode}, {fault}"
            shutil.copytree(right, folder)
            source = (folder / file).read_text()
            assert text in source
            (folder / file).write_text(source.replace(text, other))
            done = run_in_icarus(folder)
            if done.returncode != 0 and "DIFFERS run" in done.stdout:
                found.add(fault)
    assert set(WRONG) - found == set()
