"""How every command speaks: tables, notices and bars for people, JSON for machines."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.text import Text

from falcon_snn.cli.tables import TableConsole, table
from falcon_snn.workflow.watch import Advance, EpochWatch, ScheduleWatch, Watch

if TYPE_CHECKING:
    from falcon_snn.training.loop import EpochResult

# Tables go to stdout, notices and progress to stderr, so that `--json` output can be piped.
# Names of files and words are shown as they are: "[x]" is no markup and ":x:" no picture.
out = TableConsole(highlight=False, markup=False, emoji=False)
err = Console(stderr=True, highlight=False, markup=False, emoji=False)

JsonFlag = typer.Option(False, "--json", help="Print JSON for machines instead of a table.")


def command_facts() -> dict[str, Any]:
    """How a long job was begun, for its folder to say."""
    return {"command": ["falcon-snn", *sys.argv[1:]]}


def print_json(value: Any) -> None:
    """Print one JSON document on stdout, with nothing around it."""
    typer.echo(json.dumps(value, indent=1))


def print_table(headings: str, cells: str, rows: Iterable[Any], **look: Any) -> None:
    """Print a table; see `tables.table`."""
    out.print(table(headings, cells, rows, **look))


def show(report: Any, as_json: bool, for_people: Callable[[Any], None]) -> None:
    """Print a report for machines or for people."""
    (print_json if as_json else for_people)(report)


def print_line(value: Any) -> None:
    """Print one JSON object as one line, at once: a reader may act on it."""
    typer.echo(json.dumps(value))
    sys.stdout.flush()


def print_styled(*parts: str | tuple[str, str]) -> None:
    """One line of texts, and of texts with their style."""
    out.print(Text.assemble(*parts))


def notice(text: str) -> None:
    """One line for people, on stderr."""
    err.print(text, style="dim")


@contextmanager
def live_bar(doing: str, *columns: str, total: int | None = None, transient: bool = True,
             done: int = 0) -> Iterator[Callable[..., None]]:  # fmt: skip
    """A bar on stderr with further columns of rich.progress, by their names.

    Gives the function that changes it (advance, completed, total, and figures: a text beside the
    bar), from any thread. Where stderr is not a terminal there is nothing to see: a bar would leave
    blank lines in a file.
    """
    if not err.is_terminal:
        yield lambda **changes: None
        return
    from rich import progress

    name, figures = (
        progress.TextColumn(text, markup=False)
        for text in ("{task.description}", "{task.fields[figures]}")
    )
    further = (getattr(progress, column)() for column in columns)
    shown = (name, progress.BarColumn(), figures, *further)
    with progress.Progress(*shown, console=err, transient=transient) as bar:
        yield partial(bar.update, bar.add_task(doing, total=total, completed=done, figures=""))


class TerminalWatch(Watch):
    """What the commands show while they work."""

    def notice(self, text: str) -> None:
        notice(text)

    @contextmanager
    def bar(self, doing: str, total: int | None = None) -> Iterator[Advance]:
        clock = "TimeElapsedColumn" if total is None else "TimeRemainingColumn"
        with live_bar(doing, "MofNCompleteColumn", clock, total=total) as change:
            yield lambda amount: change(advance=amount)

    @contextmanager
    def phase(self, name: str, epochs: int, steps: int, done: int = 0) -> Iterator[EpochWatch]:
        """Epoch, step, loss, validation accuracy, clips/s, time left; or one line per epoch."""
        step, epoch, last = 0, done, ""
        with live_bar(name, "TimeRemainingColumn", total=epochs * steps, transient=False,
                      done=done * steps) as change:  # fmt: skip

            def watch(clips_done: int, ended: "EpochResult | None") -> None:
                nonlocal step, epoch, last
                if ended is None:
                    step += 1
                else:
                    step, epoch, last = 0, ended.epoch, f", {_figures(ended)}"
                    if not err.is_terminal:
                        notice(f"{name}: epoch {epoch}/{epochs}{last}")
                place = f"epoch {min(epoch + 1, epochs)}/{epochs}"
                place += f" step {step}/{steps}" if epoch < epochs else ""
                change(completed=epoch * steps + step, figures=place + last)

            yield watch

    @contextmanager
    def schedules(self) -> Iterator[ScheduleWatch]:
        """Schedules done, per second, and the time that those now wanted will take."""
        began = time.monotonic()
        with live_bar("schedules", "MofNCompleteColumn", "TimeRemainingColumn",
                      transient=False) as change:  # fmt: skip

            def show(done: int, wanted: int) -> None:
                rate = done / max(time.monotonic() - began, 1e-9)
                change(completed=done, total=wanted, figures=f"{rate:.1f}/s")

            yield show


def _figures(result: "EpochResult") -> str:
    return (
        f"loss {result.loss:.3f}, validation {result.validation_accuracy:.2f} %, "
        f"{result.clips_per_second:,.0f} clips/s"
    )


WATCH = TerminalWatch()
