"""Building and running a hardware description with Verilator."""

import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from falcon_snn.errors import FalconError

TOOLS = {
    "verilator": "apt-get install verilator, or build 5.006 or later from verilator.org",
    "g++": "apt-get install g++",
    "make": "apt-get install make",
}
_RESULT = re.compile(
    r"RESULT slots (\d+), wrong spikes (\d+), wrong cycles (\d+), clock cycles (\d+)"
)


@dataclass(frozen=True)
class Simulated:
    """What the testbench compared in all runs."""

    slots: int  # of all stages and runs
    wrong_spikes: int  # slots with a wrong bit
    wrong_cycles: int  # slots that came in another cycle, or never
    clock_cycles: int
    seconds: float
    differences: tuple[str, ...]  # the first of each stage and run

    @property
    def right(self) -> bool:
        return self.slots > 0 and not self.wrong_spikes and not self.wrong_cycles


def demand_tools() -> None:
    """Name the tools that are missing, and how to get them."""
    missing = [f"{tool} ({how})" for tool, how in TOOLS.items() if shutil.which(tool) is None]
    if missing:
        raise FalconError(f"missing: {'; '.join(missing)}")


def build(folder: Path, optimise: str = "-O2") -> None:
    """Build the testbench of a folder that `write_folder` wrote."""
    demand_tools()
    done = _call(["make", "-s", "build/testbench", f"OPT={optimise}"], folder)
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if "rror" in line] or ["no message"]
        raise FalconError(f"{folder}: the build failed: {errors[0][:200]}")


def simulate(folder: Path) -> Simulated:
    """Run every expected run of a folder that was built."""
    begin = time.perf_counter()
    done = _call(["build/testbench", "+all"], folder)
    seconds = time.perf_counter() - begin
    found = _RESULT.search(done.stdout)
    if found is None:
        last = (done.stdout.strip().splitlines() or ["it said nothing"])[-1]
        raise FalconError(f"{folder}: the testbench gave no result: {last[:200]}")
    slots, spikes, cycles, clocks = map(int, found.groups())
    differences = tuple(
        line.removeprefix("DIFFERS ")
        for line in done.stdout.splitlines()
        if line.startswith("DIFFERS ")
    )
    return Simulated(slots, spikes, cycles, clocks, seconds, differences)


def _call(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, text=True, check=False, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip
