"""Sums of a row group whose wires have resistance: what flows through a cell changes the others."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

_ROUNDS = 16  # of the voltages, until they agree with the currents


class Wires(NamedTuple):
    """Cells one by one, because wires make what flows through one depend on the others."""

    cells: Tensor  # conductances over LRS, float64 [bit, group, row, column]
    scales: tuple[float, ...]  # what the current of each bit is worth in the grid of sums
    column: float  # resistance from one cell to the next over that of LRS
    row: float


def wired_sums(x: Tensor, wires: Wires) -> Tensor:
    """Sums where wires have resistance: inputs [group, row, input], float64 [group, row, column].

    The voltage at cell i of n is v_i = 1 - sum_k (c (n - max(i, k)) + r (min(i, k) + 1)) g_k x_k
    v_k, in which the first sum runs along the column to its foot, the second along the row wire.
    """
    total: Any = 0
    for cells, scale in zip(wires.cells, wires.scales, strict=True):
        driven = cells[:, None] * x[..., None]
        voltage = torch.ones_like(driven)
        for _ in range(_ROUNDS):
            current = driven * voltage
            before = current.cumsum(dim=2)
            behind = current + before[:, :, -1:] - before
            drop = wires.column * (before.flip(2).cumsum(dim=2).flip(2))
            drop += wires.row * behind.cumsum(dim=2)
            voltage = voltage / (voltage + drop)
        total = total + scale * (driven * voltage).sum(dim=2)
    return total
