"""The firing rule: all backends agree bit for bit, keep nothing between calls, refuse bad input."""

import logging
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from falcon_snn import fire, fire_train
from falcon_snn.errors import FalconError
from falcon_snn.neuron import firing
from falcon_snn.neuron.reference import integrate_and_fire

# Without a GPU the Triton kernel runs in Triton's interpreter, which reads this when it is loaded.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FAST = ["torch", "numba", "triton"]


def on_device(tensor: torch.Tensor, backend: str) -> torch.Tensor:
    return tensor.to(DEVICE) if backend == "triton" else tensor


def scalar_spikes(currents: list[float], delay: int, threshold: float = 1.0) -> list[int]:
    spikes, _ = integrate_and_fire(currents, delay, threshold, 0.5, 0.0)
    return [int(spike) for spike in spikes]


def test_reference_follows_algorithm_1_by_hand() -> None:
    # V: 0.5 | +0.6 = 1.1 fires | 0.1 - 0.3 = -0.2 | +1.4 = 1.2 fires | 0.2
    assert scalar_spikes([0.6, -0.3, 1.4, 0.0], delay=1) == [1, 0, 1, 0]
    # two slots first: 0.8 | +1.4 = 2.2 fires | 1.2 fires | 0.2
    assert scalar_spikes([0.6, -0.3, 1.4, 0.0], delay=2) == [0, 1, 1, 0]
    # all slots first: 2.2 fires | 1.2 fires | 0.2 | 0.2
    assert scalar_spikes([0.6, -0.3, 1.4, 0.0], delay=4) == [1, 1, 0, 0]


def test_a_potential_equal_to_the_threshold_fires() -> None:
    assert scalar_spikes([0.5], delay=1) == [1]
    for backend in ("reference", *FAST):
        assert fire(on_device(torch.tensor([0.5]), backend), 1, backend=backend).tolist() == [1]


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("slots", range(1, 9))
def test_backends_equal_the_reference_for_every_delay(backend: str, slots: int) -> None:
    generator = torch.Generator().manual_seed(slots)
    # 3 x 5 x 103 neurons: no multiple of any block; a grid of 1/8 makes ties with thresholds.
    shape = (3, 5, 103)
    currents = torch.randint(-8, 14, (slots, *shape), generator=generator) / 8
    settings: list[dict[str, Any]] = [
        {},
        {"threshold": 0.75, "offset": -0.25, "static": 1.0},
        {
            "threshold": torch.rand(103, generator=generator) + 0.3,
            "offset": torch.randn(5, 1, generator=generator),
            "static": torch.randn(shape, generator=generator),
        },
    ]
    for delay in range(1, slots + 1):
        for parameters in settings:
            expected = fire(currents, delay, backend="reference", **parameters)
            assert expected.dtype == torch.uint8
            got = fire(on_device(currents, backend), delay, backend=backend, **parameters)
            assert torch.equal(got.cpu(), expected)


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_float_types_agree(backend: str, dtype: torch.dtype) -> None:
    currents = torch.randn(7, 1500, generator=torch.Generator().manual_seed(0)).to(dtype)
    expected = fire(currents, 3, threshold=0.7, static=0.3, backend="reference")
    got = fire(on_device(currents, backend), 3, threshold=0.7, static=0.3, backend=backend)
    assert torch.equal(got.cpu(), expected)
    train = fire_train(on_device(currents, backend), 3, threshold=0.7, static=0.3, backend=backend)
    assert train.dtype == dtype
    assert torch.equal(train.cpu().to(torch.uint8), expected)


@pytest.mark.parametrize("backend", ["reference", *FAST])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0, 3), (1025,)])
def test_odd_shapes(backend: str, shape: tuple[int, ...]) -> None:
    currents = torch.full((4, *shape), 0.4)
    spikes = fire(on_device(currents, backend), 2, backend=backend)
    assert spikes.shape == currents.shape
    expected = torch.tensor(scalar_spikes([0.4] * 4, 2), dtype=torch.uint8)
    assert torch.equal(spikes.cpu(), expected.view(4, *[1] * len(shape)).expand(currents.shape))


@pytest.mark.parametrize("backend", ["reference", "torch", "numba"])
def test_numpy_in_numpy_out_whatever_the_memory_layout(backend: str) -> None:
    base = np.random.default_rng(0).normal(size=(6, 40, 7)).astype(np.float32)
    read_only = base.copy()
    read_only.flags.writeable = False
    for array in (base, base[::-1, ::2], base.transpose(0, 2, 1), read_only):
        spikes = fire(array, 3, threshold=np.float32(0.8), backend=backend)
        assert isinstance(spikes, np.ndarray)
        assert spikes.dtype == np.uint8
        expected = fire(torch.tensor(array.copy()), 3, threshold=0.8, backend="reference")
        assert np.array_equal(spikes, expected.numpy())


@pytest.mark.parametrize("backend", ["reference", *FAST])
def test_strided_tensors_and_input_left_alone(backend: str) -> None:
    currents = on_device(torch.randn(9, 30, 5), backend).transpose(0, 1)[:7].requires_grad_()
    before = currents.detach().clone()
    first = fire(currents, 2, backend=backend)
    assert not first.requires_grad
    assert torch.equal(fire(currents, 2, backend=backend), first)  # no state between calls
    assert torch.equal(currents, before)
    assert torch.equal(fire(currents.contiguous(), 2, backend="reference"), first)


