"""`falcon-snn convert`: from a trained QNN to the integer SNN, with a report and a check."""

from dataclasses import asdict
from pathlib import Path

import typer

from falcon_snn.cli.output import JsonFlag, notice, out, print_json


def convert(
    checkpoint: Path = typer.Option(..., help="A checkpoint of `falcon-snn train` or `adapt`."),
    target: Path = typer.Option(..., "--out", help="File for the converted network."),
    data: str | None = typer.Option(None, help="Clips to check the conversion on."),
    split: str = typer.Option("validation", help="validation or test."),
    limit: int | None = typer.Option(None, min=1, help="Check only this many clips."),
    qk_prefix: int | None = typer.Option(None, help="Slots that Q and K wait for."),
    backend: str = typer.Option("auto", help="auto, torch, numba or triton."),
    as_json: bool = JsonFlag,
) -> None:
    """Convert a checkpoint to integers; with --data, check it against the QNN stage by stage."""
    from falcon_snn.cli.watch import TerminalWatch
    from falcon_snn.network.convert import conversion_report
    from falcon_snn.workflow.measuring import convert_checkpoint

    snn, checked = convert_checkpoint(
        checkpoint, target, data=data, split=split, limit=limit, qk_prefix=qk_prefix,
        backend=backend, watch=TerminalWatch(),
    )  # fmt: skip
    rows = conversion_report(snn)
    if as_json:
        print_json({"stages": [asdict(row) for row in rows], "check": checked, "out": str(target)})
        return
    from rich.table import Table

    table = Table("stage", "kind", "neurons", "scale", "static term", "threshold")
    for row in rows:
        ranges = (
            f"{low:.4g} .. {high:.4g}" for low, high in (row.scale, row.static, row.threshold)
        )
        table.add_row(row.name, row.kind, str(row.neurons), *ranges)
    out.print(table)
    if checked is not None:
        out.print(
            f"checked on {checked['clips']:,} clips: counts and predictions of full lookahead are "
            f"those of the QNN; the float QNN decides differently on {checked['float_differs']:,}"
        )
    notice(f"{target}: {target.stat().st_size:,} bytes")
