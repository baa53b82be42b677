"""A table, figure or claim of the paper with ours beside it, and the rule that marks agreement."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from falcon_snn.report.results import PAPER_DATA, Result

EXACT, CLOSE, DIFFERS = "exact", "close", "differs"
NOT_RUN, NOT_PUBLISHED, NOT_OURS = "not run yet", "not published", "not ours to run"
CLOSE_POINTS = 0.5  # accuracies on different data that are this near are called close


class Line(NamedTuple):
    """One figure, published and ours."""

    what: str
    published: float | None
    ours: float | None
    unit: str
    digits: int
    mark: str
    why: str  # why it is not exact

    @property
    def shown_unit(self) -> str:
        """The unit as people read it; `unit` is what machines get."""
        return "µs" if self.unit == "us" else self.unit


@dataclass(frozen=True)
class Exhibit:
    """One table, figure or set of claims; `draw` writes its pictures into a folder."""

    name: str
    caption: str
    lines: Sequence[Line]
    notes: Sequence[str] = ()
    draw: Callable[[Path], list[Path]] | None = field(default=None, repr=False)


def line(
    what: str, published: float | None, ours: float | None, unit: str = "", *, digits: int = 2,
    close: float = 0.0, why: str = "",
) -> Line:  # fmt: skip
    """A figure that follows from a model: exact to the printed digits, close, or not."""
    if ours is None:
        mark = NOT_RUN
    elif published is None:
        mark = NOT_PUBLISHED
    elif round(ours, digits) == round(published, digits):
        mark = EXACT
    else:
        mark = CLOSE if abs(ours - published) <= close else DIFFERS
    return Line(what, published, ours, unit, digits, mark, why if mark in (CLOSE, DIFFERS) else "")


def accuracy_line(
    what: str, published: float | None, ours: float | None, source: Result | None,
    unit: str = "%", digits: int = 2,
) -> Line:  # fmt: skip
    """An accuracy of ours beside the paper's: never exact, since the data differ."""
    made = line(what, published, ours, unit, digits=digits, close=CLOSE_POINTS)
    if source is None:
        return made
    mark = CLOSE if made.mark == EXACT else made.mark
    why = f"ours on {source.data} ({source.words} words), the paper's on {PAPER_DATA}"
    return made._replace(mark=mark, why=f"{why}; {source.epochs} epochs")
