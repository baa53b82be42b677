"""A real local Ray cluster of two workers, one of them killed in mid-search."""

import importlib.util
import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from tests.search_process import SlowMlp, small_search
from tests.spiking_mlp import SpikingMlp

from falcon_snn.errors import FalconError
from falcon_snn.search.predictor import local_engine
from falcon_snn.search.ray_engine import ray_engine

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="needs Ray: install falcon-snn[ray]"
)
ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def workers_find_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))


def test_ray_finds_what_local_finds_though_a_worker_is_killed(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    journal = tmp_path / "ray" / "journal.jsonl"
    killed: list[int] = []

    def kill_one() -> None:
        while not journal.exists() or journal.read_bytes().count(b"\n") < 6:
            time.sleep(0.02)
        killed.append(int(min(note.name for note in notes.iterdir())))
        os.kill(killed[0], signal.SIGKILL)

    with ray_engine(partial(SlowMlp, 0.05, notes), workers=2) as engine:
        killer = threading.Thread(target=kill_one, daemon=True)
        killer.start()
        small_search(tmp_path / "ray", engine)
        killer.join()
    assert len(list(notes.iterdir())) == 3, "two workers, and one that replaced the killed one"
    small_search(tmp_path / "local", local_engine(SpikingMlp(clips=200)))
    for name in ("result.json", "fastest.json", "balanced.json", "accurate.json"):
        ours, theirs = tmp_path / "ray" / name, tmp_path / "local" / name
        assert ours.read_bytes() == theirs.read_bytes()


def test_what_is_wrong_in_a_worker_is_said_in_one_line() -> None:
    with (
        ray_engine(partial(SlowMlp, 0.0, Path("/proc/nothing/here")), workers=1) as engine,
        pytest.raises(FileNotFoundError, match="nothing"),
    ):
        list(engine({"a": 1}, [{"a": 2}]))
    with pytest.raises(FalconError, match="--workers is 0"), ray_engine(SpikingMlp, workers=0):
        pass
