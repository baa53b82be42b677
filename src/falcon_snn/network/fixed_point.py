"""Rounding a stage once onto an int32 grid that cannot overflow.

A stage's membrane never leaves [-R, R], R = gain * reach + |static| + |initial|, where `reach`
bounds the sum of its integer inputs. Scaled by g with g max(R, theta) < 2^30, every sum that
inference forms fits an int32 with room for one more threshold. g is chosen so that g * gain is a
whole number: the inputs then enter exactly, and only the constants are rounded, to about 2^-29.
"""

import torch
from torch import Tensor

from falcon_snn.neuron.layers import IntegerNeurons

_ROOM = 2.0**30


def grid_exponent(largest: Tensor, rounding: Tensor | float) -> Tensor:
    """The largest e in 0..24 per neuron with 2^e largest + rounding < 2^30."""
    return ((_ROOM - rounding) / largest.clamp_min(1e-9)).log2().floor().clamp(0, 24)


def to_int32(x: Tensor) -> Tensor:
    return x.round().clamp(-(_ROOM - 1), _ROOM - 1).int()


def neurons_on_grid(
    gains: tuple[Tensor, ...], reaches: tuple[Tensor | float, ...], static: Tensor,
    initial: Tensor, threshold: Tensor, slots: int,
) -> tuple[IntegerNeurons, tuple[Tensor, ...]]:  # fmt: skip
    """Integer neurons for V = initial + static + sum_i gain_i S_i over T slots, |S_i| <= reach_i.

    Gives the neurons and the integer factors of all gains.
    """
    gains = tuple(gain.double() for gain in gains)
    static, initial, threshold = static.double(), initial.double(), threshold.double()
    largest, rounding = static.abs() + initial.abs(), torch.full_like(static, slots + 2.0)
    for gain, reach in zip(gains, reaches, strict=True):
        largest = largest + gain.abs() * reach
        rounding = rounding + 0.5 * reach
    grid = (_ROOM - rounding) / torch.maximum(largest, threshold)
    first = gains[0].abs()
    grid = torch.where(first * grid >= 1, (first * grid).floor() / first.clamp_min(1e-30), grid)
    factors = tuple(to_int32(gain * grid) for gain in gains)
    neurons = IntegerNeurons(
        static=to_int32(static / slots * grid),
        initial=to_int32(initial * grid),
        threshold=to_int32(threshold * grid).clamp_min(1),
    )
    return neurons, factors
