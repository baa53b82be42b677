"""`falcon-snn graph`: the stages of a network, printed, drawn, or written to edit them."""

from pathlib import Path

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, notice, out, print_json


def graph(
    network: str = options.Network,
    dataset: str = options.Dataset,
    graph: Path | None = options.GraphFile,
    checkpoint: Path | None = options.Checkpoint,
    pretrained: str | None = options.Pretrained,
    slots: int | None = options.Slots,
    qk_prefix: int | None = options.QkPrefix,
    to: Path | None = typer.Option(
        None, "--out", help="Write the graph to edit it (.toml) or draw it (.png, .svg, .pdf)."
    ),
    style: str = options.Style,
    formats: str | None = options.Formats,
    as_json: bool = JsonFlag,
) -> None:
    """Show the stages of a network; write them as TOML to make a network of your own."""
    from dataclasses import asdict

    from falcon_snn.files import write_text
    from falcon_snn.pipeline.graph import graph_toml
    from falcon_snn.report.graph_picture import draw_graph, stage_sizes
    from falcon_snn.report.style import drawn_as

    shown = options.choose_network(
        network, dataset, graph, checkpoint, pretrained, slots, qk_prefix
    ).graph
    if to is not None:
        if to.suffix == ".toml":
            write_text(to, graph_toml(shown))
        else:
            with drawn_as(style, formats):
                draw_graph(to, shown)
        notice(f"graph: {to}")
    if as_json:
        print_json(asdict(shown))
        return
    from rich.table import Table

    table = Table("stage", "kind", "after", "sizes", "")
    for stage in shown.stages:
        note = "boundary" if stage.searchable else "full lookahead" if stage.full_lookahead else ""
        if stage.kind == "quantise":
            note = f"prefix {stage.prefix or shown.slots}"
        table.add_row(stage.name, stage.kind, ", ".join(stage.after), stage_sizes(stage), note)
    out.print(f"[bold]{shown.name}[/], T = {shown.slots}")
    out.print(table)
