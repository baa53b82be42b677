"""Sound as it comes: log-mel frames computed once each, windows of one second, bounded memory.

A window equals the features of the same second as a clip of its own: frames lie at the same
samples, and only the normalisation, which is the window's own, is done again.
"""

from dataclasses import dataclass
from math import log

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
_DECIBEL = 10 / log(10)
_BELOW_PEAK_DB = 25.0  # quieter frames are no part of a word
_GAP_FRAMES = 15  # a pause within a word
_LATELY_FRAMES = 48  # the last half second of a window


@dataclass(frozen=True)
class Windows:
    """Windows of one second, in the order of their ends."""

    logs: Tensor  # float64 [window, frame, band], not normalised
    lately: NDArray[np.bool_]  # whether something is loud in the last half second of each
    end_s: NDArray[np.float64]  # where each ends in the stream

    def features(self, part: slice | NDArray[np.int64] = slice(None)) -> Tensor:
        """What a network reads of them, or of some, float32 [window, frame, band]."""
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
            self._logs = torch.cat([self._logs, log_frames(held)])
            self._wave = self._wave[frames * HOP_SAMPLES :]
        # Windows begin at frames 0, every, 2 every, ...; steps longer than a window skip some.
        skipped = -self._first % self.every
        count = max(0, (len(self._logs) - skipped - FRAMES) // self.every + 1)
        starts = self._first + skipped + self.every * np.arange(count)
        end_s = ((starts + FRAMES - 1) * HOP_SAMPLES + FFT_SAMPLES) / RATE_HZ
        logs = torch.zeros(0, FRAMES, BANDS, dtype=torch.float64)
        lately = np.zeros(0, bool)
        if count:
            logs = self._logs[skipped:].unfold(0, FRAMES, self.every).transpose(1, 2)
            loud = _loud(loudness(self._logs[skipped:]).unfold(0, FRAMES, self.every))
            lately = loud[:, -_LATELY_FRAMES:].any(dim=1).numpy()
            done = min(skipped + count * self.every, len(self._logs))
            self._logs = self._logs[done:].clone()
            self._first += done
        return Windows(logs, lately, end_s)


def loudness(logs: Tensor) -> Tensor:
    """The power of frames [..., band] in decibel."""
    return _DECIBEL * logs.logsumexp(dim=-1)


def _loud(level_db: Tensor) -> Tensor:
    """Which of the frames [..., frame] stand out."""
    peak_db = level_db.amax(dim=-1, keepdim=True)
    quiet_db = level_db.quantile(0.1, dim=-1, keepdim=True)
    return level_db >= torch.maximum(peak_db - _BELOW_PEAK_DB, (quiet_db + peak_db) / 2)


def loud_frames(level_db: Tensor) -> tuple[Tensor, Tensor]:
    """Where words are in frames [..., frame]: the first and the last of what is loud about the
    loudest frame."""
    loud, peak = _loud(level_db), level_db.argmax(dim=-1, keepdim=True)
    frame = torch.arange(level_db.shape[-1], device=level_db.device)
    before = torch.where(loud, frame, -_GAP_FRAMES).cummax(dim=-1).values.roll(1, dims=-1)
    # A long pause before a loud frame begins another run of them; the word is the peak's own.
    run = (loud & (frame - before > _GAP_FRAMES)).cumsum(dim=-1)
    word = loud & (run == run.gather(-1, peak))
    return torch.where(word, frame, len(frame)).amin(dim=-1), (word * frame).amax(dim=-1)


def word_span(logs: Tensor) -> tuple[Tensor, Tensor]:
    """Start and end in seconds of the words in frames of clips or windows [..., frame, band]."""
    first, last = loud_frames(loudness(logs))
    # A frame is 30 ms long and stands for the 10 ms in its middle.
    middle_s = (FFT_SAMPLES - HOP_SAMPLES) / 2 / RATE_HZ
    return first * FRAME_S + middle_s, (last + 1) * FRAME_S + middle_s
