"""Spiking Speech Commands (Cramer et al., 2020): spikes of 700 cochlear channels, as HDF5.

    address   https://zenkelab.org/datasets (ssc_train.h5, ssc_valid.h5, ssc_test.h5), CC BY 4.0
    layout    spikes/units   per clip, channel of each spike, 0..699 (ragged)
              spikes/times   per clip, time of each spike in seconds (ragged)
              labels         per clip, index into the word list
              extra/keys     the word list
              extra/speaker  per clip, a number for the speaker
              extra/file     per clip, the recording it was made from (only in files made here)
    splits    75,466 / 9,981 / 20,382

Binned as the paper does: 10 ms, five adjacent channels summed, [clips, 100, 140] counts. A clip's
length ends with its last spike. A spike at exactly 1.0 s belongs to the last bin; later spikes
lie outside the one-second clip. Files are opened where they are read and closed at once, so any
process may call this.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from falcon_snn.data.hdf5 import hdf5_target, opened_hdf5, rows
from falcon_snn.errors import FalconError

FILE_OF = {"training": "ssc_train.h5", "validation": "ssc_valid.h5", "testing": "ssc_test.h5"}
MARK = b"spikes\0"  # a group that every file has
CHANNELS = 700
CHANNELS_PER_FEATURE = 5
FEATURES = CHANNELS // CHANNELS_PER_FEATURE
BINS_PER_SECOND = 100
BINS = 100
# Times are float32: a spike on the edge of a bin may be stored a hair before it.
_EDGE_BINS = 1e-4
_CLIPS_AT_ONCE = 512
_LATEST_S = 1e6  # later spikes are not believed
_MOST_WORDS = 1 << 16  # of a file that does not name them


class Spikes(NamedTuple):
    """Facts about the clips of an SSC file."""

    labels: NDArray[np.int64]
    words: tuple[str, ...]
    names: list[str]


def bin_spikes(units: Sequence[NDArray[Any]], times: Sequence[NDArray[Any]]) -> NDArray[np.uint8]:
    """Spike counts [clips, 100, 140]; all spikes are counted at once."""
    clips = len(units)
    if [len(clip) for clip in units] != [len(clip) for clip in times]:
        raise ValueError("units and times of a clip differ in length")
    spikes_of = np.array([len(clip) for clip in units], dtype=np.int64)
    flat_units = np.concatenate([*units, np.zeros(0, np.int64)]).astype(np.int64)
    with np.errstate(invalid="ignore"):  # what is not a number is refused below
        flat_times_s = np.concatenate([*times, np.zeros(0)]).astype(np.float64)
    if any(clip.ndim != 1 for clip in (*units, *times)):
        raise ValueError("a clip is not a list of spikes")
    if flat_units.size and not (flat_units.min() >= 0 and flat_units.max() < CHANNELS):
        raise ValueError(f"a unit lies outside 0..{CHANNELS - 1}")
    if flat_times_s.size and not (flat_times_s.min() >= 0 and flat_times_s.max() < _LATEST_S):
        raise ValueError(f"a spike has a negative time, none, or one after {_LATEST_S:.0f} s")
    clip = np.repeat(np.arange(clips), spikes_of)
    bins = np.floor(flat_times_s * BINS_PER_SECOND + _EDGE_BINS).astype(np.int64)
    inside = flat_times_s * BINS_PER_SECOND <= BINS + _EDGE_BINS
    bins, clip, feature = (
        np.minimum(bins, BINS - 1)[inside],
        clip[inside],
        flat_units[inside] // CHANNELS_PER_FEATURE,
    )
    cells = np.bincount(
        (clip * BINS + bins) * FEATURES + feature, minlength=clips * BINS * FEATURES
    )
    return np.minimum(cells, 255).astype(np.uint8).reshape(clips, BINS, FEATURES)


def lengths_of(counts: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Bins up to each clip's last spike, at least 1."""
    ends = np.arange(1, BINS + 1) * counts.any(axis=2)
    lengths: NDArray[np.int64] = np.maximum(1, ends.max(axis=1))
    return lengths


def read_facts(path: Path) -> Spikes:
    """Labels, word list and names of an SSC file."""
    with opened_hdf5(path, "SSC") as file:
        given = rows(file, "labels", "iu")[:]
        clips = len(given)
        lengths = {len(rows(file, "spikes/units", "iu")), len(rows(file, "spikes/times", "f"))}
        if lengths != {clips} or not clips:
            raise FalconError(f"{path}: units, times and labels must have the same length, not 0")
        if "extra/keys" in file:
            words = tuple(_text(key) for key in rows(file, "extra/keys", "SO")[:])
        else:
            most = min(int(given.max()) + 1, _MOST_WORDS)
            words = tuple(str(label) for label in range(most))
        if int(given.min()) < 0 or int(given.max()) >= len(words):
            raise FalconError(f"{path}: a label lies outside the list of {len(words)} words")
        names = (
            [_text(name) for name in rows(file, "extra/file", "SO")[:]]
            if "extra/file" in file
            else [f"{path.name}:{clip}" for clip in range(clips)]
        )
        if len(names) != clips:
            raise FalconError(f"{path}: names {len(names)} files, but has {clips} clips")
    return Spikes(given.astype(np.int64), words, names)


def read_ssc(path: Path, counts: NDArray[np.uint8], advance: Callable[[int], None]) -> None:
    """Bin a whole SSC file into `counts` [clips, 100, 140]."""
    with opened_hdf5(path, "SSC") as file:
        unit_rows, time_rows = rows(file, "spikes/units", "iu"), rows(file, "spikes/times", "f")
        for first in range(0, len(counts), _CLIPS_AT_ONCE):
            part = slice(first, first + _CLIPS_AT_ONCE)
            units, times = unit_rows[part], time_rows[part]
            counts[part] = bin_spikes(units, times)
            advance(len(units))


def write_ssc(
    path: Path,
    units: Iterable[NDArray[Any]],
    times: Iterable[NDArray[Any]],
    labels: Sequence[int],
    words: Sequence[str],
    names: Sequence[str],
    speakers: Sequence[str],
) -> None:
    """Write spikes in the published layout, whole or not at all.

    Units and times are taken clip by clip, so a large set need never be in memory.
    """
    import h5py

    order = {speaker: number for number, speaker in enumerate(sorted(set(speakers)))}
    with hdf5_target(path) as target, h5py.File(target, "w") as file:
        unit_rows, time_rows = (
            file.create_dataset(f"spikes/{key}", (len(labels),), dtype=h5py.vlen_dtype(dtype))
            for key, dtype in (("units", np.uint16), ("times", np.float32))
        )
        for row, clip_units, clip_times in zip(range(len(labels)), units, times, strict=True):
            unit_rows[row], time_rows[row] = clip_units, clip_times
            target.demand_written()
        file["labels"] = np.asarray(labels, dtype=np.uint16)
        file["extra/keys"] = np.array(words, dtype="S")
        file["extra/speaker"] = np.array([order[name] for name in speakers], dtype=np.uint16)
        file["extra/file"] = np.array(names, dtype="S")


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
