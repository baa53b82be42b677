"""What a command need not load, or need not load twice, before its first result."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from falcon_snn.network.compile_ahead import load_compiler

ONE_SCHEDULE = """
import sys
from falcon_snn.hardware.profile import load_profile
from falcon_snn.workflow.networks import built_in
from falcon_snn.workflow.searching import search_space

space = search_space(built_in("kestrel-5-small", "gsc"), load_profile(), 2)
assert space.cycles([space.start])[0] < space.budget_cycles
print("numba" in sys.modules)
"""


def test_the_latency_of_one_schedule_does_not_load_numba() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ONE_SCHEDULE], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_a_compiler_that_is_loaded_has_taken_its_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    triton = pytest.importorskip("triton", minversion="3.5")
    from triton.backends.compiler import GPUTarget

    key = triton.runtime.cache.triton_key
    key.cache_clear()
    load_compiler(torch.device("cpu"))
    assert key.cache_info().currsize == 0
    asked = []

    def target() -> GPUTarget:
        asked.append(1)
        return GPUTarget("cuda", 90, 32)

    active = SimpleNamespace(get_current_target=target)
    monkeypatch.setattr("triton.runtime.driver", SimpleNamespace(active=active))
    load_compiler(torch.device("cuda"))
    load_compiler(torch.device("cuda"))
    assert key.cache_info().misses == 1
    assert len(asked) == 2
