"""What all tests share: a fixed hypothesis profile, the folder of real speech if there is one."""

import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the command line does, see cli/main.py

import pytest
import torch
from hypothesis import Phase, settings

if not torch.cuda.is_available():  # Triton's interpreter stands in for the GPU
    os.environ.setdefault("TRITON_INTERPRET", "1")

# Deterministic examples: a red test is red again on the next run and on every machine.
settings.register_profile("falcon", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("falcon")
# For `tools/mutants.py`, which only asks whether a test fails.
settings.register_profile("no-shrinking", settings.get_profile("falcon"), phases=(Phase.generate,))


@pytest.fixture(scope="session")
def gsc_v1() -> Path:
    """The packed Google Speech Commands v1 set, under the folder that FALCON_DATA names."""
    folder = Path(os.environ.get("FALCON_DATA", "")) / "gsc-v1"
    if "FALCON_DATA" not in os.environ or not (folder / "index.csv").is_file():
        pytest.skip("needs real speech: set FALCON_DATA to a folder that holds gsc-v1")
    return folder
