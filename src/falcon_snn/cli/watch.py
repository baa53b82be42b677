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
    def phase(self, name: str, epochs: int, steps: int, done: int = 0) -> Iterator[EpochWatch]:
        """Epoch, step, loss, validation accuracy, clips/s, time left; or one line per epoch."""
        if not err.is_terminal:

            def tell(clips_done: int, ended: EpochResult | None) -> None:
                if ended is not None:
                    notice(f"{name}: epoch {ended.epoch}/{epochs}, {_figures(ended)}")

            yield tell
            return
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"), BarColumn(bar_width=20),
            TextColumn("{task.fields[figures]}"), TimeRemainingColumn(compact=True),
        )  # fmt: skip
        with Progress(*columns, console=err) as bar:
            task = bar.add_task(name, total=epochs * steps, completed=done * steps, figures="")
            step, epoch, last = 0, done, ""

            def watch(clips_done: int, ended: EpochResult | None) -> None:
                nonlocal step, epoch, last
                if ended is None:
                    step += 1
                else:
                    step, epoch, last = 0, ended.epoch, f", {_figures(ended)}"
                place = f"epoch {min(epoch + 1, epochs)}/{epochs}"
                place += f" step {step}/{steps}" if epoch < epochs else ""
                bar.update(task, completed=epoch * steps + step, figures=place + last)

            yield watch

    @contextmanager
    def schedules(self) -> Iterator[ScheduleWatch]:
        """Schedules done, per second, and the time that those now wanted will take."""
        if not err.is_terminal:
            yield lambda done, wanted: None
            return
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
