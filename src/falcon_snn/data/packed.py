"""The packed form: clips as Ogg Opus chunks plus an index, about 11 times smaller than wavs.

    index.csv            file,word,speaker,split,chunk,start,length
    clips-00.opus ...    16 kHz mono; clips one after the other, each padded with zeros to at least
                         one second, plus 20 ms of silence
    background_noise/    recordings for augmentation (optional)

`start` and `length` are samples of the decoded chunk. A chunk is decoded from its beginning:
seeking would change samples by up to 0.002. What follows a clip is not quite silent after
decoding, so only `length` samples are taken.
"""

import csv
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from falcon_snn.data.audio import in_parallel, read_wave, to_int16
from falcon_snn.data.cache import key_of
from falcon_snn.data.clips import SPLITS, Clip, split_order
from falcon_snn.data.features import CLIP_SAMPLES, RATE_HZ
from falcon_snn.errors import FalconError
from falcon_snn.files import new_folder, read_csv, sha256_of

INDEX = "index.csv"
NOISE_FOLDER = "background_noise"
GAP_SAMPLES = 320
CLIPS_PER_CHUNK = 7_200
_LONGEST_SAMPLES = 60 * RATE_HZ  # of a clip; more is not believed
_BLOCK_SAMPLES = 64 * (CLIP_SAMPLES + GAP_SAMPLES)
_COLUMNS = ("file", "word", "speaker", "split", "chunk", "start", "length")


class Place(NamedTuple):
    """Where a clip lies in the packed form."""

    chunk: str
    start: int
    length: int


def is_packed(folder: Path) -> bool:
    return (folder / INDEX).is_file()


@dataclass(frozen=True)
class PackedSet:
    """A packed set that was opened; every chunk that the index names is there."""

    folder: Path
    clips: list[Clip]
    places: list[Place]

    @cached_property
    def key(self) -> str:
        chunks = sorted({place.chunk for place in self.places})
        index = (self.folder / INDEX).read_bytes()
        return key_of([index, *(sha256_of(self.folder / chunk) for chunk in chunks)])

    def lengths(self) -> NDArray[np.int64]:
        return np.array([place.length for place in self.places], dtype=np.int64)

    def read_into(
        self, out: NDArray[np.int16], advance: Callable[[int], None], first: int = 0
    ) -> None:
        """Decode chunks side by side; the decoder runs outside Python's lock, so threads do."""
        places = self.places[first : first + len(out)]
        rows_of: dict[str, list[int]] = {}
        for row, place in enumerate(places):
            rows_of.setdefault(place.chunk, []).append(row)

        def one(chunk: str) -> None:
            rows = sorted(rows_of[chunk], key=lambda row: places[row].start)
            _decode_chunk(self.folder / chunk, rows, places, out, advance)

        in_parallel(one, sorted(rows_of))

    def noise_files(self) -> list[Path]:
        return sorted((self.folder / NOISE_FOLDER).glob("*.opus"))


def open_packed(folder: Path) -> PackedSet:
    """Open a packed set: read its index and check that its chunks are there."""
    path = folder / INDEX
    header, *lines = read_csv(path) or [[]]
    if tuple(header) != _COLUMNS:
        raise FalconError(f"{path}: the first line must be {','.join(_COLUMNS)}")
    rows: list[tuple[Clip, Place]] = []
    for number, row in enumerate(lines, start=2):
        try:
            name, word, speaker, split, chunk, start, length = row
            place = Place(chunk, int(start), int(length))
            if split not in SPLITS or place.start < 0 or not 1 <= place.length <= _LONGEST_SAMPLES:
                raise ValueError
        except ValueError:
            raise FalconError(f"{path}: line {number} does not describe a clip") from None
        rows.append((Clip(name, word, speaker, split), place))
    if not rows:
        raise FalconError(f"{path}: no clips in it")
    for chunk in sorted({place.chunk for _, place in rows}):
        if Path(chunk).name != chunk or not os.path.isfile(folder / chunk):
            raise FalconError(f"{path}: names the chunk {chunk[:80]}, which is not in the folder")
    rows.sort(key=lambda row: split_order(row[0]))
    return PackedSet(folder, [clip for clip, _ in rows], [place for _, place in rows])


