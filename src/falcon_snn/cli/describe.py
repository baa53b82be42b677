"""`falcon-snn describe`: what a network is made of."""

from pathlib import Path

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, out, print_json
from falcon_snn.errors import FalconError


def describe(
    network: str = options.Network,
    dataset: str = options.Dataset,
    checkpoint: Path | None = options.Checkpoint,
    pretrained: str | None = options.Pretrained,
    classes: int | None = typer.Option(
        None, min=2, help="Classes of a built-in network (default 35)."
    ),
    slots: int | None = options.Slots,
    as_json: bool = JsonFlag,
) -> None:
    """Show the parameters, multiply-accumulates, shapes and stages of a network."""
    from falcon_snn.network.summary import summary
    from falcon_snn.workflow.networks import built_in

    file = options.optional_file(checkpoint, pretrained)
    if file is None:
        chosen = built_in(network, dataset, classes=classes or 35, slots=slots)
    else:
        from falcon_snn.training.checkpoint import load_metadata

        if classes is not None:
            raise FalconError("--classes is for a built-in network; a checkpoint has its own")
        chosen = load_metadata(file).network
        chosen = chosen if slots is None else chosen.with_slots(slots)
    facts = summary(chosen)
    if as_json:
        print_json(facts)
        return
    from rich.table import Table

    out.print(
        f"[bold]{facts['name']}[/], T = {facts['slots']}: {facts['parameters']:,} parameters, "
        f"{facts['macs']:,} multiply-accumulates per slot"
    )
    table = Table("stage", "operation", "output", "fires with", "parameters")
    for stage in facts["stages"]:
        shape = " x ".join(map(str, stage["shape"]))
        count = f"{stage['parameters']:,}"
        table.add_row(stage["name"], stage["operation"], shape, stage["firing"], count)
    table.columns[0].no_wrap = True
    table.columns[4].justify = "right"
    out.print(table)
    out.print(f"{len(facts['searchable'])} searchable boundaries")
