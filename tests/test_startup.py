"""What a command loads, and says, before its first result."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from falcon_snn.network.compile_ahead import load_compiler
from falcon_snn.neuron import compiling

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


FIRST_SPIKES = """
import torch
from falcon_snn.neuron import compiling
from falcon_snn.neuron.firing import fire

compiling.PATIENCE_S = 0.0
for delay in (1, 2):
    fire(torch.ones(4, 3), delay, backend="numba")
"""


def test_the_first_run_on_a_machine_says_that_it_compiles(tmp_path: Path) -> None:
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", FIRST_SPIKES], capture_output=True, text=True, check=True,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        )  # fmt: skip
        said.append(done.stderr)
    assert said == ["compiling for this processor, once; it is kept for later runs\n", ""]


def test_only_long_waits_are_named_and_only_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compiling, "PATIENCE_S", 1.0)
    wait = compiling.Wait("waiting")
    with wait:
        pass
    time.sleep(0.8)  # nobody waits now
    with wait:
        time.sleep(0.4)
    assert caplog.messages == []
    with wait, wait:  # parts of one wait
        time.sleep(1.2)
    with wait:
        time.sleep(1.2)
    assert caplog.messages == ["waiting"]


def test_short_waits_add_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compiling, "PATIENCE_S", 0.5)
    wait = compiling.Wait("waiting")
    for _ in range(12):
        with wait:
            time.sleep(0.1)
    assert caplog.messages == ["waiting"]
