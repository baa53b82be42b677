"""`falcon-snn resources`: tiles, engines and area, and what sharing arrays would save."""

from typing import Any

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, out, print_styled, print_table, show
from falcon_snn.workflow.sweep import Setup


def resources(
    setup: Setup = options.SetupOptions,
    share: str = typer.Option(
        "1,2,4,7,14,28,49,98", "--share", help="Tokens that take turns on one copy of the arrays."
    ),
    plot: options.Pictures = options.picture("--plot", "Draw the curve"),
    as_json: bool = JsonFlag,
) -> None:
    """Count tiles, neurons, engines and area, and trade tiles for time by sharing arrays."""
    from falcon_snn.pipeline.resources import sharing_curve
    from falcon_snn.pipeline.sweep import parse_values
    from falcon_snn.report.curves import draw_sharing
    from falcon_snn.report.resources import resources_report

    graph, shares = setup.graph, parse_values("tokens_per_copy", share)
    curve = sharing_curve(graph, setup.delays, setup.profile, shares)
    plot.draw(draw_sharing, curve, graph.name)
    show(resources_report(graph, setup.profile, curve), as_json, _print)


def _print(report: dict[str, Any]) -> None:
    print_styled(
        (report["network"], "bold"),
        f": {report['tiles']:,} analog tiles (a sub-array each), "
        f"{report['neurons']:,} neurons, {report['systolic_arrays']} systolic arrays, "
        f"{report['vector_engines']} vector engines",
    )
    for part in ("analog", "digital", "neuron"):
        area = report[f"{part}_area_mm2"]
        known = "unknown to this profile" if area is None else f"{area:,.2f} mm2"
        out.print(f"{part} area: {known}")
    if source := report["neuron_area_source"]:
        out.print(f"neuron units: {source['tag']}, {source['text']}", highlight=False)
    print_table(
        "layer | tiles per copy | copies | tiles | cells used",
        "{layer} | {tiles_per_copy} | {copies:,} | {tiles:,} | {cell_use:.1%}",
        report["layers"],
    )  # fmt: skip
    print_table(
        "stage | neurons | units | buffer bits | membrane bits | cells | mm2",
        "{stage} | {neurons:,} | {units:,} | {buffer_bits:,} | {membrane_bits:,} | {cells:,.0f} | "
        "{area_mm2:,.2f}",
        report["neuron_units"], unknown="unknown",
    )  # fmt: skip
    print_table(
        "tokens per copy | tiles | SNN µs | QNN µs | SNN per s | QNN per s",
        "{tokens_per_copy} | {tiles:,} | {snn_us:.2f} | {qnn_us:.2f} | {snn_per_s:,.0f} | "
        "{qnn_per_s:,.0f}",
        report["sharing"],
    )  # fmt: skip
