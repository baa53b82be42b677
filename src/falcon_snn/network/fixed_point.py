"""Rounding a stage once onto an int32 grid that cannot overflow.

A stage's membrane never leaves [-R, R], R = gain * reach + |static| + |initial|, where `reach`
bounds the sum of its integer inputs. Scaled by g with g max(R, theta) < 2^30, every sum that
inference forms fits an int32 with room for one more threshold. g is chosen so that g * gain is a
whole number: the inputs then enter exactly, and only the constants are rounded, to about 2^-29.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from falcon_snn.network.product import SUFFIXES
from falcon_snn.network.quantise import Counter
from falcon_snn.network.rows import Number, Rows
from falcon_snn.neuron.layers import IntegerNeurons

_ROOM = 2.0**30
_NEURONS = ("static", "initial", "threshold")


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


class Folded(NamedTuple):
    """Weights with batch norm: codes have the sign of the gain, which is positive."""

    codes: Tensor  # int8
    gain: Tensor  # the rest in double, per output
    bias: Tensor
    reach: Tensor  # the largest sum that inputs of up to one can give


class Input(NamedTuple):
    """One input of a layer: gain step S + bias, where |S| <= reach largest."""

    step: Number  # the value of one
    largest: float
    gain: Number = 1.0
    reach: Number = 1.0
    bias: Number = 0.0

    def through(self, weights: Folded) -> "Input":
        return self._replace(gain=weights.gain, reach=weights.reach, bias=weights.bias)


_NO_INPUT = Input(step=0.0, largest=0.0)


def neuron_rows(
    fire: Counter, step: Tensor, inputs: Sequence[Input], norm: tuple[Number, Number] = (1.0, 0.0)
) -> Rows:
    """Neurons of this step that fire on one or two inputs, behind a norm of gain and shift."""
    columns: dict[str, Number] = {
        "scale": norm[0], "shift": norm[1], "alpha": step, "offset": fire.offset,
        "threshold": fire.threshold,
    }  # fmt: skip
    for suffix, each in zip(SUFFIXES, (*inputs, _NO_INPUT), strict=False):
        columns |= {f"{name}{suffix}": value for name, value in each._asdict().items()}
    factors = (f"factor{suffix}" for suffix in SUFFIXES[: len(inputs)])
    gives, settings = (*factors, *_NEURONS), {"slots": fire.slots}
    return Rows(_neurons, len(fire.offset), columns, gives, settings)


def _neurons(
    slots: int, scale: Tensor, shift: Tensor, alpha: Tensor, offset: Tensor, threshold: Tensor,
    **inputs: Tensor,
) -> dict[str, Tensor]:  # fmt: skip
    """Integer neurons of all layers."""
    gains = [inputs[f"gain{s}"] * scale * inputs[f"step{s}"] / alpha for s in SUFFIXES]
    reaches = [inputs[f"reach{s}"] * inputs[f"largest{s}"] for s in SUFFIXES]
    static = (inputs["bias"] + inputs["bias2"]) * scale + shift
    neurons, factors = neurons_on_grid(
        tuple(gains), tuple(reaches), static / alpha, 0.5 + offset, threshold, slots
    )
    return {"factor": factors[0], "factor2": factors[1], **vars(neurons)}
