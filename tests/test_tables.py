"""Tables in a narrow terminal, and figures for a paper."""

import csv
import json
import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.cli.tables import fitted
from falcon_snn.errors import FalconError
from falcon_snn.report.style import look_of


def printed(table: Table, width: int) -> str:
    console = Console(width=width, record=True, file=StringIO())
    for part in fitted(table, width):
        console.print(part)
    return console.export_text()


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_number_is_cut(width: int) -> None:
    heads = ["stage", *(f"a heading of {n} words" for n in range(8))]
    table = Table(*heads)
    numbers = [f"{10**n * 2.272_7:,.2f}" for n in range(8)]
    table.add_row("block0.residual1", *numbers)
    table.add_row("stem.fc1", *("-" for _ in numbers))
    text = printed(table, width)
    assert all(len(line) <= width for line in text.splitlines())
    assert all(number in text for number in numbers)
    assert "…" not in text
    assert "block0.residual1" in text


def test_a_table_that_fits_stays_one() -> None:
    table = Table("name", "value")
    table.add_row("one", "1,000")
    assert [*fitted(table, 80)] == [table]


@pytest.mark.parametrize(
    "words",
    [
        ["throughput"],
        ["related-work"],
        ["graph"],
        ["describe", "--network", "large"],
        ["sweep", "active_rows", "4,9"],
        ["resources", "--share", "1,98"],
        ["models"],
        ["results"],
    ],
)
def test_commands_at_80_columns(words: list[str]) -> None:
    said = CliRunner().invoke(app, words, env={"COLUMNS": "80"})
    assert said.exit_code == 0
    assert "…" not in said.output
    assert not re.search(r"\bus\b", said.output)  # µs
    for line in said.output.splitlines():
        assert len(line) <= 80
        assert line[:1] not in ("│", "┃") or line.rstrip()[-1] == line[0]  # cut columns lose it


def test_figures_for_a_paper(tmp_path: Path) -> None:
    plot = tmp_path / "sharing.svg"
    words = ["resources", "--share", "1,2,98", "--plot", str(plot), "--style", "paper"]
    said = CliRunner().invoke(app, [*words, "--format", "pdf,png", "--json"])
    assert said.exit_code == 0
    assert {file.suffix for file in tmp_path.iterdir()} == {".svg", ".pdf", ".png", ".csv"}
    assert 'width="252pt"' in plot.read_text(encoding="utf-8")  # 3.5 inches
    with (tmp_path / "sharing.csv").open(encoding="utf-8") as file:
        rows = [*csv.DictReader(file)]
    shown = json.loads(said.stdout)["sharing"]
    assert [float(row["snn_us"]) for row in rows] == [row["snn_us"] for row in shown]


def test_a_plain_figure_writes_one_file(tmp_path: Path) -> None:
    words = ["sweep", "active_rows", "4,9", "--plot", str(tmp_path / "a.png")]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert [file.name for file in tmp_path.iterdir()] == ["a.png"]


@pytest.mark.parametrize(("style", "formats"), [("poster", None), ("paper", "svg,gif")])
def test_unknown_styles_and_formats_are_refused(style: str, formats: str | None) -> None:
    with pytest.raises(FalconError, match=r"--style|--format"):
        look_of(style, formats)
