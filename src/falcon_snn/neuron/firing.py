"""The firing rule SN_delta for users: `fire` gives spikes, `fire_train` gives gradients too."""

import logging
import os
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from falcon_snn.errors import FalconError
from falcon_snn.neuron import reference, torch_backend
from falcon_snn.neuron.gradients import GRADIENTS, RateGradient, TemporalGradient
from falcon_snn.neuron.parameters import (
    Neurons,
    Parameter,
    as_native,
    check_currents,
    check_delay,
    make_neurons,
)

BACKENDS = ("reference", "torch", "numba", "triton")
_log = logging.getLogger(__name__)


@overload
def fire(
    currents: Tensor,
    delay: int,
    *,
    threshold: Parameter = ...,
    offset: Parameter = ...,
    static: Parameter = ...,
    backend: str = ...,
) -> Tensor: ...
@overload
def fire(
    currents: NDArray[np.floating],
    delay: int,
    *,
    threshold: Parameter = ...,
    offset: Parameter = ...,
    static: Parameter = ...,
    backend: str = ...,
) -> NDArray[np.uint8]: ...
def fire(
    currents: Tensor | NDArray[np.floating],
    delay: int,
    *,
    threshold: Parameter = 1.0,
    offset: Parameter = 0.0,
    static: Parameter = 0.0,
    backend: str = "auto",
) -> Tensor | NDArray[np.uint8]:
    """Spikes `uint8 [T, ...]` of currents `[T, ...]` under firing delay `delay`; no gradient.

    The potential starts at V = 1/2 + offset. Before decision t the neuron takes in the slots up
    to t_e = min(t + delay - 1, T - 1), V <- V + static/T + I(t'); then it decides
    s(t) = 1[V >= threshold] and resets softly, V <- V - threshold s(t).

    `threshold`, `offset` and `static` broadcast over the neurons. Torch in, torch out on the same
    device; NumPy in, NumPy out. All backends add in the same order and give the same spikes.
    """
    tensor = check_currents(_as_tensor(currents)).detach()
    delay = check_delay(delay, tensor.shape[0])
    name = resolve_backend(backend, tensor)
    spikes = torch.empty(tensor.shape, dtype=torch.uint8, device=tensor.device)
    with torch.no_grad():
        neurons = make_neurons(tensor, threshold, offset, static)
        _run(name, tensor, delay, neurons, spikes, None)
    return spikes.numpy() if isinstance(currents, np.ndarray) else spikes


def fire_train(
    currents: Tensor,
    delay: int,
    *,
    threshold: Parameter = 1.0,
    offset: Parameter = 0.0,
    static: Parameter = 0.0,
    backend: str = "auto",
    gradient: str = "rate",
) -> Tensor:
    """The spikes of `fire` as floats of the currents' type, with gradients to all four inputs.

    `gradient` is `rate` (straight through the count) or `temporal` (surrogate through the slots);
    `gradients` defines both. Backend numba differentiates in numba, the others in torch.
    """
    if not isinstance(currents, Tensor):
        raise FalconError(f"currents are a {type(currents).__name__}; gradients need a tensor")
    if gradient not in GRADIENTS:
        raise FalconError(f"unknown gradient '{gradient}'; choose one of {', '.join(GRADIENTS)}")
    integrated = check_currents(currents)
    delay = check_delay(delay, integrated.shape[0])
    name = resolve_backend(backend, integrated)
    neurons = make_neurons(integrated, threshold, offset, static)
    forward = partial(_run, name)
    differentiate = _module("numba" if name == "numba" else "torch")
    spikes: Tensor
    if gradient == "rate":
        spikes = RateGradient.apply(  # type: ignore[no-untyped-call]
            integrated, *neurons, delay, forward, differentiate.rate_backward
        )
    else:
        spikes = TemporalGradient.apply(  # type: ignore[no-untyped-call]
            integrated, *neurons, delay, forward, differentiate.temporal_backward
        )
    return spikes.to(currents.dtype)


def choose_backend(currents: Tensor) -> str:
    """What `auto` picks: numba for CPU tensors; on a GPU triton, or torch if it is missing."""
    if currents.device.type == "cpu":
        return "numba"
    if currents.device.type == "cuda" and find_spec("triton") is not None:
        return "triton"
    return "torch"


def resolve_backend(backend: str, currents: Tensor) -> str:
    """The backend's name, checked to run here; `auto` is resolved and announced."""
    if backend == "auto":
        backend = choose_backend(currents)
        _announce(backend, currents.device.type)
    if backend not in BACKENDS:
        raise FalconError(f"unknown backend '{backend}'; choose auto or {', '.join(BACKENDS)}")
    device = currents.device.type
    if backend == "numba" and device != "cpu":
        raise FalconError(f"backend 'numba' runs on the CPU; the currents are on '{device}'")
    if backend in ("numba", "triton") and find_spec(backend) is None:
        raise FalconError(f"backend '{backend}' cannot run: {backend} is not installed")
    if backend == "triton" and device != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise FalconError(
            f"backend 'triton' needs currents on a GPU, not on '{device}' "
            "(TRITON_INTERPRET=1 runs it slowly on the CPU)"
        )
    return backend


def _run(
    name: str, currents: Tensor, delay: int, neurons: Neurons, out: Tensor, total: Tensor | None
) -> None:
    """Write the spikes to `out` with the named backend, and P(T-1) to `total` if there is one."""
    if not currents.numel():
        return
    if name == "numba":
        finite = _module(name).run(currents, delay, neurons, out, total)
    elif name == "reference":
        spikes, rest = reference.integrate_and_fire(
            currents.unbind(0), delay, neurons.threshold, neurons.initial, neurons.static_per_slot
        )
        out.copy_(torch.stack(spikes))
        finite = bool(torch.isfinite(rest).all())
    else:
        finite = _module(name).run(currents, delay, neurons, out)
    if total is not None and name != "numba":
        torch_backend.total_input(currents, neurons, total)
    if not finite:
        raise FalconError("currents hold NaN or infinity, or their sum overflows")


@cache
def _announce(backend: str, device: str) -> None:
    _log.info("backend auto: '%s' for currents on '%s'", backend, device)


def _module(backend: str) -> Any:
    """The backend's module, imported on first use: numba and triton take seconds to load."""
    if backend == "torch":
        return torch_backend
    if backend == "numba":
        from falcon_snn.neuron import numba_backend

        return numba_backend
    from falcon_snn.neuron import triton_backend

    return triton_backend


def _as_tensor(currents: Tensor | NDArray[np.floating]) -> Tensor:
    if isinstance(currents, Tensor):
        return currents
    if not isinstance(currents, np.ndarray):
        raise FalconError(f"currents are a {type(currents).__name__}; give a tensor or an array")
    currents = as_native("currents", currents)
    if currents.dtype not in (np.float16, np.float32, np.float64):
        raise FalconError(f"currents are {currents.dtype}; they must be floating point")
    return torch.from_numpy(np.require(currents, requirements=["C", "W"]))
