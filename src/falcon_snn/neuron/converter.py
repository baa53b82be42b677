"""Converters behind row groups: sums in parts of a step, then the nearest code.

Cells are whole numbers of small parts of a step, rounded once when a chip is sampled. So are sums,
and noise adds whole numbers; shifting the parts out leaves the code. So every device gives the same
codes, and a kernel needs few instructions for each.
"""

from math import floor, log2
from typing import NamedTuple

from torch import Tensor

from falcon_snn.neuron.counter_noise import BYTE_VARIANCE

FINEST = 16  # bits of a step behind the point
_SUM_BITS = 21.99  # of what a kernel converts, and a sign; the rest is for cells rounded up
_BYTE = 127  # the largest weight of a byte of noise


class Converter(NamedTuple):
    """Codes low..high of 2^bits parts each; `offset` [group, 1, column] adds to what it senses."""

    step: int  # what a code is worth, in units of 1/UNIT of a weight's unit
    low: int
    high: int
    offset: Tensor | None = None  # in parts
    bits: int = FINEST  # behind the point of a sum that is counted in steps


def fraction_bits(reach: float, sigma: float, levels: int) -> int:
    """Bits behind the point of sums up to `reach` steps, with noise, that a kernel can hold.

    0: it cannot. Noise ends at 3.5 sigma, and its bytes have small weights.
    """
    whole = reach + 3.5 * sigma + levels + 2
    widest = sigma / (2 * _BYTE * BYTE_VARIANCE**0.5)
    bits = min(_SUM_BITS - log2(whole), -log2(max(widest, 2.0**-FINEST)), FINEST)
    return max(0, floor(bits))


def convert(y: Tensor, converter: Converter, noise: Tensor | None = None) -> Tensor:
    """Codes of sums that have their offset, in float32; all are whole parts of a step."""
    if y.is_cuda:
        return nearest_codes(y, converter, noise)
    from falcon_snn.neuron import converter_numba

    return converter_numba.nearest_codes(y, converter, noise)


def nearest_codes(y: Tensor, converter: Converter, noise: Tensor | None) -> Tensor:
    """`convert` in torch: the nearest step, the higher one in the middle."""
    parts = y.double()
    if noise is not None:
        parts = parts + noise
    codes = (parts * 2.0**-converter.bits).add_(0.5).floor_()
    return codes.clamp_(converter.low, converter.high).float()
