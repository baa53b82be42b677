"""Every schedule is evaluated once: answers are kept, journalled and handed out again."""

from collections.abc import Callable, Sequence

import numpy as np

from falcon_snn.errors import FalconError
from falcon_snn.search.journal import Journal
from falcon_snn.search.pareto import Point
from falcon_snn.search.predictor import Correct, Engine
from falcon_snn.search.space import Schedule, Space, unique

Progress = Callable[[int, int], None]  # schedules done, schedules known to be wanted


class Evaluations:
    """The answers of all schedules asked for, in the order in which they were first asked for.

    That order depends on the search alone, not on which answer came first or was journalled.
    """

    def __init__(
        self,
        space: Space,
        engine: Engine,
        journal: Journal | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.space = space
        self._engine = engine
        self._journal = journal
        self._progress = progress
        self._answers: dict[Schedule, Correct] = dict(journal.answers) if journal else {}
        self._asked: dict[Schedule, None] = {}

    @property
    def asked(self) -> list[Schedule]:
        """Every schedule evaluated so far."""
        return list(self._asked)

    @property
    def clips(self) -> int:
        """How many clips one evaluation answers."""
        return len(next(iter(self._answers.values())))

    def correct(self, current: Schedule, candidates: Sequence[Schedule]) -> list[Correct]:
        """Answers of the candidates, in their order, while the search stands at `current`."""
        self._asked.update(dict.fromkeys(candidates))
        missing = [one for one in unique(candidates) if one not in self._answers]
        done = len(self._asked) - len(missing)
        if self._progress:
            self._progress(done, len(self._asked))
        if missing:
            named = [self.space.delays(schedule) for schedule in missing]
            for index, answers in self._engine(self.space.delays(current), named):
                self._keep(missing[index], answers)
                done += 1
                if self._progress:
                    self._progress(done, len(self._asked))
        return [self._answers[schedule] for schedule in candidates]

    def right(self, schedule: Schedule) -> int:
        """How many clips a schedule that was asked for gets right."""
        return int(np.count_nonzero(self._answers[schedule]))

    def points(self, schedules: Sequence[Schedule]) -> list[Point]:
        """What schedules that were asked for achieve."""
        cycles = self.space.cycles(schedules)
        return [Point(s, self.right(s), c) for s, c in zip(schedules, cycles, strict=True)]

    def answers(self, schedule: Schedule) -> Correct:
        """The answers of a schedule that was asked for."""
        return self._answers[schedule]

    def _keep(self, schedule: Schedule, answers: Correct) -> None:
        answers = np.asarray(answers)
        if answers.dtype != np.bool_ or answers.ndim != 1 or not answers.size:
            raise FalconError(
                "the predictor must answer with one bool per clip, "
                f"not {answers.dtype} of shape {answers.shape}"
            )
        if self._answers and len(answers) != self.clips:
            raise FalconError(
                f"the predictor answered for {len(answers)} clips, earlier for {self.clips}"
            )
        if self._journal:
            self._journal.append(schedule, answers)
        self._answers[schedule] = answers
