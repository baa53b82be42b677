"""How every command speaks: tables and notices for people, JSON for machines."""

import json
from typing import Any

import typer
from rich.console import Console

# Tables go to stdout, notices and progress to stderr, so that `--json` output can be piped.
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

JsonFlag = typer.Option(False, "--json", help="Print JSON for machines instead of a table.")


def print_json(value: Any) -> None:
    """Print one JSON document on stdout, with nothing around it."""
    typer.echo(json.dumps(value, indent=1))


def notice(text: str) -> None:
    """One line for people, on stderr."""
    err.print(text, style="dim", markup=False)
