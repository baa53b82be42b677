"""Converters on the CPU in one pass; see `converter.convert`."""

from typing import TYPE_CHECKING

import numpy as np
from numba import njit, prange
from torch import Tensor

from falcon_snn.neuron.integer_numba import call

if TYPE_CHECKING:
    from falcon_snn.neuron.converter import Converter

_TASK = 1 << 14  # sums


def nearest_codes(y: Tensor, converter: "Converter", noise: Tensor | None) -> Tensor:
    """Codes of sums, float32."""
    flat = None if noise is None else noise.float().flatten()
    limits = float(converter.low), float(converter.high)
    found = call(_codes, y.flatten(), flat, 2.0**-converter.bits, *limits)
    return found.view(y.shape)


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _codes(y, noise, scale, low, high):  # type: ignore[no-untyped-def]
    found = np.empty(len(y), np.float32)
    for task in prange(-(-len(y) // _TASK)):
        for i in range(np.uint64(task * _TASK), np.uint64(min((task + 1) * _TASK, len(y)))):
            parts = np.float64(y[i])
            if noise is not None:
                parts += np.float64(noise[i])
            code = np.floor(parts * scale + 0.5)
            found[i] = np.float32(min(max(code, low), high))
    return found
