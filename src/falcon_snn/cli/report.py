"""`falcon-snn report`: the page of a run."""

from pathlib import Path

import typer

from falcon_snn.cli.output import out


def report(
    run: Path = typer.Argument(help="The folder of a `falcon-snn run`."),
    folder: Path | None = typer.Option(None, "--out", help="Folder (default: RUN/report)."),
) -> None:
    """Write the report of a run again: one HTML file that works offline, and its figures."""
    from falcon_snn.report.run_report import write_run_report

    page = write_run_report(run, folder or run / "report")
    out.print(f"report: {page}", soft_wrap=True)