def test_static_is_spread_over_the_slots() -> None:
    currents = torch.zeros(4, 1)
    assert fire(currents, 1, static=4.0, backend="numba").flatten().tolist() == [1, 1, 1, 1]
    assert fire(currents, 1, static=2.0, backend="numba").flatten().tolist() == [1, 0, 1, 0]
    assert fire(currents, 4, static=2.0, backend="numba").flatten().tolist() == [1, 1, 0, 0]


def test_parameters_keep_the_precision_of_float64() -> None:
    currents = torch.tensor([0.1], dtype=torch.float64)
    assert fire(currents, 1, threshold=0.1, offset=-0.5, backend="torch").tolist() == [1]


def test_numba_leaves_the_number_of_threads_alone() -> None:
    program = (
        "import torch; torch.set_num_threads(1); from falcon_snn import fire; "
        "fire(torch.ones(3, 2), 1, backend='numba'); print(torch.get_num_threads())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "1"


def test_auto_says_what_it_chose(caplog: pytest.LogCaptureFixture) -> None:
    currents = torch.ones(3, 2)
    firing._announce.cache_clear()
    with caplog.at_level(logging.INFO):
        spikes = fire(currents, 1)
    assert firing.choose_backend(currents) == "numba"
    assert "'numba'" in caplog.text
    assert torch.equal(spikes, fire(currents, 1, backend="numba"))


GOOD = torch.ones(7, 3)


@pytest.mark.parametrize("backend", ["reference", *FAST])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("slot", [0, 6])
def test_currents_that_are_no_numbers_are_refused(backend: str, bad: float, slot: int) -> None:
    currents = torch.zeros(7, 2000)
    currents[slot, 1999] = bad
    with pytest.raises(FalconError, match="NaN or infinity"):
        fire(on_device(currents, backend), 3, backend=backend)
    with pytest.raises(FalconError, match="NaN or infinity"):
        fire_train(on_device(currents, backend), 3, backend=backend)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((GOOD, 0), r"delay is 0; with 7 slots it must lie in 1\.\.7"),
        ((GOOD, 8), r"delay is 8; with 7 slots"),
        ((GOOD, 2.0), "whole number"),
        ((GOOD.int(), 1), "torch.int32"),
        ((np.ones((7, 3), np.int64), 1), "int64"),
        (([[1.0]], 1), "list"),
        ((torch.tensor(1.0), 1), "no slots"),
        ((torch.ones(0, 3), 1), "no slots"),
    ],
)
def test_bad_input_is_one_clear_error(arguments: tuple[Any, int], message: str) -> None:
    with pytest.raises(FalconError, match=message):
        fire(*arguments)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"threshold": 0.0}, "threshold must be above 0"),
        ({"threshold": torch.tensor([1.0, -1.0, 1.0])}, "threshold must be above 0"),
        ({"threshold": float("nan")}, "threshold holds NaN"),
        ({"threshold": torch.ones(4)}, "threshold of shape \\(4,\\) does not broadcast"),
        ({"offset": torch.ones(7, 3)}, "offset of shape \\(7, 3\\) does not broadcast"),
        ({"static": float("inf")}, "static holds NaN or infinity"),
        ({"offset": "high"}, "offset is 'high'; give a number"),
        ({"backend": "cuda"}, "unknown backend 'cuda'"),
    ],
)
def test_bad_parameters_are_one_clear_error(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(FalconError, match=message):
        fire(GOOD, 1, **parameters)
    with pytest.raises(FalconError, match=message):
        fire_train(GOOD, 1, **parameters)


def test_a_backend_that_cannot_run_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(FalconError, match="'triton' needs currents on a GPU, not on 'cpu'"):
        fire(GOOD, 1, backend="triton")
    with pytest.raises(FalconError, match="'numba' runs on the CPU"):
        firing.resolve_backend("numba", torch.ones(7, 3, device="meta"))
    monkeypatch.setattr(firing, "find_spec", lambda name: None)
    with pytest.raises(FalconError, match="numba is not installed"):
        fire(GOOD, 1)


SPARSE = torch.ones(7, 3).to_sparse()
NESTED = torch.nested.nested_tensor([torch.ones(3), torch.ones(2)], layout=torch.jagged)


@pytest.mark.parametrize(
    ("currents", "message"),
    [
        (SPARSE, "sparse or nested"),
        (NESTED, "sparse or nested"),
        (torch.ones(7, 3, device="meta"), "hold no values"),
        (np.ma.masked_array(np.ones((7, 3)), np.eye(7, 3, dtype=bool)), "masked"),
    ],
)
def test_currents_without_values_of_their_own(currents: Any, message: str) -> None:
    with pytest.raises(FalconError, match=message):
        fire(currents, 1)


@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        (10**400, "too large"),
        (SPARSE, "sparse or nested"),
        (torch.ones(3, device="meta"), "hold no values"),
        (np.ma.masked_array(np.ones(3), [False, True, False]), "masked"),
        ("x" * 9000, "threshold is 'xxx"),
    ],
)
def test_thresholds_without_values_of_their_own(threshold: Any, message: str) -> None:
    with pytest.raises(FalconError, match=message) as said:
        fire(GOOD, 1, threshold=threshold)
    assert len(str(said.value)) < 200


@pytest.mark.parametrize("kind", [">f4", "<f4", ">f8", ">f2"])
def test_arrays_of_another_byte_order_fire_alike(kind: str) -> None:
    currents = np.random.default_rng(3).normal(0.4, 0.5, (7, 20)).astype(kind)
    threshold = np.linspace(0.5, 1.5, 20).astype(kind)
    native = currents.astype(currents.dtype.newbyteorder("="))
    expected = fire(native, 2, threshold=threshold.astype(native.dtype))
    assert np.array_equal(fire(currents, 2, threshold=threshold), expected)
