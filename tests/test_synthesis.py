"""What yosys makes of the modules of a hardware description."""

import importlib.util
import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from tests.hardware_designs import ALL, PAPER
from tests.other_networks import save_cnn
from tests.random_networks import trained_like
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.errors import FalconError
from falcon_snn.interchange.verilog import synthesise as module
from falcon_snn.interchange.verilog.design import Design
from falcon_snn.interchange.verilog.synthesise import (
    synthesise,
    synthesise_unit,
    units,
    yosys_command,
)
from falcon_snn.network.convert import convert

HAS_YOSYS = shutil.which("yosys") or importlib.util.find_spec("pyosys")
needs_yosys = pytest.mark.skipif(not HAS_YOSYS, reason="without yosys")


@needs_yosys
def test_every_fixed_module_is_synthesised() -> None:
    snn = convert(trained_like(ALL, 8))
    found = {(one.module, one.what): one for one in synthesise(Design(snn, PAPER))}
    assert {name for name, _ in found} == {
        "falcon_pass", "falcon_control", "falcon_neurons", "falcon_code", "falcon_slots",
        "falcon_array", "falcon_product",
    }  # fmt: skip
    # A buffer of 32 neurons and 4 slots is that many flip-flops and a counter.
    buffer = found["falcon_slots", "32 neurons"]
    assert 4 * 32 + 2 <= buffer.flip_flops <= 4 * 32 + 4
    # A neuron holds its membrane, what it adds, and its spike; one on spikes multiplies nothing.
    sums, spikes = (found["falcon_neurons", f"a neuron, {kind}"]
                    for kind in ("sums", "two inputs, spikes"))  # fmt: skip
    assert 32 < spikes.flip_flops <= sums.flip_flops < 100
    assert spikes.cells < sums.cells
    assert all(0 < one.gates_in_a_row < one.cells for one in found.values())
    # Four neurons that share a unit have four membranes, but one multiplier.
    shared = Design(snn, replace(PAPER, neurons_per_unit=4))
    unit = next(unit for unit in units(shared) if unit.what == "4 neurons, sums")
    four = synthesise_unit(unit)
    assert four.flip_flops > sums.flip_flops + 90
    assert four.cells < 4 * sums.cells


def test_export_prints_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [module.Synthesised("falcon_slots", "32 neurons", 1446, 132, 7, 0.16)]
    monkeypatch.setattr(module, "yosys_command", lambda: ["yosys"])
    monkeypatch.setattr(module, "synthesise", lambda design: found)
    checkpoint = save_cnn(tmp_path / "cnn.safetensors")
    command = ["export", "--checkpoint", str(checkpoint), "--format", "verilog", "--synthesise"]
    done = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "one")])
    assert done.exit_code == 0, done.output
    for text in ("falcon_slots", "32 neurons", "1,446", "132", "0.16", "no cell library"):
        assert text in done.output
    assert max(map(len, done.stdout.splitlines())) <= 80
    done = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "two"), "--json"])
    assert json.loads(done.stdout)["synthesis"] == [asdict(found[0])]


def test_a_missing_yosys_is_named_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FalconError, match=r"missing: yosys \(pip install 'falcon-snn\[rtl\]'"):
        yosys_command()
    checkpoint = save_cnn(tmp_path / "cnn.safetensors")
    target = tmp_path / "hardware"
    command = ["export", "--checkpoint", str(checkpoint), "--format", "verilog", "--synthesise"]
    done = CliRunner().invoke(app, [*command, "--out", str(target)])
    assert done.exit_code != 0
    assert not target.exists()


def test_only_verilog_is_synthesised(tmp_path: Path) -> None:
    checkpoint = save_cnn(tmp_path / "cnn.safetensors")
    command = ["export", "--checkpoint", str(checkpoint), "--format", "nir", "--synthesise"]
    done = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "x.nir")])
    assert done.exit_code != 0
    assert "--synthesise is for --format verilog" in str(done.exception)
