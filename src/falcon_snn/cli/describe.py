"""`falcon-snn describe`: what a network is made of."""

import typer

from falcon_snn.cli.output import JsonFlag, out, print_json


def describe(
    model: str = typer.Option("medium", help="tiny, medium or large."),
    dataset: str = typer.Option("gsc", help="gsc or ssc."),
    classes: int = typer.Option(35, min=2, help="Number of words."),
    slots: int = typer.Option(7, help="T, the spike slots of a stage."),
    as_json: bool = JsonFlag,
) -> None:
    """Show the parameters, shapes and stages of a network and the paper's architecture table."""
    from falcon_snn.config import falcon_config
    from falcon_snn.network.summary import summary

    facts = summary(falcon_config(model, dataset, classes=classes, slots=slots))
    if as_json:
        print_json({"model": model, "dataset": dataset, **facts})
        return
    from rich.table import Table

    out.print(f"Falcon {model}, {dataset}: {facts['parameters']:,} parameters, T = {slots}")
    table = Table("stage", "operation", "output", "fires with", "parameters")
    for stage in facts["stages"]:
        shape = " x ".join(map(str, stage["shape"]))
        count = f"{stage['parameters']:,}"
        table.add_row(stage["name"], stage["operation"], shape, stage["firing"], count)
    table.columns[0].no_wrap = True
    table.columns[4].justify = "right"
    out.print(table)
    counts = Table("component", "count")
    for name, count in facts["architecture"].items():
        counts.add_row(name, str(count))
    counts.columns[1].justify = "right"
    out.print(counts)
    out.print(f"{len(facts['searchable'])} searchable boundaries")
