"""`falcon-snn resources`: tiles, engines and area, and what sharing arrays would save."""

from pathlib import Path
from typing import Any

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, notice, out, print_json


def resources(
    network: str = options.Network,
    dataset: str = options.Dataset,
    schedule: str | None = options.Schedule,
    delay: list[str] = options.DelayChanges,
    qk_prefix: int | None = options.QkPrefix,
    slots: int | None = options.Slots,
    hardware: str | None = options.Hardware,
    attention: str | None = options.Attention,
    graph: Path | None = options.GraphFile,
    checkpoint: Path | None = options.Checkpoint,
    pretrained: str | None = options.Pretrained,
    share: str = typer.Option(
        "1,2,4,7,14,28,49,98", "--share", help="Tokens that take turns on one copy of the arrays."
    ),
    plot: Path | None = typer.Option(None, "--plot", help="Draw the curve: .png, .svg or .pdf."),
    style: str = options.Style,
    formats: str | None = options.Formats,
    as_json: bool = JsonFlag,
) -> None:
    """Count tiles, neurons, engines and area, and trade tiles for time by sharing arrays."""
    from falcon_snn.pipeline.resources import count_resources, sharing_curve
    from falcon_snn.pipeline.sweep import parse_values

    timed = options.choose_network(
        network, dataset, graph, checkpoint, pretrained, slots, qk_prefix
    )
    profile = options.choose_profile(hardware, attention)
    stages, delays = timed.graph, timed.delays(schedule, delay)
    counted = count_resources(stages, profile)
    curve = sharing_curve(stages, delays, profile, parse_values("tokens_per_copy", share))
    if plot is not None:
        from falcon_snn.report.curves import draw_sharing
        from falcon_snn.report.style import drawn_as

        with drawn_as(style, formats):
            draw_sharing(plot, curve, stages.name)
        notice(f"plot: {plot}")
    shared = "shared_" if profile.neurons_per_unit > 1 else ""
    source = profile.sources.get(f"{shared}neuron_area_um2")
    report: dict[str, Any] = {
        "network": stages.name,
        "tiles": counted.tiles,
        "neurons": counted.neurons,
        "systolic_arrays": counted.arrays,
        "vector_engines": counted.engines,
        "analog_area_mm2": counted.analog_area_mm2,
        "digital_area_mm2": counted.digital_area_mm2,
        "neuron_area_mm2": counted.neuron_area_mm2,
        "neuron_area_source": None if source is None else source._asdict(),
        "neuron_units": [unit._asdict() for unit in counted.units],
        "layers": [
            {**layer._asdict(), "cell_use": round(layer.cell_use, 4), "tiles": layer.tiles}
            for layer in counted.layers
        ],
        "sharing": [point._asdict() for point in curve],
    }
    if as_json:
        print_json(report)
    else:
        _print(report)


def _print(report: dict[str, Any]) -> None:
    from rich.table import Table

    out.print(
        f"[bold]{report['network']}[/]: {report['tiles']:,} analog tiles (a sub-array each), "
        f"{report['neurons']:,} neurons, {report['systolic_arrays']} systolic arrays, "
        f"{report['vector_engines']} vector engines"
    )
    for part in ("analog", "digital", "neuron"):
        area = report[f"{part}_area_mm2"]
        known = "unknown to this profile" if area is None else f"{area:,.2f} mm2"
        out.print(f"{part} area: {known}")
    if source := report["neuron_area_source"]:
        out.print(f"neuron units: {source['tag']}, {source['text']}", highlight=False)
    layers = Table("layer", "tiles per copy", "copies", "tiles", "cells used")
    for layer in report["layers"]:
        layers.add_row(
            layer["layer"], str(layer["tiles_per_copy"]), f"{layer['copies']:,}",
            f"{layer['tiles']:,}", f"{layer['cell_use']:.1%}",
        )  # fmt: skip
    out.print(layers)
    units = Table("stage", "neurons", "units", "buffer bits", "membrane bits", "cells", "mm2")
    for unit in report["neuron_units"]:
        cells, area = unit["cells"], unit["area_mm2"]
        units.add_row(
            unit["stage"], f"{unit['neurons']:,}", f"{unit['units']:,}",
            f"{unit['buffer_bits']:,}", f"{unit['membrane_bits']:,}",
            "unknown" if cells is None else f"{cells:,.0f}",
            "unknown" if area is None else f"{area:,.2f}",
        )  # fmt: skip
    out.print(units)
    curve = Table("tokens per copy", "tiles", "SNN µs", "QNN µs", "SNN per s", "QNN per s")
    for point in report["sharing"]:
        curve.add_row(
            str(point["tokens_per_copy"]), f"{point['tiles']:,}", f"{point['snn_us']:.2f}",
            f"{point['qnn_us']:.2f}", f"{point['snn_per_s']:,.0f}", f"{point['qnn_per_s']:,.0f}",
        )  # fmt: skip
    out.print(curve)
