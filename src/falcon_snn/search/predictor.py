"""What a search asks of a network: which clips are right under a schedule."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from falcon_snn.pipeline.schedule import Delays

Correct = NDArray[np.bool_]  # one answer per clip, always in the same order of clips


class Predictor(Protocol):
    """A network with fixed parameters and a fixed list of labelled clips."""

    def start_from(self, delays: Delays) -> None:
        """The search now stands at this schedule: what it computes may be kept for reuse."""

    def correct(self, delays: Delays) -> Correct:
        """For each clip, whether the network under this schedule names it correctly."""


@dataclass(frozen=True)
class Majority:
    """Several predictors of the same clips, such as chips: a clip is right where most say so.

    So a clip counts once, as the statistics of a search demand.
    """

    predictors: Sequence[Predictor]

    def start_from(self, delays: Delays) -> None:
        for predictor in self.predictors:
            predictor.start_from(delays)

    def correct(self, delays: Delays) -> Correct:
        votes = sum(predictor.correct(delays).astype(np.int64) for predictor in self.predictors)
        return np.asarray(2 * votes > len(self.predictors), dtype=np.bool_)


# Evaluates candidates, given the schedule at which the search stands; answers in any order.
Engine = Callable[[Delays, Sequence[Delays]], Iterator[tuple[int, Correct]]]


def local_engine(predictor: Predictor) -> Engine:
    """Evaluate in this process, one predictor for all candidates."""

    def evaluate(current: Delays, candidates: Sequence[Delays]) -> Iterator[tuple[int, Correct]]:
        predictor.start_from(current)
        yield from enumerate(map(predictor.correct, candidates))

    return evaluate
