"""How every command speaks: tables and notices for people, JSON for machines."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console

from falcon_snn.cli.tables import TableConsole

# Tables go to stdout, notices and progress to stderr, so that `--json` output can be piped.
out = TableConsole(highlight=False)
err = Console(stderr=True, highlight=False)

JsonFlag = typer.Option(False, "--json", help="Print JSON for machines instead of a table.")


def print_json(value: Any) -> None:
    """Print one JSON document on stdout, with nothing around it."""
    typer.echo(json.dumps(value, indent=1))


def print_line(value: Any) -> None:
    """Print one JSON object as one line, at once: a reader may act on it."""
    typer.echo(json.dumps(value))
    sys.stdout.flush()


def notice(text: str) -> None:
    """One line for people, on stderr."""
    err.print(text, style="dim", markup=False)


@contextmanager
def progress_bar(doing: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr; gives the function that advances it, from any thread.

    Where stderr is not a terminal there is nothing to see: a bar would leave blank lines in a file.
    """
    if not err.is_terminal:
        yield lambda amount: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed
    from rich.progress import TimeRemainingColumn as Left

    time = Elapsed() if total is None else Left(compact=True, elapsed_when_finished=True)
    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), time)
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda amount: progress.advance(task, amount)
