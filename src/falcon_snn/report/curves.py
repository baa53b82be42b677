"""Curves of sweeps and of arrays that tokens share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from falcon_snn.pipeline.resources import SharingPoint
from falcon_snn.pipeline.sweep import SweepPoint
from falcon_snn.report.style import check_picture, one_column, save_figure, shared_legend

_LINES = (
    ("snn_us", "SNN", "#e1812c", "-"),
    ("qnn_us", "QNN", "#3b76af", "-"),
    ("overlapped_qnn_us", "QNN, overlapping row groups", "#3b76af", "--"),
    ("bit_parallel_qnn_us", "QNN, bit-parallel", "#3b76af", ":"),
    ("full_us", "SNN, full lookahead", "#9a9a9a", "-"),
)


def draw_sweep(path: Path, key: str, points: Sequence[SweepPoint], title: str) -> None:
    """Latency against the value that moves."""
    figure = _figure(path, (8, 4.8), layout="constrained")
    axis = figure.subplots()
    values = [point.value for point in points]
    for name, label, colour, style in _LINES:
        latencies = [getattr(point, name) for point in points]
        axis.plot(values, latencies, style, marker="o", markersize=4, color=colour, label=label)
    axis.set(xlabel=key, ylabel="core latency (µs)", title=title, ylim=(0, None))
    if all(value == int(value) for value in values):
        axis.xaxis.get_major_locator().set_params(integer=True)
    _finish(axis)
    shared_legend(figure, columns=3)
    save_figure(figure, path, [{key: point.value, **_latencies(point)} for point in points])


def draw_sharing(path: Path, points: Sequence[SharingPoint], title: str) -> None:
    """Latency and throughput against the number of sub-arrays."""
    figure = _figure(path, (11, 4.6))
    left, right = figure.subplots(1, 2)
    tiles = [point.tiles for point in points]
    for axis, unit, names, below in (
        (left, "core latency (µs)", ("snn_us", "qnn_us"), (-4, -11)),
        (right, "samples per second", ("snn_per_s", "qnn_per_s"), (4, -10)),
    ):
        for name, label, colour in zip(names, ("SNN", "QNN"), ("#e1812c", "#3b76af"), strict=True):
            values = [getattr(point, name) for point in points]
            axis.loglog(tiles, values, "-o", markersize=4, color=colour, label=label)
        for point in points:
            axis.annotate(
                str(point.tokens_per_copy), (point.tiles, getattr(point, names[0])),
                textcoords="offset points", xytext=below, fontsize=8,
                ha="right" if below[0] < 0 else "left",
            )  # fmt: skip
        axis.set(xlabel="analog tiles", ylabel=unit)
        axis.margins(0.12)
        _plain_log_ticks(axis.xaxis, few=True)
        _plain_log_ticks(axis.yaxis, few=one_column())
        _finish(axis)
        axis.legend(frameon=False, fontsize=9)
    figure.suptitle(f"{title}; numbers: tokens that share one copy of the arrays", fontsize=11)
    figure.tight_layout()
    save_figure(figure, path, [point._asdict() for point in points])


def _figure(
    path: Path, size: tuple[float, float], layout: Literal["constrained"] | None = None
) -> Any:
    from matplotlib.figure import Figure

    check_picture(path)
    return Figure(figsize=size, dpi=120, layout=layout)


def _finish(axis: Any) -> None:
    axis.grid(color="#e6e6e6")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _latencies(point: SweepPoint) -> dict[str, float]:
    return {name: getattr(point, name) for name, *_ in _LINES}


def _plain_log_ticks(line: Any, *, few: bool) -> None:
    """Whole numbers at 1, 2 and 5 of each decade; fewer for many decades or wide numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = line.get_view_interval()
    many = high / max(low, 1e-12) > 500
    some = (1.0, 3.0) if few else (1.0, 2.0, 5.0)
    line.set_major_locator(LogLocator(subs=(1.0,) if many else some))
    line.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    line.set_minor_formatter(NullFormatter())
