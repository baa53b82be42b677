"""Random numbers that depend on what they are for, not on when or where they are drawn.

A number is a hash of its place (chip, layer, cell; or chip, clip, slot, row group, column), so it
does not depend on batches, their order or the device. Integers wrap at 32 bits; normal numbers come
from a table of quantiles on a grid of 2^-12, so every machine has the same ones.

Fresh noise is drawn too often for that: it is a sum of four random bytes, whose variance is known,
whose kurtosis is 2.7 instead of 3, and which ends at 3.5 sigma. Small weights give it its variance.
"""

from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from math import isqrt
from statistics import NormalDist
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

_QUANTILES = 1 << 16  # the outermost lie 4.3 sigma away
_GRID = 1 << 12
_FIRST, _SECOND = 0x7FEB352D, -0x7B935975  # as int32
BYTE_VARIANCE = (256**2 - 1) / 12
# Of bytes from -128 to 127, so that their mean cancels; of variance 4 BYTE_VARIANCE.
PLAIN_WEIGHTS = torch.tensor((1, 1, -1, -1))


def mix(x: Tensor) -> Tensor:
    """A one-to-one hash of int32 (Wellons' lowbias32); overwrites its argument."""
    x ^= (x >> 16) & 0xFFFF
    x *= _FIRST
    x ^= (x >> 15) & 0x1FFFF
    x *= _SECOND
    x ^= (x >> 16) & 0xFFFF
    return x


def key_of(*parts: int | str) -> int:
    """One int32 for a few words and numbers."""
    unsigned = crc32("/".join(map(str, parts)).encode())
    return unsigned - (1 << 32) if unsigned >= 1 << 31 else unsigned


def counters(shape: tuple[int, ...], key: int, device: torch.device) -> Tensor:
    """Hashes of the places of an array, int32; other keys give other, unrelated arrays."""
    count = int(np.prod(shape))
    places = torch.arange(count, dtype=torch.int32, device=device).view(shape)
    return mix(mix(places + key) ^ key_of(key, "again"))


def counters_of(
    sizes: Sequence[int], rows: int, keys: Sequence[int], device: torch.device
) -> Tensor:
    """`counters` of arrays [rows, size] side by side, each with its key: [row, place of all]."""
    facts = [sizes, keys, [key_of(key, "again") for key in keys], accumulate(sizes, initial=0)]
    known = torch.tensor([list(one)[: len(sizes)] for one in facts], dtype=torch.int32)
    repeats, total = torch.tensor(sizes, device=device), sum(sizes)
    size, key, again, first = known.to(device).repeat_interleave(repeats, dim=1, output_size=total)
    within = torch.arange(total, dtype=torch.int32, device=device) - first
    row = torch.arange(rows, dtype=torch.int32, device=device)[:, None]
    return mix(mix(row * size + within + key) ^ again)


def fresh_bytes(rows: Tensor, places: Tensor, weights: Tensor) -> Tensor:
    """Weighted sums of four random bytes, whole in float32 [group, row, column].

    For hashes of rows, int32 [row], and places [group, column]. Weights are [group, row, 4].
    """
    if rows.is_cuda:
        return weighted_bytes(rows, places, weights)
    from falcon_snn.neuron import counter_noise_numba

    return counter_noise_numba.weighted_bytes(rows, places, weights)


def weighted_bytes(rows: Tensor, places: Tensor, weights: Tensor) -> Tensor:
    """`fresh_bytes` in torch."""
    keys, places = (hashes.long() & 0xFFFFFFFF | 1 for hashes in (rows[:, None], places[:, None]))
    wide = keys * places  # 64 bits, wrapped
    mixed = (wide ^ (wide >> 32)).to(torch.int32)
    found = mixed.view(torch.int8).view(*mixed.shape, 4).float()
    return (found @ weights.float().unsqueeze(-1)).squeeze(-1)


def byte_weights(variance: float) -> tuple[int, int, int, int]:
    """Weights of the four bytes whose sum has about this variance: two neighbours, by turns."""
    squares = variance / BYTE_VARIANCE
    low = isqrt(int(squares / 4))
    higher = round((squares - 4 * low**2) / (2 * low + 1))  # so many of the four
    # In this order their mean is small, and so is what row groups that share bytes have in common.
    first, third, fourth, second = (low + (place < higher) for place in range(4))
    return first, second, -third, -fourth


def normals(hashes: Tensor) -> Tensor:
    """Standard normal numbers of hashes, float32."""
    place = (hashes >> 16) + _QUANTILES // 2  # the upper half of the bits, from 0 on
    return _table(hashes.device).index_select(0, place.flatten()).view(hashes.shape)


@cache
def _table(device: torch.device) -> Tensor:
    """The middles of equal shares of the normal distribution, of variance one."""
    inverse = NormalDist().inv_cdf
    half = np.array([inverse((n + 0.5) / _QUANTILES) for n in range(_QUANTILES // 2)])
    scaled = half / np.sqrt((half**2).mean())
    whole = np.rint(np.concatenate([scaled, -scaled[::-1]]) * _GRID) / _GRID
    return torch.tensor(whole, dtype=torch.float32, device=device)
