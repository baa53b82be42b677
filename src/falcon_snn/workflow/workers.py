"""The same function in several processes: here, or on a Ray cluster."""

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from threading import Thread
from typing import Any

import torch

from falcon_snn.errors import FalconError
from falcon_snn.forms import MOST_WORKERS, demand_within
from falcon_snn.search.ray_engine import ray_cluster
from falcon_snn.training.devices import end_with_parent

ENGINES = ("local", "ray")


def _begin(workers: int) -> None:
    """What every process does first: it ends with the one that started it, and with Ctrl-C.

    Threads of several processes on the same cores would wait for each other.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Thread(target=end_with_parent, args=(os.getppid(),), daemon=True).start()
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))


def processes(count: int) -> ProcessPoolExecutor:
    """So many processes; a fork of one that has used its GPU could not use it."""
    return ProcessPoolExecutor(count, get_context("spawn"), _begin, (count,))


@dataclass(frozen=True)
class Workers:
    """How many processes work side by side, and where. On a cluster all see the same files."""

    count: int = 1
    engine: str = "local"
    ray_address: str | None = None

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            known = ", ".join(ENGINES)
            raise FalconError(f"--engine is '{self.engine[:40]}'; choose one of {known}")
        demand_within("--workers", self.count, 1, MOST_WORKERS)
        if self.ray_address is not None and self.engine != "ray":
            raise FalconError("--ray-address is for --engine ray")

    def map(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The results of all calls, in their order."""
        if self.engine == "ray":
            return self._on_ray(function, calls)
        if self.count == 1:
            return [function(*call) for call in calls]
        with processes(self.count) as pool:
            futures = [pool.submit(function, *call) for call in calls]
            try:
                for future in as_completed(futures):
                    future.result()
                return [future.result() for future in futures]
            except BrokenProcessPool:
                raise FalconError(
                    "a worker was killed (out of memory?); continue with --resume"
                ) from None
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _on_ray(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        gpu = torch.cuda.is_available()
        with ray_cluster(self.count, self.ray_address, gpu=gpu) as (ray, share):
            task = ray.remote(num_cpus=1, num_gpus=share, max_retries=0)(function)
            waiting = [task.remote(*call) for call in calls]
            try:
                return list(ray.get(waiting))
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except ray.exceptions.RayError as error:
                line = str(error).strip().splitlines()[0]
                raise FalconError(f"a Ray worker died ({line}); continue with --resume") from None
