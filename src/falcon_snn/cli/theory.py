"""`falcon-snn theory`: Theorem 1 and Proposition 1, drawn and tabulated."""

from pathlib import Path
from typing import Any

import typer

from falcon_snn.cli.output import JsonFlag, notice, out, print_json
from falcon_snn.errors import FalconError
from falcon_snn.neuron import theorems

RANDOM_STREAMS = 1000


def theory(
    out_folder: Path | None = typer.Option(None, "--out", help="Folder for the picture."),
    delays: str = typer.Option("1,3,5", help="The three delays of Proposition 1, rising."),
    slots: int = typer.Option(7, help="Spike slots T, from 3 to 8."),
    as_json: bool = JsonFlag,
) -> None:
    """Show that waiting longer never raises the count error, and can still cost accuracy."""
    if not 3 <= slots <= 8:
        raise FalconError(f"slots is {slots}; three delays and one byte per train need 3..8")
    chosen = _parse_delays(delays)
    one, zero = theorems.samples(chosen, slots)
    rows = []
    for delay in range(1, slots + 1):
        runs = [theorems.run(one, delay, slots), theorems.run(zero, delay, slots)]
        rows.append((runs[0], theorems.accuracy(runs)))
    tight = theorems.count_errors(theorems.tight_stream(slots))
    errors = [theorems.count_errors(s) for s in theorems.random_streams(slots, RANDOM_STREAMS)]
    by_delay = list(zip(*errors, strict=True))
    table = [
        {
            "delay": run.delay,
            "counts_changed_layer": [sum(train) for train in run.changed],
            "counts_next_layer": [sum(train) for train in run.following],
            "prediction_label_1": run.prediction,
            "accuracy": str(accuracy),
            "count_error_bound": slots - run.delay,
            "count_error_tight": tight[run.delay - 1],
            "count_error_random_max": max(by_delay[run.delay - 1]),
            "count_error_random_mean": sum(by_delay[run.delay - 1]) / RANDOM_STREAMS,
        }
        for run, accuracy in rows
    ]
    picture = None
    if out_folder is not None:
        from falcon_snn.report.theory_figure import draw_theory

        picture = out_folder / "theory.svg"
        draw_theory(
            picture,
            [rows[delay - 1][0] for delay in chosen],
            [accuracy for _, accuracy in rows],
            tight,
            [row["count_error_random_mean"] for row in table],
        )
    if as_json:
        print_json({"slots": slots, "delays": chosen, "by_delay": table})
    else:
        _print_table(table, chosen, slots)
    if picture is not None:
        notice(f"picture: {picture}")


def _parse_delays(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise FalconError(f"--delays '{text}' must be whole numbers, such as 1,3,5") from None


def _print_table(table: list[dict[str, Any]], chosen: list[int], slots: int) -> None:
    from rich.table import Table

    shown = Table(title=f"Proposition 1 and Theorem 1, T = {slots} slots", title_justify="left")
    shown.add_column("delay", justify="right")
    for name in ("counts layer l", "counts layer l+1", "label 1 read as", "accuracy"):
        shown.add_column(name, justify="center")
    for name in ("bound T-delay", "tight", "random max", "mean"):
        shown.add_column(name, justify="right")
    for row in table:
        shown.add_row(
            f"{'> ' if row['delay'] in chosen else ''}{row['delay']}",
            " ".join(map(str, row["counts_changed_layer"])),
            " ".join(map(str, row["counts_next_layer"])),
            str(row["prediction_label_1"]),
            row["accuracy"],
            str(row["count_error_bound"]),
            str(row["count_error_tight"]),
            str(row["count_error_random_max"]),
            f"{row['count_error_random_mean']:.2f}",
            style="bold" if row["delay"] in chosen else "",
        )
    out.print(shown)
    out.print(
        "Left: the changed layer's counts stay, accuracy falls and returns. "
        f"Right: count errors against full lookahead ({RANDOM_STREAMS} random streams)."
    )
