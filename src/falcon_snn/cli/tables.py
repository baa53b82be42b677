"""Tables that lose nothing in a narrow terminal: numbers stay whole, columns move below."""

import re
from collections.abc import Iterator
from textwrap import wrap

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

_NUMBER = re.compile(r"[-+*]?[\d,.]*\d *(%|x|µs|mJ|pp)?")
_LONGEST_WORD = 24  # a longer one may be broken where there is no room


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
    least = []
    for column in table.columns:
        texts = [_plain(cell) for cell in column.cells]
        filled = [text for text in texts if text not in ("", "-")]
        if filled and all(_NUMBER.fullmatch(text) for text in filled):
            column.no_wrap, column.justify = True, "right"
        column.overflow = "fold"
        cells = max((_lines(text) if column.no_wrap else _words(text) for text in texts), default=0)
        if column.no_wrap and wide > width:  # a heading that may not wrap is broken here
            head = _plain(column.header)
            longest = max(cells, _words(head), 1)
            column.header = "\n".join(
                part for line in head.split("\n") for part in wrap(line, longest)
            )
        head = _plain(column.header)
        column.min_width = max(cells, _lines(head) if column.no_wrap else _words(head))
        least.append(column.min_width)
    if wide <= width or sum(least) + frame * len(least) + 1 <= width:
        yield table
        return
    if sum(least) + len(least) + 1 <= width:
        table.padding = (0, 0)
        yield table
        return
    start = 1
    while start < len(least):
        used, end = least[0] + frame + 1, start
        while end < len(least) and (end == start or used + least[end] + frame <= width):
            used += least[end] + frame
            end += 1
        yield _part(table, [0, *range(start, end)], title=start == 1)
        start = end


def _part(table: Table, numbers: list[int], *, title: bool) -> Table:
    part = Table(title=table.title if title else None, title_justify=table.title_justify,
                 box=table.box, padding=table.padding)  # fmt: skip
    columns = [table.columns[number] for number in numbers]
    for column in columns:
        part.add_column(column.header, justify=column.justify, no_wrap=column.no_wrap,
                        overflow="fold", min_width=column.min_width)  # fmt: skip
    for row, cells in zip(table.rows, zip(*(c.cells for c in columns), strict=True), strict=True):
        part.add_row(*cells, style=row.style, end_section=row.end_section)
    return part


def _plain(cell: object) -> str:
    return Text.from_markup(cell).plain if isinstance(cell, str) else str(cell)


def _widest(column: Column) -> int:
    return max(map(_lines, (_plain(column.header), *map(_plain, column.cells))), default=0)


def _lines(text: str) -> int:
    return max(map(len, text.split("\n")))


def _words(text: str) -> int:
    return min(_LONGEST_WORD, max(map(len, text.split()), default=0))
