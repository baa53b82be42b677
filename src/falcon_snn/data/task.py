"""Which words are to be told apart: all of a set, or some with "unknown" and "silence" beside them.

The usual task of ten words and twelve classes: "unknown" are clips of the other words, "silence"
pieces of the background noise, each as many as 10 % of the clips of the words, as the set's own
script takes them. Which ones depends on the names of the clips alone, so it is the same on every
machine. Silence is noise in every split, each having a part of every noise recording of its own.
Training may draw other clips of unknown words in every epoch, as many as before.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from falcon_snn.data.audio import log, to_int16
from falcon_snn.data.clips import SPLITS
from falcon_snn.data.examples import (
    Examples,
    Waves,
    find_source,
    kind_of,
    load_examples,
    load_waves,
    noise_recordings,
)
from falcon_snn.data.features import CLIP_SAMPLES, exact_log_mel, one_second
from falcon_snn.errors import FalconError

UNKNOWN, SILENCE = "unknown", "silence"
NO_WORDS = (SILENCE, UNKNOWN)
SHARE = 0.1  # of the words' clips: as many of unknown words, and as many of silence
_PARTS = {"training": (0.0, 0.8), "validation": (0.8, 0.9), "testing": (0.9, 1.0)}
_ZEROS = 10  # every tenth piece of silence is digital


def task_classes(words: Sequence[str], *, unknown: bool, silence: bool) -> tuple[str, ...]:
    """The classes of a task: its words in order, then what is none of them."""
    if taken := sorted(set(words) & set(NO_WORDS)):
        raise FalconError(f"'{taken[0]}' is not a word; leave it out and add --{taken[0]}")
    if len(set(words)) != len(words):
        raise FalconError("--words names a word twice")
    return (*sorted(words), *([SILENCE] if silence else []), *([UNKNOWN] if unknown else []))


def examples_for(source: str, split: str, classes: Sequence[str] | None) -> Examples:
    """The clips of a split with these classes; the set's own where they cannot be made of it."""
    examples = load_examples(source, split)
    if classes is None or not _can_be(source, examples.words, classes):
        return examples
    task = _task(source, split, examples, classes)
    x = examples.x[task.rows]
    if len(task.silence):
        lengths = torch.full((len(task.silence),), CLIP_SAMPLES)
        x = torch.cat([x, exact_log_mel(one_second(torch.from_numpy(task.silence), lengths))])
    lengths = torch.full((len(x),), x.shape[1])
    return Examples(x, lengths, task.labels, task.names, tuple(classes), spare=task.spare)


def waves_for(source: str, split: str, classes: Sequence[str] | None) -> Waves:
    """The same as recordings, clip for clip."""
    waves = load_waves(source, split)
    if classes is None or not _can_be(source, waves.words, classes):
        return waves
    task = _task(source, split, waves, classes)
    samples, lengths = waves.waves[task.rows], waves.lengths[task.rows]
    if pieces := len(task.silence):
        wide = np.zeros((pieces, samples.shape[1]), np.int16)
        wide[:, :CLIP_SAMPLES] = task.silence
        samples = torch.cat([samples, torch.from_numpy(wide)])
        lengths = torch.cat([lengths, torch.full((pieces,), CLIP_SAMPLES)])
    speakers = [waves.speakers[row] for row in task.rows] + task.names[len(task.rows) :]
    return replace(
        waves, waves=samples, lengths=lengths, labels=task.labels, names=task.names,
        speakers=speakers, words=tuple(classes), spare=task.spare,
    )  # fmt: skip


class _Task(NamedTuple):
    """What a split has of a task: some of its clips, then pieces of silence."""

    rows: list[int]  # the clips
    silence: NDArray[np.int16]  # [pieces, 16000]
    labels: Tensor  # of both
    names: list[str]
    spare: int  # clips of unknown words that an epoch leaves out


def _task(source: str, split: str, data: Examples | Waves, classes: Sequence[str]) -> _Task:
    rows, labels, spare = _chosen(data.names, data.labels, data.words, classes, split)
    names, pieces = [data.names[row] for row in rows], np.zeros((0, CLIP_SAMPLES), np.int16)
    if SILENCE in classes:
        words = sum(word not in NO_WORDS for word in classes)
        pieces = silence(source, split, ceil(SHARE * int((labels < words).sum())))
        labels = torch.cat([labels, torch.full((len(pieces),), list(classes).index(SILENCE))])
        names += [f"{SILENCE}/{number}" for number in range(len(pieces))]
    return _Task(rows, pieces, labels, names, spare)


def silence(source: str, split: str, count: int) -> NDArray[np.int16]:
    """Pieces of background noise at all levels, and of digital silence: int16 [count, 16000]."""
    parts = [_part(wave, split) for wave in noise_recordings(source)]
    draw = np.random.Generator(np.random.Philox([59, SPLITS.index(split)]))
    pieces = np.zeros((count, CLIP_SAMPLES), np.int16)
    for number in range(count):
        wave = parts[number % len(parts)]
        start = int(draw.integers(len(wave) - CLIP_SAMPLES + 1))
        level = 10.0 ** draw.uniform(-2.0, 0.0)
        if number % _ZEROS:
            pieces[number] = to_int16(
                (level * wave[start : start + CLIP_SAMPLES]).astype(np.float32)
            )
    return pieces


def _part(wave: NDArray[np.float32], split: str) -> NDArray[np.float32]:
    """The part of a noise recording that belongs to a split; at least a clip of it."""
    first, end = (round(share * len(wave)) for share in _PARTS[split])
    part = wave[first:end]
    return (
        np.tile(part, -(-CLIP_SAMPLES // max(1, len(part)))) if len(part) < CLIP_SAMPLES else part
    )


def _can_be(source: str, known: Sequence[str], classes: Sequence[str]) -> bool:
    """Whether a set of recordings has all words of a task that is not the set itself."""
    words = set(classes) - set(NO_WORDS)
    if tuple(known) == tuple(classes) or not words <= set(known):
        return False
    if kind_of(find_source(source)) != "recordings":
        return False
    if not set(NO_WORDS) & set(classes):
        log.warning("only the clips of %d of the %d words are taken", len(words), len(known))
    return True


def _chosen(
    names: Sequence[str], labels: Tensor, known: Sequence[str], classes: Sequence[str], split: str
) -> tuple[list[int], Tensor, int]:
    """Rows of a split, their new labels, and how many of unknown words an epoch leaves out."""
    new = {word: number for number, word in enumerate(classes) if word not in NO_WORDS}
    said = [known[label] for label in labels.tolist()]
    rows = [row for row, word in enumerate(said) if word in new]
    if not rows:
        raise FalconError(f"no {split} clips of these words; choose others")
    spare = 0
    if UNKNOWN in classes:
        others = [row for row, word in enumerate(said) if word not in new]
        wanted = min(ceil(SHARE * len(rows)), len(others))
        if not others:
            raise FalconError("no clips of other words, so no unknown ones; leave out --unknown")
        others.sort(key=lambda row: hashlib.sha256(names[row].encode()).digest())
        if split == "training":
            spare = len(others) - wanted  # another choice in every epoch
        else:
            others = others[:wanted]
        rows = sorted([*rows, *others])
    number = list(classes).index(UNKNOWN) if UNKNOWN in classes else -1
    return rows, torch.tensor([new.get(said[row], number) for row in rows]), spare
