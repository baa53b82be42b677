"""`falcon-snn latency`: when does the network finish, and why then."""

from pathlib import Path
from typing import Any

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, notice, out, print_styled, print_table, show
from falcon_snn.errors import FalconError
from falcon_snn.report.timeline import demand_timeline
from falcon_snn.workflow.sweep import Setup


def latency(
    setup: Setup = options.SetupOptions,
    qnn: bool = typer.Option(False, "--qnn", help="Time the quantised network instead."),
    gantt: options.Pictures = options.picture(
        "--gantt", "Draw a timeline", demand_timeline, ".png, .svg, .pdf or .html"
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
    every: int | None = typer.Option(
        None, help="With --end-to-end: ms from one look to the next (default: 80)."
    ),
    smooth: int | None = typer.Option(
        None, help="With --end-to-end: ms that confidences are averaged (default: 240)."
    ),
    as_json: bool = JsonFlag,
) -> None:
    """Say when a network finishes, what its critical path is made of, and what has slack."""
    from falcon_snn.report.latency import qnn_report, snn_report
    from falcon_snn.report.timeline import write_timeline, write_trace

    if not whole and not every is smooth is None:
        raise FalconError("--every and --smooth are about the whole delay; add --end-to-end")
    if qnn and (setup.asked is not None or setup.changes):
        raise FalconError("--schedule and --delay are about spikes; leave them out, or leave --qnn")
    # A name that is none is refused without a picture, too.
    timings = setup.timings("qnn" if qnn else None, *([] if compare is None else [compare]))
    graph, profile = setup.graph, setup.profile
    report = qnn_report(graph, profile) if qnn else snn_report(graph, setup.delays, profile)
    if whole:
        report["end_to_end"] = _whole(setup, report["core_latency_us"], every, smooth)
    gantt.draw(write_timeline, graph.name, timings)
    if trace is not None:
        write_trace(trace, timings)
        notice(f"trace: {trace} (open it at ui.perfetto.dev)")
    show(report, as_json, _print)


def _whole(setup: Setup, core_us: float, every: int | None, smooth: int | None) -> dict[str, Any]:
    from falcon_snn.report.end_to_end import end_to_end
    from falcon_snn.workflow.detecting import Rule

    if setup.timed.network is None:
        raise FalconError("--end-to-end: a stage graph says nothing about its input and readout")
    asked = {"every_ms": every, "smooth_ms": smooth}
    rule = Rule(**{name: ms for name, ms in asked.items() if ms is not None})
    return end_to_end(setup.timed.network, core_us, setup.profile, rule.every_ms, rule.averaged)


def _print(report: dict[str, Any]) -> None:
    attends = any(stage["kind"] == "product" for stage in report["stages"])
    print_styled(
        (report["network"], "bold"), f", T = {report['slots']}, hardware '{report['hardware']}'",
        f", {report['attention']} attention" if attends else "", ": core latency ",
        (f"{report['core_latency_us']:.2f} µs", "bold"),
        f" ({report['core_latency_cycles']:,} cycles)",
    )  # fmt: skip
    rivals = [("QNN", "matched_qnn_us"), ("bit-parallel QNN", "bit_parallel_qnn_us"),
              ("QNN that overlaps row groups", "overlapped_qnn_us"),
              ("full lookahead", "full_lookahead_us")]  # fmt: skip
    line = [f"{name} {report[key]:.2f}" for name, key in rivals if key in report]
    out.print("in µs: " + ", ".join(line))
    parts = report["critical_path_parts_us"]
    out.print("critical path, µs: " + ", ".join(f"{part} {us:.2f}" for part, us in parts.items()))
    if "boundaries" in report:
        ready = {stage["name"]: stage for stage in report["stages"]}
        out.print("first and last slot, slack, and what one more slot of delay adds, all in µs")
        print_table(
            "boundary | delay | first | last | slack | +1 delay",
            "{name} | {delay} | {first_ready_us:.2f} | {last_ready_us:.2f} | {slack_us:.2f} | "
            "{next_delay_us:+.2f}",
            [ready[one["name"]] | one for one in report["boundaries"]],
        )  # fmt: skip
    else:
        cells = "{name} | {kind} | {last_ready_us:.2f}"
        print_table("stage | kind | ready (µs)", cells, report["stages"])
    if "end_to_end" in report:
        _print_whole(report["end_to_end"])


def _print_whole(found: dict[str, Any]) -> None:
    out.print("from the end of a word to the answer")
    cells = "{part} | {us:,.2f} | {tag} | {how}"
    print_table("part | µs | tag | how", cells, found["parts"])
    out.print(
        f"in all {found['total_us'] / 1000:,.2f} ms at most, {found['computed_us']:,.2f} µs of it "
        f"computed: the core is {found['core_percent_of_computed']:.1f} % of that and "
        f"{found['core_percent_of_total']:.2g} % of all"
    )
