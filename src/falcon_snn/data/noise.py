"""Noise for evaluation: the same clips get the same noise on every machine.

Recordings get a piece of the set's background noise, images and arrays white noise. The ratio is
that of the powers of a whole clip, or of a sample about its mean, to its noise. Everything is in
double, and a clip's noise depends on its place in the split alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from falcon_snn.data.augment import noise_pieces, snr_level
from falcon_snn.data.examples import Examples, Waves, load_noise
from falcon_snn.data.features import CLIP_SAMPLES, exact_log_mel, one_second
from falcon_snn.data.task import waves_for
from falcon_snn.errors import FalconError

SEED = 0
LIMIT_DB = 100.0
_AT_ONCE = 256


def demand_ratio(snr_db: float) -> None:
    """Refuse what is not a signal-to-noise ratio; long jobs ask before they begin."""
    if not abs(snr_db) <= LIMIT_DB:
        raise FalconError(f"--noise is {snr_db}; give a ratio from -100 to 100 dB")


def with_noise(
    source: str, split: str, examples: Examples, indices: Sequence[int], snr_db: float
) -> Examples:
    """Clips with noise; `indices` are their places in the split."""
    demand_ratio(snr_db)
    if examples.kind == "spikes":
        raise FalconError("--noise: spikes take no noise; use recordings, images or arrays")
    if examples.kind == "recordings":
        waves = waves_for(source, split, examples.words)
        return replace(examples, x=_noisy_features(waves, load_noise(source), indices, snr_db))
    samples = examples.x.numpy()
    noisy = [_noisy(x, index, snr_db) for x, index in zip(samples, indices, strict=True)]
    return replace(examples, x=torch.from_numpy(np.stack(noisy)))


def _noisy_features(waves: Waves, noise: Tensor, indices: Sequence[int], snr_db: float) -> Tensor:
    keep = torch.tensor(list(indices))
    draws = np.random.Generator(np.random.Philox(SEED)).random(len(waves))
    places = torch.from_numpy(draws)[keep]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    noise, found = noise.double().to(device), []
    for first in range(0, len(keep), _AT_ONCE):
        part = keep[first : first + _AT_ONCE]
        clips = one_second(waves.waves[part].to(device), waves.lengths[part]).double()
        pieces = noise_pieces(noise, places[first : first + _AT_ONCE].to(device), CLIP_SAMPLES)
        level = snr_level(clips, pieces, torch.tensor(snr_db, dtype=torch.float64, device=device))
        found.append(exact_log_mel(clips + level[:, None] * pieces).cpu())
    return torch.cat(found)


def _noisy(sample: NDArray[Any], index: int, snr_db: float) -> NDArray[Any]:
    """A sample with white noise, in its own type and range."""
    draws = np.random.Generator(np.random.Philox([SEED, index])).standard_normal(sample.shape)
    noisy = sample + draws * sample.astype(np.float64).std() * 10.0 ** (-snr_db / 20.0)
    if np.issubdtype(sample.dtype, np.integer):
        bounds = np.iinfo(sample.dtype)
        noisy = np.clip(np.rint(noisy), bounds.min, bounds.max)
    return noisy.astype(sample.dtype)
