"""The optimiser against torch's class, bit for bit, and what it must not load."""

import subprocess
import sys
from pathlib import Path

import torch
from torch import nn

from falcon_snn.training.optimiser import AdamW, Group

TRAIN = """
import sys
from pathlib import Path

from tests.training_data import make_job
from falcon_snn.training.devices import open_devices
from falcon_snn.training.loop import train

train(make_job(Path(sys.argv[1]), epochs=1), open_devices(1))
sys.exit(" ".join({"torch._dynamo", "torch._inductor", "sympy"} & set(sys.modules)) or 0)
"""


def test_steps_are_those_of_torchs_class() -> None:
    torch.manual_seed(0)
    own = [nn.Parameter(torch.randn(shape)) for shape in ((4, 3), (5,), ())]
    theirs = [nn.Parameter(parameter.detach().clone()) for parameter in own]
    groups = [Group(own[:1], 4e-3, 0.05), Group(own[1:], 1e-3, 0.0)]
    optimiser = AdamW(groups, torch.device("cpu"))
    expected = torch.optim.AdamW(
        [
            {"params": theirs[:1], "lr": 4e-3, "weight_decay": 0.05},
            {"params": theirs[1:], "lr": 1e-3, "weight_decay": 0.0},
        ],
        fused=False,
    )
    peaks = [group["lr"] for group in expected.param_groups]
    for step in range(5):
        part = (step + 1) / 5
        for group, peak in zip(expected.param_groups, peaks, strict=True):
            group["lr"] = peak * part
        for one, other in zip(own, theirs, strict=True):
            # The last has no gradient at first: it stays where it is, and its steps begin later.
            one.grad = None if one.dim() == 0 and step < 2 else torch.randn_like(one)
            other.grad = None if one.grad is None else one.grad.clone()
        optimiser.set_rates(part)
        optimiser.step()
        expected.step()
        assert all(parameter.grad is None for parameter in own)
        for one, other in zip(own, theirs, strict=True):
            assert torch.equal(one, other)
    for one, other in zip(own, theirs, strict=True):
        state, moments = expected.state[other], optimiser.moments[one]
        assert torch.equal(moments.steps, state["step"])
        assert torch.equal(moments.first, state["exp_avg"])
        assert torch.equal(moments.second, state["exp_avg_sq"])


def test_training_does_not_load_torchs_compiler(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
