"""`falcon-snn throughput`: a stream of samples on the same hardware."""

from typing import Any

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, out, print_styled, print_table, show
from falcon_snn.workflow.sweep import Setup


def throughput(
    setup: Setup = options.SetupOptions,
    gantt: options.Pictures = options.picture("--gantt", "Draw the streams"),
    as_json: bool = JsonFlag,
) -> None:
    """Say how often a sample can enter, what limits it, and how long each then takes."""
    from falcon_snn.report.throughput import draw_streams, throughput_report

    name, schedule = setup.graph.name, setup.schedule
    rows, streams = throughput_report(setup.graph, setup.delays, setup.profile)
    gantt.draw(draw_streams, f"{name}, SNN {schedule}", streams)
    show({"network": name, "schedule": schedule, "streams": rows}, as_json, _print)


def _print(report: dict[str, Any]) -> None:
    print_styled((report["network"], "bold"), f", SNN {report['schedule']}, continuous inference")
    print_table(
        "| engines | limited by | every µs | per s | takes µs | calm: every | takes",
        "{network} | {engines} | {limited_by} | {interval_us:.2f} | {samples_per_s:,.0f} | "
        "{latency_us:.2f} | {undisturbed_interval_us:.2f} | {latency_alone_us:.2f}",
        report["streams"],
    )
    out.print(
        "Left: the densest stream, in which stages wait for shared engines. "
        "Calm: the densest one in which a sample is as fast as alone."
    )
