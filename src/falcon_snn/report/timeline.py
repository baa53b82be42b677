"""Timelines of one or more runs, one above the other: picture, interactive page, Perfetto trace."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from falcon_snn.errors import FalconError
from falcon_snn.files import demand_file_target, write_json, write_text
from falcon_snn.pipeline.chrome_trace import TraceSpan, chrome_trace
from falcon_snn.pipeline.graph import INPUT, Graph
from falcon_snn.pipeline.steps import Step
from falcon_snn.pipeline.timing import Timing, critical_path
from falcon_snn.report.style import MATPLOTLIB, PICTURES, bare_rows, save_figure

# Colour-blind safe; waiting is pale so that work stands out.
COLOURS = {
    "analog pass": "#3b76af",
    "firing": "#e1812c",
    "attention": "#3a923a",
    "waiting": "#c9c3d6",
}
PATH_COLOUR = "#b03030"
LEGEND = COLOURS | {"critical path": PATH_COLOUR}
# Offset and width of thin bars in their row, which reaches from -0.5 (top) to 0.5.
_THIN = {"waiting": (0.15, 0.3), "critical path": (0.34, 0.16)}
_KIND_OF_STEP = {
    "analog": "analog pass", "fire": "firing", "quantise": "firing",
    "product": "attention", "drain": "attention", "elementwise": "attention",
}  # fmt: skip


class Bar(NamedTuple):
    """One bar of a timeline."""

    row: str
    kind: str  # a key of LEGEND
    label: str
    start_us: float
    end_us: float


def bars(timing: Timing) -> list[Bar]:
    """Every step, and the stretches in which a slot or an operand was there and had to wait."""
    rows = _rows_of(timing.graph)
    found: list[Bar] = []
    waits: dict[str, list[tuple[int, int]]] = {}
    for index, step in enumerate(timing.steps):
        row, start, end = rows[step.stage], timing.starts[index], timing.ends[index]
        kind = _KIND_OF_STEP[step.kind]
        found.append(Bar(row, kind, _label(step), timing.us(start), timing.us(end)))
        for stage, since in _waiting(timing, step):
            if since < start:
                waits.setdefault(rows[stage], []).append((since, start))
    for row, intervals in waits.items():
        for start, end in _union(intervals):
            found.append(Bar(row, "waiting", "waiting", timing.us(start), timing.us(end)))
    return found


def path_bars(timing: Timing) -> list[Bar]:
    """The critical path, as bars of the rows that it passes through."""
    rows = _rows_of(timing.graph)
    return [
        Bar(rows[step.stage], "critical path",
            f"critical path: {step.stage}, {step.part}", timing.us(step.start), timing.us(step.end))
        for step in critical_path(timing)
    ]  # fmt: skip


def _rows_of(graph: Graph) -> dict[str, str]:
    """The line each stage is drawn on: arrays share their neurons', attention steps one."""
    readers: dict[str, list[str]] = {}
    for stage in graph.stages:
        for name in stage.after:
            readers.setdefault(name, []).append(stage.name)
    rows: dict[str, str] = {}
    for stage in graph.stages:
        if stage.kind in ("product", "elementwise"):
            rows[stage.name] = f"{stage.block}.attention".lstrip(".")
        elif stage.kind == "analog" and len(readers.get(stage.name, ())) == 1:
            (rows[stage.name],) = readers[stage.name]
        else:
            rows[stage.name] = stage.name
    return rows


def _row_label(timing: Timing, row: str) -> str:
    """The row's name, with its delay where it waits on purpose."""
    delay = (timing.delays or {}).get(row, 1)
    return f"{row}  δ={delay}" if delay > 1 else row


def write_timeline(path: Path, title: str, timings: Mapping[str, Timing]) -> None:
    """Draw the runs one above the other; the ending of `path` says how."""
    demand_timeline(path)
    write = _write_html if path.suffix == ".html" else _write_picture
    write(path, title, timings)


def demand_timeline(path: Path) -> None:
    """Refuse a name that no timeline can have."""
    if path.suffix not in (*PICTURES, ".html"):
        raise FalconError(f"{path}: a timeline is written as .png, .svg, .pdf or .html")
    demand_file_target(path, mark=b"Plotly.newPlot" if path.suffix == ".html" else MATPLOTLIB)


