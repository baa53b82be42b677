"""Does the place matter? Random schedules with the same delays elsewhere and the same latency."""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from falcon_snn.search.space import Latency, Schedule

_ENUMERATED = 200_000  # up to this many arrangements are all listed; of more, samples are drawn
_DRAWN = 1_000_000
_BATCH = 20_000


class RandomSchedules(NamedTuple):
    schedules: list[Schedule]
    existing: int | None  # how many there are besides the given one; None if only sampled


def random_schedules(like: Schedule, latency: Latency, n: int, seed: int) -> RandomSchedules:
    """Up to `n` distinct schedules with the delay histogram of `like` and exactly its latency."""
    draw = np.random.default_rng(seed)
    if _arrangements(like) <= _ENUMERATED:
        everything = np.array(list(_arranged(like)), dtype=np.int64)
        matching = _as_fast_as(like, everything, latency)
        order = draw.permutation(len(matching))[:n]
        return RandomSchedules([matching[index] for index in order], len(matching))
    found: dict[Schedule, None] = {}
    for _ in range(_DRAWN // _BATCH):
        shuffled = draw.permuted(np.tile(np.array(like, dtype=np.int64), (_BATCH, 1)), axis=1)
        found.update(dict.fromkeys(_as_fast_as(like, shuffled, latency)))
        if len(found) >= n:
            break
    return RandomSchedules(list(found)[:n], None)


def _as_fast_as(like: Schedule, delays: NDArray[np.int64], latency: Latency) -> list[Schedule]:
    (wanted,) = latency(np.array([like], dtype=np.int64))
    rows = delays[latency(delays) == wanted].tolist()
    return [schedule for row in rows if (schedule := tuple(row)) != like]


def _arrangements(like: Schedule) -> int:
    """How many schedules share the delay histogram."""
    count = factorial(len(like))
    for repeated in Counter(like).values():
        count //= factorial(repeated)
    return count


def _arranged(like: Schedule) -> Iterator[Schedule]:
    """Every schedule with the delay histogram of `like`, once."""
    return _filled((0,) * len(like), sorted(Counter(like).items()))


def _filled(partial: Schedule, histogram: list[tuple[int, int]]) -> Iterator[Schedule]:
    if not histogram:
        yield partial
        return
    (delay, count), *rest = histogram
    free = [index for index, value in enumerate(partial) if value == 0]
    for places in combinations(free, count):
        taken = list(partial)
        for index in places:
            taken[index] = delay
        yield from _filled(tuple(taken), rest)
