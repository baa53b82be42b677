"""What `falcon-snn evaluate --hardware` shows: accuracy over chips."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from falcon_snn.cli.output import notice, out, print_json

if TYPE_CHECKING:
    from falcon_snn.workflow.chips import ChipReport


def show_chips(report: "ChipReport", facts: dict[str, Any], plot: Path | None, json: bool) -> None:
    """A table or JSON, and a picture where one is asked for."""
    effects, layers = ([one.as_json() for one in rows] for rows in (report.effects, report.layers))
    if plot is not None:
        from falcon_snn.report.chips_figure import draw_chips

        title = f"{facts['network']}, {report.ideal.schedule}, hardware '{report.profile.name}'"
        draw_chips(plot, title, report.ideal.accuracy, effects + layers)
        notice(f"picture: {plot}")
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
    from rich.table import Table

    table = Table(first, "chips", "mean %", "dev.", "worst", "best", "changed")
    for row in rows:
        table.add_row(
            row["name"], str(row["chips"]), f"{row['mean']:.2f}", f"{row['deviation']:.2f}",
            f"{row['worst']:.2f}", f"{row['best']:.2f}", f"{row['changed_percent']:.2f}",
        )  # fmt: skip
    out.print(table)
