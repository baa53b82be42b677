"""A folder of recordings, `word/name.wav`: Speech Commands as published, or a user's own.

word/SPEAKER_nohash_N.wav    recordings; folders whose names begin with _ or . are not words
validation_list.txt          the official split, one `word/name.wav` a line; without the two
testing_list.txt             lists the published SHA-1 rule decides, with them both must agree;
                             where it leaves too few, speakers or clips are set aside (split.py)
split.csv                    a split of your own, `file,split` a line; it decides alone
_background_noise_/*.wav     recordings for augmentation (optional)
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from falcon_snn.data.audio import (
    in_parallel,
    log,
    read_and_change,
    samples_at_16_khz,
    to_int16,
)
from falcon_snn.data.cache import key_of
from falcon_snn.data.clips import Clip, check_split, speaker_of, split_order
from falcon_snn.data.features import RATE_HZ
from falcon_snn.data.split import RULES, Split, choose_split, shared_speakers, split_by
from falcon_snn.errors import FalconError
from falcon_snn.files import demand_new, read_csv, read_text, write_text

NOISE_FOLDER = "_background_noise_"
OWN_SPLIT = "split.csv"
LONGEST_S = 10
LISTS = {"validation": "validation_list.txt", "testing": "testing_list.txt"}


@dataclass(frozen=True)
class FolderSet:
    """A folder of recordings, listed."""

    folder: Path
    clips: list[Clip]

    @cached_property
    def key(self) -> str:
        # Names, sizes and times of change: reading gigabytes of wavs would take too long.
        stats = ((clip, (self.folder / clip.file).stat()) for clip in self.clips)
        return key_of(
            f"{clip.file} {clip.split} {stat.st_size} {stat.st_mtime_ns}" for clip, stat in stats
        )

    def lengths(self) -> NDArray[np.int64]:
        files = [self.folder / clip.file for clip in self.clips]
        lengths = np.array(in_parallel(samples_at_16_khz, files), dtype=np.int64)
        longest = int(lengths.argmax())
        if lengths[longest] > LONGEST_S * RATE_HZ:
            raise FalconError(f"{files[longest]}: longer than {LONGEST_S} s; cut it to one word")
        return lengths

    def read_into(
        self, out: NDArray[np.int16], advance: Callable[[int], None], first: int = 0
    ) -> None:
        """One line of notice says how many recordings had to be resampled or mixed."""

        def one(row: int) -> str:
            path = self.folder / self.clips[first + row].file
            wave, change = read_and_change(path)
            if len(wave) > out.shape[1]:
                raise FalconError(f"{path}: longer than its header says; save it again")
            out[row, : len(wave)] = to_int16(wave)
            advance(1)
            return change

        changes = [change for change in in_parallel(one, range(len(out))) if change]
        if changes:
            counts = f"{len(changes)} of {len(out)} recordings"
            log.warning("%s: %s: %s", self.folder, counts, "; ".join(sorted(set(changes))))

    def noise_files(self) -> list[Path]:
        return sorted((self.folder / NOISE_FOLDER).glob("*.wav"))


def holds_recordings(folder: Path) -> bool:
    """Whether there is a recording in the folder of some word."""
    return any(_recordings(folder))


def open_folder(folder: Path) -> FolderSet:
    """List the clips of a folder with their split, in order of their names within a split."""
    files = _listed(folder)
    split = _split(folder, files)
    clips = [Clip(file, file.split("/", 1)[0], speaker_of(file), split[file]) for file in files]
    return FolderSet(folder, sorted(clips, key=split_order))


def write_split(folder: Path, rule: str) -> Split:
    """Split a folder by a rule of `split.py` and write that down in it as `split.csv`."""
    split = split_by(rule, _listed(folder))
    lines = [f"{file},{part}\n" for file, part in split.items()]
    demand_new(folder / OWN_SPLIT)
    write_text(folder / OWN_SPLIT, "".join(["file,split\n", *lines]))
    return split


def _split(folder: Path, files: list[str]) -> Split:
    """The split of a folder: its own, that of its lists, or that of the first rule that fits."""
    if (folder / OWN_SPLIT).is_file():
        return _read_own_split(folder / OWN_SPLIT, files)
    listed = _read_lists(folder, set(files))
    if listed is None:
        rule, split = choose_split(files)
        if rule != RULES[0]:
            _say_once(folder, rule, shared_speakers(split))
        return split
    split = split_by("published", files)
    for file in files:
        if listed.get(file, "training") != split[file]:
            raise FalconError(
                f"{folder}: the lists say {listed.get(file, 'training')} for {file}, the published "
                f"SHA-1 rule says {split[file]}; restore the lists, or delete both to split by the "
                "rule"
            )
    return split


@cache
def _say_once(folder: Path, rule: str, shared: int) -> None:
    """One line where the published rule was not taken; a set is opened several times."""
    how = (
        "whole speakers are set aside for validation and test"
        if rule == "speaker"
        else "clips are set aside for validation and test"
    )
    overlap = f"; speakers who are in more than one part: {shared}" if shared else ""
    log.warning("%s: too few speakers for the published split, so %s%s", folder, how, overlap)


def _read_own_split(path: Path, files: list[str]) -> Split:
    rows = read_csv(path)
    if not rows or rows[0] != ["file", "split"]:
        raise FalconError(f"{path}: the first line must be file,split")
    split = dict(row for row in rows[1:] if len(row) == 2)
    if unlisted := sorted(set(files) - split.keys()):
        raise FalconError(
            f"{path}: does not name {unlisted[0]}; write it again (`falcon-snn data split`)"
        )
    if len(split) != len(files):
        gone = min(split.keys() - set(files), default="a clip twice")
        raise FalconError(f"{path}: names {gone[:80]}, which is not in the folder")
    for name, part in split.items():
        check_split(part, f"{path}: {name}: ")
    return {file: split[file] for file in files}


def _listed(folder: Path) -> list[str]:
    files = sorted(_recordings(folder)) if folder.is_dir() else []
    if not files:
        raise FalconError(f"{folder}: no recordings; a folder of clips holds word/name.wav files")
    return files


def _recordings(folder: Path) -> Iterator[str]:
    for word in folder.iterdir():
        if word.is_dir() and not word.name.startswith(("_", ".")):
            for wav in word.iterdir():
                if wav.suffix.lower() == ".wav" and not wav.name.startswith("."):
                    yield f"{word.name}/{wav.name}"


def _read_lists(folder: Path, files: set[str]) -> dict[str, str] | None:
    """The official lists as file -> split, None if the folder has none."""
    present = [name for name in LISTS.values() if (folder / name).is_file()]
    if not present:
        return None
    if len(present) < len(LISTS):
        raise FalconError(f"{folder}: has {present[0]} but not the other list; add it")
    listed: dict[str, str] = {}
    for split, name in LISTS.items():
        lines = (line.strip() for line in read_text(folder / name).splitlines())
        for file in filter(None, lines):
            if file not in files:
                raise FalconError(f"{folder / name}: names {file[:80]}, which is not in the folder")
            listed[file] = split
    return listed
