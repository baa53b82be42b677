"""A stage graph as a picture: a band per block, a box per layer, from left to right."""

import math
from pathlib import Path
from typing import Any, NamedTuple

from falcon_snn.pipeline.graph import INPUT, Graph, TimedStage
from falcon_snn.report.style import check_picture, save_figure

BOXES_PER_LINE = 10
_COLOURS = {
    "neuron": "#cfe0f1", "quantise": "#d9d2ea", "residual": "#fbdcc0",
    "product": "#cfe8cf", "elementwise": "#e4f2c9", "analog": "#cfe0f1",
}  # fmt: skip


class Box(NamedTuple):
    """A layer (array and what follows it) or another stage."""

    name: str
    kind: str
    sizes: str
    after: tuple[str, ...]
    block: str  # stages of one block stand together


def boxes(graph: Graph) -> list[Box]:
    """One box per stage, with arrays and the only stage that reads them in one."""
    users = [name for stage in graph.stages for name in stage.after]
    arrays = {
        stage.name: stage
        for stage in graph.stages
        if stage.kind == "analog" and users.count(stage.name) == 1
    }
    blocks = {stage.block for stage in graph.stages if stage.name not in arrays}
    found = []
    for stage in graph.stages:
        if stage.name in arrays:
            continue
        inside = [arrays[name] for name in stage.after if name in arrays]
        sizes = "\n".join(stage_sizes(array) for array in inside) or stage_sizes(stage)
        after = [
            before
            for name in stage.after
            for before in (arrays[name].after if name in arrays else (name,))
        ]
        # block0 ends what block0.first begins
        block = stage.name if stage.name in blocks else stage.block
        found.append(Box(stage.name, stage.kind, sizes, tuple(dict.fromkeys(after)), block))
    return found


def stage_sizes(stage: TimedStage) -> str:
    """The sizes of a stage in a few characters."""
    copies = f" x{stage.copies}" if stage.copies > 1 else ""
    if stage.kind == "analog":
        return f"{stage.inner} to {stage.columns}{copies}"
    if stage.kind == "product":
        return f"{stage.rows} x {stage.inner} x {stage.columns}{copies}"
    if stage.kind == "elementwise":
        return f"{stage.rows} x {stage.columns}{copies}"
    return ""


def draw_graph(path: Path, graph: Graph) -> None:
    """Draw the graph into a .png, .svg or .pdf file."""
    from matplotlib.figure import Figure

    check_picture(path)
    found = boxes(graph)
    places, lines = _places(found)
    width = max(x for x, _ in places.values()) + 1
    figure = Figure(figsize=(1.6 * width + 0.6, 0.75 * lines + 0.6), dpi=110)
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set_xlim(-0.6, width - 0.3)
    axis.set_ylim(lines - 0.6, -0.8)
    drawn = {}
    for box in found:
        label = box.name.rpartition(".")[2]
        drawn[box.name] = axis.text(
            *places[box.name], f"{label}\n{box.sizes}" if box.sizes else label, ha="center",
            va="center", fontsize=7.5, zorder=3,
            bbox={"boxstyle": "round,pad=0.35", "fc": _COLOURS[box.kind], "ec": "#8090a0"},
        )  # fmt: skip
    for box in found:
        x, y = places[box.name]
        for name in box.after:
            if name == INPUT:
                continue
            from_x, from_y = places[name]
            skips = y == from_y and abs(x - from_x) > 1  # lead the arrow around boxes in between
            axis.annotate(
                "", (x, y), (from_x, from_y), zorder=1,
                arrowprops={"arrowstyle": "-|>", "color": "#9aa5b1" if y == from_y else "#c3ccd5",
                            "shrinkA": 0, "shrinkB": _reach(drawn[name], drawn[box.name]),
                            "connectionstyle": f"arc3,rad={-0.18 if skips else 0}"},
            )  # fmt: skip
    for block in dict.fromkeys(box.block for box in found):
        top = min(places[box.name][1] for box in found if box.block == block)
        axis.text(-0.55, top - 0.45, block or graph.name, fontsize=9, fontweight="bold")
    axis.axis("off")
    save_figure(
        figure, path,
        [{"stage": b.name, "kind": b.kind, "after": " ".join(b.after), "sizes": b.sizes}
         for b in found],
    )  # fmt: skip


def _reach(start: Any, end: Any) -> float:
    """Points from the middle of a box to its edge, on the way from another."""
    one, other = start.get_window_extent(), end.get_window_extent()
    across = abs(one.x0 + one.x1 - other.x0 - other.x1) / 2
    along = abs(one.y0 + one.y1 - other.y0 - other.y1) / 2
    pad = 4.0  # of the box around its text, and a little air
    sides = [
        (size * 72 / end.figure.dpi / 2 + pad) * math.hypot(across, along) / way
        for size, way in ((other.width, across), (other.height, along))
        if way
    ]
    return min(sides, default=pad)


def _places(found: list[Box]) -> tuple[dict[str, tuple[float, float]], float]:
    """Where boxes go: depth in their block goes right, what runs side by side goes down."""
    depth: dict[str, int] = {}
    block_of = {box.name: box.block for box in found}
    places: dict[str, tuple[float, float]] = {}
    line = 0.0
    for block in dict.fromkeys(block_of.values()):
        inside = [box for box in found if box.block == block]
        for box in inside:
            before = [depth[name] for name in box.after if block_of.get(name) == block]
            depth[box.name] = max(before, default=-1) + 1
        for row in range(max(depth[box.name] for box in inside) // BOXES_PER_LINE + 1):
            columns: dict[int, int] = {}
            for box in inside:
                if depth[box.name] // BOXES_PER_LINE == row:
                    x = depth[box.name] % BOXES_PER_LINE
                    lane = columns.get(x, 0)
                    columns[x] = lane + 1
                    places[box.name] = (x, line + lane)
            line += max(columns.values()) + 0.6
    return places, line
