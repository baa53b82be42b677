"""The main paths on one CPU thread, in minutes: run it before and after a change.

    python benchmarks/all.py --quick --out before.json
    python benchmarks/all.py --quick --against before.json

Figures are seconds of CPU time, the best of several runs, so that other work on the machine matters
little. Without --quick there are more runs.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from falcon_snn.data.augment import Augmentation
from falcon_snn.data.examples import Examples, load_examples, load_waves
from falcon_snn.data.features import exact_log_mel, one_second
from falcon_snn.hardware.profile import load_profile
from falcon_snn.network.qnn import Qnn
from falcon_snn.neuron.firing import fire_train
from falcon_snn.pipeline.batch import core_cycles_many
from falcon_snn.pipeline.graph import INPUT, Graph, layer
from falcon_snn.report.latency import snn_report
from falcon_snn.search.network_predictor import NetworkPredictor
from falcon_snn.search.pds import candidates
from falcon_snn.training.batches import Clips
from falcon_snn.training.devices import Devices
from falcon_snn.training.export import load_network
from falcon_snn.training.loop import train
from falcon_snn.training.pretrained import pretrained_path
from falcon_snn.training.recipe import load_recipe
from falcon_snn.training.step import Job
from falcon_snn.workflow.networks import built_in

Work = Callable[[], object]


def chain(layers: int) -> Work:
    """The latency report of a long network: it should grow with the stages, not faster."""
    stages = [layer(f"n{i}", f"n{i - 1}" if i else INPUT, 90, 64) for i in range(layers)]
    graph = Graph("chain", 4, tuple(stage for pair in stages for stage in pair))
    delays = dict.fromkeys(graph.boundaries, 1)
    return lambda: snn_report(graph, delays, load_profile())


def schedules(count: int) -> Work:
    graph = built_in("large").graph
    delays = np.random.default_rng(0).integers(1, 8, (count, len(graph.boundaries)), np.int8)
    return lambda: core_cycles_many(graph, delays, load_profile())


def network(name: str, clips: int, delay: int | None) -> Work:
    """Predictions of a shipped network; delay None is full lookahead."""
    snn, _ = load_network(pretrained_path(name))
    x = load_examples("embedded", "validation").x[:clips]
    delays = dict.fromkeys(snn.network.boundaries, delay or snn.network.slots)
    return lambda: snn.predict(x, None, delays)


def search(clips: int, largest: int = 3) -> Work:
    """The first candidates of a search, up to a largest delay."""
    snn, _ = load_network(pretrained_path("embedded-tiny"))
    examples = load_examples("embedded", "validation")
    some = replace(
        examples, x=examples.x[:clips], labels=examples.labels[:clips],
        lengths=examples.lengths[:clips], names=examples.names[:clips],
    )  # fmt: skip
    boundaries = snn.network.boundaries
    first = (1,) * len(boundaries)

    def work() -> object:
        predictor = NetworkPredictor(snn, some)
        predictor.start_from(dict(zip(boundaries, first, strict=True)))
        tried = candidates(first, largest)
        return [predictor.correct(dict(zip(boundaries, each, strict=True))) for each in tried]

    return work


def training(phase: str, clips: int, batch: int = 64) -> Work:
    """An epoch of Falcon-Tiny on noise, and its validation on a few clips."""
    recipe = replace(
        load_recipe(phase), epochs=1, batch=batch, distil=0.0, augment=Augmentation()
    )  # fmt: skip
    devices = Devices(torch.device("cpu"))
    x = torch.randn(clips, 98, 64, generator=torch.Generator().manual_seed(1))
    words = tuple(map(str, range(35)))
    noise = Examples(
        x, torch.full((clips,), 98), torch.arange(clips) % 35, ["noise"] * clips, words
    )
    few = replace(noise, x=x[:4], lengths=noise.lengths[:4], labels=noise.labels[:4])

    def work() -> object:
        model = Qnn(built_in("tiny"))
        delays = dict.fromkeys(model.network.boundaries, 1) if recipe.spiking else None
        heard = Clips(noise, recipe, devices.device, torch.zeros(0))
        with tempfile.TemporaryDirectory() as out:
            return train(Job(model, recipe, heard, few, Path(out), delays=delays), devices)

    return work


def firing() -> Work:
    currents = torch.randn(7, 64, 98, 160, requires_grad=True)
    return lambda: fire_train(currents, 1, threshold=1.0).sum().backward()  # type: ignore[no-untyped-call]


def features(clips: int) -> Work:
    waves = load_waves("embedded", "validation")
    return lambda: exact_log_mel(one_second(waves.waves[:clips], waves.lengths[:clips]))


def all_work() -> dict[str, Callable[[], Work]]:
    medium, kestrel = "gsc1-medium-full", "gsc1-kestrel-5"
    return {
        "latency report, 1,000 stages": lambda: chain(500),
        "latency report, 5,000 stages": lambda: chain(2500),
        "200,000 schedules timed": lambda: schedules(200_000),
        "Falcon-Medium, full lookahead, 64 clips": lambda: network(medium, 64, None),
        "Falcon-Medium, delay 1, 64 clips": lambda: network(medium, 64, 1),
        "Falcon-Medium, delay 1, one clip": lambda: network(medium, 1, 1),
        "Kestrel-5, delay 1, 64 clips": lambda: network(kestrel, 64, 1),
        "Kestrel-5, delay 1, one clip": lambda: network(kestrel, 1, 1),
        "search, first candidates, 128 clips": lambda: search(128),
        "epoch of a QNN, 256 clips": lambda: training("qnn", 256),
        "epoch of QAT, 256 clips": lambda: training("qat", 256),
        "fire_train and its gradient": firing,
        "features of 256 clips": lambda: features(256),
    }


def best_s(work: Work, runs: int) -> float:
    work()  # compiles, fills caches
    seconds = []
    for _ in range(runs):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three runs of each instead of ten")
    parser.add_argument("--out", type=Path, help="keep the figures in this JSON file")
    parser.add_argument("--against", type=Path, help="figures of an earlier --out")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    before = json.loads(asked.against.read_text()) if asked.against else {}
    found = {}
    for name, prepare in all_work().items():
        found[name] = best_s(prepare(), 3 if asked.quick else 10)
        faster = f"{before[name] / found[name]:7.2f}x" if name in before else ""
        print(f"{name:42} {1000 * found[name]:9.1f} ms {faster}", flush=True)
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
