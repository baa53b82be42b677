"""`falcon-snn convert`: from a trained QNN to the integer SNN, with a report and a check."""

from dataclasses import asdict
from pathlib import Path

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import WATCH, JsonFlag, notice, out, print_json, print_table
from falcon_snn.errors import FalconError


def convert(
    checkpoint: Path = typer.Option(..., help="A checkpoint of `falcon-snn train` or `adapt`."),
    target: Path = typer.Option(..., "--out", help="File for the converted network."),
    data: str | None = typer.Option(None, help="Clips to check the conversion on."),
    split: str | None = typer.Option(None, help="Of --data: validation (the default) or test."),
    limit: int | None = options.Limit,
    qk_prefix: int | None = options.QkPrefix,
    backend: str = options.Backend,
    as_json: bool = JsonFlag,
) -> None:
    """Convert a checkpoint to integers; with --data, check it against the QNN stage by stage."""
    from falcon_snn.network.convert import conversion_report
    from falcon_snn.workflow.measuring import convert_checkpoint

    if data is None and (split is not None or limit is not None):
        raise FalconError("--split and --limit choose clips to check on; add --data")
    snn, checked = convert_checkpoint(
        checkpoint, target, data=data, split="validation" if split is None else split, limit=limit,
        qk_prefix=qk_prefix, backend=backend, watch=WATCH,
    )  # fmt: skip
    rows = conversion_report(snn)
    if as_json:
        print_json({"stages": [asdict(row) for row in rows], "check": checked, "out": str(target)})
        return
    print_table(
        "stage | kind | neurons | scale | static term",
        "{0.name} | {0.kind} | {0.neurons} | {0.scale[0]:.4g} .. {0.scale[1]:.4g} | "
        "{0.static[0]:.4g} .. {0.static[1]:.4g}",
        rows,
    )  # fmt: skip
    if checked is not None:
        out.print(
            f"checked on {checked['clips']:,} clips: counts and predictions of full lookahead are "
            f"those of the QNN; the float QNN decides differently on {checked['float_differs']:,}"
        )
    notice(f"{target}: {target.stat().st_size:,} bytes")
