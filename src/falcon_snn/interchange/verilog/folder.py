"""A hardware description as a folder: fixed modules, the network, expected runs, a Makefile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from falcon_snn.files import new_folder
from falcon_snn.hardware.profile import Profile
from falcon_snn.interchange.verilog.design import Design, Monitored
from falcon_snn.network.integer import Snn, Streams
from falcon_snn.pipeline.timing import time_snn

TEMPLATES = ("Makefile", "README.md")
LATE = 64  # cycles after the last expected slot in which others may still come


@dataclass(frozen=True)
class ClipRun:
    """One clip under one schedule."""

    x: Tensor  # [1, ...]
    delays: Mapping[str, int]


def write_folder(folder: Path, snn: Snn, profile: Profile, runs: Sequence[ClipRun]) -> Design:
    """Write all files of a network's hardware description; the folder must be new."""
    snn = snn.to("cpu")
    design = Design(snn, profile)
    for run in runs:
        design.check_delays(run.delays)
    with new_folder(folder) as target:
        for path, text in fixed_files().items():
            _write(target / path, text)
        for path, text in design.files.items():
            _write(target / path, text)
        _write(target / "network.sv", network_sv(design))
        _write(target / "testbench.sv", testbench_sv(design))
        write_runs(target / "expected", design, runs)
    return design


def fixed_files() -> dict[str, str]:
    """The modules and texts that are the same for every network: path to text."""
    package = resources.files("falcon_snn.interchange.verilog")
    found = {
        f"{part}/{file.name}": file.read_text("utf-8")
        for part in ("rtl", "model")
        for file in sorted((package / part).iterdir(), key=lambda file: file.name)
    }
    return found | {name: (package / "text" / name).read_text("utf-8") for name in TEMPLATES}


def write_runs(folder: Path, design: Design, runs: Sequence[ClipRun]) -> None:
    """For each run: source spikes, delays, and the bits and cycles of every stage."""
    network = design.network
    for number, run in enumerate(runs):
        here = folder / str(number)
        streams = design.snn.streams(run.x, None, run.delays)
        timing = time_snn(network.graph, run.delays, design.profile)
        delays = [run.delays[name] for name in network.boundaries]
        limit = LATE + max(ready for s in network.graph.stages for ready in timing.ready(s.name))
        _write(here / "delays.hex", _hex([*delays, limit]))
        spikes = network.inner(network.source.name, streams[network.source.name])
        _write(here / "source.hex", _slots(spikes, network.slots))
        for one in design.monitored:
            name = one.stage.name
            _write(here / f"{name}.cycles", _hex(timing.ready(name)[: one.slots]))
            _write(here / f"{name}.hex", _expected(one, streams, design))
    _write(folder / "runs.txt", f"{len(runs)}\n")


def _expected(one: Monitored, streams: Streams, design: Design) -> str:
    stream = design.network.inner(one.stage.name, streams[one.stage.name])
    if one.stage.emits == "codes":
        return _words(stream.numpy().astype(np.int8).flatten().view(np.uint8))
    return _slots(stream, one.slots)


def _slots(packed: Tensor, slots: int) -> str:
    """Slot after slot, 32 neurons in a word, the first in its lowest bit."""
    flat = packed.numpy().flatten()
    return "".join(
        _words(np.packbits((flat >> slot) & 1, bitorder="little")) for slot in range(slots)
    )


def _words(octets: NDArray[np.uint8]) -> str:
    padded = np.pad(octets, (0, -len(octets) % 4)).view("<u4")
    return "".join(f"{word:08x}\n" for word in padded.tolist())


def _hex(values: Sequence[int]) -> str:
    return "".join(f"{value:x}\n" for value in values)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def network_sv(design: Design) -> str:
    """The network: its stages between the source's spikes and the readout."""
    network = design.network
    lines, pixels, channels = network.shapes[network.source.name]
    bits = network.slots * lines * pixels * channels
    delays = 4 * max(1, len(network.boundaries))
    names = ", ".join(network.boundaries)
    return "\n".join([
        f"// {network.name}, T = {network.slots}, on profile {design.profile.name}. Generated.",
        f"// Delays, four bits each, the first in the lowest bits: {names or 'none'}",
        "module falcon_network (",
        "    input logic clk,",
        "    input logic reset,",
        f"    input logic [{delays - 1}:0] delays,",
        "    input logic [3:0] source_count,",
        f"    input logic [{bits - 1}:0] source_slots",
        ");",
        *design.lines,
        "endmodule",
        "",
    ])  # fmt: skip


def testbench_sv(design: Design) -> str:
    """A monitor per stage; all runs one after the other, one line at the end."""
    network = design.network
    lines, pixels, channels = network.shapes[network.source.name]
    boundaries, stages = len(network.boundaries), len(design.monitored)
    inputs = lines * pixels * channels
    monitors = []
    for number, one in enumerate(design.monitored):
        ports = ["clk", "load", "check", "ended", "run", "cycle"]
        wired = ", ".join(f".{port}({port})" for port in ports)
        monitors.append(
            f'  falcon_monitor #(.NAME("{one.stage.name}"), .WIDTH({one.bits}), '
            f".SLOTS({one.slots})) monitor{number} ({wired}, .count(network.{one.wires}_count), "
            f".slots(network.{one.wires}_slots), .done(done[{number}]), "
            f".compared(compared[{number}]), .wrong_bits(wrong_bits[{number}]), "
            f".wrong_cycles(wrong_cycles[{number}]));"
        )
    values = {
        "SLOTS": network.slots, "INPUTS": inputs, "WORDS": -(-inputs // 32),
        "BOUNDARIES": boundaries, "DELAYS": max(1, boundaries), "STAGES": stages,
        "MONITORS": "\n".join(monitors),
    }  # fmt: skip
    template = resources.files("falcon_snn.interchange.verilog") / "text" / "testbench.sv"
    text = template.read_text("utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", str(value))
    return text
