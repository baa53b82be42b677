"""Where training and evaluation get their clips: `load_examples` and `load_waves`.

A source is "embedded", a path, or the name of a folder under $FALCON_DATA. It may be a packed set,
a folder of `word/name.wav` (Speech Commands as published, or a user's own), or SSC in HDF5.
What was decoded or computed once is kept in the cache, so a second start takes seconds.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files as package_files
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from falcon_snn.data import folder, packed, ssc
from falcon_snn.data.audio import log, pink_noise, read_wave
from falcon_snn.data.cache import cache_folder, cached_array, key_of
from falcon_snn.data.clips import Recordings, check_split, word_list
from falcon_snn.data.features import BANDS, CLIP_SAMPLES, FRAMES, RATE_HZ, log_mel, one_second
from falcon_snn.errors import FalconError

EMBEDDED = "embedded"
Advance = Callable[[int], None]
# Part of every cache key: raise it when decoding or features change.
_FORMAT = "1"
_FEATURES_AT_ONCE = 1024


@dataclass(frozen=True)
class Examples:
    """The clips of a split as the network sees them."""

    x: Tensor  # [N, tokens, features]: float32 log-mel values, or uint8 spike counts
    lengths: Tensor  # int64 [N]: tokens that are real, the rest is padding
    labels: Tensor  # int64 [N]
    names: list[str]
    words: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Waves:
    """The clips of a split as recordings, for augmentation and for the inner ear."""

    waves: Tensor  # int16 [N, 16000], wider only if a clip is longer; zeros right of each clip
    lengths: Tensor  # int64 [N]: samples that are real
    labels: Tensor  # int64 [N]
    names: list[str]
    speakers: list[str]
    words: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)


def data_home() -> Path:
    """Where data sets are found by name and downloaded to: $FALCON_DATA, or in the cache."""
    return Path(os.environ.get("FALCON_DATA") or cache_folder() / "data")


def find_source(source: str | Path) -> Path:
    """The file or folder that a source names."""
    if source == EMBEDDED:
        return Path(str(package_files("falcon_snn.data") / EMBEDDED))
    path = Path(source)
    if path.exists():
        return path
    named = data_home() / path
    if not path.is_absolute() and named.exists():
        return named
    raise FalconError(
        f"no data at '{source}', neither here nor in {data_home()}; give a path, a name that "
        f"`falcon-snn data list` shows, or '{EMBEDDED}'"
    )


def is_spikes(path: Path) -> bool:
    """Whether the source holds spikes (SSC in HDF5) rather than recordings."""
    if path.is_file():
        return path.suffix in (".h5", ".hdf5")
    return any((path / name).is_file() for name in ssc.FILE_OF.values())


def open_recordings(path: Path) -> Recordings:
    """Open a set of recordings."""
    if is_spikes(path):
        raise FalconError(f"{path}: holds spikes, not recordings; choose a set of recordings")
    if not path.is_dir():
        raise FalconError(f"{path}: not a data set; give its folder, or an SSC file (.h5)")
    return packed.open_packed(path) if packed.is_packed(path) else folder.open_folder(path)


def data_key(source: str | Path) -> str:
    """A hash that changes when the clips of a source do."""
    path = find_source(source)
    if not is_spikes(path):
        return open_recordings(path).key
    held = [path] if path.is_file() else [path / name for name in sorted(ssc.FILE_OF.values())]
    return key_of(_spikes_key(file) for file in held if file.is_file())


def load_examples(
    source: str | Path, split: str, *, advance: Advance = lambda clips: None
) -> Examples:
    """The clips of a split as network input; `advance` hears how many more clips are ready."""
    check_split(split)
    path = find_source(source)
    if is_spikes(path):
        return _load_spikes(path, split, advance)
    recordings = open_recordings(path)
    waves = _load_waves(recordings, split, advance)

    def fill(out: NDArray[np.float32]) -> None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        for first in range(0, len(waves), _FEATURES_AT_ONCE):
            part = slice(first, first + _FEATURES_AT_ONCE)
            clips = one_second(waves.waves[part].to(device), waves.lengths[part])
            out[part] = log_mel(clips).cpu().numpy()
            advance(len(clips))

    x = cached_array(
        f"{_key(recordings)}-features-{split}", (len(waves), FRAMES, BANDS), np.float32, fill
    )
    tokens = torch.full((len(waves),), FRAMES)
    return Examples(torch.from_numpy(x), tokens, waves.labels, waves.names, waves.words)


def load_waves(source: str | Path, split: str, *, advance: Advance = lambda clips: None) -> Waves:
    """The clips of a split as recordings; `advance` hears how many more clips are decoded."""
    check_split(split)
    return _load_waves(open_recordings(find_source(source)), split, advance)


def load_noise(source: str | Path) -> Tensor:
    """Background noise of the set for augmentation, its recordings joined: float32 [samples].

    A set without such recordings gets a minute of pink noise, always the same.
    """
    files = open_recordings(find_source(source)).noise_files()
    if not files:
        return torch.from_numpy(pink_noise(60 * RATE_HZ))
    return torch.from_numpy(np.concatenate([read_wave(file) for file in files]))


def read_recordings(
    recordings: Recordings, *, advance: Advance = lambda clips: None
) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
    """All clips of a set, int16 [N, 16000 or more], and their lengths in samples."""
    clips = len(recordings.clips)

    def fill_lengths(out: NDArray[np.int64]) -> None:
        out[:] = recordings.lengths()

    def fill_waves(out: NDArray[np.int16]) -> None:
        log.warning("reading %s clips, once; they are kept in %s", f"{clips:,}", cache_folder())
        recordings.read_into(out, advance)

    lengths = cached_array(f"{_key(recordings)}-lengths", (clips,), np.int64, fill_lengths)
    shape = (clips, max(CLIP_SAMPLES, int(lengths.max())))
    return cached_array(f"{_key(recordings)}-waves", shape, np.int16, fill_waves), lengths


def _key(recordings: Recordings) -> str:
    return key_of([_FORMAT, recordings.key])


def _load_waves(recordings: Recordings, split: str, advance: Advance) -> Waves:
    """The recordings of a split."""
    clips = recordings.clips
    rows = [row for row, clip in enumerate(clips) if clip.split == split]
    if not rows:
        raise FalconError(f"no {split} clips among the {len(clips)} of this set; add recordings")
    waves, lengths = read_recordings(recordings, advance=advance)
    part = slice(rows[0], rows[-1] + 1)  # clips are in the order of their splits
    words = word_list(clips)
    label_of = {word: label for label, word in enumerate(words)}
    return Waves(
        waves=torch.from_numpy(waves[part]),
        lengths=torch.from_numpy(lengths[part]),
        labels=torch.tensor([label_of[clip.word] for clip in clips[part]]),
        names=[clip.file for clip in clips[part]],
        speakers=[clip.speaker for clip in clips[part]],
        words=words,
    )


def _spikes_key(file: Path) -> str:
    stat = file.stat()
    return key_of([_FORMAT, str(file.resolve()), str(stat.st_size), str(stat.st_mtime_ns)])


def _load_spikes(path: Path, split: str, advance: Advance) -> Examples:
    """A file is taken as the split that is asked for; a folder has one file per split."""
    file = path if path.is_file() else path / ssc.FILE_OF[split]
    facts = ssc.read_facts(file)
    key = _spikes_key(file)
    shape = (len(facts.labels), ssc.BINS, ssc.FEATURES)
    counts = cached_array(
        f"{key}-counts", shape, np.uint8, lambda out: ssc.read_ssc(file, out, advance)
    )

    def fill_lengths(out: NDArray[np.int64]) -> None:
        out[:] = ssc.lengths_of(counts)

    lengths = cached_array(f"{key}-lengths", (len(counts),), np.int64, fill_lengths)
    return Examples(
        torch.from_numpy(counts), torch.from_numpy(lengths), torch.from_numpy(facts.labels),
        facts.names, facts.words,
    )  # fmt: skip
