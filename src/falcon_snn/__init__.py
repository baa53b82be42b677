"""Falcon: latency, firing delays, accuracy and energy of spiking neural networks.

The names below are imported when they are first used, so that commands which need no torch
(`falcon-snn latency`, for instance) start in a fraction of a second.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from falcon_snn.neuron.firing import fire, fire_train

__version__ = "0.1.0"
__all__ = ["__version__", "fire", "fire_train"]

_HOME = {
    "fire": "falcon_snn.neuron.firing",
    "fire_train": "falcon_snn.neuron.firing",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'falcon_snn' has no attribute '{name}'")
