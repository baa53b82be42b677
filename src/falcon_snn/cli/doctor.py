"""`falcon-snn doctor`: what this machine has, and what each missing thing costs."""

from rich.table import Table
from rich.text import Text

from falcon_snn.cli.output import JsonFlag, out, print_json


def doctor(as_json: bool = JsonFlag) -> None:
    """Say what this machine has, and what each missing thing costs."""
    from falcon_snn.workflow.doctor import examine

    rows = examine()
    if as_json:
        print_json(rows)
        return
    shown = Table("", "what", "seen", "what its absence costs")
    for row in rows:
        mark = Text("yes", "green") if row["present"] else Text("no", "yellow")
        shown.add_row(mark, row["name"], row["seen"], row["cost"])
    out.print(shown)
