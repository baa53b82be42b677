"""`falcon-snn graph`: the stages of a network, printed, drawn, or written to edit them."""

from pathlib import Path

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, notice, out, print_json


def graph(
    model: str = options.Model,
    dataset: str = options.Dataset,
    graph: Path | None = options.GraphFile,
    slots: int | None = options.Slots,
    qk_prefix: int | None = options.QkPrefix,
    to: Path | None = typer.Option(
        None, "--out", help="Write the graph to edit it (.toml) or draw it (.png, .svg, .pdf)."
    ),
    as_json: bool = JsonFlag,
) -> None:
    """Show the stages of a network; write them as TOML to make a network of your own."""
    from dataclasses import asdict

    from falcon_snn.files import write_text
    from falcon_snn.pipeline.graph import graph_toml
    from falcon_snn.report.graph_picture import draw_graph, stage_sizes

    network = options.choose_graph(model, dataset, graph, slots, qk_prefix)
    if to is not None:
        if to.suffix == ".toml":
            write_text(to, graph_toml(network))
        else:
            draw_graph(to, network)
        notice(f"graph: {to}")
    if as_json:
        print_json(asdict(network))
        return
    from rich.table import Table

    table = Table("stage", "kind", "after", "sizes", "")
    for stage in network.stages:
        note = "boundary" if stage.searchable else "full lookahead" if stage.full_lookahead else ""
        if stage.kind == "quantise":
            note = f"prefix {stage.prefix or network.slots}"
        table.add_row(stage.name, stage.kind, ", ".join(stage.after), stage_sizes(stage), note)
    out.print(f"[bold]{network.name}[/], T = {network.slots}")
    out.print(table)
