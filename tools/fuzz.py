"""Damage valid files at random, without knowing their formats, and load them.

    python -m tools.fuzz --seed 1 --cases 1000            1,000 cases for each loader
    python -m tools.fuzz --seed 1 --only SSC --from 77 --cases 78     one case again

A loader (`tools/fuzz_loaders.py`) must refuse a file with FalconError or take it for what it then
is. A finding is any other exception, a crash, a case that takes too long or too much memory, and
garbage that is accepted. Findings are kept with the damaged file; a case follows from its seed,
loader and number alone. A process of its own does the work, so that a hang or a crash ends only
that one.
"""

import argparse
import faulthandler
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

SECONDS = 20  # that a case may take; a busy machine is slow
MEMORY_BYTES = 2 << 30  # that a case may take on top of what the libraries map
STATE = "state.json"
NUMBERS = (
    b"0", b"-1", b"1", b"2", b"3", b"7", b"255", b"2147483647", b"2147483648", b"99999999999999",
    b"9" * 5000, b"1e9", b"1e999", b"-1e-9", b"0.5", b"1.5", b"NaN", b"nan", b"inf", b"null",
    b"true", b'""', b"[]", b"{}", b'"text"', b"[[[[[[[]]]]]]]", b"[" * 3000, b"\xff\xfe", b"\0",
    b"x" * 300,
)  # fmt: skip
WORDS = tuple(
    value.to_bytes(size, "little")
    for size in (2, 4, 8)
    for value in (0, 1, (1 << 8 * size) - 1, (1 << (8 * size - 1)) - 1, 1 << (8 * size - 1))
)


def damaged(data: bytes, draw: random.Random) -> bytes:
    """The bytes with one to three kinds of damage."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        data = draw.choice(DAMAGES)(bytearray(data or b"\0"), draw)
    return data


def _flip(data: bytearray, draw: random.Random) -> bytes:
    for _ in range(draw.choice((1, 1, 2, 4, 16))):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(data)


def _fill(data: bytearray, draw: random.Random) -> bytes:
    start, size = draw.randrange(len(data)), draw.choice((1, 4, 16, 64, 256, 1024, 4096))
    end = min(len(data), start + size)
    data[start:end] = draw.choice((b"\0", b"\0", b"\xff", b" ", b"7")) * (end - start)
    return bytes(data)


def _word(data: bytearray, draw: random.Random) -> bytes:
    """A number of the machine's at the edge of its range."""
    word = draw.choice(WORDS)
    start = draw.randrange(len(data))
    start -= start % len(word) if draw.random() < 0.5 else 0
    data[start : start + len(word)] = word
    return bytes(data)


def _cut(data: bytearray, draw: random.Random) -> bytes:
    return bytes(data[: draw.randrange(len(data) + 1)])


def _delete(data: bytearray, draw: random.Random) -> bytes:
    start = draw.randrange(len(data))
    del data[start : start + draw.choice((1, 2, 8, 64, 512))]
    return bytes(data)


def _repeat(data: bytearray, draw: random.Random) -> bytes:
    start, size = draw.randrange(len(data)), draw.choice((1, 8, 64, 512))
    part = bytes(data[start : start + size]) * draw.choice((1, 2, 50))
    return bytes(data[:start]) + part + bytes(data[start:])


def _splice(data: bytearray, draw: random.Random) -> bytes:
    size = draw.choice((1, 4, 16, 64, 256, 1024))
    start, source = draw.randrange(len(data)), draw.randrange(len(data))
    part = data[source : source + size]
    data[start : start + len(part)] = part
    return bytes(data)


def _number(data: bytearray, draw: random.Random) -> bytes:
    """One of the numbers (or a word) of a text becomes something else."""
    places = list(re.finditer(rb"-?\d+(\.\d+)?(e-?\d+)?|true|false|null|\"[^\"]{0,40}\"", data))
    if not places:
        return _flip(data, draw)
    place = draw.choice(places)
    return bytes(data[: place.start()]) + draw.choice(NUMBERS) + bytes(data[place.end() :])


DAMAGES = (_flip, _fill, _word, _cut, _delete, _repeat, _splice, _number, _number)


