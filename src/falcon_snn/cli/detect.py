"""`falcon-snn detect`: the words in recordings of any length."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.groups import given
from falcon_snn.cli.output import JsonFlag, notice, print_line, print_styled
from falcon_snn.errors import FalconError

if TYPE_CHECKING:
    from falcon_snn.workflow.detecting import Detection, Detector
    from falcon_snn.workflow.model import Model

BLOCK_S = 10.0
LONGEST_PICTURE_S = 600

Begin = Callable[[], "tuple[Model, Callable[[], Detector]]"]  # and new detectors of the network


def hearing(
    file: Path = options.File,
    words: str | None = typer.Option(
        None, help="Report only these of the network's words, such as yes,no,stop."
    ),
    threshold: float | None = typer.Option(
        None,
        help="Mean confidence from which a word is reported; default: the network's own, or 0.85.",
    ),
    every: int = typer.Option(80, help="ms from one look at the last second to the next."),
    smooth: int | None = typer.Option(
        None,
        help="ms over which confidences are averaged; by default 240, or not at all for a network "
        "with the classes unknown and silence.",
    ),
    refractory: int = typer.Option(500, help="ms after a word in which no other is reported."),
    schedule: str | None = options.ScheduleOrFull,
    backend: str = typer.Option("auto", help="What computes: auto, torch or numba; all agree."),
) -> Begin:
    """A network that hears a stream, opened when all else is known to be well."""

    def begin() -> "tuple[Model, Callable[[], Detector]]":
        from falcon_snn.workflow.model import load

        model = load(file)
        rule = model.rule(threshold, every, smooth, refractory)
        chosen = options.split_words(words)
        return model, lambda: model.detector(rule, chosen, schedule, backend)

    return begin


Hearing = given(hearing)


def detect(
    files: list[Path] = typer.Argument(help="Recordings (wav and what libsndfile reads)."),
    begin: Begin = Hearing,
    plot: options.Pictures = options.picture("--plot", "Draw the recording and its words"),
    as_json: bool = JsonFlag,
) -> None:
    """Find the words in recordings of any length: when, how sure, how soon it was known.

    With --json every word is one line, and each file ends in a summary.
    """
    from falcon_snn.data.audio import read_in_blocks
    from falcon_snn.report.detections_figure import draw_detections
    from falcon_snn.workflow.detecting import follow

    if plot.path is not None and len(files) > 1:
        raise FalconError("--plot shows one recording; give one file")
    model, new_detector = begin()
    for file in files:
        detector = new_detector()
        summary = Summary(detector, file, as_json)
        pieces = []
        try:
            for piece in follow(detector, read_in_blocks(file, BLOCK_S)):
                for detection in piece.detections:
                    summary.show(detection)
                if plot.path is not None:
                    if detector.heard_s > LONGEST_PICTURE_S:
                        raise FalconError(
                            f"{file}: longer than 10 minutes; cut it, or leave out --plot"
                        )
                    pieces.append(piece)
        except KeyboardInterrupt:
            summary.end(stopped=True)
            raise typer.Exit(130) from None
        summary.end()
        title = f"{file.name}, {model.network.name}"
        plot.draw(draw_detections, pieces, detector, title)


class Summary:
    """Shows words as they are heard, and at the end what was heard in all."""

    def __init__(self, detector: "Detector", file: Path | None, as_json: bool) -> None:
        self.detector, self.file, self.as_json = detector, file, as_json
        self.words = 0
        self.began = time.process_time()

    @property
    def _named(self) -> dict[str, Any]:
        return {} if self.file is None else {"file": str(self.file)}

    def show(self, detection: "Detection") -> None:
        """One word."""
        self.words += 1
        if self.as_json:
            print_line({**self._named, **detection.as_json()})
            return
        print_styled(
            f"{detection.start_s:8.2f} s  ",
            (f"{detection.word:<12}", "bold"),
            f" {detection.confidence:6.1%}   known {1000 * detection.delay_s:.0f} ms after its end",
        )

    def end(self, *, stopped: bool = False) -> None:
        """What was heard in all."""
        heard_s, spent_s = self.detector.heard_s, time.process_time() - self.began
        if self.as_json:
            print_line({**self._named, "heard_s": round(heard_s, 3), "words": self.words,
                        "cpu_s": round(spent_s, 3), "stopped": stopped})  # fmt: skip
            return
        where = "" if self.file is None else f"{self.file}: "
        words = "1 word" if self.words == 1 else f"{self.words} words"
        notice(f"{where}{words} in {heard_s:.1f} s of sound, {heard_s / max(spent_s, 1e-3):.0f} "
               f"times real time{', stopped' if stopped else ''}")  # fmt: skip
