"""A small search in a process of its own, slow enough to be killed in the middle."""

import os
import sys
import time
from functools import partial
from pathlib import Path

from tests.spiking_mlp import SpikingMlp, additive_latency

from falcon_snn.pipeline.schedule import Delays
from falcon_snn.search.pds import Gates, pds
from falcon_snn.search.predictor import Correct, Engine, local_engine
from falcon_snn.search.run import Surroundings, run_search
from falcon_snn.search.space import Space


class SlowMlp(SpikingMlp):
    """Leaves a note with its process number, so that a test can end exactly that process."""

    def __init__(self, seconds: float, notes: Path | None = None) -> None:
        super().__init__(clips=200)
        self.seconds = seconds
        if notes is not None:
            notes.mkdir(exist_ok=True)
            (notes / str(os.getpid())).touch()

    def correct(self, delays: Delays) -> Correct:
        time.sleep(self.seconds)
        return super().correct(delays)


def small_space() -> Space:
    names = tuple(f"layer{index}" for index in range(5))
    return Space(names, additive_latency([188, 188, 188, 188, 3]), 1000 + 5 * 188)


def small_search(out: Path, engine: Engine, *, resume: bool = False, tau: float = 2.0) -> None:
    run_search(
        small_space(),
        engine,
        partial(pds, gates=Gates(tau=tau)),
        Surroundings(cycle_ns=10.0, slots=7, random=3, seed=1),
        out=out,
        facts={"model": "small", "settings": {"tau": tau, "eps": 0.001}},
        resume=resume,
    )


if __name__ == "__main__":
    small_search(Path(sys.argv[1]), local_engine(SlowMlp(0.02)), resume="--resume" in sys.argv)
