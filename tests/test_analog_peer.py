"""aihwkit-lightning, where it is installed: its converters give what ours give.

`pip install --no-deps aihwkit-lightning` (it asks for one release of torch, which others replace).
"""

import contextlib
import io
from dataclasses import replace

import pytest
import torch

from falcon_snn.hardware.profile import load_profile
from falcon_snn.network.chip import sample_array
from falcon_snn.neuron.converter import convert

with contextlib.redirect_stdout(io.StringIO()):
    nn = pytest.importorskip("aihwkit_lightning.nn", reason="aihwkit-lightning is not installed")
    configs = pytest.importorskip("aihwkit_lightning.simulator.configs")


@pytest.mark.parametrize(("bits", "bound"), [(4, 3.0), (5, 9.0), (6, 2.5)])
@pytest.mark.parametrize("largest", [1, 3])
def test_row_groups_behind_converters(bits: int, bound: float, largest: int) -> None:
    draw = torch.Generator().manual_seed(bits * 10 + largest)
    codes = torch.randint(-3, 4, (16, 1, 1, 54), generator=draw)  # six groups of nine rows
    x = torch.randint(0, largest + 1, (40, 54), generator=draw, dtype=torch.uint8)
    settings = configs.TorchInferenceRPUConfig()
    settings.mapping.max_input_size = 9
    settings.pre_post.input_range.enable = True
    settings.pre_post.input_range.init_value = float(largest)
    settings.pre_post.input_range.init_from_data = 0
    settings.forward.out_res, settings.forward.out_bound = 2**bits - 2, bound
    peer = nn.AnalogLinear(54, 16, bias=False, rpu_config=settings, dtype=torch.float64).eval()
    with torch.no_grad():
        peer.weight.copy_(codes[:, 0, 0].double())
        wanted = peer(x.double())
    profile = replace(load_profile("xue2020"), converter_levels=2**bits - 1)
    total, top = torch.zeros(40, 16, dtype=torch.float64), 2 ** (bits - 1) - 1
    for group in range(6):
        span = largest * bound * float(codes[..., 9 * group : 9 * group + 9].abs().max())
        array = sample_array(codes, profile, 1, bits=3, span=span)
        assert array.converter is not None
        found = convert(array.partial_sums(x)[group], array.converter)
        total += found.double() * span / top
    assert (total - wanted).abs().max() < 1e-9
