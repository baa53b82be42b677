"""Converters behind row groups: sums in parts of a step, then the nearest code.

A sum becomes a whole number of small parts of a step by one multiplication that is rounded once;
noise adds whole numbers, and shifting the parts out leaves the code. So every device gives the same
codes, and a kernel needs few instructions for each.
"""

from math import floor, log2
from typing import NamedTuple

import torch
from torch import Tensor

from falcon_snn.neuron.counter_noise import BYTE_VARIANCE

FINEST = 16  # bits of a step behind the point
_SUM_BITS = 22  # of what a kernel converts, and a sign
_BYTE = 127  # the largest weight of a byte of noise


class Converter(NamedTuple):
    """Codes low..high of `step` each; `offset` [group, 1, column] adds to what it senses."""

    step: int  # in the grid's units
    low: int
    high: int
    offset: Tensor | None = None
    bits: int = FINEST  # behind the point of a sum that is counted in steps

    @property
    def inverse(self) -> float:
        """Parts of a step in a grid's unit; a float32, whose products with sums 64 bits hold."""
        return float(torch.tensor(2.0**self.bits / self.step, dtype=torch.float32))


def fraction_bits(reach: float, sigma: float, levels: int) -> int:
    """Bits behind the point of sums up to `reach` steps, with noise, that a kernel can hold.

    0: it cannot. Noise ends at 3.5 sigma, and its bytes have small weights.
    """
    whole = reach + 3.5 * sigma + levels + 2
    widest = sigma / (2 * _BYTE * BYTE_VARIANCE**0.5)
    bits = min(_SUM_BITS - log2(whole), -log2(max(widest, 2.0**-FINEST)), FINEST)
    return max(0, floor(bits))


def convert(y: Tensor, converter: Converter, noise: Tensor | None = None) -> Tensor:
    """Codes of sums that have their offset, whole in float32; noise is in parts of a step."""
    if y.is_cuda:
        return nearest_codes(y, converter, noise)
    from falcon_snn.neuron import converter_numba

    return converter_numba.nearest_codes(y, converter, noise)


def nearest_codes(y: Tensor, converter: Converter, noise: Tensor | None) -> Tensor:
    """`convert` in torch: the nearest step, the higher one in the middle."""
    parts = y.double().mul_(converter.inverse).round_()
    if noise is not None:
        parts += noise
    codes = parts.mul_(2.0**-converter.bits).add_(0.5).floor_()
    return codes.clamp_(converter.low, converter.high).float()
