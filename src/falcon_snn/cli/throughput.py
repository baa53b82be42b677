"""`falcon-snn throughput`: a stream of samples on the same hardware."""

from pathlib import Path

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, notice, out, print_json


def throughput(
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
    gantt: Path | None = typer.Option(None, "--gantt", help="Draw the streams: .png, .svg, .pdf."),
    style: str = options.Style,
    formats: str | None = options.Formats,
    as_json: bool = JsonFlag,
) -> None:
    """Say how often a sample can enter, what limits it, and how long each then takes."""
    from falcon_snn.report.style import drawn_as
    from falcon_snn.report.throughput import draw_streams, throughput_report

    timed = options.choose_network(
        network, dataset, graph, checkpoint, pretrained, slots, qk_prefix
    )
    profile = options.choose_profile(hardware, attention)
    schedule, name = timed.schedule(schedule), timed.graph.name
    rows, streams = throughput_report(timed.graph, timed.delays(schedule, delay), profile)
    if gantt is not None:
        with drawn_as(style, formats):
            draw_streams(gantt, f"{name}, SNN {schedule}", streams)
        notice(f"timeline: {gantt}")
    if as_json:
        print_json({"network": name, "schedule": schedule, "streams": rows})
        return
    from rich.table import Table

    table = Table("", "engines", "limited by", "every µs", "per s", "takes µs",
                  "calm: every", "takes")  # fmt: skip
    for row in rows:
        table.add_row(
            row["network"], row["engines"], row["limited_by"], f"{row['interval_us']:.2f}",
            f"{row['samples_per_s']:,.0f}", f"{row['latency_us']:.2f}",
            f"{row['undisturbed_interval_us']:.2f}", f"{row['latency_alone_us']:.2f}",
        )  # fmt: skip
    out.print(f"[bold]{name}[/], SNN {schedule}, continuous inference")
    out.print(table)
    out.print(
        "Left: the densest stream, in which stages wait for shared engines. "
        "Calm: the densest one in which a sample is as fast as alone."
    )
