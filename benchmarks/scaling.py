"""How the main paths grow with clips, schedules, stages and threads: a plot of each.

    python -m benchmarks.scaling           measures, writes benchmarks/scaling.json and .svg
    python -m benchmarks.scaling --draw    the plots again, from the numbers that are kept

Seconds are CPU time, the best of three runs, so that other work on the machine matters little;
threads are measured only where there is no other work. Memory is the peak of a process of its own.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import torch
from benchmarks.all import Work, best_s, chain, network, search, training
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

from falcon_snn.report.style import figure_style, save_figure
from falcon_snn.workflow.networks import built_in

KEPT = Path(__file__).with_suffix(".json")
RUNS = 3
Growth = dict[str, float]  # seconds by size


def growth(works: dict[int, Work]) -> Growth:
    return {str(size): best_s(work, RUNS) for size, work in works.items()}


def measured() -> dict[str, dict[str, Growth]]:
    """Every line of every plot."""
    torch.set_num_threads(1)
    medium, sizes = "gsc1-medium-full", (1, 4, 16, 64, 256)
    boundaries = len(built_in("tiny").boundaries)
    return {
        "latency report": {
            "a chain": growth({stages: chain(stages // 2) for stages in (100, 1000, 5000)})
        },
        "evaluate": {
            "full lookahead": growth({clips: network(medium, clips, None) for clips in sizes}),
            "delay 1": growth({clips: network(medium, clips, 1) for clips in sizes}),
        },
        "search": {
            f"{clips} clips": growth(
                {boundaries * (largest - 1): search(clips, largest) for largest in (2, 3, 7)}
            )
            for clips in (32, 128)
        },
        "training": {
            phase.upper(): growth({clips: training(phase, clips) for clips in (64, 256, 1024)})
            for phase in ("qnn", "qat")
        },
    }


def threads() -> Growth:
    """Wall time of 64 clips of Falcon-Medium at delay 1; nothing on a busy machine."""
    if os.getloadavg()[0] > 0.3:
        return {}
    found = {}
    for count in range(1, (os.cpu_count() or 1) + 1):
        torch.set_num_threads(count)
        work = network("gsc1-medium-full", 64, 1)
        work()
        spent = []
        for _ in range(RUNS):
            began = time.perf_counter()
            work()
            spent.append(time.perf_counter() - began)
        found[str(count)] = min(spent)
    return found


def peaks_mb() -> dict[str, float]:
    """Peak memory of a process that does one thing, in MB."""
    calls = {
        "import of torch": "None",
        "evaluate, Falcon-Medium, 256 clips": "all.network('gsc1-medium-full', 256, 1)()",
        "search, Falcon-Tiny, 128 clips": "all.search(128, 7)()",
        "training, Falcon-Tiny, batch 64": "all.training('qnn', 256)()",
        "training, Falcon-Tiny, batch 512": "all.training('qnn', 8192, batch=512)()",
    }
    found = {}
    for name, call in calls.items():
        code = (
            "import torch; from benchmarks import all, scaling; torch.set_num_threads(1); "
            f"{call}; scaling.say()"
        )
        said = subprocess.run(
            [sys.executable, "-c", code],
            cwd=KEPT.parent,
            capture_output=True,
            text=True,
            check=True,
        )
        found[name] = float(said.stdout.split()[-1])
    return found


def say() -> None:
    """This process's peak; what getrusage says on Linux begins with that of the parent."""
    status = Path("/proc/self/status").read_text().split()
    print(int(status[status.index("VmHWM:") + 1]) / 1024)


def draw(lines: dict[str, dict[str, Growth]]) -> None:
    axis_of = {"latency report": "stages", "evaluate": "clips", "search": "schedules tried",
               "training": "clips of an epoch"}  # fmt: skip
    with plt.rc_context(figure_style()):
        figure, axes = plt.subplots(2, 2, figsize=(7.2, 5.2), layout="constrained")
        for axis, (name, growths) in zip(axes.flat, lines.items(), strict=True):
            for label, found in growths.items():
                size = [int(key) for key in found]
                axis.plot(size, list(found.values()), marker="o", label=label)
            axis.set(title=name, xlabel=axis_of[name], ylabel="CPU seconds")
            axis.set(xscale="log", yscale="log")
            axis.xaxis.set_major_locator(FixedLocator(size))
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            for ticks in (axis.xaxis, axis.yaxis):
                ticks.set_major_formatter(lambda value, _: f"{value:,g}")
                ticks.set_minor_locator(NullLocator())
            axis.legend()
        save_figure(figure, KEPT.with_suffix(".svg"))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draw", action="store_true", help="from the numbers that are kept")
    if not parser.parse_args().draw:
        found: dict[str, Any] = {"seconds": measured(), "threads": threads(), "peak_mb": peaks_mb()}
        KEPT.write_text(json.dumps(found, indent=1) + "\n")
    draw(json.loads(KEPT.read_text())["seconds"])


if __name__ == "__main__":
    main()
