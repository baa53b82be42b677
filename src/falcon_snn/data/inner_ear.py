"""The inner-ear model behind SSC (Cramer et al. 2020): spikes of 700 channels from speech.

Sound moves the basilar membrane, whose velocity drives hair cells, which set the firing
probability of nerve fibres, which excite one bushy cell per channel. `basilar_membrane.py`,
`hair_cell.py` and `bushy_cell.py` state the equations; here they run in batches.
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from falcon_snn.data.basilar_membrane import pair_transfer, pair_velocity, spectra
from falcon_snn.data.bushy_cell import bushy_cell
from falcon_snn.data.hair_cell import hair_cell
from falcon_snn.errors import FalconError

# Clips computed together. A GPU needs many to be busy (a clip takes about 100 MB); a CPU is busy
# with one, and larger buffers would be fetched from the system anew for each clip.
_CLIPS_AT_ONCE = {"cpu": 1, "cuda": 64}


class SpikeTrain(NamedTuple):
    """The spikes of a clip in order of time, and of channel where times are equal."""

    units: NDArray[np.int16]  # channel, 0..699
    times_s: NDArray[np.float32]


def clip_id(name: str) -> int:
    """The number that keys a clip's random draws, so that its spikes depend on no other clip."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")


def membrane_velocity(waves: Tensor, rate_hz: int) -> Tensor:
    """Velocity of clips [clips, samples] on their device: float32 [clips, pairs, steps, 2].

    The channels 2i and 2i+1 of a pair lie side by side in the last axis.
    """
    transfer = pair_transfer(waves.shape[1], rate_hz, waves.device)
    return pair_velocity(spectra(waves), transfer)


def firing_probability(velocity: Tensor, rate_hz: int) -> Tensor:
    """Firing probability of a fibre in each step: float32 [clips, steps, channels]."""
    clips, pairs, steps, _ = velocity.shape
    probability = velocity.new_empty(clips, steps, 2 * pairs)
    cell = hair_cell(2 / rate_hz)
    if velocity.device.type == "cpu":
        from falcon_snn.data import inner_ear_numba

        inner_ear_numba.firing_probability(velocity.numpy(), cell, probability.numpy())
    else:
        from falcon_snn.data import inner_ear_triton

        inner_ear_triton.firing_probability(velocity, cell, probability)
    return probability


def bushy_spikes(
    probability: Tensor, clip_ids: Sequence[int], *, rate_hz: int, seed: int
) -> Tensor:
    """Spikes of the bushy cells: bool [clips, steps, channels]."""
    spikes = torch.empty_like(probability, dtype=torch.bool)
    cell = bushy_cell(2 / rate_hz)
    # Words of 32 bits, low before high: the key first, then one row per clip.
    words = np.array([seed, *clip_ids], np.uint64).view("<u4").reshape(-1, 2)
    if probability.device.type == "cpu":
        from falcon_snn.data import inner_ear_numba

        inner_ear_numba.bushy_spikes(probability.numpy(), cell, words, spikes.numpy())
    else:
        from falcon_snn.data import inner_ear_triton

        counters = torch.from_numpy(words.view(np.int32)).to(probability.device)
        inner_ear_triton.bushy_spikes(probability, cell, counters, spikes)
    return spikes


def spike_trains(
    waves: Tensor,
    clip_ids: Sequence[int],
    *,
    rate_hz: int = 16000,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Iterator[SpikeTrain]:
    """The spikes of clips [clips, samples] of any level, one train per clip, in order.

    The same seed, clip and clip id give the same spikes, whatever else is computed with them.
    """
    device = torch.device(device)
    if device.type not in _CLIPS_AT_ONCE:
        raise FalconError(f"the inner ear runs on cpu or cuda, not on '{device.type}'")
    if not 0 <= seed < 2**64:
        raise FalconError(f"seed is {seed}; it must lie in 0..2^64 - 1")
    if waves.ndim != 2 or waves.shape[1] < 2 or len(waves) != len(clip_ids):
        raise FalconError(
            f"waves are {tuple(waves.shape)} with {len(clip_ids)} clip ids; "
            "give [clips, samples] with one id per clip"
        )
    at_once = _CLIPS_AT_ONCE[device.type]
    for first in range(0, len(waves), at_once):
        part = slice(first, first + at_once)
        velocity = membrane_velocity(waves[part].to(device), rate_hz)
        probability = firing_probability(velocity, rate_hz)
        spikes = bushy_spikes(probability, clip_ids[part], rate_hz=rate_hz, seed=seed)
        yield from _trains(spikes, 2 / rate_hz)


def _trains(spikes: Tensor, dt_s: float) -> Iterator[SpikeTrain]:
    """Trains from spikes [clips, steps, channels]: the flat order is that of time, then channel."""
    clips, steps, channels = spikes.shape
    if spikes.device.type == "cpu":  # numpy finds rare spikes many times faster than torch
        flat = torch.from_numpy(np.flatnonzero(spikes.numpy()))
    else:
        flat = spikes.flatten().nonzero().flatten()
    units = (flat % channels).to(torch.int16).cpu().numpy()
    times_s = ((flat // channels % steps).double() * dt_s).float().cpu().numpy()
    clip_starts = torch.arange(clips + 1, device=flat.device) * (steps * channels)
    edges = torch.searchsorted(flat, clip_starts).tolist()
    for start, end in pairwise(edges):
        yield SpikeTrain(units[start:end], times_s[start:end])
