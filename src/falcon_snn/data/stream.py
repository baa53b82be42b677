"""Sound as it comes: log-mel frames computed once each, windows of one second, bounded memory.

A window equals the features of the same second as a clip of its own: frames lie at the same
samples, and only the normalisation, which is the window's own, is done anew.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from falcon_snn.data.audio import to_int16
from falcon_snn.data.features import (
    BANDS,
    FFT_SAMPLES,
    FRAMES,
    HOP_SAMPLES,
    RATE_HZ,
    log_frames,
    normalised,
)

FRAME_S = HOP_SAMPLES / RATE_HZ
_DECIBEL = 10 / np.log(10)
_BELOW_PEAK_DB = 25.0  # quieter frames are no part of a word
_GAP_FRAMES = 15  # a pause within a word


@dataclass(frozen=True)
class Windows:
    """Windows of one second, in the order of their ends."""

    logs: Tensor  # float64 [window, frame, band], not normalised
    end_s: NDArray[np.float64]  # where each ends in the stream

    def features(self, part: slice = slice(None)) -> Tensor:
        """What a network reads of them, or of a part, float32 [window, frame, band]."""
        return normalised(self.logs[part]).float()

    def __len__(self) -> int:
        return len(self.end_s)


class StreamFeatures:
    """Turns samples that come in pieces of any size into a window every so many frames."""

    def __init__(self, every_frames: int) -> None:
        self.every = every_frames
        self.samples = 0  # heard so far
        self._wave = np.zeros(0, np.int16)  # samples that a frame still needs
        self._logs = torch.zeros(0, BANDS, dtype=torch.float64)  # frames that a window still needs
        self._first = 0  # the number of the first of them

    def push(self, wave: NDArray[np.float32]) -> Windows:
        """The windows that end within these samples (16 kHz, -1..1)."""
        self.samples += len(wave)
        self._wave = np.concatenate([self._wave, to_int16(wave)])
        frames = max(0, (len(self._wave) - FFT_SAMPLES) // HOP_SAMPLES + 1)
        if frames:
            held = torch.from_numpy(self._wave).double() / 32768.0
            self._logs = torch.cat(
                [self._logs, log_frames(held.unfold(0, FFT_SAMPLES, HOP_SAMPLES))]
            )
            self._wave = self._wave[frames * HOP_SAMPLES :]
        # Windows begin at frames 0, every, 2 every, ...
        count = max(0, (len(self._logs) - FRAMES) // self.every + 1)
        starts = self._first + self.every * np.arange(count)
        end_s = ((starts + FRAMES - 1) * HOP_SAMPLES + FFT_SAMPLES) / RATE_HZ
        logs = torch.zeros(0, FRAMES, BANDS, dtype=torch.float64)
        if count:
            logs = self._logs.unfold(0, FRAMES, self.every).transpose(1, 2)
            self._logs = self._logs[count * self.every :].clone()
            self._first += count * self.every
        return Windows(logs, end_s)


def loudness(logs: Tensor) -> NDArray[np.float64]:
    """The power of frames [..., band] in decibel."""
    power: NDArray[np.float64] = _DECIBEL * logs.logsumexp(dim=-1).numpy()
    return power


def loud_frames(level_db: NDArray[np.float64]) -> tuple[int, int]:
    """Where a word is: the first and the last frame of what is loud about the loudest frame."""
    peak = int(level_db.argmax())
    quiet = float(np.percentile(level_db, 10))
    least = max(level_db[peak] - _BELOW_PEAK_DB, (quiet + level_db[peak]) / 2)
    loud = np.flatnonzero(level_db >= least)
    at = int(np.searchsorted(loud, peak))
    gaps = np.flatnonzero(np.diff(loud) > _GAP_FRAMES)
    first = loud[gaps[gaps < at][-1] + 1] if (gaps < at).any() else loud[0]
    last = loud[gaps[gaps >= at][0]] if (gaps >= at).any() else loud[-1]
    return int(first), int(last)


def word_span(logs: Tensor) -> tuple[float, float]:
    """Start and end in seconds of the word in a clip's or window's frames [frame, band]."""
    first, last = loud_frames(loudness(logs))
    # A frame is 30 ms long and stands for the 10 ms in its middle.
    middle_s = (FFT_SAMPLES - HOP_SAMPLES) / 2 / RATE_HZ
    return first * FRAME_S + middle_s, (last + 1) * FRAME_S + middle_s