def work(asked: argparse.Namespace, work_folder: Path) -> None:
    """All cases, one after the other; says what it does before it does it."""
    import resource

    import torch
    from tools.fuzz_loaders import LOADERS

    from falcon_snn.errors import FalconError

    torch.set_num_threads(1)
    warnings.simplefilter("error", RuntimeWarning)  # numpy's word for garbage
    state: dict[str, Any] = json.loads((work_folder / STATE).read_text())
    for number, loader in enumerate(LOADERS):
        if (asked.only and loader.name not in asked.only) or number < state["loader"]:
            continue
        folder = work_folder / "files"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        files = loader.write(folder)
        loader.load(folder)  # a good file is taken, and what is compiled once is compiled
        good = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, resource.RLIM_INFINITY))
        counts = state["counts"].setdefault(loader.name, {"cases": 0, "refused": 0, "findings": 0})
        first = state["case"] if number == state["loader"] else asked.first
        for case in range(first, max(1, round(asked.cases * loader.share))):
            draw = random.Random(f"{asked.seed}/{loader.name}/{case}")
            path = draw.choice(files)
            path.write_bytes(damaged(good[path], draw))
            state |= {"loader": number, "case": case, "name": loader.name, "file": str(path)}
            counts["cases"] += 1
            (work_folder / STATE).write_text(json.dumps(state))
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            try:
                loader.load(folder)
            except FalconError:
                counts["refused"] += 1
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                counts["findings"] += 1
                keep(asked, state, path.read_bytes(), traceback.format_exc())
            finally:
                faulthandler.cancel_dump_traceback_later()
            restore(folder, good)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        line = "  ".join(f"{key} {value:,}" for key, value in counts.items())
        print(f"{loader.name:30}{line}", flush=True)
    (work_folder / STATE).write_text(json.dumps({**state, "done": True}))


def restore(folder: Path, good: dict[Path, bytes]) -> None:
    """The valid files again, and none beside them: some loaders write."""
    for path in folder.rglob("*"):
        if path.is_file() and path not in good:
            path.unlink()
    for path, data in good.items():
        if not path.exists() or path.stat().st_size != len(data) or path.read_bytes() != data:
            path.write_bytes(data)


def keep(asked: argparse.Namespace, state: dict[str, Any], data: bytes, why: str) -> None:
    """A finding: the damaged file, and what happened."""
    asked.findings.mkdir(parents=True, exist_ok=True)
    path = Path(state["file"])
    name = f"{state['name'].replace(' ', '-')}-seed{asked.seed}-{state['case']}"
    (asked.findings / f"{name}{path.suffix}").write_bytes(data)
    (asked.findings / f"{name}.txt").write_text(f"{path.name}\n{why}")
    print(f"finding: {name}: {why.strip().splitlines()[-1][:200]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=100, help="for each loader")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first case")
    parser.add_argument("--only", action="append", default=[], help="a loader; may be repeated")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker is not None:
        work(asked, asked.worker)
        return
    with tempfile.TemporaryDirectory() as place:
        state_file = Path(place) / STATE
        state: dict[str, Any] = {"loader": -1, "case": 0, "counts": {}}
        state_file.write_text(json.dumps(state))
        print(f"seed {asked.seed}", flush=True)
        while True:
            ended = subprocess.run(
                [sys.executable, "-m", "tools.fuzz", *sys.argv[1:], "--worker", place],
                stderr=subprocess.PIPE, check=False,
            )  # fmt: skip
            before, state = state, json.loads(state_file.read_text())
            if state.get("done"):
                break
            why = ended.stderr.decode(errors="replace")[-4000:]
            if (before["loader"], before["case"]) == (state["loader"], state["case"]):
                sys.exit(f"the process that loads files does not start:\n{why}")
            path = Path(state["file"])
            keep(asked, state, path.read_bytes(), f"{why}\nended with {ended.returncode}")
            state["counts"][state["name"]]["findings"] += 1
            state["case"] += 1
            state_file.write_text(json.dumps(state))
        if not state["counts"]:
            names = ", ".join(asked.only)
            sys.exit(f"no loader is called {names}; tools/fuzz_loaders.py lists them")
        totals = [counts.values() for counts in state["counts"].values()]
        cases, refused, findings = map(sum, zip(*totals, strict=True))
        print(f"{cases:,} cases, {refused:,} refused, {findings:,} findings")
        sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
