"""What the tests of chips sample: profiles, ranges of converters, a layer's codes."""

from typing import Any

import torch

from falcon_snn.hardware.profile import load_profile
from falcon_snn.network.integer import Snn

IDEAL, MACRO, NOISY = (load_profile(name) for name in ("paper", "xue2020", "noisy"))
FINE: Any = {"converter_levels": 4095, "slice_bits": 2, "weight_slices": 4, "weight_bits": 8}


def spans(snn: Snn, span: float) -> dict[str, float]:
    """The same range for every converter."""
    return {name: span for name in snn.tensors if ".weight" in name}


def layer(rows: int = 23, outputs: int = 5, top: int = 127) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rows)
    return torch.randint(-top, top + 1, (outputs, 1, 1, rows), generator=generator)
