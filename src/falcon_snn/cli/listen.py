"""`falcon-snn listen`: words from the microphone, or from raw samples on standard input."""

import sys

import typer

from falcon_snn.cli.detect import Begin, Hearing, Summary
from falcon_snn.cli.output import JsonFlag, notice
from falcon_snn.errors import FalconError


def listen(
    source: str | None = typer.Argument(
        None, help="- for raw 16-bit samples on standard input; the microphone if left out."
    ),
    begin: Begin = Hearing,
    rate: int | None = typer.Option(None, help="With -: samples per second (default 16000)."),
    device: str | None = typer.Option(None, help="The microphone, by its name or number."),
    as_json: bool = JsonFlag,
) -> None:
    """Say the words as they are spoken; Ctrl-C ends it.

    With --json every word is one line, and the last line says what was heard.
    """
    from falcon_snn.data.live import microphone, raw_blocks
    from falcon_snn.workflow.detecting import detect

    if source not in (None, "-"):
        raise FalconError(f"'{source[:40]}': give - or nothing; `falcon-snn detect` takes files")
    if source is None and rate is not None:
        raise FalconError("--rate is for raw samples (-); the microphone is asked for 16000")
    if source == "-" and (device is not None or sys.stdin is None):
        what = "no samples can come" if device is None else "--device is the microphone's"
        raise FalconError(f"{what}; give raw samples on standard input, or leave out -")
    detector = begin()[1]()
    if source == "-":
        blocks = raw_blocks(sys.stdin.buffer, 16_000 if rate is None else rate)
    else:
        blocks = microphone(device)
        notice(f"listening for {len(detector.keywords)} words; Ctrl-C ends it")
    summary, stopped = Summary(detector, None, as_json), False
    try:
        for detection in detect(detector, blocks, tail=source == "-"):
            summary.show(detection)
    except KeyboardInterrupt:
        stopped = True
    summary.end(stopped=stopped)
    if not detector.heard_s:
        raise FalconError("no samples came; give raw 16-bit samples on standard input")
