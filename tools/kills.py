"""Kill jobs at random moments, let them go on, and compare with jobs that were left alone.

    python -m tools.kills --seed 1 --kills 100

A round of a job: it is started, killed (SIGKILL) at a random moment, started again, up to six
times, then left to end. Its files must equal those of an undisturbed job, but for timings and what
follows from them, and nothing may be left behind, in the cache neither.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import soundfile
import torch
from tests.data_files import write_folder
from tests.training_data import write_spikes

from falcon_snn.files import IN_USE, is_temporary
from falcon_snn.training.checkpoint import load_checkpoint

# What depends on the clock or the last start: times, hashes of files that hold them, what a kill
# left, the command.
TIMED = ("seconds", "clips_per_second", "inputs", "files", "sha256", "unsure", "command")
JOBS = ("train", "search", "adapt", "run", "design", "data spikes", "data pack")


def arguments(job: str, place: Path) -> tuple[list[str], list[str]]:
    """A command, and what is added to go on with it."""
    data, out = ["--data", str(place / "spikes")], ["--out", str(place / "out" / "it")]
    recipes = {kind: str(place / f"{kind}.toml") for kind in ("counts", "spikes")}
    trained = ["--checkpoint", str(place / "qnn" / "best.safetensors")]
    clips, noise = str(place / "clips"), ["--seed", "1"]
    return {
        "train": (["train", *data, *out, "--network", "tiny", "--recipe", recipes["counts"],
                   "--epochs", "6"], ["--resume"]),
        "search": (["search", *data, *out, *trained, "--delta-max", "2", "--random", "2"],
                   ["--resume"]),
        "adapt": (["adapt", *data, *out, *trained, "--schedule", "fastest", "--phases", "qat",
                   "--recipe", f"qat={recipes['spikes']}", "--epochs", "2"], ["--resume"]),
        "run": (["run", *data, *out, "--random", "2", "--delta-max", "2", "--phases", "qat",
                 "--recipe", f"qnn={recipes['counts']}", "--recipe", f"qat={recipes['spikes']}"],
                []),
        "design": (["design", *data, *out, "--space", str(place / "space.toml"), "--no-noise",
                    "--trials", "2", "--bands", "1", "--epochs", "3", "--adapt-epochs", "1",
                    "--recipe", f"qnn={recipes['counts']}", "--recipe",
                    f"qat={recipes['spikes']}"], ["--resume"]),
        "data spikes": (["data", "spikes", "--data", clips, "--split", "training", *noise, "--out",
                         str(place / "out" / "it.h5")], []),
        "data pack": (["data", "pack", clips, str(place / "out" / "it")], []),
    }[job]  # fmt: skip


def start(given: list[str], place: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "falcon_snn.cli.main", *given],
        env={**os.environ, "FALCON_CACHE": str(place / "cache")},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(given: list[str], place: Path) -> None:
    process = start(given, place)
    _, said = process.communicate()
    if process.returncode:
        sys.exit(f"{' '.join(given)}\n{said.decode()}")


def prepare(place: Path) -> None:
    """Tiny data, recipes, and a network that was trained."""
    write_spikes(place / "spikes", clips=12)
    write_folder(place / "clips", clips_per_split=8)
    for kind in ("counts", "spikes"):
        text = f'forward = "{kind}"\nepochs = 1\nbatch = 6\nweight_rate = 1e-3\nneuron_rate = 0.0\n'
        (place / f"{kind}.toml").write_text(text)
    (place / "space.toml").write_text(
        "slots = [2]\n[kestrel]\nstem_channels = [4]\nblocks = [1]\nwidths = [4, 8]\n"
        "long_blocks = [0]\n"
    )
    given, _ = arguments("train", place)
    given[given.index("--out") + 1] = str(place / "qnn")
    finish(given, place)


def content(path: Path) -> Any:
    """What a file says, without timings."""
    if path.parent.name == "contest" and path.suffix == ".jsonl":
        return "Optuna's journal, in which every start leaves its lines"
    if path.suffix == ".safetensors":
        metadata, tensors = load_checkpoint(path)
        facts = untimed(json.loads(metadata.as_json()))
        return facts, {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}
    if path.suffix == ".json":
        return untimed(json.loads(path.read_text()))
    if path.suffix == ".jsonl":
        return [untimed(json.loads(line)) for line in path.read_text().splitlines()]
    if path.suffix == ".opus":  # its container has a random number
        return soundfile.read(path)[0].tobytes()
    if path.suffix == ".html":  # names hashes and seconds of the steps
        return len(path.read_text().splitlines())
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            return [
                np.concatenate(file[f"spikes/{key}"][:]).tobytes() for key in ("units", "times")
            ]
    return path.read_bytes()


def untimed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: untimed(each) for key, each in value.items() if key not in TIMED}
    return [untimed(each) for each in value] if isinstance(value, list) else value


def contents(folder: Path) -> dict[str, Any]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): content(path) for path in files}


def disturbed(job: str, place: Path, whole_s: float, draw: random.Random) -> int:
    """One round; the number of kills that hit."""
    given, go_on = arguments(job, place)
    kills = 0
    for number in range(draw.choice((1, 2, 4, 6))):
        process = start(given + (go_on if number else []), place)
        # The first second only loads libraries.
        deadline = time.monotonic() + draw.uniform(0.2, 1.0) * whole_s
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        if process.poll() is None:
            process.kill()
            kills += 1
        process.communicate()
        if process.returncode == 0:
            return kills  # ended before its moment came
        if job == "data pack" and (place / "out" / "it").exists():
            return kills  # killed when all was done; a new folder is made once
        if process.returncode != -9:
            sys.exit(f"{job}: ended with {process.returncode} when it was to go on")
    finish(given + go_on, place)
    return kills


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--only", action="append", choices=JOBS)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    draw, done = random.Random(asked.seed), dict.fromkeys(asked.only or JOBS, 0)
    print(f"seed {asked.seed}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        prepare(place)
        expected, seconds = {}, {}
        for job in done:
            shutil.rmtree(place / "out", ignore_errors=True)
            began = time.monotonic()
            finish(arguments(job, place)[0], place)
            seconds[job] = time.monotonic() - began
            expected[job] = contents(place / "out")
        while sum(done.values()) < asked.kills:
            job = min(done, key=lambda name: done[name])
            shutil.rmtree(place / "out", ignore_errors=True)
            if draw.random() < 0.5:
                shutil.rmtree(place / "cache")
            kills = disturbed(job, place, seconds[job], draw)
            done[job] += kills
            if not kills:  # it takes less time than at first, when a busy machine compiled
                seconds[job] *= 0.7
            found = contents(place / "out")
            if found != expected[job]:
                wrong = [key for key in found.keys() | expected[job].keys()
                         if found.get(key) != expected[job].get(key)]  # fmt: skip
                sys.exit(f"{job}: differs from an undisturbed one in {', '.join(sorted(wrong))}")
            left = [path for path in place.rglob(".*") if is_temporary(path.name)
                    or path.name == IN_USE]  # fmt: skip
            if left:
                sys.exit(f"{job}: left {left[0]} behind")
            print(f"{job}: {done[job]} kills, all as if undisturbed", flush=True)
    print(f"{sum(done.values())} kills: {done}")


if __name__ == "__main__":
    main()
