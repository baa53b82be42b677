"""Falcon: latency, firing delays, accuracy and energy of spiking neural networks.

The names below are imported when they are first used, so that commands which need no torch
(`falcon-snn latency`, for instance) start in a fraction of a second.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# torch and numba bring an OpenMP pool each. Idle threads of one must not spin on the cores that the
# other needs: on two cores that costs a factor of five. It must be set before either of them loads.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

if TYPE_CHECKING:
    from falcon_snn.interchange.torch_network import from_torch
    from falcon_snn.network.description import Network
    from falcon_snn.neuron.firing import fire, fire_train
    from falcon_snn.workflow.model import Model, adapt, convert, load, search_delays, train
    from falcon_snn.workflow.run import run

__version__ = "0.1.0"
__all__ = [
    "Model", "Network", "__version__", "adapt", "convert", "fire", "fire_train", "from_torch",
    "load", "run", "search_delays", "train",
]  # fmt: skip

_HOME = {
    "fire": "neuron.firing",
    "fire_train": "neuron.firing",
    "from_torch": "interchange.torch_network",
    "Network": "network.description",
    "run": "workflow.run",
    **dict.fromkeys(
        ("Model", "adapt", "convert", "load", "search_delays", "train"), "workflow.model"
    ),
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"falcon_snn.{_HOME[name]}"), name)
    raise AttributeError(f"module 'falcon_snn' has no attribute '{name}'")
