"""Loaders of data that a user can reach: how valid files are made, read and looked at."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.data_files import tone, write_folder
from tests.training_data import write_spikes

from falcon_snn.data import arrays, images, ssc
from falcon_snn.data.audio import read_in_blocks, read_wave
from falcon_snn.data.cache import cached_array
from falcon_snn.data.clips import Recordings
from falcon_snn.data.folder import open_folder, write_split
from falcon_snn.data.live import raw_blocks
from falcon_snn.data.packed import open_packed, write_packed
from falcon_snn.files import write_text


@dataclass(frozen=True)
class Loader:
    """`write` makes valid files in a folder and gives those to damage; `load` reads the folder.

    `load` also looks at what it got where that is cheap, and raises AssertionError at garbage.
    """

    name: str
    write: Callable[[Path], list[Path]]
    load: Callable[[Path], object]
    share: float = 1.0  # of the cases that each loader gets; slow ones get fewer


def _ssc(folder: Path) -> list[Path]:
    write_spikes(folder, clips=6)
    return [folder / "ssc_valid.h5"]


def _load_ssc(folder: Path) -> None:
    path = folder / "ssc_valid.h5"
    facts = ssc.read_facts(path)
    counts = np.zeros((len(facts.labels), ssc.BINS, ssc.FEATURES), np.uint8)
    ssc.read_ssc(path, counts, lambda clips: None)
    assert len(facts.names) == len(counts)


def _arrays(folder: Path) -> list[Path]:
    draw = np.random.default_rng(2)
    held: dict[str, Any] = {
        "x_train": draw.normal(size=(30, 4, 3)).astype(np.float32), "y_train": np.arange(30) % 3,
        "x_test": draw.normal(size=(6, 4, 3)).astype(np.float32), "y_test": np.arange(6) % 3,
        "class_names": np.array(["a", "b", "c"]), "record_train": np.arange(30) // 3,
    }  # fmt: skip
    np.savez(folder / "plain.npz", allow_pickle=False, **held)
    np.savez_compressed(folder / "small.npz", allow_pickle=False, **held)
    return sorted(folder.iterdir())


def _load_arrays(folder: Path) -> None:
    for path in folder.iterdir():
        held = arrays.open_arrays(path)
        dtype = arrays.KEPT[held.smallest_kept()]
        for split in arrays.PARTS:
            out = np.zeros(held.shape(split), dtype)
            held.read_into(out, split)
            assert np.isfinite(out.astype(np.float64)).all()


def _images(folder: Path) -> list[Path]:
    from PIL import Image

    draw = np.random.default_rng(3)
    for part in images.SPLIT_FOLDERS:
        for suffix in images.SUFFIXES:
            (folder / part / "a").mkdir(parents=True, exist_ok=True)
            pixels = draw.integers(0, 255, (9, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / part / "a" / f"{suffix[1:]}{suffix}")
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _load_images(folder: Path) -> None:
    held = images.open_images(folder)
    height, width, channels = held.form()
    assert height * width < 1 << 24
    held.read_into(np.zeros((len(held.pictures), height, width, channels)[: 3 if channels == 1
                            else 4], np.uint8), lambda images: None)  # fmt: skip


def _sound(folder: Path) -> list[Path]:
    import soundfile

    wave = tone(440, 4_000)
    kinds = {"a.wav": "PCM_16", "f.wav": "FLOAT", "u.wav": "ULAW", "c.flac": "PCM_16",
             "d.ogg": "VORBIS", "e.aiff": "PCM_24"}  # fmt: skip
    for name, subtype in kinds.items():
        soundfile.write(folder / name, wave, 16_000, subtype=subtype)
    return sorted(folder.iterdir())


def _load_sound(folder: Path) -> None:
    for path in folder.iterdir():
        wave = read_wave(path)
        assert np.isfinite(wave).all()
        assert len(wave) < 1 << 24


def _load_stream(folder: Path) -> None:
    for path in folder.iterdir():
        heard = 0
        for block in read_in_blocks(path, 0.05):
            assert np.isfinite(block).all()
            heard += len(block)
        assert heard < 1 << 24


def _raw(folder: Path) -> list[Path]:
    (folder / "raw").write_bytes((8000 * tone(440, 4_000)).astype("<i2").tobytes())
    return [folder / "raw"]


def _load_raw(folder: Path) -> None:
    with (folder / "raw").open("rb") as pipe:
        assert all(np.isfinite(block).all() for block in raw_blocks(pipe, 44_100))


def _recordings(folder: Path) -> list[Path]:
    write_folder(folder, clips_per_split=1)
    return sorted(folder.rglob("*.wav"))


def _read_all(recordings: Recordings) -> None:
    lengths = recordings.lengths()
    assert lengths.min() > 0
    out = np.zeros((len(lengths), max(16_000, int(lengths.max()))), np.int16)
    recordings.read_into(out, lambda clips: None)


def _packed(folder: Path) -> list[Path]:
    source = write_folder(folder / "source", clips_per_split=1)
    held = open_folder(source)
    lengths = held.lengths()
    waves = np.zeros((len(lengths), 16_000), np.int16)
    held.read_into(waves, lambda clips: None)
    write_packed(folder / "packed", held.clips, [], waves, lengths)
    return sorted((folder / "packed").iterdir())


def _split_lists(folder: Path) -> list[Path]:
    write_folder(folder, clips_per_split=1)
    held = open_folder(folder).clips
    for part, name in (("validation", "validation_list.txt"), ("testing", "testing_list.txt")):
        text = "".join(f"{clip.file}\n" for clip in held if clip.split == part)
        write_text(folder / name, text)
    return sorted(folder.glob("*.txt"))


def _own_split(folder: Path) -> list[Path]:
    write_folder(folder, clips_per_split=1)
    write_split(folder, "clip")
    return [folder / "split.csv"]


def _cache(folder: Path) -> list[Path]:
    import os

    os.environ["FALCON_CACHE"] = str(folder)
    _load_cache(folder)
    return [folder / "kept.npy"]


def _load_cache(folder: Path) -> None:
    def fill(out: Any) -> None:
        out[:] = 7

    assert cached_array("kept", (40, 3), np.int16, fill).shape == (40, 3)


DATA_LOADERS = (
    Loader("SSC", _ssc, _load_ssc),
    Loader("arrays", _arrays, _load_arrays),
    Loader("images", _images, _load_images, 0.5),
    Loader("sound", _sound, _load_sound),
    Loader("sound as a stream", _sound, _load_stream, 0.5),
    Loader("raw samples", _raw, _load_raw, 0.2),
    Loader("recordings", _recordings, lambda folder: _read_all(open_folder(folder)), 0.5),
    Loader("packed set", _packed, lambda folder: _read_all(open_packed(folder / "packed")), 0.5),
    Loader("split lists", _split_lists, open_folder),
    Loader("own split", _own_split, open_folder),
    Loader("cache", _cache, _load_cache, 0.5),
)
