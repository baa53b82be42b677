"""Reading recordings of any rate and channel count as 16 kHz mono."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import gcd
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from falcon_snn.data.features import RATE_HZ
from falcon_snn.errors import FalconError

log = logging.getLogger("falcon_snn")
_BLOCK_SAMPLES = 1 << 20
_LEAST_HZ, _MOST_HZ = 1_000, 384_000  # what recorders write; resampling others takes gigabytes
_FILTER_SIDE = 10  # of scipy's filter, in samples of the lower rate
T = TypeVar("T")
R = TypeVar("R")


_READ = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff", ".au")
# What phones and browsers record and libsndfile does not read.
_TO_CONVERT = (".m4a", ".mp4", ".aac", ".wma", ".webm", ".amr", ".3gp", ".caf")


def read_wave(path: Path) -> NDArray[np.float32]:
    """A recording as float32 in -1..1, 16 kHz mono; one line of notice if it had to be changed."""
    wave, change = read_and_change(path)
    if change:
        log.warning("%s: %s", path, change)
    return wave


def read_and_change(path: Path) -> tuple[NDArray[np.float32], str]:
    """A recording as 16 kHz mono, and in words what had to be changed (empty: nothing)."""
    with _opened(path) as file:
        rate_hz = file.samplerate
        blocks = [np.zeros((0, file.channels), np.float32), *_blocks(file, path, _BLOCK_SAMPLES)]
    samples: NDArray[np.float32] = np.concatenate(blocks)
    _demand_whole(path)
    if not len(samples):
        raise FalconError(f"{path}: no samples in it")
    check_rate(rate_hz, f"{path}: says")
    return to_16_khz_mono(samples, rate_hz)


def recordings_in(folder: Path) -> list[Path]:
    """The recordings of a folder and its sub-folders, by name."""
    found = sorted(
        path for path in folder.rglob("*")
        if path.suffix.lower() in _READ and path.is_file() and not path.name.startswith(".")
    )  # fmt: skip
    if not found:
        raise FalconError(f"{folder}: no recordings in it ({', '.join(_READ)})")
    return found


def read_in_blocks(path: Path, seconds: float) -> Iterator[NDArray[np.float32]]:
    """A recording of any length as 16 kHz mono, block by block; faults come before the first."""
    _demand_whole(path)
    with _opened(path) as file:
        check_rate(file.samplerate, f"{path}: says")
        size = max(1, int(seconds * file.samplerate)) * file.channels
        mono = (block.mean(axis=1, dtype=np.float32) for block in _blocks(file, path, size))
        heard = False
        for block in resampled(mono, file.samplerate):
            heard = True
            yield block
    if not heard:
        raise FalconError(f"{path}: no samples in it")


def _blocks(file: Any, path: Path, samples: int) -> Iterator[NDArray[np.float32]]:
    """What an open file holds, [sample, channel]; block by block, as a header can promise much."""
    frames = max(1, samples // file.channels)
    while len(block := file.read(frames, dtype="float32", always_2d=True)):
        if not np.isfinite(block).all():
            raise FalconError(f"{path}: holds values that are not numbers; save it again")
        yield block


def _demand_whole(path: Path) -> None:
    if not path.is_file():
        raise FalconError(f"{path}: no such file")
    missing_bytes = _missing_bytes(path)
    if missing_bytes > 0:
        raise FalconError(f"{path}: cut short, {missing_bytes} bytes are missing; fetch it again")


def check_rate(rate_hz: int, where: str) -> None:
    """Refuse rates that no recorder has."""
    if not _LEAST_HZ <= rate_hz <= _MOST_HZ:
        raise FalconError(f"{where} {rate_hz} Hz; {_LEAST_HZ} to {_MOST_HZ} Hz can be read")


def resampled(blocks: Iterable[NDArray[np.float32]], rate_hz: int) -> Iterator[NDArray[np.float32]]:
    """Blocks of a stream at any rate as blocks at 16 kHz: what the whole would give at once."""
    if rate_hz == RATE_HZ:
        yield from blocks
        return
    from scipy.signal import resample_poly

    common = gcd(rate_hz, RATE_HZ)
    up, down = RATE_HZ // common, rate_hz // common
    # A block is filtered with what lies around it: `down` samples stand for `up` at 16 kHz.
    around = down * (-(-_FILTER_SIDE * max(up, down) // (up * down)) + 1)
    held, before = np.zeros(0, np.float32), 0  # `before` samples of `held` are done already

    def done(last: bool) -> NDArray[np.float32]:
        nonlocal held, before
        ready = len(held) - before
        if not last:
            ready = max(0, ready - around) // down * down
        wave = resample_poly(held[: before + ready + around], up, down).astype(np.float32)
        first, end = before // down * up, -(-(before + ready) * up // down)
        keep = max(0, before + ready - around) // down * down
        held, before = held[keep:], before + ready - keep
        return wave[first:end]

    for block in blocks:
        held = np.concatenate([held, block])
        if len(held) - before > around + down:
            yield done(last=False)
    if len(held) > before:
        yield done(last=True)


def samples_at_16_khz(path: Path) -> int:
    """How many samples `read_wave` will give, from the header alone."""
    with _opened(path) as file:
        frames, rate_hz = int(file.frames), int(file.samplerate)
    if not frames:
        _demand_whole(path)
        raise FalconError(f"{path}: no samples in it")
    return -(-frames * RATE_HZ // rate_hz)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    import soundfile

    try:
        with soundfile.SoundFile(os.fsencode(path)) as file:
            yield file
    except (OSError, soundfile.LibsndfileError) as error:
        if not path.is_file():
            raise FalconError(f"{path}: no such file") from None
        if path.suffix.lower() in _TO_CONVERT:
            raise FalconError(
                f"{path}: {path.suffix} is not read here; convert it to wav first, for example "
                f"with `ffmpeg -i {path.name} {path.stem}.wav`"
            ) from None
        reason = getattr(error, "error_string", error)
        raise FalconError(f"{path}: not a readable recording ({reason})") from None


def _missing_bytes(path: Path) -> int:
    """How much shorter a wav is than its header says; the decoder silently ignores that."""
    with path.open("rb") as file:
        header = file.read(8)
    riff_bytes = int.from_bytes(header[4:8], "little")
    # Programs that write to a pipe cannot know the size and leave the largest number there.
    if header[:4] != b"RIFF" or riff_bytes >= 2**31 - 1:
        return 0
    return 8 + riff_bytes - path.stat().st_size


def to_16_khz_mono(samples: NDArray[np.float32], rate_hz: int) -> tuple[NDArray[np.float32], str]:
    """Samples [sample, channel] at any rate as one channel at 16 kHz, and what was changed."""
    changes = []
    channels = samples.shape[1]
    wave = samples.mean(axis=1, dtype=np.float32)
    if channels > 1:
        changes.append(f"{channels} channels mixed to one")
    if rate_hz != RATE_HZ:
        from scipy.signal import resample_poly

        common = gcd(rate_hz, RATE_HZ)
        wave = resample_poly(wave, RATE_HZ // common, rate_hz // common).astype(np.float32)
        changes.append(f"resampled from {rate_hz} Hz to {RATE_HZ} Hz")
    return wave, ", ".join(changes)


def to_int16(wave: NDArray[np.float32]) -> NDArray[np.int16]:
    """Samples in -1..1 as 16-bit integers, clipped."""
    scaled: NDArray[Any] = np.clip(np.rint(wave * 32768.0), -32768, 32767)
    return scaled.astype(np.int16)


def in_parallel(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """`work` on every item, on all cores; the first error ends it."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            return list(pool.map(work, items))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def pink_noise(samples: int) -> NDArray[np.float32]:
    """Noise whose power falls as 1/f, peak 1; always the same."""
    generator = np.random.default_rng(0)
    spectrum = np.fft.rfft(generator.standard_normal(samples))
    spectrum[1:] /= np.sqrt(np.arange(1, len(spectrum)))
    spectrum[0] = 0.0
    wave = np.fft.irfft(spectrum, samples)
    scaled: NDArray[np.float32] = (wave / np.abs(wave).max()).astype(np.float32)
    return scaled