def write_trace(path: Path, timings: Mapping[str, Timing]) -> None:
    """Write a Chrome trace: a process per run, a track per array, neuron group or engine."""
    write_spans(path, [
        TraceSpan(name, f"{step.stage} drain" if step.kind == "drain" else step.stage, _label(step),
             timing.us(timing.starts[index]), timing.us(timing.ends[index]))
        for name, timing in timings.items()
        for index, step in enumerate(timing.steps)
    ])  # fmt: skip


def write_spans(path: Path, spans: Sequence[TraceSpan]) -> None:
    """Write a Chrome trace, under a name that says so: it takes the place of no recording."""
    if path.suffix != ".json":
        raise FalconError(f"{path}: a trace is written as .json")
    demand_file_target(path, mark=b'"traceEvents"')
    write_json(path, chrome_trace(spans))


def _label(step: Step) -> str:
    if step.kind == "analog":
        return f"{step.stage.removesuffix('.array')} pass {step.slot}"
    if step.kind == "fire":
        return f"{step.stage} decision {step.slot}"
    return f"{step.stage} {step.kind}" + (f" row group {step.slot}" if step.slot else "")


def _waiting(timing: Timing, step: Step) -> list[tuple[str, int]]:
    """Who waits for a step to start, since when: the slot it decides on, or an early operand."""
    stage = timing.graph.stage(step.stage)
    names = [name for name in stage.after if name != INPUT]
    if not names or step.kind not in ("fire", "quantise", "product"):
        return []
    if step.kind == "product":
        return [(name, timing.ready(name)[-1]) for name in names] if step.slot == 0 else []
    return [(stage.name, max(timing.ready(name)[step.slot] for name in names))]


def _union(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _rows(found: list[Bar]) -> dict[str, int]:
    """Rows from top to bottom, in network order."""
    return {row: number for number, row in enumerate(dict.fromkeys(bar.row for bar in found))}


def _heading(name: str, timing: Timing) -> str:
    return f"{name}: {timing.core_us:.2f} µs"


def _write_picture(path: Path, title: str, timings: Mapping[str, Timing]) -> None:
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    drawn = {name: bars(timing) for name, timing in timings.items()}
    heights = [len(_rows(found)) for found in drawn.values()]
    above = 1.5 if title else 1.1
    figure = Figure(figsize=(14, above + sum(0.19 * rows + 0.5 for rows in heights)), dpi=110)
    axes = figure.subplots(len(drawn), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axis, (name, timing) in zip(axes, timings.items(), strict=True):
        _draw(axis, timing, drawn[name])
        axis.set_title(_heading(name, timing), loc="left", fontsize=11, fontweight="bold")
    end_us = max(timing.core_us for timing in timings.values())
    axes[-1].set_xlim(0, end_us * 1.02)
    axes[-1].set_xlabel("time (µs)")
    kinds = {bar.kind for found in drawn.values() for bar in found}
    handles = [Patch(color=COLOURS[kind], label=kind) for kind in COLOURS if kind in kinds]
    # At the left, where a phone that shows a part of the picture shows it, too.
    inch = 1 / figure.get_figheight()
    top = 1 - (0.35 * inch if title else 0.0)
    figure.suptitle(title, x=0.005, y=1 - 0.08 * inch, ha="left", va="top", fontsize=13)
    figure.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.0, top), ncols=4,
                  frameon=False, handlelength=1.4, columnspacing=1.2)  # fmt: skip
    figure.tight_layout(rect=(0, 0, 1, top - 0.2 * inch))
    with rc_context({"svg.hashsalt": "falcon"}):
        save_figure(
            figure, path,
            [{"run": name, **bar._asdict()} for name, timing in timings.items()
             for bar in drawn[name] + path_bars(timing)],
        )  # fmt: skip


def _draw(axis: Any, timing: Timing, found: list[Bar]) -> None:
    rows = _rows(found)
    for bar in found:
        y, width = rows[bar.row], bar.end_us - bar.start_us
        if bar.kind == "waiting":
            axis.barh(y + 0.3, width, left=bar.start_us, height=0.26, color=COLOURS[bar.kind])
        elif bar.kind == "firing":
            # A decision takes 30 ns; as a bar it could not be seen.
            axis.vlines(bar.end_us, y - 0.4, y + 0.4, color=COLOURS[bar.kind], linewidth=1.1)
        else:
            axis.barh(y - 0.1, width, left=bar.start_us, height=0.52, color=COLOURS[bar.kind],
                      edgecolor="white", linewidth=0.4)  # fmt: skip
    axis.axvline(timing.core_us, color=PATH_COLOUR, linewidth=1.2)
    bare_rows(axis, [_row_label(timing, row) for row in rows])
    blocks = [row.rpartition(".")[0] for row in rows]
    for number in range(1, len(blocks)):
        if blocks[number] != blocks[number - 1]:
            axis.axhline(number - 0.5, color="#d0d0d0", linewidth=0.6)


