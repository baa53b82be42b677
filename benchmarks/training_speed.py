"""Seconds per epoch of QNN training and of spike-based QAT, on clips of noise.

    PYTHONPATH=src python3 benchmarks/training_speed.py [--clips 51088] [--epochs 3]

Prints one JSON line per phase. The first epoch includes the compilation of kernels.
"""

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from falcon_snn.data.augment import Augmentation
from falcon_snn.data.examples import Examples
from falcon_snn.network.qnn import Qnn
from falcon_snn.training.batches import Clips
from falcon_snn.training.devices import open_devices
from falcon_snn.training.loop import EpochResult, train
from falcon_snn.training.recipe import load_recipe
from falcon_snn.training.step import Job
from falcon_snn.workflow.networks import built_in


def noise(clips: int, words: int) -> Examples:
    """Clips of noise in the shape of log-mel features, with labels in turn."""
    x = torch.randn(clips, 98, 64, generator=torch.Generator().manual_seed(1))
    names = [str(clip) for clip in range(clips)]
    tokens = torch.full((clips,), 98)
    return Examples(x, tokens, torch.arange(clips) % words, names, tuple(map(str, range(words))))


def measure(phase: str, model_name: str, clips: int, epochs: int) -> None:
    on_gpu = torch.cuda.is_available()
    torch.backends.cudnn.benchmark = on_gpu
    devices = open_devices(1)
    recipe = replace(load_recipe(phase), epochs=epochs, augment=Augmentation())
    model = Qnn(built_in(model_name, classes=30))
    delays = dict.fromkeys(model.network.boundaries, 1) if recipe.spiking else None
    validation = noise(max(1, clips * 6_798 // 51_088), 30)
    training = Clips(noise(clips, 30), recipe, devices.device, torch.zeros(0))
    ends: list[float] = []
    results: list[EpochResult] = []

    def watch(clips_done: int, ended: EpochResult | None) -> None:
        if ended is not None:
            ends.append(time.perf_counter())
            results.append(ended)

    with tempfile.TemporaryDirectory() as folder:
        job = Job(model, recipe, training, validation, Path(folder), delays=delays)
        begin = time.perf_counter()
        train(job, devices, watch)
    report = {
        "phase": phase,
        "network": model_name,
        "clips": clips,
        "batch": training.batch,
        "device": torch.cuda.get_device_name(0) if on_gpu else "cpu",
        "training_seconds": [round(result.seconds, 3) for result in results],
        "clips_per_second": round(results[-1].clips_per_second),
        # The whole epoch: training, validation and checkpoints.
        "whole_seconds": [round(b - a, 3) for a, b in zip([begin, *ends], ends, strict=False)],
    }
    print(json.dumps(report), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=51_088)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--network", default="medium")
    parser.add_argument("--phases", default="qnn,qat")
    arguments = parser.parse_args()
    for phase in arguments.phases.split(","):
        measure(phase, arguments.network, arguments.clips, arguments.epochs)


if __name__ == "__main__":
    main()
