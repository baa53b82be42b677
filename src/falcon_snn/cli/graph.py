"""`falcon-snn graph`: the stages of a network, printed, drawn, or written to edit them."""

from dataclasses import asdict
from pathlib import Path

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, notice, print_json, print_styled, print_table
from falcon_snn.workflow.networks import Timed


def graph(
    timed: Timed = options.TimedNetwork,
    to: Path | None = typer.Option(
        None, "--out", help="Write the graph to edit it (.toml) or draw it (.png, .svg, .pdf)."
    ),
    pictures: options.Pictures = options.PictureOptions,
    as_json: bool = JsonFlag,
) -> None:
    """Show the stages of a network; write them as TOML to make a network of your own."""
    from falcon_snn.files import demand_new, write_text
    from falcon_snn.pipeline.graph import graph_toml
    from falcon_snn.report.graph_picture import draw_graph, stage_sizes

    shown = timed.graph
    if to is not None and to.suffix == ".toml":
        pictures.check(None)
        demand_new(to)
        write_text(to, graph_toml(shown))
        notice(f"graph: {to}")
    else:
        pictures.draw(to, draw_graph, shown)
    if as_json:
        print_json(asdict(shown))
        return
    rows = []
    for stage in shown.stages:
        note = "boundary" if stage.searchable else "full lookahead" if stage.full_lookahead else ""
        if stage.kind == "quantise":
            note = f"prefix {stage.prefix or shown.slots}"
        rows.append({"sizes": stage_sizes(stage), "note": note, **vars(stage),
                     "after": ", ".join(stage.after)})  # fmt: skip
    print_styled((shown.name, "bold"), f", T = {shown.slots}")
    cells = "{name} | {kind} | {after} | {sizes} | {note}"
    print_table("stage | kind | after | sizes |", cells, rows)
