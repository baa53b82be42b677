"""Fresh noise on the CPU in one pass; see `counter_noise.fresh_bytes`."""

import numpy as np
from numba import njit, prange
from torch import Tensor

from falcon_snn.neuron.integer_numba import call


def weighted_bytes(rows: Tensor, places: Tensor, weights: Tensor) -> Tensor:
    """Sums of four bytes, float32 [group, row, column].

    For hashes of rows [row] and places [group, column], weights [group or 1, row or 1, 4].
    """
    return call(_weighted_bytes, rows, places, weights.int())


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _weighted_bytes(rows, places, weights):  # type: ignore[no-untyped-def]
    groups, columns = places.shape
    found = np.empty((groups, len(rows), columns), np.float32)
    for task in prange(groups * len(rows)):
        group, row = task // len(rows), task % len(rows)
        w = weights[group if len(weights) > 1 else 0, row if weights.shape[1] > 1 else 0]
        a, b, c, d = w[0], w[1], w[2], w[3]
        key = np.uint64(np.uint32(rows[row]) | np.uint32(1))
        for column in range(np.uint64(columns)):
            wide = key * np.uint64(np.uint32(places[group, column]) | np.uint32(1))
            mixed = np.int32(np.uint32(wide) ^ np.uint32(wide >> np.uint64(32)))
            total = a * np.int32(np.int8(mixed)) + b * np.int32(np.int8(mixed >> 8))
            total += c * np.int32(np.int8(mixed >> 16)) + d * np.int32(mixed >> 24)
            found[group, row, column] = np.float32(total)
    return found
