"""What a long job reports while it works; this one says nothing, the commands' draws bars."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from falcon_snn.training.loop import EpochResult

Advance = Callable[[int], None]
EpochWatch = Callable[[int, "EpochResult | None"], None]  # clips trained on; the epoch that ended
ScheduleWatch = Callable[[int, int], None]  # schedules done, schedules known to be wanted


class Watch:
    """Silent; a subclass shows what it hears."""

    def notice(self, text: str) -> None:
        """One line for people."""

    @contextmanager
    def bar(self, doing: str, total: int | None = None) -> Iterator[Advance]:
        """Clips that are worked through."""
        yield lambda clips: None

    @contextmanager
    def phase(self, name: str, epochs: int, steps: int, done: int = 0) -> Iterator[EpochWatch]:
        """A phase of training; an epoch has `steps` steps, and `done` epochs are done."""
        yield lambda clips, ended: None

    @contextmanager
    def schedules(self) -> Iterator[ScheduleWatch]:
        """Schedules of a search."""
        yield lambda done, wanted: None


SILENT = Watch()
