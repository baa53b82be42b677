"""Attention on systolic arrays, every mode of a profile, in Icarus Verilog: spikes and cycles."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.hardware_designs import ALL, PAPER, TWO, design_in, needs_icarus, run_in_icarus
from tests.random_networks import trained_like

from falcon_snn.network.convert import convert
from falcon_snn.network.description import Network

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


@needs_icarus
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
