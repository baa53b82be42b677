"""What the modules of a hardware description cost: gates, flip-flops and depth, from yosys."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from falcon_snn.errors import FalconError
from falcon_snn.interchange.verilog.design import Design, Instance
from falcon_snn.interchange.verilog.folder import fixed_files
from falcon_snn.interchange.verilog.stream import words

# A neuron took 1.7 ns with a 45 nm library; Falcon-Medium's has 50 gates in a row here.
GATE_NS = 0.034
BUFFERED = 32  # neurons of the slot buffer that is synthesised
CELLS = 2  # rows and columns of the array that is synthesised
_PYOSYS = (
    "import sys; from pyosys import libyosys as y; y.run_pass('script ' + sys.argv[1], y.Design())"
)
_DEPTH = re.compile(r"Longest topological path in .* \(length=(\d+)\)")


class Unit(NamedTuple):
    """A module as it is synthesised: one unit of it, whatever the network has of them."""

    module: str
    what: str
    parameters: Mapping[str, Any]
    constants: str = ""  # of its neurons


@dataclass(frozen=True)
class Synthesised:
    """What yosys made of a unit; without wires and without a cell library."""

    module: str
    what: str
    cells: int  # gates and flip-flops
    flip_flops: int
    gates_in_a_row: int  # longest path between registers
    delay_ns: float  # estimated, at 45 nm


def yosys_command() -> list[str]:
    """The program on the path, or the one that a wheel brought."""
    if shutil.which("yosys") is not None:
        return ["yosys", "-Q", "-s"]
    if importlib.util.find_spec("pyosys") is not None:
        return [sys.executable, "-c", _PYOSYS]
    raise FalconError(
        "missing: yosys (pip install 'falcon-snn[rtl]', or apt-get install yosys); the design can "
        "be exported without --synthesise"
    )


def synthesise(design: Design) -> list[Synthesised]:
    """Synthesise one unit of each kind of module that the network has."""
    return [synthesise_unit(unit) for unit in units(design)]


def synthesise_unit(unit: Unit) -> Synthesised:
    with tempfile.TemporaryDirectory(prefix="falcon-yosys-") as place:
        return _synthesise(unit, Path(place))


def _synthesise(unit: Unit, place: Path) -> Synthesised:
    name = unit.module
    (place / f"{name}.sv").write_text(fixed_files()[f"rtl/{name}.sv"], encoding="utf-8")
    # Files are parameters, which yosys cannot set on its command line: it takes the default.
    constants = place / f"{name.removeprefix('falcon_')}.hex"
    constants.write_text(unit.constants, encoding="utf-8")
    settings = " ".join(f"-chparam {key} {value}" for key, value in unit.parameters.items())
    (place / "run.ys").write_text(
        f"read_verilog -sv -defer {name}.sv\nhierarchy -top {name} {settings}\n"
        "synth -flatten\nabc -g cmos4,XOR,MUX\nopt_clean\n"
        "tee -q -o cells.json stat -json\ntee -q -o path.txt ltp -noff\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [*yosys_command(), "run.ys"], cwd=place, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if "ERROR" in line]
        said = (errors or done.stdout.strip().splitlines() or ["it said nothing"])[-1]
        raise FalconError(f"yosys failed on {name}: {said[:200]}")
    counted = json.loads((place / "cells.json").read_text("utf-8"))["design"]
    longest = _DEPTH.search((place / "path.txt").read_text("utf-8"))
    gates = int(longest.group(1)) if longest else 0
    return Synthesised(
        name, unit.what, counted["num_cells"],
        sum(n for kind, n in counted["num_cells_by_type"].items() if "DFF" in kind),
        gates, round(gates * GATE_NS, 2),
    )  # fmt: skip


def units(design: Design) -> Iterator[Unit]:
    """One unit of each kind of module: the widest in the network, as small as one can be."""
    kinds: dict[tuple[str, str], list[Instance]] = {}
    for instance in design.instances:
        kinds.setdefault((instance.module, _kind(instance)), []).append(instance)
    for (module, kind), instances in kinds.items():
        instance = max(instances, key=_width)
        given = dict(instance.parameters)
        if module in ("falcon_neurons", "falcon_code"):
            yield _neuron(instance, kind, design)
        elif module in ("falcon_pass", "falcon_control"):
            yield Unit(module, "", given)
        elif module == "falcon_slots" and kind == "spikes":
            yield Unit(module, f"{BUFFERED} neurons", {**given, "WIDTH": BUFFERED})
        elif module == "falcon_array":
            size = min(CELLS, given["SIZE"])
            yield Unit(module, f"{size} x {size} cells", {**given, "ARRAYS": 1, "SIZE": size})
        elif module == "falcon_product":
            size = min(CELLS, given["SIZE"])
            sizes = dict.fromkeys(("ROWS", "INNER", "COLUMNS", "SIZE"), size)
            yield Unit(module, f"{size} x {size} results", {
                **given, **sizes, "COPIES": 1, "ARRAYS": 1, "PARTS": 1,
            })  # fmt: skip


def _width(instance: Instance) -> tuple[int, int]:
    given = instance.parameters
    return given.get("WIDTH_A", 0), given.get("FACTOR", 0)


def _kind(instance: Instance) -> str:
    given = instance.parameters
    if instance.module == "falcon_slots":
        return "spikes" if given["DEPTH"] == given["SLOTS"] > 1 else "sums"
    if instance.module == "falcon_neurons":
        inputs = "spikes" if given["WIDTH_A"] == 1 else "sums"
        return f"two inputs, {inputs}" if given["TERMS"] == 2 else inputs
    return ""


def _neuron(instance: Instance, kind: str, design: Design) -> Unit:
    """One unit with the constants of the first neurons that it serves."""
    given = dict(instance.parameters)
    file = design.files[given.pop("FILE")]
    share, channels = given["SHARE"], min(given["SHARE"], given["CHANNELS"])
    constants = [int(word, 16) for word in file.split()]
    rows = np.array(constants, np.int64).reshape(-1, given["CHANNELS"])[:, :channels]
    served = "a neuron" if share == 1 else f"{share} neurons"
    depths = {key: 1 for key in given if key.startswith("DEPTH")}
    return Unit(instance.module, ", ".join(filter(None, (served, kind))), {
        **given, **depths, "N": share, "CHANNELS": channels,
    }, words(rows.flatten()))  # fmt: skip
