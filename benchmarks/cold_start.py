"""Seconds from the start of a command to its first result: nothing compiled, and all of it.

    python benchmarks/cold_start.py [--data embedded] [--network kestrel-5-small]
        [--commands train,search,adapt]

First results are the first finished epoch of `train` and of `adapt`, and the first schedule that
`search` evaluated. Every command is a process of its own. Clips are decoded before, kernels are
not: caches of compiled code are empty at first, then hold what the first round left there.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

COMMANDS = ("train", "search", "adapt")
LIMIT_S = 600.0
LOOKS_A_SECOND = 50


class Command(NamedTuple):
    """A command, and the file whose line tells that it has a result."""

    words: list[str]
    file: str
    lines: int


def seconds_to_result(command: Command, out: Path, environment: dict[str, str]) -> float:
    """Run a command to its end; how long it took until its file had those lines."""
    begin = time.perf_counter()
    words = [sys.executable, "-m", "falcon_snn.cli.main", *command.words, "--out", str(out)]
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)  # fmt: skip
    file = out / command.file
    try:
        while not (file.exists() and file.read_bytes().count(b"\n") >= command.lines):
            if process.poll() not in (None, 0) or time.perf_counter() - begin > LIMIT_S:
                raise SystemExit(f"no result in {file} from: {' '.join(words)}")
            time.sleep(1 / LOOKS_A_SECOND)
        first_s = time.perf_counter() - begin
        process.wait()
    finally:
        process.kill()
    return first_s


def one_round(folder: Path, commands: list[Command], caches: Path) -> dict[str, float]:
    """The commands, one after the other, each into a folder of its name."""
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(caches / "numba"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
    }
    return {
        command.words[0]: seconds_to_result(command, folder / command.words[0], environment)
        for command in commands
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="embedded")
    parser.add_argument("--network", default="kestrel-5-small")
    parser.add_argument("--commands", default=",".join(COMMANDS), help="those to measure")
    arguments = parser.parse_args()
    wanted = arguments.commands.split(",")
    if not set(wanted) <= set(COMMANDS):
        parser.error(f"--commands is {arguments.commands}; choose from {','.join(COMMANDS)}")
    data = ["--data", arguments.data]
    train = Command(
        ["train", *data, "--network", arguments.network, "--epochs", "1"], "curves.jsonl", 1
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        one_round(folder / "decoded", [train], folder / "thrown away")
        qnn = [*data, "--checkpoint", str(folder / "decoded" / "train" / "best.safetensors")]
        fastest = ["--schedule", "fastest", "--phases", "qat", "--epochs", "1"]
        commands = [
            train,
            Command(["search", *qnn], "journal.jsonl", 2),  # its first line says what is searched
            Command(["adapt", *qnn, *fastest], "qat/curves.jsonl", 1),
        ]
        commands = [command for command in commands if command.words[0] in wanted]
        for caches in ("empty", "full"):
            seconds = one_round(folder / caches, commands, folder / "caches")
            figures = ", ".join(f"{command} {s:.1f} s" for command, s in seconds.items())
            print(f"{caches} caches: {figures}", flush=True)


if __name__ == "__main__":
    main()
