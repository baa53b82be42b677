"""`falcon-snn reproduce`: the paper's tables, figures and claims beside ours."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Column, Table
from rich.text import Text

from falcon_snn.cli.output import WATCH, JsonFlag, command_facts, notice, out, print_json
from falcon_snn.errors import FalconError

if TYPE_CHECKING:
    from falcon_snn.report.exhibit import Exhibit

_STYLES = {"exact": "green", "within 2 %": "green", "differs": "red", "other data": "default"}


def reproduce(
    only: str | None = typer.Option(None, help="One table or figure by its name, such as claims."),
    folder: Path | None = typer.Option(None, "--out", help="Folder for one page and the figures."),
    own: list[Path] = typer.Option(
        [], "--from", help="A folder of results, in place of those shipped; may be repeated."
    ),
    train: bool = typer.Option(
        False, "--train", help="Train what they need into --out first; it says how long that takes."
    ),
    data: str | None = typer.Option(
        None, help="What --train trains on: Speech Commands, gsc-v1 or gsc-v2."
    ),
    setting: str | None = typer.Option(
        None, help="One network of --train alone: gsc-medium, gsc-large or ssc-medium."
    ),
    workers: int = typer.Option(
        1, help="Steps of --train side by side: three keep one large GPU busy."
    ),
    as_json: bool = JsonFlag,
) -> None:
    """Set every table, figure and claim of the paper beside ours, and say where they agree.

    With --train, what is behind them is trained again; a stopped run continues.
    """
    from falcon_snn.report.reproduce import demand_exhibit, exhibits, write_reproduction

    demand_exhibit(only)
    if data is not None and not train:
        raise FalconError("--data is what --train trains on; give both or neither")
    if (workers != 1 or setting is not None) and not train:
        given = "--workers" if workers != 1 else "--setting"
        raise FalconError(f"{given} is of --train; give both or neither")
    if train:
        from falcon_snn.report.measurements import load_measurements
        from falcon_snn.workflow.experiments import reproduce_training

        if folder is None:
            raise FalconError("--train needs --out, the folder to train in")
        if data is None:
            raise FalconError("--train needs --data, Speech Commands: gsc-v1 or gsc-v2")
        load_measurements(own)  # what is wrong with them is said before hours of training
        trained = reproduce_training(
            data,
            folder,
            only=only,
            setting=setting,
            facts=command_facts(),
            workers=workers,
            watch=WATCH,
        )
        own = [*own, trained]
    found = exhibits(only, own)
    if folder is not None:
        notice(f"page: {write_reproduction(found, folder / 'page' if train else folder)}")
    if as_json:
        print_json([
            {"name": one.name, "caption": one.caption,
             "lines": [line._asdict() for line in one.lines], "notes": list(one.notes)}
            for one in found
        ])  # fmt: skip
        return
    for exhibit in found:
        _print(exhibit)


def _print(exhibit: "Exhibit") -> None:
    whose = (Column(name, justify="right", no_wrap=True) for name in ("published", "ours"))
    shown = Table("what", *whose, "agreement", title=f"{exhibit.name}: {exhibit.caption}",
                  title_justify="left")  # fmt: skip
    for line in exhibit.lines:
        figures = (
            "–" if value is None else f"{line.shown(value)} {line.shown_unit}".rstrip()
            for value in (line.published, line.ours)
        )
        mark = Text.assemble((line.verdict, _STYLES.get(line.mark, "dim")))
        shown.add_row(line.what, *figures, mark + f" ({line.spread})" if line.spread else mark)
    out.print(shown)
    for note in (*exhibit.reasons, *exhibit.notes):
        out.print(note, style="dim")
