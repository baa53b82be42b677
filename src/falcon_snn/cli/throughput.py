"""`falcon-snn throughput`: a stream of samples on the same hardware."""

from pathlib import Path

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, notice, out, print_json


def throughput(
    model: str = options.Model,
    dataset: str = options.Dataset,
    schedule: str = options.Schedule,
    delay: list[str] = options.DelayChanges,
    qk_prefix: int | None = options.QkPrefix,
    slots: int | None = options.Slots,
    hardware: str | None = options.Hardware,
    attention: str | None = options.Attention,
    graph: Path | None = options.GraphFile,
    gantt: Path | None = typer.Option(None, "--gantt", help="Draw the streams: .png, .svg, .pdf."),
    as_json: bool = JsonFlag,
) -> None:
    """Say how often a sample can enter, what limits it, and what each then takes."""
    from falcon_snn.report.throughput import draw_streams, throughput_report

    network = options.choose_graph(model, dataset, graph, slots, qk_prefix)
    profile = options.choose_profile(hardware, attention)
    delays = options.choose_delays(schedule, delay, network, model, dataset, own=graph is not None)
    rows, streams = throughput_report(network, delays, profile)
    if gantt is not None:
        draw_streams(gantt, f"{network.name}, SNN {schedule}", streams)
        notice(f"timeline: {gantt}")
    if as_json:
        print_json({"network": network.name, "schedule": schedule, "streams": rows})
        return
    from rich.table import Table

    table = Table("", "engines", "limited by", "every us", "per s", "takes us",
                  "calm: every", "takes")  # fmt: skip
    for row in rows:
        table.add_row(
            row["network"], row["engines"], row["limited_by"], f"{row['interval_us']:.2f}",
            f"{row['samples_per_s']:,.0f}", f"{row['latency_us']:.2f}",
            f"{row['undisturbed_interval_us']:.2f}", f"{row['latency_alone_us']:.2f}",
        )  # fmt: skip
    out.print(f"[bold]{network.name}[/], SNN {schedule}, continuous inference")
    out.print(table)
    out.print(
        "Left: the densest stream, in which stages wait for shared engines. "
        "Calm: the densest one in which a sample is as fast as alone."
    )
