"""Bars and notices on stderr, for people."""

from collections.abc import Iterator
from contextlib import contextmanager

from falcon_snn.cli.output import err, notice, progress_bar
from falcon_snn.training.loop import EpochResult
from falcon_snn.workflow.watch import Advance, EpochWatch, ScheduleWatch, Watch


class TerminalWatch(Watch):
    """What the commands show while they work."""

    def notice(self, text: str) -> None:
        notice(text)

    @contextmanager
    def bar(self, doing: str, total: int | None = None) -> Iterator[Advance]:
        with progress_bar(doing, total) as advance:
            yield advance

    @contextmanager
    def phase(self, name: str, epochs: int, steps: int) -> Iterator[EpochWatch]:
        """Epoch, loss, validation accuracy, clips/s, time left."""
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"), TimeRemainingColumn(compact=True),
        )  # fmt: skip
        with Progress(*columns, console=err) as bar:
            task = bar.add_task(name, total=epochs, figures="")

            def watch(clips_done: int, ended: EpochResult | None) -> None:
                if ended is None:
                    bar.advance(task, 1 / steps)
                else:
                    bar.update(task, completed=ended.epoch, figures=_figures(ended))

            yield watch

    @contextmanager
    def schedules(self) -> Iterator[ScheduleWatch]:
        """Schedules done, per second, and the time that those now wanted will take."""
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("schedules"), BarColumn(), MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"), TimeRemainingColumn(),
        )  # fmt: skip
        with Progress(*columns, console=err) as bar:
            task = bar.add_task("", total=None, rate="")

            def show(done: int, wanted: int) -> None:
                speed = bar.tasks[0].speed
                rate = f"{speed:.1f}/s" if speed else ""
                bar.update(task, completed=done, total=wanted, rate=rate)

            yield show


def _figures(result: EpochResult) -> str:
    return (
        f"loss {result.loss:.3f}, validation {result.validation_accuracy:.2f} %, "
        f"{result.clips_per_second:,.0f} clips/s"
    )
