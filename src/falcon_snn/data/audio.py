"""Reading recordings of any rate and channel count as 16 kHz mono."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
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
T = TypeVar("T")
R = TypeVar("R")


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
        # Block by block: a damaged header can promise gigabytes.
        frames = max(1, _BLOCK_SAMPLES // file.channels)
        blocks = [np.zeros((0, file.channels), np.float32)]
        while len(block := file.read(frames, dtype="float32", always_2d=True)):
            blocks.append(block)
    samples: NDArray[np.float32] = np.concatenate(blocks)
    missing_bytes = _missing_bytes(path)
    if missing_bytes > 0:
        raise FalconError(f"{path}: cut short, {missing_bytes} bytes are missing; fetch it again")
    if not len(samples):
        raise FalconError(f"{path}: holds no samples")
    if not np.isfinite(samples).all():
        raise FalconError(f"{path}: holds values that are not numbers; save it again")
    if not _LEAST_HZ <= rate_hz <= _MOST_HZ:
        raise FalconError(f"{path}: says {rate_hz} Hz; {_LEAST_HZ} to {_MOST_HZ} Hz can be read")
    return to_16_khz_mono(samples, rate_hz)


def samples_at_16_khz(path: Path) -> int:
    """How many samples `read_wave` will give, from the header alone."""
    with _opened(path) as file:
        frames, rate_hz = int(file.frames), int(file.samplerate)
    return -(-frames * RATE_HZ // rate_hz)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    import soundfile

    try:
        with soundfile.SoundFile(path) as file:
            yield file
    except (OSError, soundfile.LibsndfileError) as error:
        if not path.is_file():
            raise FalconError(f"{path}: no such file") from None
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
