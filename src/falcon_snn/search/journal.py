"""Stop and resume: every answer is on disk before the search goes on.

JSON lines. The first names what is searched (a hash of model, data and settings); each further one
holds a schedule and its answers as packed bits. A kill can cut the last line: it is dropped.
"""

import base64
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from falcon_snn.errors import FalconError
from falcon_snn.files import parse_json
from falcon_snn.forms import shaped
from falcon_snn.search.predictor import Correct
from falcon_snn.search.space import Schedule

_FORMAT = "falcon search journal 1"


def fingerprint(facts: dict[str, Any]) -> str:
    """A hash of everything that the answers and the course of a search depend on."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class _Answers:
    """One line: which clips a schedule got right."""

    schedule: tuple[int, ...]
    clips: int
    correct: str

    def unpacked(self, where: str) -> Correct:
        try:
            packed = np.frombuffer(base64.b64decode(self.correct, validate=True), dtype=np.uint8)
        except ValueError:
            packed = np.zeros(0, np.uint8)
        if not 0 < self.clips <= 8 * len(packed) < self.clips + 8:
            raise FalconError(f"{where}: damaged; it does not have one answer per clip")
        return np.unpackbits(packed, count=self.clips).astype(np.bool_)


class Journal:
    """An append-only file of answers; `answers` holds those of an earlier, unfinished search."""

    def __init__(self, path: Path, facts: dict[str, Any], *, resume: bool) -> None:
        self.path = path
        self.answers: dict[Schedule, Correct] = {}
        header = {"format": _FORMAT, "inputs": fingerprint(facts)}
        if path.exists() and not resume:
            raise FalconError(
                f"{path}: a search has begun here; continue with --resume or choose another --out"
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            whole = self._read(header) if path.exists() else 0
            self._file = path.open("ab")
            self._file.truncate(whole)
        except OSError as error:
            raise FalconError(f"{path}: cannot be used ({error.strerror or error})") from None
        if not whole:
            self._write(header)

    def append(self, schedule: Schedule, answers: Correct) -> None:
        """Add one schedule's answers; they are on disk when this returns."""
        bits = base64.b64encode(np.packbits(answers).tobytes()).decode()
        self._write({"schedule": list(schedule), "clips": len(answers), "correct": bits})
        self.answers[schedule] = answers

    def close(self) -> None:
        """Let go of the file; nothing can be added any more."""
        self._file.close()

    def _write(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(record).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _read(self, header: dict[str, Any]) -> int:
        """Load the whole lines; return how many bytes they take."""
        content = self.path.read_bytes()
        lines = content[: content.rfind(b"\n") + 1].splitlines(keepends=True)
        if not lines:
            return 0
        found: dict[str, Any] = shaped(parse_json(lines[0], self.path), dict[str, str], self.path)
        if found.get("format") != _FORMAT:
            raise FalconError(f"{self.path}: not a search journal, or damaged")
        if found != header:
            raise FalconError(
                f"{self.path}: belongs to a search of another model, other data or other "
                "settings; choose another --out"
            )
        for number, line in enumerate(lines[1:], start=2):
            where = f"{self.path}, line {number}"
            record: _Answers = shaped(parse_json(line, where), _Answers, where)
            self.answers[record.schedule] = record.unpacked(where)
        if len({len(answers) for answers in self.answers.values()}) > 1:
            raise FalconError(f"{self.path}: damaged; its answers are of different clips")
        return sum(map(len, lines))
