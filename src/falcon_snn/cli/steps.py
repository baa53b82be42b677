"""Steps of a run: each works in its own folder, and knows whether its result is still valid.

`RUN/steps/NAME.json` holds the hash of a step's inputs (its settings and the results of the steps
before it) and, once it is done, the hash of every file that it wrote. A step that was cut off
continues in its folder; one whose inputs changed starts with an empty folder.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import falcon_snn
from falcon_snn.errors import FalconError
from falcon_snn.files import read_json, sha256_of, write_json


@dataclass(frozen=True)
class Step:
    """One step: `work(run, folder)` writes its result into the folder and can be called again."""

    name: str
    does: str  # for people, in a few words
    work: Callable[["Run", Path], None]
    uses: tuple[str, ...] = ()  # the settings that its result depends on
    after: tuple[str, ...] = ()  # the steps whose results it reads


@dataclass(frozen=True)
class Run:
    """A folder and the settings of everything in it."""

    folder: Path
    settings: Mapping[str, Any]

    def path(self, step: str, *parts: str) -> Path:
        """A file in a step's folder."""
        return self.folder.joinpath(step, *parts)

    def record(self, step: str) -> dict[str, Any]:
        """What is written down about a step; empty if nothing is."""
        path = self._record_path(step)
        if not path.exists():
            return {}
        record = read_json(path)
        if not isinstance(record, dict):
            raise FalconError(f"{path}: not the record of a step; delete it to run the step again")
        return record

    def inputs(self, step: Step) -> str:
        """The hash of all that a step's result depends on."""
        chosen = {name: self.settings[name] for name in step.uses}
        before = {name: self.record(name).get("files") for name in step.after}
        facts = [falcon_snn.__version__, step.name, chosen, before]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def valid(self, step: Step) -> bool:
        """Whether the step's result is there, whole, and made from the present inputs."""
        record = self.record(step.name)
        files = record.get("files")
        return (
            files is not None
            and record["inputs"] == self.inputs(step)
            and files == _hashes(self.path(step.name))
        )

    def execute(self, step: Step) -> float:
        """Do a step, or what is left of it; the seconds that it took."""
        inputs, folder = self.inputs(step), self.path(step.name)
        record = self.record(step.name)
        if record.get("inputs") != inputs or "files" in record:
            shutil.rmtree(folder, ignore_errors=True)
            write_json(self._record_path(step.name), {"inputs": inputs})
        folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        step.work(self, folder)
        seconds = round(time.monotonic() - began, 1)
        done = {"inputs": inputs, "seconds": seconds, "files": _hashes(folder)}
        write_json(self._record_path(step.name), done)
        return seconds

    def _record_path(self, step: str) -> Path:
        return self.folder / "steps" / f"{step}.json"


def _hashes(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): sha256_of(path) for path in files}
