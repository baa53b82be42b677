"""`falcon-snn reproduce`: the paper's tables, figures and claims beside ours."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from falcon_snn.cli.output import JsonFlag, notice, out, print_json

if TYPE_CHECKING:
    from falcon_snn.report.exhibit import Exhibit

_STYLES = {"exact": "green", "close": "yellow", "differs": "red"}


def reproduce(
    only: str | None = typer.Option(None, help="One table or figure by its name, such as claims."),
    folder: Path | None = typer.Option(None, "--out", help="Folder for one page and the figures."),
    as_json: bool = JsonFlag,
) -> None:
    """Set every table, figure and claim of the paper beside ours, and say where they agree."""
    from falcon_snn.report.reproduce import exhibits, write_reproduction

    found = exhibits(only)
    if folder is not None:
        notice(f"page: {write_reproduction(found, folder)}")
    if as_json:
        print_json([_as_json(exhibit) for exhibit in found])
        return
    for exhibit in found:
        _print(exhibit)


def _as_json(exhibit: "Exhibit") -> dict[str, Any]:
    return {
        "name": exhibit.name,
        "caption": exhibit.caption,
        "lines": [line._asdict() for line in exhibit.lines],
        "notes": list(exhibit.notes),
    }


def _print(exhibit: "Exhibit") -> None:
    from rich.table import Table

    table = Table(title=f"{exhibit.name}: {exhibit.caption}", title_justify="left")
    table.add_column("what")
    table.add_column("published", justify="right")
    table.add_column("ours", justify="right")
    table.add_column("agreement")
    for line in exhibit.lines:
        figures = (
            "-" if value is None else f"{value:.{line.digits}f} {line.shown_unit}".rstrip()
            for value in (line.published, line.ours)
        )
        mark = f"[{_STYLES.get(line.mark, 'dim')}]{line.mark}[/]"
        table.add_row(line.what, *figures, f"{mark}: {line.why}" if line.why else mark)
    out.print(table)
    for note in exhibit.notes:
        out.print(note, style="dim", markup=False)
