"""Where training and evaluation get their clips: `load_examples` and `load_waves`.

A source is "embedded", a path, or the name of a file or folder under $FALCON_DATA. It may be a
packed set, a folder of `word/name.wav` (Speech Commands as published, or a user's own), SSC in
HDF5, arrays in an .npz file, or a folder of images `class/name.png`.
What was decoded or computed once is kept in the cache, so a second start takes seconds.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from falcon_snn.data import arrays, folder, images, packed, ssc
from falcon_snn.data.audio import log, pink_noise, read_wave
from falcon_snn.data.cache import cache_folder, cached_array, key_of
from falcon_snn.data.clips import Recordings, check_split, word_list
from falcon_snn.data.features import (
    BANDS,
    CLIP_SAMPLES,
    FRAMES,
    RATE_HZ,
    exact_log_mel,
    one_second,
)
from falcon_snn.errors import FalconError

EMBEDDED = "embedded"
Advance = Callable[[int], None]
Kind = Literal["recordings", "spikes", "arrays", "images"]
# Part of every cache key: raise it when decoding changes.
_FORMAT = "1"
_FEATURES_VERSION = "2"  # of the features alone: 1 was float32
_FEATURES_AT_ONCE = 64
_ACCEPTED = (
    "a folder of word/name.wav, a packed set, a folder of class/name.png (jpg, bmp, webp), "
    "SSC files (.h5) and arrays (.npz)"
)


@dataclass(frozen=True)
class Examples:
    """The clips, samples or images of a split as the network sees them.

    x   of recordings   float32 [N, frames, bands], log-mel values
        of spikes       uint8 [N, bins, channels], counts
        of arrays       uint8, int16 or float32 [N, ...]
        of images       uint8 [N, height, width] or [N, height, width, 3]
    """

    x: Tensor
    lengths: Tensor  # int64 [N]: of x's second axis, what is real; the rest is padding
    labels: Tensor  # int64 [N]
    names: list[str]
    words: tuple[str, ...]  # the classes
    kind: Kind = "recordings"
    spare: int = 0  # clips of unknown words that each epoch leaves out, others each time

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def padded_lengths(self) -> Tensor | None:
        """The lengths if some clip has padding; None if none has: a network needs no masks then."""
        whole = bool((self.lengths == self.x.shape[1]).all())
        return None if whole else self.lengths


@dataclass(frozen=True)
class Waves:
    """The clips of a split as recordings, for augmentation and for the inner ear."""

    waves: Tensor  # int16 [N, 16000], wider only if a clip is longer; zeros after each clip
    lengths: Tensor  # int64 [N]: samples that are real
    labels: Tensor  # int64 [N]
    names: list[str]
    speakers: list[str]
    words: tuple[str, ...]
    spare: int = 0  # as of `Examples`

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
    """Whether the source holds spikes (SSC in HDF5)."""
    if path.is_file():
        return path.suffix in (".h5", ".hdf5")
    return any((path / name).is_file() for name in ssc.FILE_OF.values())


def kind_of(path: Path) -> Kind:
    """What a file or folder holds."""
    if is_spikes(path):
        return "spikes"
    if path.is_file():
        if path.suffix.lower() == ".npz":
            return "arrays"
        raise FalconError(f"{path}: not a data set; accepted: {_ACCEPTED}")
    if packed.is_packed(path) or folder.holds_recordings(path):
        return "recordings"
    if images.holds_images(path):
        return "images"
    raise FalconError(f"{path}: no recordings or images in it; accepted: {_ACCEPTED}")


def open_recordings(path: Path) -> Recordings:
    """Open a set of recordings."""
    kind = kind_of(path)
    if kind != "recordings":
        raise FalconError(f"{path}: holds {kind}, not recordings; choose a set of recordings")
    return packed.open_packed(path) if packed.is_packed(path) else folder.open_folder(path)


def data_key(source: str | Path) -> str:
    """A hash that changes when the clips of a source do."""
    path = find_source(source)
    match kind_of(path):
        case "recordings":
            return open_recordings(path).key
        case "images":
            return images.open_images(path).key
        case "arrays":
            return _file_key(path)
        case "spikes":
            in_folder = (path / name for name in sorted(ssc.FILE_OF.values()))
            files = [path] if path.is_file() else [file for file in in_folder if file.is_file()]
            return key_of(_file_key(file) for file in files)


def load_examples(
    source: str | Path, split: str, *, advance: Advance = lambda clips: None
) -> Examples:
    """The clips of a split as network input; `advance` is told how many more clips are ready."""
    check_split(split)
    path = find_source(source)
    load = {
        "recordings": _load_features,
        "spikes": _load_spikes,
        "arrays": _load_arrays,
        "images": _load_images,
    }
    return load[kind_of(path)](path, split, advance)


def load_waves(source: str | Path, split: str, *, advance: Advance = lambda clips: None) -> Waves:
    """The clips of a split as recordings; `advance` is told how many more clips are decoded."""
    check_split(split)
    return _load_waves(open_recordings(find_source(source)), split, advance)


def load_noise(source: str | Path) -> Tensor:
    """Background noise of the set for augmentation, its recordings joined: float32 [samples].

    A set without such recordings gets a minute of pink noise, always the same.
    """
    return torch.from_numpy(np.concatenate(noise_recordings(source)))


def noise_recordings(source: str | Path) -> list[NDArray[np.float32]]:
    """The recordings of background noise of a set, or the pink noise that stands for them."""
    files = open_recordings(find_source(source)).noise_files()
    return [read_wave(file) for file in files] or [pink_noise(60 * RATE_HZ)]


def read_recordings(
    recordings: Recordings, split: str | None = None, *, advance: Advance = lambda clips: None
) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
    """The clips of a split, or all, int16 [N, 16000 or more], and their lengths in samples."""
    rows = range(len(recordings.clips)) if split is None else _rows(recordings, split)

    def fill_lengths(out: NDArray[np.int64]) -> None:
        out[:] = recordings.lengths()

    def fill_waves(out: NDArray[np.int16]) -> None:
        log.warning("reading %s clips, once; they are kept in %s", f"{len(rows):,}", cache_folder())
        recordings.read_into(out, advance, rows.start)

    every = (len(recordings.clips),)
    lengths = cached_array(f"{_key(recordings)}-lengths", every, np.int64, fill_lengths)
    shape = (len(rows), max(CLIP_SAMPLES, int(lengths.max())))
    name = f"{_key(recordings)}-waves" + ("" if split is None else f"-{split}")
    return cached_array(name, shape, np.int16, fill_waves), lengths[rows.start : rows.stop]


def _rows(recordings: Recordings, split: str) -> range:
    """Where the clips of a split are; they are in the order of their splits."""
    rows = [row for row, clip in enumerate(recordings.clips) if clip.split == split]
    if not rows:
        raise FalconError(
            f"no {split} clips among the {len(recordings.clips)} of this set; add recordings"
        )
    return range(rows[0], rows[-1] + 1)


def _key(recordings: Recordings) -> str:
    return key_of([_FORMAT, recordings.key])


def _load_waves(recordings: Recordings, split: str, advance: Advance) -> Waves:
    """The recordings of a split."""
    rows = _rows(recordings, split)
    clips = recordings.clips[rows.start : rows.stop]
    waves, lengths = read_recordings(recordings, split, advance=advance)
    words = word_list(recordings.clips)
    label_of = {word: label for label, word in enumerate(words)}
    return Waves(
        waves=torch.from_numpy(waves),
        lengths=torch.from_numpy(lengths),
        labels=torch.tensor([label_of[clip.word] for clip in clips]),
        names=[clip.file for clip in clips],
        speakers=[clip.speaker for clip in clips],
        words=words,
    )


def _load_features(path: Path, split: str, advance: Advance) -> Examples:
    recordings = open_recordings(path)
    waves = _load_waves(recordings, split, advance)

    def fill(out: NDArray[np.float32]) -> None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        for first in range(0, len(waves), _FEATURES_AT_ONCE):
            part = slice(first, first + _FEATURES_AT_ONCE)
            clips = one_second(waves.waves[part].to(device), waves.lengths[part])
            out[part] = exact_log_mel(clips).cpu().numpy()
            advance(len(clips))

    x = cached_array(
        f"{_key(recordings)}-features{_FEATURES_VERSION}-{split}",
        (len(waves), FRAMES, BANDS),
        np.float32,
        fill,
    )
    tokens = torch.full((len(waves),), FRAMES)
    return Examples(torch.from_numpy(x), tokens, waves.labels, waves.names, waves.words)


def _file_key(file: Path) -> str:
    stat = file.stat()
    return key_of([_FORMAT, str(file.resolve()), str(stat.st_size), str(stat.st_mtime_ns)])


def _load_spikes(path: Path, split: str, advance: Advance) -> Examples:
    """A file is taken as the split that is asked for; a folder has one file per split."""
    file = path if path.is_file() else path / ssc.FILE_OF[split]
    facts = ssc.read_facts(file)
    key = _file_key(file)
    shape = (len(facts.labels), ssc.BINS, ssc.FEATURES)
    counts = cached_array(
        f"{key}-counts", shape, np.uint8, lambda out: ssc.read_ssc(file, out, advance)
    )

    def fill_lengths(out: NDArray[np.int64]) -> None:
        out[:] = ssc.lengths_of(counts)

    lengths = cached_array(f"{key}-lengths", (len(counts),), np.int64, fill_lengths)
    return Examples(
        torch.from_numpy(counts), torch.from_numpy(lengths), torch.from_numpy(facts.labels),
        facts.names, facts.words, "spikes",
    )  # fmt: skip


def _load_arrays(path: Path, split: str, advance: Advance) -> Examples:
    opened, key = arrays.open_arrays(path), _file_key(path)

    def fill_type(out: NDArray[np.uint8]) -> None:
        out[0] = opened.smallest_kept()

    dtype = arrays.KEPT[int(cached_array(f"{key}-type", (1,), np.uint8, fill_type)[0])]
    x = cached_array(
        f"{key}-{split}", opened.shape(split), dtype, lambda out: opened.read_into(out, split)
    )
    advance(len(x))
    part = opened.parts[split]
    names = [f"{path.name}:{part.array}[{row}]" for row in part.rows]
    return _whole(x, torch.from_numpy(part.labels), names, opened.words, "arrays")


def _load_images(path: Path, split: str, advance: Advance) -> Examples:
    opened = images.open_images(path)
    key, words = key_of([_FORMAT, opened.key]), opened.words

    def fill_form(out: NDArray[np.int64]) -> None:
        out[:] = opened.form()

    height, width, channels = cached_array(f"{key}-form", (3,), np.int64, fill_form).tolist()
    shape = (len(opened.pictures), height, width, channels)[: 3 if channels == 1 else 4]
    x = cached_array(f"{key}-images", shape, np.uint8, lambda out: opened.read_into(out, advance))
    rows = [row for row, each in enumerate(opened.pictures) if each.split == split]
    part = slice(rows[0], rows[-1] + 1)  # images are in the order of their splits
    labels = torch.tensor([words.index(each.word) for each in opened.pictures[part]])
    return _whole(x[part], labels, [each.file for each in opened.pictures[part]], words, "images")


def _whole(
    x: NDArray[Any], labels: Tensor, names: list[str], words: tuple[str, ...], kind: Kind
) -> Examples:
    """Samples without padding."""
    lengths = torch.full((len(x),), x.shape[1])
    return Examples(torch.from_numpy(x), lengths, labels, names, words, kind)
