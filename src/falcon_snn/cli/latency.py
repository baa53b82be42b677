"""`falcon-snn latency`: when does the network finish, and why then."""

from pathlib import Path
from typing import Any

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, notice, out, print_json
from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile
from falcon_snn.workflow.networks import Timed


def latency(
    network: str = options.Network,
    dataset: str = options.Dataset,
    schedule: str | None = options.Schedule,
    delay: list[str] = options.DelayChanges,
    qk_prefix: int | None = options.QkPrefix,
    slots: int | None = options.Slots,
    qnn: bool = typer.Option(False, "--qnn", help="Time the quantised network instead."),
    hardware: str | None = options.Hardware,
    attention: str | None = options.Attention,
    graph: Path | None = options.GraphFile,
    checkpoint: Path | None = options.Checkpoint,
    pretrained: str | None = options.Pretrained,
    gantt: Path | None = typer.Option(
        None, "--gantt", help="Draw a timeline: .png, .svg, .pdf or .html."
    ),
    compare: str | None = typer.Option(
        None, "--compare", help="A second schedule, or qnn, below the first in --gantt and --trace."
    ),
    trace: Path | None = typer.Option(None, "--trace", help="Write a trace that Perfetto opens."),
    whole: bool = typer.Option(
        False,
        "--end-to-end",
        help="Also what comes before and after the core, from the end of a word to the answer.",
    ),
    every: int = typer.Option(160, help="With --end-to-end: as of `detect`, ms."),
    smooth: int = typer.Option(320, help="With --end-to-end: as of `detect`, ms."),
    style: str = options.Style,
    formats: str | None = options.Formats,
    as_json: bool = JsonFlag,
) -> None:
    """Say when a network finishes, what its critical path is made of, and what has slack."""
    from falcon_snn.pipeline.timing import time_qnn, time_snn
    from falcon_snn.report.latency import qnn_report, snn_report

    timed = options.choose_network(
        network, dataset, graph, checkpoint, pretrained, slots, qk_prefix
    )
    profile = options.choose_profile(hardware, attention)
    stages, delays = timed.graph, timed.delays(schedule, delay)
    if gantt is not None or trace is not None:
        from falcon_snn.report.style import drawn_as
        from falcon_snn.report.timeline import write_timeline, write_trace

        moved = "".join(f", {change}" for change in delay)
        timings = {
            "QNN" if qnn else f"SNN {timed.schedule(schedule)}{moved}": time_qnn(stages, profile)
            if qnn
            else time_snn(stages, delays, profile)
        }
        if compare is not None:
            timings["QNN" if compare == "qnn" else f"SNN {compare}"] = (
                time_qnn(stages, profile)
                if compare == "qnn"
                else time_snn(stages, timed.delays(compare), profile)
            )
        if gantt is not None:
            with drawn_as(style, formats):
                write_timeline(gantt, stages.name, timings)
            notice(f"timeline: {gantt}")
        if trace is not None:
            write_trace(trace, timings)
            notice(f"trace: {trace} (open it at ui.perfetto.dev)")
    report = qnn_report(stages, profile) if qnn else snn_report(stages, delays, profile)
    if whole:
        report["end_to_end"] = _whole(timed, report["core_latency_us"], profile, every, smooth)
    if as_json:
        print_json(report)
        return
    _print(report)
    if whole:
        _print_whole(report["end_to_end"])


def _whole(timed: Timed, core_us: float, profile: Profile, every: int, smooth: int) -> Any:
    from falcon_snn.report.end_to_end import end_to_end
    from falcon_snn.workflow.detecting import Rule

    if timed.network is None:
        raise FalconError("--end-to-end: a stage graph says nothing about its input and readout")
    rule = Rule(every_ms=every, smooth_ms=smooth)
    return end_to_end(timed.network, core_us, profile, rule.every_ms, rule.averaged)


def _print_whole(found: dict[str, Any]) -> None:
    from rich.table import Table

    out.print("from the end of a word to the answer")
    table = Table("part", "µs", "tag", "how")
    for row in found["parts"]:
        table.add_row(row["part"], f"{row['us']:,.2f}", row["tag"], row["how"])
    out.print(table)
    out.print(
        f"in all {found['total_us'] / 1000:,.2f} ms at most, {found['computed_us']:,.2f} µs of it "
        f"computed: the core is {found['core_percent_of_computed']:.1f} % of that and "
        f"{found['core_percent_of_total']:.2g} % of all"
    )


def _print(report: dict[str, Any]) -> None:
    from rich.table import Table

    out.print(
        f"[bold]{report['network']}[/], T = {report['slots']}, hardware '{report['hardware']}', "
        f"{report['attention']} attention: core latency "
        f"[bold]{report['core_latency_us']:.2f} µs[/] ({report['core_latency_cycles']} cycles)"
    )
    rivals = [("QNN", "matched_qnn_us"), ("bit-parallel QNN", "bit_parallel_qnn_us"),
              ("QNN that overlaps row groups", "overlapped_qnn_us"),
              ("full lookahead", "full_lookahead_us")]  # fmt: skip
    line = [f"{name} {report[key]:.2f}" for name, key in rivals if key in report]
    out.print("in µs: " + ", ".join(line))
    parts = report["critical_path_parts_us"]
    out.print("critical path: " + ", ".join(f"{part} {us:.2f}" for part, us in parts.items()))
    if "boundaries" not in report:
        _print_stages(report)
        return
    ready = {stage["name"]: stage for stage in report["stages"]}
    out.print("slots of each boundary; slack; what one more slot of delay would add (µs)")
    table = Table("boundary", "delay", "first", "last", "slack", "+1 delay")
    for boundary in report["boundaries"]:
        stage, more = ready[boundary["name"]], boundary["next_delay_us"]
        table.add_row(
            boundary["name"], str(boundary["delay"]), f"{stage['first_ready_us']:.2f}",
            f"{stage['last_ready_us']:.2f}", f"{boundary['slack_us']:.2f}",
            "-" if more is None else f"{more:+.2f}",
        )  # fmt: skip
    out.print(table)


def _print_stages(report: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table("stage", "kind", "ready (µs)")
    for stage in report["stages"]:
        table.add_row(stage["name"], stage["kind"], f"{stage['last_ready_us']:.2f}")
    out.print(table)
