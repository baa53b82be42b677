"""Tables that lose nothing in a narrow terminal: numbers stay whole, columns move below."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import Formatter
from textwrap import wrap
from typing import Any

from rich.console import Console
from rich.table import Column, Table

_NUMBER = re.compile(r"[-+*]?[\d,.]*\d( *\.\. *[\d,.]*\d)? *(%|x|µs|mJ|pp)?")
_LONGEST_WORD = 24  # a longer one may be broken where there is no room


class _Cells(Formatter):
    def __init__(self, unknown: str) -> None:
        self.unknown = unknown

    def format_field(self, value: Any, format_spec: str) -> str:
        return self.unknown if value is None else format(value, format_spec)


def table(
    headings: str, cells: str, rows: Iterable[Any], *, unknown: str = "-", **look: Any
) -> Table:
    """A table with a bar between columns: `table("name | >µs", "{name} | {latency_us:.2f}", rows)`.

    A column whose heading begins with > is set to the right and stays whole, as one of numbers is
    without it. A row is a mapping, or an object whose attributes are `{0.name}`; None is shown as
    `unknown`.
    """
    made = Table(**look)
    for head in map(str.strip, headings.split("|")):
        right = head.startswith(">")
        made.add_column(head.lstrip(">"), justify="right" if right else "left", no_wrap=right)
    filled, texts = _Cells(unknown), [text.strip() for text in cells.split("|")]
    for row in rows:
        named = row if isinstance(row, Mapping) else {}
        made.add_row(*(filled.vformat(text, (row,), named) for text in texts))
    return made


class TableConsole(Console):
    """A console that prints a table in parts where it is too wide, and never cuts a cell."""

    def print(self, *objects: object, **options: object) -> None:
        for thing in objects:
            if isinstance(thing, Table):
                for part in fitted(thing, self.width):
                    super().print(part, **options)  # type: ignore[arg-type]
                return
        super().print(*objects, **options)  # type: ignore[arg-type]


def fitted(table: Table, width: int) -> Iterator[Table]:
    """The table, or its columns in several tables that each fit; the first column leads each."""
    frame = 3 if table.padding[1] else 1  # what a column takes besides its text
    wide = sum(_widest(column) + frame for column in table.columns) + 1
    least = [_narrowed(column, break_heading=wide > width) for column in table.columns]
    if wide > width and sum(least) + frame * len(least) + 1 > width:
        if sum(least) + len(least) + 1 <= width:
            table.padding, frame = (0, 0), 1
        else:
            start = 1
            while start < len(least):
                used, end = least[0] + frame + 1, start
                while end < len(least) and (end == start or used + least[end] + frame <= width):
                    used += least[end] + frame
                    end += 1
                part = _part(table, [0, *range(start, end)], title=start == 1)
                _share(part.columns, [least[0], *least[start:end]], frame, width)
                yield part
                start = end
            return
    _share(table.columns, least, frame, width)
    yield table


def _narrowed(column: Column, *, break_heading: bool) -> int:
    """The least width of a column: numbers stay whole, as do words that are not too long."""
    texts = [str(cell) for cell in column.cells]
    filled = [text for text in texts if text not in ("", "-")]
    if filled and all(_NUMBER.fullmatch(text) for text in filled):
        column.no_wrap, column.justify = True, "right"
    column.overflow = "fold"
    cells = max((_lines(text) if column.no_wrap else _words(text) for text in texts), default=0)
    if column.no_wrap and break_heading:  # rich would not
        head = str(column.header)
        longest = max(cells, _words(head), 1)
        column.header = "\n".join(part for line in head.split("\n") for part in wrap(line, longest))
    head = str(column.header)
    return max(cells, _lines(head) if column.no_wrap else _words(head))


def _share(columns: Sequence[Column], least: Sequence[int], frame: int, width: int) -> None:
    """Widen the columns while there is room, always the one that has most to break.

    Rich itself takes from the widest columns, even where that cuts a word or a number.
    """
    lengths = [[_lines(text) for text in _texts(column)] for column in columns]
    given = list(least)
    for _ in range(width - sum(least) - frame * len(least) - 1):
        over = [
            sum(max(0, length - own) for length in cells)
            for cells, own in zip(lengths, given, strict=True)
        ]
        given[over.index(max(over))] += max(over) > 0
    for column, own in zip(columns, given, strict=True):
        column.width = own


def _part(table: Table, numbers: list[int], *, title: bool) -> Table:
    part = Table(title=table.title if title else None, title_justify=table.title_justify,
                 box=table.box, padding=table.padding)  # fmt: skip
    columns = [table.columns[number] for number in numbers]
    for column in columns:
        part.add_column(column.header, justify=column.justify, no_wrap=column.no_wrap,
                        overflow="fold")  # fmt: skip
    for row, cells in zip(table.rows, zip(*(c.cells for c in columns), strict=True), strict=True):
        part.add_row(*cells, style=row.style, end_section=row.end_section)
    return part


def _texts(column: Column) -> list[str]:
    return [str(column.header), *map(str, column.cells)]


def _widest(column: Column) -> int:
    return max(map(_lines, _texts(column)))


def _lines(text: str) -> int:
    return max(map(len, text.split("\n")))


def _words(text: str) -> int:
    return min(_LONGEST_WORD, max(map(len, text.split()), default=0))
