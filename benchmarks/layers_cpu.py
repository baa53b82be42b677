"""Clips per second of the integer network on the CPU at delay 1, backends torch and numba.

Clips are noise. Time depends on how many bits are spikes, so that density is printed with it;
weights are random unless a checkpoint is given, and batch norm makes their densities realistic.

    python benchmarks/layers_cpu.py [--checkpoint C] [--clips 64] [--threads 2] [--json]
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from falcon_snn.network.convert import convert
from falcon_snn.network.integer import Snn
from falcon_snn.network.qnn import Qnn
from falcon_snn.training.checkpoint import load_model
from falcon_snn.workflow.networks import built_in

REPEATS = 5


def random_network(name: str) -> Snn:
    torch.manual_seed(0)
    model = Qnn(built_in(name))
    with torch.no_grad():
        for _ in range(3):  # batch norm needs statistics
            model(torch.randn(16, 98, 64))
    return convert(model.eval())


@torch.inference_mode()
def measure(name: str, network: Snn, clips: int) -> dict[str, Any]:
    description = network.network
    x = torch.randn(clips, *description.source.input, generator=torch.Generator())
    delays = dict.fromkeys(description.boundaries, 1)
    counts = network.counts(network.streams(x, None, delays, "torch"))
    spikes = [counts[name].double().mean() / description.slots for name in delays]
    row: dict[str, Any] = {"network": name, "density": float(torch.stack(spikes).mean())}
    answers = []
    for backend in ("torch", "numba"):
        answers.append(network.predict(x, None, delays, backend))  # compiles
        seconds = []
        for _ in range(REPEATS):
            begin = time.perf_counter()
            network.predict(x, None, delays, backend)
            seconds.append(time.perf_counter() - begin)
        row[f"{backend}_clips_per_second"] = clips / min(seconds)
    assert torch.equal(*answers)
    row["ratio"] = row["numba_clips_per_second"] / row["torch_clips_per_second"]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--clips", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.checkpoint is None:
        networks = {name: random_network(name) for name in ("tiny", "medium")}
    else:
        networks = {arguments.checkpoint.name: convert(load_model(arguments.checkpoint)[0].eval())}
    rows = [measure(name, network, arguments.clips) for name, network in networks.items()]
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    print(f"{arguments.clips} clips, {arguments.threads} threads, best of {REPEATS}")
    for row in rows:
        ours, plain = row["numba_clips_per_second"], row["torch_clips_per_second"]
        print(
            f"{row['network']:8} {row['density']:5.1%} spikes: torch {plain:7.1f} clips/s, "
            f"numba {ours:7.1f} clips/s, {row['ratio']:.1f}x"
        )


if __name__ == "__main__":
    main()