def _decode_chunk(
    path: Path,
    rows: Sequence[int],
    places: Sequence[Place],
    out: NDArray[np.int16],
    advance: Callable[[int], None],
) -> None:
    """Decode a chunk from its beginning; `rows` are in the order of their places."""
    import soundfile

    # `window` is a part of the decoded stream that begins at sample `offset`.
    window, offset = np.zeros(0, np.int16), 0
    try:
        with soundfile.SoundFile(os.fsencode(path)) as file:
            if file.samplerate != RATE_HZ or file.channels != 1:
                raise FalconError(f"{path}: a chunk must be mono at {RATE_HZ} Hz; pack it again")
            for row in rows:
                _, start, length = places[row]
                while offset + len(window) < start + length:
                    block = file.read(_BLOCK_SAMPLES, dtype="float32")
                    if not len(block):
                        raise FalconError(
                            f"{path}: ends before sample {start + length} of the index"
                        )
                    keep = window[max(0, start - offset) :]
                    offset += len(window) - len(keep)
                    window = np.concatenate([keep, to_int16(block)])
                out[row, :length] = window[start - offset : start - offset + length]
                advance(1)
    except soundfile.LibsndfileError as error:
        raise FalconError(f"{path}: not a readable Ogg Opus file ({error.error_string})") from None


def write_packed(
    folder: Path,
    clips: Sequence[Clip],
    noise_files: Sequence[Path],
    waves: NDArray[np.int16],
    lengths: NDArray[np.int64],
    *,
    bitrate_kbps: float = 24,
    clips_per_chunk: int = CLIPS_PER_CHUNK,
    advance: Callable[[int], None] = lambda clips: None,
) -> None:
    """Pack a set of recordings as a new folder, whole or not at all.

    Row i of `waves` holds the `lengths[i]` samples of clip i, and zeros.
    """
    import soundfile

    with new_folder(folder, soundfile.LibsndfileError) as temporary:
        padded = np.maximum(lengths, CLIP_SAMPLES) + GAP_SAMPLES
        rows = [range(len(waves))[first : first + clips_per_chunk]
                for first in range(0, len(waves), clips_per_chunk)]  # fmt: skip

        def encode(chunk: int) -> None:
            with _opus(temporary / f"clips-{chunk:02d}.opus", bitrate_kbps) as file:
                for row in rows[chunk]:
                    wave = np.zeros(padded[row], np.int16)
                    wave[: lengths[row]] = waves[row, : lengths[row]]
                    file.write(wave)
                    advance(1)

        in_parallel(encode, range(len(rows)))
        with (temporary / INDEX).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(_COLUMNS)
            for chunk, members in enumerate(rows):
                start = 0
                for row in members:
                    place = Place(f"clips-{chunk:02d}.opus", start, int(lengths[row]))
                    writer.writerow((*clips[row], *place))
                    start += int(padded[row])
        for recording in noise_files:
            (temporary / NOISE_FOLDER).mkdir(exist_ok=True)
            with _opus(temporary / NOISE_FOLDER / f"{recording.stem}.opus", bitrate_kbps) as file:
                # The encoder keeps what it is given on its stack, so a minute goes in pieces.
                for piece in np.split(wave := read_wave(recording), range(0, len(wave), RATE_HZ)):
                    file.write(piece)


def _opus(path: Path, bitrate_kbps: float) -> Any:
    import soundfile

    # libsndfile maps its compression level 1..0 to 6..256 kbit/s.
    level = 1.0 - (bitrate_kbps - 6.0) / 250.0
    return soundfile.SoundFile(
        os.fsencode(path), "w", RATE_HZ, 1, format="OGG", subtype="OPUS", compression_level=level
    )
