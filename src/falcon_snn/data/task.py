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

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from falcon_snn.data.audio import log, pink_noise, read_wave, to_int16
from falcon_snn.data.clips import SPLITS
from falcon_snn.data.examples import (
    Examples,
    Waves,
    find_source,
    kind_of,
    load_examples,
    load_waves,
    open_recordings,
)
from falcon_snn.data.features import CLIP_SAMPLES, RATE_HZ, exact_log_mel, one_second
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
    rows, labels, spare = _chosen(examples.names, examples.labels, examples.words, classes, split)
    names = [examples.names[row] for row in rows]
    x = examples.x[rows]
    if SILENCE in classes:
        pieces = silence(source, split, _negatives(labels, classes))
        label = torch.full((len(pieces),), list(classes).index(SILENCE))
        heard = one_second(torch.from_numpy(pieces), torch.full((len(pieces),), CLIP_SAMPLES))
        x, labels = torch.cat([x, exact_log_mel(heard)]), torch.cat([labels, label])
        names += _silence_names(len(pieces))
    lengths = torch.full((len(x),), x.shape[1])
    return Examples(x, lengths, labels, names, tuple(classes), spare=spare)


def waves_for(source: str, split: str, classes: Sequence[str] | None) -> Waves:
    """The same as recordings, clip for clip."""
    waves = load_waves(source, split)
    if classes is None or not _can_be(source, waves.words, classes):
        return waves
    rows, labels, spare = _chosen(waves.names, waves.labels, waves.words, classes, split)
    samples, lengths = waves.waves[rows], waves.lengths[rows]
    names, speakers = ([each[row] for row in rows] for each in (waves.names, waves.speakers))
    if SILENCE in classes:
        pieces = silence(source, split, _negatives(labels, classes))
        wide = np.zeros((len(pieces), samples.shape[1]), np.int16)
        wide[:, :CLIP_SAMPLES] = pieces
        label = torch.full((len(pieces),), list(classes).index(SILENCE))
        samples, labels = torch.cat([samples, torch.from_numpy(wide)]), torch.cat([labels, label])
        lengths = torch.cat([lengths, torch.full((len(pieces),), CLIP_SAMPLES)])
        names += _silence_names(len(pieces))
        speakers += _silence_names(len(pieces))
    return replace(
        waves, waves=samples, lengths=lengths, labels=labels, names=names, speakers=speakers,
        words=tuple(classes), spare=spare,
    )  # fmt: skip


def silence(source: str, split: str, count: int) -> NDArray[np.int16]:
    """Pieces of background noise at all levels, and of digital silence: int16 [count, 16000]."""
    files = open_recordings(find_source(source)).noise_files()
    recordings = [read_wave(file) for file in files] or [pink_noise(60 * RATE_HZ)]
    parts = [_part(wave, split) for wave in recordings]
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


def _negatives(labels: Tensor, classes: Sequence[str]) -> int:
    """How many pieces of silence a split has."""
    words = sum(word not in NO_WORDS for word in classes)
    return ceil(SHARE * int((labels < words).sum()))


def _silence_names(count: int) -> list[str]:
    return [f"{SILENCE}/{number}" for number in range(count)]
