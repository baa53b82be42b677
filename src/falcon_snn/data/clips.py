"""What every set of recordings has in common: clips, splits, words, and how to read them all."""

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from falcon_snn.errors import FalconError

SPLITS = ("training", "validation", "testing")


class Clip(NamedTuple):
    """One recording of one word."""

    file: str  # word/name.wav
    word: str
    speaker: str
    split: str


class Recordings(Protocol):
    """A set of recordings on disk; rows are clips in the order of `clips`, split after split."""

    @property
    def clips(self) -> Sequence[Clip]: ...

    @property
    def key(self) -> str:
        """A name for the content; changed content has another."""

    def lengths(self) -> NDArray[np.int64]:
        """Samples of each clip at 16 kHz."""

    def read_into(
        self, out: NDArray[np.int16], advance: Callable[[int], None], first: int = 0
    ) -> None:
        """Read as many clips as `out` (zeros) has rows, from the first one on."""

    def noise_files(self) -> list[Path]:
        """Recordings of background noise that come with the set."""


def split_order(clip: Clip) -> int:
    """Sort key that puts the clips of a split side by side."""
    return SPLITS.index(clip.split)


def hash_split(file: str) -> str:
    """The published rule: SHA-1 of the name up to `_nohash_` puts 10 % + 10 % aside, by speaker."""
    speaker = speaker_of(file)
    largest = 2**27 - 1
    digest = int(hashlib.sha1(speaker.encode(), usedforsecurity=False).hexdigest(), 16)
    percentage = (digest % (largest + 1)) * (100.0 / largest)
    if percentage < 10.0:
        return "validation"
    return "testing" if percentage < 20.0 else "training"


def speaker_of(file: str) -> str:
    """The speaker part of a published name, `word/SPEAKER_nohash_N.wav`; else the whole name."""
    return re.sub(r"_nohash_.*$", "", file.rsplit("/", 1)[-1])


def check_split(split: str, where: str = "") -> None:
    """Refuse the name of a split that does not exist."""
    if split not in SPLITS:
        raise FalconError(f"{where}unknown split '{split}'; choose one of {', '.join(SPLITS)}")


def word_list(clips: Sequence[Clip]) -> tuple[str, ...]:
    """All words of a set in alphabetical order; a word's place is its label."""
    return tuple(sorted({clip.word for clip in clips}))
