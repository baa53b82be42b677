"""Continuous inference of SNN and QNN, with shared engines and with engines per block."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from falcon_snn.hardware.profile import Profile
from falcon_snn.pipeline.graph import Graph
from falcon_snn.pipeline.resources import samples_per_s
from falcon_snn.pipeline.steps import Plan, qnn_plan, snn_plan
from falcon_snn.pipeline.throughput import SampleStream, Throughput, measure_throughput
from falcon_snn.pipeline.timing import time_qnn, time_snn
from falcon_snn.report.style import bare_rows, check_picture, save_figure

SHARINGS = ("shared", "per-block")
SAMPLES_DRAWN = 6
_PALETTE = ("#3b76af", "#e1812c", "#3a923a", "#b03030", "#845b97", "#8a6a52")


def throughput_report(
    graph: Graph, delays: Mapping[str, int], profile: Profile
) -> tuple[list[dict[str, Any]], dict[str, SampleStream]]:
    """One row per network and setting of the engines, and the densest stream of each."""
    rows: list[dict[str, Any]] = []
    streams: dict[str, SampleStream] = {}
    for sharing in SHARINGS:
        chip = replace(profile, engine_sharing=sharing)
        for network, plan, alone in (
            ("SNN", snn_plan(graph, delays, chip), time_snn(graph, delays, chip)),
            ("QNN", qnn_plan(graph, chip), time_qnn(graph, chip)),
        ):
            measured = measure_throughput(plan)
            rows.append(_row(network, sharing, plan, measured, alone.core_us))
            streams[f"{network}, {sharing} engines"] = measured.densest
    return rows, streams


def _row(
    network: str, sharing: str, plan: Plan, measured: Throughput, alone_us: float
) -> dict[str, Any]:
    profile = plan.profile

    def us(cycles: int) -> float:
        return round(cycles * profile.cycle_ns / 1000, 4)

    return {
        "network": network,
        "engines": sharing,
        "limited_by": measured.limits[0].resource,
        "interval_us": us(measured.densest.interval),
        "samples_per_s": round(samples_per_s(measured.densest.interval, profile), 1),
        "latency_us": us(measured.densest.latency),
        "in_flight": measured.densest.in_flight,
        "latency_alone_us": round(alone_us, 4),
        "undisturbed_interval_us": us(measured.undisturbed.interval),
        "undisturbed_samples_per_s": round(
            samples_per_s(measured.undisturbed.interval, profile), 1
        ),
    }


def draw_streams(path: Path, title: str, streams: Mapping[str, SampleStream]) -> None:
    """The first samples of each stream: a row per array, engine and block, a colour per sample."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    check_picture(path)
    rows = {name: _resource_rows(stream) for name, stream in streams.items()}
    heights = [len(found) for found in rows.values()]
    figure = Figure(figsize=(14, 1.2 + sum(0.2 * height + 0.55 for height in heights)), dpi=110)
    axes = figure.subplots(len(streams), 1, squeeze=False, height_ratios=heights, sharex=True)
    for axis, (name, stream) in zip(axes[:, 0], streams.items(), strict=True):
        _draw(axis, stream, rows[name])
        us = stream.plan.profile.cycle_ns / 1000
        axis.set_title(
            f"{name}: a sample every {stream.interval * us:.2f} µs, "
            f"each takes {stream.latency * us:.2f} µs",
            loc="left", fontsize=10, fontweight="bold",
        )  # fmt: skip
    axes[-1, 0].set_xlabel("time (µs)")
    handles = [Patch(color=c, label=f"sample {n}") for n, c in enumerate(_PALETTE)]
    figure.legend(handles=handles, loc="upper right", ncols=len(handles), frameon=False, fontsize=8)
    figure.suptitle(title, x=0.01, ha="left")
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.3 / figure.get_figheight()))
    save_figure(figure, path, [row for n, s in streams.items() for row in _span_rows(n, s)])


def _span_rows(name: str, stream: SampleStream) -> list[dict[str, Any]]:
    """When each resource is busy with the first sample; the others follow at the interval."""
    us = stream.plan.profile.cycle_ns / 1000
    return [
        {"stream": name, "interval_us": round(stream.interval * us, 4), "resource": span.resource,
         "start_us": round(span.start * us, 4), "end_us": round(span.end * us, 4)}
        for span in stream.spans
    ]  # fmt: skip


def _resource_rows(stream: SampleStream) -> dict[str, int]:
    names = dict.fromkeys(
        span.resource.removesuffix(".array")
        for span in stream.spans
        if " neurons" not in span.resource  # too short to be seen
    )
    return {name: number for number, name in enumerate(names)}


def _draw(axis: Any, stream: SampleStream, rows: Mapping[str, int]) -> None:
    us = stream.plan.profile.cycle_ns / 1000
    for span in stream.spans:
        row = rows.get(span.resource.removesuffix(".array"))
        if row is None:
            continue
        for sample in range(SAMPLES_DRAWN):
            axis.barh(
                row, (span.end - span.start) * us,
                left=(span.start + sample * stream.interval) * us, height=0.72,
                color=_PALETTE[sample], edgecolor="white", linewidth=0.3,
            )  # fmt: skip
    bare_rows(axis, list(rows))
