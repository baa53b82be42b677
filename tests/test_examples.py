"""The examples, in small: each goes the whole way from its module to a report."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import falcon_snn as falcon

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / name / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["digits", "fashion", "heartbeats"])
def test_an_example_is_short(name: str) -> None:
    lines = (EXAMPLES / name / f"{name}.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 60


def test_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.setenv("FALCON_CACHE", str(tmp_path / "cache"))
    snn = example("digits").main(str(tmp_path / "out"), epochs=3)
    assert snn.network.boundaries == ("1", "3")
    assert snn.latency().core_us < snn.latency("qnn").core_us


@pytest.mark.parametrize(
    ("name", "shape", "classes"), [("fashion", (28, 28), 10), ("heartbeats", (128,), 5)]
)
def test_from_arrays_to_the_report(
    name: str, shape: tuple[int, ...], classes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FALCON_CACHE", str(tmp_path / "cache"))
    labels = np.arange(40) % classes
    x = np.random.default_rng(1).integers(0, 60, (40, *shape))
    x += (15 * labels).reshape(40, *[1] * len(shape))  # a class is a brightness
    data = {"x_train": x.astype("uint8"), "y_train": labels, "x_test": x[:10].astype("uint8"),
            "y_test": labels[:10]}  # fmt: skip
    recipes = {phase: EXAMPLES / name / f"{phase}.toml" for phase in ("qnn", "qat")}
    page = falcon.run(
        data, tmp_path / "out", network=f"{EXAMPLES / name / name}.py:network", slots=2,
        recipes=recipes, epochs={"qnn": 1, "qat": 1}, phases=["qat"], random=1, delta_max=2,
    )  # fmt: skip
    assert page.is_file()
    tested = json.loads((tmp_path / "out" / "measure" / "accuracy.json").read_text())
    assert tested["networks"]["QNN"] == tested["networks"]["full"]
    adapted = falcon.load(tmp_path / "out" / "adapt" / "fastest" / "best.safetensors")
    assert adapted.network.slots == 2
    assert adapted.latency().core_us < adapted.latency("full").core_us
