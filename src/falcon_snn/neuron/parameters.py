"""The parameters of a layer of neurons, checked and brought to the currents' type and device."""

import operator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from falcon_snn.errors import FalconError

Parameter = float | np.floating | Tensor | NDArray[np.floating]


class Neurons(NamedTuple):
    """What Algorithm 1 needs to know of the neurons; each broadcasts over the neurons' shape."""

    initial: Tensor  # 1/2 + mu
    static_per_slot: Tensor  # I_0 / T
    threshold: Tensor  # theta > 0


class Norm(NamedTuple):
    """What happens to sums before they are quantised: y -> (y - mean) rstd gamma + beta."""

    beta: Tensor
    mean: Tensor | None = None  # None: only beta is added
    rstd: Tensor | None = None
    gamma: Tensor | None = None
    batch: bool = False  # mean and rstd are those of y itself, so gradients pass through them


def make_neurons(
    currents: Tensor, threshold: Parameter, offset: Parameter, static: Parameter
) -> Neurons:
    """Bring the parameters to `currents`' dtype and device; gradients flow through."""
    theta = _like(currents, "threshold", threshold)
    if not bool((theta.detach() > 0).all()):
        raise FalconError("threshold must be above 0 for every neuron")
    return Neurons(
        0.5 + _like(currents, "offset", offset),
        _like(currents, "static", static) / currents.shape[0],
        theta,
    )


def check_delay(delay: int, slots: int) -> int:
    try:
        value = operator.index(delay)
    except TypeError:
        raise FalconError(f"delay is {delay!r}; it must be a whole number of slots") from None
    if not 1 <= value <= slots:
        raise FalconError(f"delay is {value}; with {slots} slots it must lie in 1..{slots}")
    return value


def check_currents(currents: Tensor) -> Tensor:
    """Currents `[T, ...]` in the type they are integrated in: half precision becomes float32."""
    _demand_dense("currents", currents)
    if currents.dtype in (torch.float16, torch.bfloat16):
        currents = currents.float()
    if currents.dtype not in (torch.float32, torch.float64):
        raise FalconError(f"currents are {currents.dtype}; they must be floating point")
    if currents.ndim == 0 or currents.shape[0] == 0:
        raise FalconError(f"currents of shape {tuple(currents.shape)} hold no slots; give [T, ...]")
    return currents


def as_native(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """An array whose bytes torch can read, in this machine's order; a masked one has no values."""
    if isinstance(array, np.ma.MaskedArray):
        raise FalconError(f"{name} are masked; fill in what is missing (`.filled(0)`)")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _demand_dense(name: str, tensor: Tensor) -> None:
    if tensor.is_nested or tensor.layout != torch.strided:
        raise FalconError(f"{name} are a sparse or nested tensor; give a dense one")
    if tensor.device.type == "meta":
        raise FalconError(f"{name} are on the device 'meta', where tensors hold no values")


def periodic(parameter: Tensor, neurons: torch.Size) -> Tensor:
    """A broadcast parameter as a flat array that repeats over the flattened neurons.

    Only the axes from the first one that varies are written out: a scalar stays one value, a
    value per channel in the last axis one row.
    """
    shape = list(parameter.shape)
    while shape and shape[0] == 1:
        shape.pop(0)
    kept = neurons[len(neurons) - len(shape) :]
    return parameter.reshape(shape).expand(kept).reshape(-1)


def _like(currents: Tensor, name: str, value: Parameter) -> Tensor:
    if isinstance(value, Tensor):
        _demand_dense(name, value)
    elif isinstance(value, np.ndarray):
        value = as_native(name, value)
    try:
        tensor = torch.as_tensor(value, dtype=currents.dtype, device=currents.device)
    except OverflowError:
        raise FalconError(f"{name} is too large for {currents.dtype}") from None
    except (TypeError, ValueError, RuntimeError):
        shown = repr(value)[:80]
        raise FalconError(f"{name} is {shown}; give a number, a tensor or an array") from None
    neurons = tuple(currents.shape[1:])
    try:
        fits = np.broadcast_shapes(tuple(tensor.shape), neurons) == neurons
    except ValueError:
        fits = False
    if not fits:
        raise FalconError(
            f"{name} of shape {tuple(tensor.shape)} does not broadcast over neurons of shape "
            f"{neurons}"
        )
    if not bool(torch.isfinite(tensor.detach()).all()):
        raise FalconError(f"{name} holds NaN or infinity")
    return tensor
