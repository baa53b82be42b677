"""`falcon-snn theory`: Theorem 1 and Proposition 1, drawn and tabulated."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, out, print_json
from falcon_snn.errors import FalconError

if TYPE_CHECKING:
    from falcon_snn.report.theory import Theory


def theory(
    out_folder: Path | None = typer.Option(None, "--out", help="Folder for the picture."),
    delays: str = typer.Option("1,3,5", help="The three delays of Proposition 1, rising."),
    slots: int = typer.Option(7, help="Spike slots T, from 3 to 8."),
    pictures: options.Pictures = options.PictureOptions,
    as_json: bool = JsonFlag,
) -> None:
    """Show that waiting longer never raises the count error, and can still cost accuracy."""
    from falcon_snn.report.theory import theory as run_theory
    from falcon_snn.report.theory_figure import draw_theory

    found = run_theory(_parse_delays(delays), slots)
    replace(pictures, path=out_folder and out_folder / "theory.svg").draw(draw_theory, found)
    if as_json:
        print_json({"slots": slots, "delays": found.chosen, "by_delay": found.by_delay})
    else:
        _print_table(found)


def _parse_delays(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise FalconError(f"--delays '{text}' must be whole numbers, such as 1,3,5") from None


def _print_table(found: "Theory") -> None:
    from rich.table import Table

    from falcon_snn.report.theory import RANDOM_STREAMS

    title = f"Proposition 1 and Theorem 1, T = {found.slots} slots"
    shown = Table(title=title, title_justify="left")
    shown.add_column("delay", justify="right")
    for name in ("counts layer l", "counts layer l+1", "label 1 read as", "accuracy"):
        shown.add_column(name, justify="center")
    for name in ("bound T-delay", "tight", "random max", "mean"):
        shown.add_column(name, justify="right")
    for row in found.by_delay:
        shown.add_row(
            f"{'> ' if row['delay'] in found.chosen else ''}{row['delay']}",
            " ".join(map(str, row["counts_changed_layer"])),
            " ".join(map(str, row["counts_next_layer"])),
            str(row["prediction_label_1"]),
            row["accuracy"],
            str(row["count_error_bound"]),
            str(row["count_error_tight"]),
            str(row["count_error_random_max"]),
            f"{row['count_error_random_mean']:.2f}",
            style="bold" if row["delay"] in found.chosen else "",
        )
    out.print(shown)
    out.print(
        "Left: the changed layer's counts stay, accuracy falls and returns. "
        f"Right: count errors against full lookahead ({RANDOM_STREAMS} random streams)."
    )
