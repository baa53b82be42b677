"""The border of a kernel's output is silent whatever memory held before."""

from unittest.mock import patch

import pytest
import torch
from tests.random_layers import DEVICE
from torch.nn import functional as F

from falcon_snn.neuron import fused


@pytest.mark.parametrize("border", [(0, 0), (1, 1), (2, 1), (0, 2), (3, 0)])
@pytest.mark.parametrize("shape", [(3, 5, 4, 7), (2, 1, 1, 1), (2, 9, 6, 130)])
def test_only_the_border_is_zero(shape: tuple[int, int, int, int], border: tuple[int, int]) -> None:
    clips, lines, pixels, outputs = shape
    size = (clips, lines + 2 * border[0], pixels + 2 * border[1], outputs)
    used = torch.full(size, 9, dtype=torch.uint8, device=DEVICE)
    with patch.object(torch, "empty", lambda *_, **__: used):
        out, _ = fused._output(shape, border, used.device)
    inner = torch.full(shape, 9, dtype=torch.uint8, device=DEVICE)
    around = (0, 0, border[1], border[1], border[0], border[0])
    assert torch.equal(out, F.pad(inner, around))
