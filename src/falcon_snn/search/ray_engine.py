"""Candidates spread over a Ray cluster. A worker that dies is replaced and asked again."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from falcon_snn.errors import FalconError
from falcon_snn.pipeline.schedule import Delays
from falcon_snn.search.predictor import Correct, Engine, Predictor

_RESTARTS = 3  # of one worker: a candidate that kills every worker must not go on forever


class _Worker:
    """One process with a predictor of its own."""

    def __init__(self, factory: Callable[[], Predictor]) -> None:
        self._factory = factory
        self._predictor: Predictor | None = None
        self._current: Delays | None = None

    def correct(self, current: Delays, candidate: Delays) -> Correct:
        # Built here, not at birth: a file that is missing then reads as such, not as a death.
        if self._predictor is None:
            self._predictor = self._factory()
        # Told with every call, because a worker that was replaced remembers nothing.
        if current != self._current:
            self._predictor.start_from(current)
            self._current = current
        return self._predictor.correct(candidate)


@contextmanager
def ray_engine(
    factory: Callable[[], Predictor],
    workers: int,
    address: str | None = None,
    gpu: bool = False,
) -> Iterator[Engine]:
    """An engine of `workers` processes; each builds its predictor with `factory`."""
    with ray_cluster(workers, address, gpu=gpu) as (ray, share):
        actor = ray.remote(
            num_cpus=1, num_gpus=share, max_restarts=_RESTARTS, max_task_retries=_RESTARTS
        )(_Worker)
        yield _engine(ray, [actor.remote(factory) for _ in range(workers)])


@contextmanager
def ray_cluster(
    workers: int, address: str | None = None, *, gpu: bool = False
) -> Iterator[tuple[Any, float]]:
    """Ray with room for the workers, and the share of a GPU that each gets.

    Connects to the cluster at `address`, or starts a local one and stops it at the end. With
    `gpu`, the workers share the cluster's GPUs evenly; without it, they see none.
    """
    try:
        import ray
    except ImportError:
        raise FalconError("--engine ray needs Ray; pip install 'falcon-snn[ray]'") from None
    if workers < 1:
        raise FalconError(f"--workers is {workers}; it must be 1 or more")
    local = {} if address else {"num_cpus": workers, "include_dashboard": False}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error", **local)
    except (ConnectionError, RuntimeError, ValueError) as error:
        line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FalconError(f"Ray at '{address or 'local'}' does not answer: {line}") from None
    try:
        # Ray would let a worker for which there is no room wait forever.
        cpus, gpus = (ray.cluster_resources().get(kind, 0) for kind in ("CPU", "GPU"))
        if cpus < workers:
            raise FalconError(f"--workers is {workers}, but the Ray cluster has {cpus:g} CPUs")
        if gpu and not gpus:
            raise FalconError("--device cuda: the Ray cluster has no GPU")
        yield ray, min(1.0, gpus / workers) if gpu else 0
    finally:
        ray.shutdown()


def _engine(ray: Any, workers: list[Any]) -> Engine:
    def evaluate(current: Delays, candidates: Sequence[Delays]) -> Iterator[tuple[int, Correct]]:
        waiting = iter(enumerate(candidates))
        running: dict[Any, tuple[int, Any]] = {}

        def give(worker: Any) -> None:
            if (task := next(waiting, None)) is not None:
                running[worker.correct.remote(current, task[1])] = (task[0], worker)

        for worker in workers:
            give(worker)
        while running:
            (answer,), _ = ray.wait(list(running), num_returns=1)
            index, worker = running.pop(answer)
            try:
                correct = ray.get(answer)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except ray.exceptions.RayActorError as error:
                line = str(error).strip().splitlines()[-1]
                raise FalconError(f"a Ray worker could not be kept alive: {line}") from None
            give(worker)
            # Ray's arrays are views of shared memory; a copy lets it be freed.
            yield index, correct.copy()

    return evaluate
