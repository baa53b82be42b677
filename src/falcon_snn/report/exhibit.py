"""A table, figure or claim of the paper with ours beside it, and the rule that marks agreement."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from falcon_snn.report.results import Result, paper_data
from falcon_snn.report.results_table import mean_test, test_interval, test_range

EXACT, CLOSE, DIFFERS, OTHER = "exact", "within 2 %", "differs", "other data"
NOT_RUN, NOT_PUBLISHED, NOT_OURS = "not run yet", "not published", "not ours to run"
MARKS = (EXACT, CLOSE, DIFFERS, OTHER, NOT_RUN, NOT_PUBLISHED, NOT_OURS)
_CLOSE = 0.02  # of the published figure


class Line(NamedTuple):
    """One figure, published and ours."""

    what: str
    published: float | None
    ours: float | None
    unit: str
    digits: int
    mark: str
    why: str = ""  # why it is not exact
    interval: Sequence[float] | None = None  # of ours: 95 %, or the range of the seeds; of others'
    # figures: one deviation on either side
    seeds: int = 0

    @property
    def shown_unit(self) -> str:
        """The unit as people read it; `unit` is what machines get."""
        return "µs" if self.unit == "us" else self.unit

    @property
    def verdict(self) -> str:
        """The mark in words, with the difference where there is one."""
        if self.mark not in (DIFFERS, OTHER) or self.ours is None or self.published is None:
            return self.mark
        return f"{self.mark}: {signed(self.ours - self.published, self.digits)}"

    @property
    def spread(self) -> str:
        """The interval, or how many seeds there are and their range."""
        if self.interval is None:
            return ""
        low, high = self.interval
        seeds = f"{self.seeds} seeds: " if self.seeds > 1 else ""
        return f"{seeds}{low:.{self.digits}f}–{high:.{self.digits}f}"

    def shown(self, value: float | None) -> str:
        return "–" if value is None else f"{value:.{self.digits}f}".replace("-", "−")


def signed(value: float, digits: int = 2) -> str:
    """A difference with its sign; a minus as wide as the plus."""
    return f"{value:+.{digits}f}".replace("-", "−")


class Head(NamedTuple):
    """A heading over one column or several."""

    text: str
    span: int = 1
    words: bool = False  # over words, not numbers


Cell = str | Line | tuple[Line, ...]  # several figures share a cell: "96.68 / 96.31"


class GridRow(NamedTuple):
    cells: Sequence[Cell]
    rule: bool = False  # a line above it, as the paper prints it


@dataclass(frozen=True)
class Grid:
    """A table in the paper's own layout; without heads, figures one below the other."""

    heads: Sequence[Sequence[Head]]
    rows: Sequence[GridRow]

    def lines(self) -> Iterator[Line]:
        for row in self.rows:
            for cell in row.cells:
                if isinstance(cell, Line):
                    yield cell
                elif not isinstance(cell, str):
                    yield from cell


def listed(lines: Sequence[Line]) -> Grid:
    """Figures that the paper has in its text or in a picture."""
    return Grid((), [GridRow((one,)) for one in lines])


@dataclass(frozen=True)
class Exhibit:
    """One table, figure or set of claims; `pictures` are drawn by the names of their files."""

    name: str
    caption: str
    grid: Grid
    notes: Sequence[str] = ()
    pictures: Mapping[str, Callable[[Path], None]] = field(default_factory=dict, repr=False)

    @property
    def lines(self) -> list[Line]:
        return list(self.grid.lines())

    @property
    def reasons(self) -> dict[str, int]:
        """Why figures differ, and how many give each reason."""
        return Counter(line.why for line in self.lines if line.why)


def line(
    what: str, published: float | None, ours: float | None, unit: str = "", *, digits: int = 2,
    why: str = "",
) -> Line:  # fmt: skip
    """A figure that follows from a model: exact to the printed digits, within 2 %, or not."""
    if ours is None:
        mark = NOT_RUN
    elif published is None:
        mark = NOT_PUBLISHED
    elif round(ours, digits) == round(published, digits):
        mark = EXACT
    else:
        mark = CLOSE if abs(ours - published) <= _CLOSE * abs(published) else DIFFERS
    return Line(what, published, ours, unit, digits, mark, why if mark in (CLOSE, DIFFERS) else "")


def other_line(
    what: str, published: float | None, ours: float | None, unit: str = "%", why: str = "", *,
    digits: int = 2,
) -> Line:  # fmt: skip
    """A figure of another network or other clips than the paper's: it can differ, not disagree."""
    made = line(what, published, ours, unit, digits=digits)
    both = published is not None and ours is not None
    return made._replace(mark=OTHER, why=why) if both else made


def accuracy_line(what: str, published: float | None, found: Sequence[Result]) -> Line:
    """Our test accuracy beside the paper's: the mean over the seeds, and its interval."""
    made = other_line(what, published, mean_test(found), why=data_of(found))
    return made._replace(interval=test_range(found) or test_interval(found), seeds=len(found))


def data_of(found: Sequence[Result]) -> str:
    """On what ours was measured, and on what the paper's."""
    if not found:
        return ""
    theirs = paper_data(found[0].setting)
    return f"Ours on {found[0].data} ({found[0].words} words), the paper's on {theirs}."
