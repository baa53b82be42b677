"""`falcon-snn graph`: the stages of a network, printed, drawn, or written to edit them."""

from dataclasses import asdict
from pathlib import Path

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, notice, print_json, print_styled, print_table
from falcon_snn.report.style import check_picture
from falcon_snn.workflow.networks import Timed


def _check(path: Path) -> None:
    if path.suffix != ".toml":
        check_picture(path)


def graph(
    timed: Timed = options.TimedNetwork,
    to: options.Pictures = options.picture(
        "--out", "Write the graph to edit it (.toml), or draw it", _check
    ),
    as_json: bool = JsonFlag,
) -> None:
    """Show the stages of a network; write them as TOML to make a network of your own."""
    from falcon_snn.files import demand_new, write_text
    from falcon_snn.pipeline.graph import graph_toml
    from falcon_snn.report.graph_picture import draw_graph, stage_sizes

    shown = timed.graph
    if to.path is not None and to.path.suffix == ".toml":
        demand_new(to.path)
        write_text(to.path, graph_toml(shown))
        notice(f"graph: {to.path}")
    else:
        to.draw(draw_graph, shown)
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