def timeline_figure(title: str, timings: Mapping[str, Timing]) -> Any:
    """The runs as an interactive plotly figure."""
    try:
        from plotly.graph_objects import Figure
    except ImportError:
        raise FalconError(
            "an .html timeline needs plotly; pip install 'falcon-snn[plotly]'"
        ) from None
    figure = Figure(timeline_spec(timings))
    return figure.update_layout(title=title, template="plotly_white")


def timeline_spec(timings: Mapping[str, Timing]) -> dict[str, Any]:
    """The runs as plotly's plain data and layout, which are ready in a few milliseconds."""
    drawn = {name: bars(timing) + path_bars(timing) for name, timing in timings.items()}
    rows = {name: _rows(found) for name, found in drawn.items()}
    total = sum(len(found) for found in rows.values())
    axes = {name: str(number) if number > 1 else "" for number, name in enumerate(drawn, start=1)}
    gap = 2 * (len(drawn) - 1) / (total + 2 * (len(drawn) - 1))  # two rows for a heading between
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {
        "barmode": "overlay",
        "height": 200 + 20 * total,
        # At the lower left, where it wraps and stays on a narrow screen.
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
        },
        "margin": {"l": 8, "r": 16, "t": 80, "b": 120},
        "xaxis": {
            "title": {"text": "time (µs)"},
            "anchor": f"y{[*axes.values()][-1]}",
            "range": [0, 1.02 * max(timing.core_us for timing in timings.values())],
        },
        "shapes": [],
        "annotations": [],
    }
    top = 1.0
    for name, timing in timings.items():
        axis = axes[name]
        data += _traces(timing, drawn[name], axis)
        labels = [_row_label(timing, row) for row in rows[name]]
        bottom = top - (1 - gap) * len(labels) / total
        layout[f"yaxis{axis}"] = {
            "domain": [max(bottom, 0.0), top], "anchor": "x", "categoryorder": "array",
            "categoryarray": labels, "range": [len(labels) - 0.5, -0.5], "dtick": 1,
            "automargin": True,
        }  # fmt: skip
        layout["shapes"].append({
            "type": "line", "xref": "x", "yref": f"y{axis} domain", "y0": 0, "y1": 1,
            "x0": timing.core_us, "x1": timing.core_us, "line": {"color": PATH_COLOUR, "width": 2},
        })  # fmt: skip
        layout["annotations"].append({
            "text": _heading(name, timing), "xref": "paper", "yref": "paper", "x": 0, "y": top,
            "xanchor": "left", "yanchor": "bottom", "showarrow": False, "font": {"size": 14},
        })  # fmt: skip
        top = bottom - gap / max(len(drawn) - 1, 1)
    return {"data": data, "layout": layout}


def _traces(timing: Timing, found: list[Bar], axis: str) -> list[dict[str, Any]]:
    """A trace per kind of bar, on the axis of a run; the first run's has no number."""
    traces = []
    for kind, colour in LEGEND.items():
        offset, width = _THIN.get(kind, (-0.4, 0.8))
        chosen = [bar for bar in found if bar.kind == kind]
        marker: dict[str, Any] = {"color": colour}
        if kind == "firing":  # a decision takes 30 ns; without an outline it could not be seen
            marker["line"] = {"width": 1.5, "color": colour}
        traces.append({
            "type": "bar", "orientation": "h", "name": kind, "legendgroup": kind,
            "showlegend": not axis, "marker": marker, "yaxis": f"y{axis}",
            "y": [_row_label(timing, bar.row) for bar in chosen],
            "base": [bar.start_us for bar in chosen],
            "x": [bar.end_us - bar.start_us for bar in chosen],
            "customdata": [[bar.label, bar.end_us] for bar in chosen],
            "hovertemplate": "%{customdata[0]}<br>%{base:.2f} to %{customdata[1]:.2f} µs"
            "<extra></extra>",
            "offset": offset, "width": width,
        })  # fmt: skip
    return traces


def _write_html(path: Path, title: str, timings: Mapping[str, Timing]) -> None:
    figure = timeline_figure(title, timings)
    page = figure.to_html(include_plotlyjs=True, config={"responsive": True})
    phone = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    write_text(path, page.replace("<head>", f"<head>{phone}", 1))
