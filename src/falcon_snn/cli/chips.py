"""What `falcon-snn evaluate --hardware` shows: accuracy over chips."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from falcon_snn.cli.output import out, print_json, print_table

if TYPE_CHECKING:
    from falcon_snn.workflow.chips import ChipReport


def show_chips(
    report: "ChipReport", facts: dict[str, Any], draw: Callable[..., None], json: bool
) -> None:
    """A table or JSON, and a picture where one is asked for."""
    from falcon_snn.report.chips_figure import draw_chips

    effects, layers = ([one.as_json() for one in rows] for rows in (report.effects, report.layers))
    title = f"{facts['network']}, {report.ideal.schedule}, hardware '{report.profile.name}'"
    draw(draw_chips, title, report.ideal.accuracy, effects + layers)
    if json:
        ideal = {"clips": report.ideal.clips, "accuracy": report.ideal.accuracy,
                 "interval": report.ideal.interval}  # fmt: skip
        print_json(
            {**facts, "hardware": report.profile.name, "schedule": report.ideal.schedule,
             "ideal": ideal, "effects": effects, "layers": layers}
        )  # fmt: skip
        return
    low, high = report.ideal.interval
    out.print(
        f"ideal chip: {report.ideal.accuracy:.2f} % of {report.ideal.clips:,} clips (95 % interval "
        f"{low:.2f} .. {high:.2f}), schedule {report.ideal.schedule}; hardware "
        f"'{report.profile.name}':"
    )
    _print("effect", effects)
    if layers:
        out.print("one layer on the chip, all others ideal; worst first")
        _print("layer", layers)
    out.print("changed: decisions to spike that differ from the ideal chip's, in percent")


def _print(first: str, rows: list[dict[str, Any]]) -> None:
    print_table(
        f"{first} | chips | mean % | dev. | worst | best | changed",
        "{name} | {chips} | {mean:.2f} | {deviation:.2f} | {worst:.2f} | {best:.2f} | "
        "{changed_percent:.2f}",
        rows,
    )  # fmt: skip
