"""The paper's features: a one-second clip becomes 98 frames of 64 log-mel values.

16 kHz, 480-point FFT with a periodic Hann window of 480 samples, hop 160, no centring, power
spectrum, 64 triangular filters from 20 Hz to 8 kHz on the HTK mel scale without area
normalisation, ln(x + 1e-6), then each clip is normalised by its own mean and standard deviation
over all entries. Everything is batched torch and runs where its input lies.

A network reads features as integers, in steps of 1/32. In float32 machines differ by up to about
1e-5, which now and then moves one across a tie; so what is evaluated is computed in double, where
they differ by some 1e-13 (`tests/test_features.py` shows how near ties real clips come). Training
draws its clips anew anyway and stays in float32.
"""

from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

RATE_HZ = 16_000
CLIP_SAMPLES = 16_000
FFT_SAMPLES = 480
HOP_SAMPLES = 160
BANDS = 64
FRAMES = 1 + (CLIP_SAMPLES - FFT_SAMPLES) // HOP_SAMPLES
LOW_HZ, HIGH_HZ = 20.0, 8_000.0
LOG_FLOOR = 1e-6


def mel_filters() -> NDArray[np.float64]:
    """Triangles of height 1, evenly spaced on mel(f) = 2595 log10(1 + f/700): [bins, bands]."""

    def mel(hz: float) -> float:
        return 2595.0 * float(np.log10(1.0 + hz / 700.0))

    corners_mel = np.linspace(mel(LOW_HZ), mel(HIGH_HZ), BANDS + 2)
    corners_hz = 700.0 * (10.0 ** (corners_mel / 2595.0) - 1.0)
    bins_hz = np.linspace(0.0, RATE_HZ / 2, FFT_SAMPLES // 2 + 1)[:, None]
    left, centre, right = corners_hz[:-2], corners_hz[1:-1], corners_hz[2:]
    rising = (bins_hz - left) / (centre - left)
    falling = (right - bins_hz) / (right - centre)
    return np.maximum(0.0, np.minimum(rising, falling))


@cache
def _constants(device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    window = torch.hann_window(FFT_SAMPLES, dtype=torch.float64)
    filters = torch.from_numpy(mel_filters())
    return window.to(device, dtype), filters.to(device, dtype)


def exact_log_mel(waves: Tensor) -> Tensor:
    """The features by which a network is judged: the same integers on every machine."""
    return log_mel(waves.double()).float()


def log_mel(waves: Tensor) -> Tensor:
    """Normalised log-mel features of clips: float [B, 16000] in -1..1 -> [B, 98, 64].

    In double for waves in double, otherwise in float32.
    """
    waves = waves if waves.dtype == torch.float64 else waves.float()
    return normalised(log_frames(waves))


def log_frames(waves: Tensor) -> Tensor:
    """Log-mel values of all whole frames, [..., samples] -> [..., frame, 64], not normalised."""
    frames = waves.unfold(-1, FFT_SAMPLES, HOP_SAMPLES)
    window, filters = _constants(frames.device, frames.dtype)
    # Mixed precision would destroy the small powers, so it is off here whatever the caller set.
    with torch.autocast(frames.device.type, enabled=False):
        spectrum = torch.fft.rfft(frames * window)
        power = spectrum.real.square() + spectrum.imag.square()
        return torch.log(power @ filters + LOG_FLOOR)


def normalised(logs: Tensor) -> Tensor:
    """Clips [..., frame, band] by their own mean and standard deviation."""
    centred = logs - logs.mean(dim=(-2, -1), keepdim=True)
    deviation = centred.square().mean(dim=(-2, -1), keepdim=True).sqrt()
    # Digital silence has no deviation beyond rounding; its features are 0.
    return centred / deviation.clamp_min(1e-3)


def one_second(waves: Tensor, lengths: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Cut clips to one second: int16 [B, S >= 16000] -> float32 [B, 16000] in -1..1.

    Shorter clips are zero on the right already. Longer ones are cut in the centre, or with a
    generator (training) at random.
    """
    if waves.shape[1] > CLIP_SAMPLES:
        spare = (lengths.to(waves.device) - CLIP_SAMPLES).clamp_min(0)
        if generator is None:
            start = spare // 2
        else:
            draw = torch.rand(len(waves), generator=generator, device=waves.device)
            start = (draw * (spare + 1)).long()
        waves = waves.gather(1, start[:, None] + torch.arange(CLIP_SAMPLES, device=waves.device))
    return waves.float() / 32768.0
