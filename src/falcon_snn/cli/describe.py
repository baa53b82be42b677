"""`falcon-snn describe`: what a network is made of."""

from pathlib import Path

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, out, print_json, print_styled, print_table
from falcon_snn.errors import FalconError


def describe(
    network: str | None = options.Network,
    dataset: str | None = options.Dataset,
    file: Path | None = options.OptionalFile,
    classes: int | None = typer.Option(
        None, min=2, help="Classes of a built-in network (default 35)."
    ),
    slots: int | None = options.Slots,
    as_json: bool = JsonFlag,
) -> None:
    """Show the parameters, multiply-accumulates, shapes and stages of a network."""
    from falcon_snn.network.summary import summary
    from falcon_snn.workflow.networks import built_in

    name, source = options.built_in_name(network, dataset, file)
    if file is None:
        chosen = built_in(name, source, classes=classes or 35, slots=slots)
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
    print_styled(
        (facts["name"], "bold"),
        f", T = {facts['slots']}: {facts['parameters']:,} parameters, "
        f"{facts['macs']:,} multiply-accumulates per slot",
    )
    print_table(
        "stage | operation | output | fires with | parameters",
        "{name} | {operation} | {shape} | {firing} | {parameters:,}",
        [one | {"shape": " x ".join(map(str, one["shape"]))} for one in facts["stages"]],
    )
    out.print(f"{len(facts['searchable'])} searchable boundaries")
