"""What `falcon-snn evaluate --stream` shows: misses against false accepts per hour."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.table import Table

from falcon_snn.cli.output import out, print_json

if TYPE_CHECKING:
    from falcon_snn.workflow.streaming import StreamReport


def show_stream(
    report: "StreamReport", facts: dict[str, Any], draw: Callable[..., None], json: bool
) -> None:
    """A table or JSON, and the curve where a picture is asked for."""
    from falcon_snn.report.stream_figure import draw_stream

    found = report.as_json()
    noise = "no noise" if report.snr_db is None else f"{report.snr_db:g} dB"
    draw(draw_stream, f"{facts['network']}, {report.hours:g} h, {noise}", found)
    if json:
        print_json({**facts, **found})
        return
    out.print(
        f"{report.hours:g} h of sound, {noise}: {report.spoken:,} keywords (of "
        f"{len(report.keywords)}), {report.others:,} other words, seed {facts['seed']}"
    )
    shown = Table("", "threshold", "misses %", "95 % interval", "false/h", "delay ms", "90 %")
    rows = {"default": found["default"]}
    rows |= {f"<= {rate} /h": point for rate, point in found["at_false_per_hour"].items()}
    for name, point in rows.items():
        if point is None:
            shown.add_row(name, "none")
            continue
        low, high = point["interval"]
        shown.add_row(
            name, f"{point['threshold']:.5f}", f"{point['miss_percent']:.2f}",
            f"{low:.2f} .. {high:.2f}", f"{point['false_per_hour']:.2f}",
            _ms(point["median_delay_s"]), _ms(point["delay_90_percent_s"]),
        )  # fmt: skip
    out.print(shown)
    out.print("delay: from the end of a word to the answer, median and 90 % of the words found")


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:.0f}"
