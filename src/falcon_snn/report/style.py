"""Colours and type that the figures share."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from textwrap import wrap
from typing import Any

from falcon_snn.errors import FalconError
from falcon_snn.files import demand_file_target, replacing, write_text

INK, SOFT, GRID = "#1f2933", "#7b8794", "#e4e7eb"
PICTURES = (".png", ".svg", ".pdf")
MATPLOTLIB = b"Matplotlib v"  # in every picture that was drawn with it
# Width in inches: as each figure is made, one column of a paper, or both.
STYLES: dict[str, float | None] = {"screen": None, "paper": 3.5, "paper-wide": 7.16}
_WIDE_IN = 5.0  # less is one column
# Marker and colour of each schedule, the same in every figure.
SCHEDULES = {
    "fastest": ("o", "#845b97"),
    "balanced": ("D", "#2563a8"),
    "accurate": ("s", "#c0392b"),
}


def figure_style() -> dict[str, Any]:
    """matplotlib's settings for a figure of the report."""
    return {
        "font.size": 9, "axes.titlesize": 10, "axes.titleweight": "bold", "axes.titlelocation":
        "left", "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": SOFT, "xtick.color":
        INK, "ytick.color": INK, "axes.spines.top": False, "axes.spines.right": False,
        "axes.grid": True, "grid.color": GRID, "grid.linewidth": 0.6, "axes.axisbelow": True,
        "legend.framealpha": 0.9, "legend.edgecolor": "none", "legend.fontsize": 8,
        "svg.hashsalt": "falcon",
    }  # fmt: skip


def shared_legend(figure: Any, columns: int = 4) -> None:
    """One legend below all panels: what several panels have under one name is there once."""
    found: dict[str, Any] = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        figure.legend(list(found.values()), list(found), loc="outside lower center",
                      ncols=min(columns, len(found)), frameon=False)  # fmt: skip


def bare_rows(axis: Any, names: Sequence[str]) -> None:
    """Named rows of bars from top to bottom, over lines of time."""
    axis.set_yticks(range(len(names)), names, fontsize=7)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.grid(axis="x", color="#e6e6e6", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)


def check_picture(path: Path) -> None:
    """A picture's name says its format; to be checked before the work of drawing."""
    if path.suffix not in PICTURES:
        raise FalconError(f"{path}: a picture is written as .png, .svg or .pdf")
    demand_file_target(path, mark=MATPLOTLIB)


@dataclass(frozen=True)
class Look:
    """How figures are written: for a screen or a paper, and in which further formats."""

    style: str = "screen"
    formats: tuple[str, ...] = ()  # endings besides that of the name, with their dot


_PLAIN = Look()
_LOOK: ContextVar[Look] = ContextVar("look", default=_PLAIN)


def look_of(style: str = "screen", formats: str | None = None) -> Look:
    """A style (a key of STYLES) and further formats (`svg,pdf`), checked."""
    if style not in STYLES:
        raise FalconError(f"--style is '{style[:40]}'; choose one of {', '.join(STYLES)}")
    endings = tuple(f".{word.strip().lstrip('.')}" for word in (formats or "").split(",") if word)
    for ending in endings:
        if ending not in (*PICTURES, ".csv"):
            raise FalconError(f"--format '{ending[1:41]}': choose from png, svg, pdf, csv")
    return Look(style, endings)


@contextmanager
def drawn_as(look: Look) -> Iterator[None]:
    """Figures written inside look that way; see `look_of`."""
    token = _LOOK.set(look)
    try:
        yield
    finally:
        _LOOK.reset(token)


def one_column() -> bool:
    """Whether figures are drawn for one column of a paper, where panels stand one above another."""
    return (STYLES[_LOOK.get().style] or _WIDE_IN) < _WIDE_IN


@contextmanager
def drawing(
    path: Path, width_in: float, height_in: float, data: Sequence[Mapping[str, Any]] | None = None
) -> Iterator[Any]:
    """A figure in the style of the report, written when all is drawn; see `save_figure`."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    check_picture(path)
    with rc_context(figure_style()):
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        yield figure
        save_figure(figure, path, data)


def save_figure(figure: Any, path: Path, data: Sequence[Mapping[str, Any]] | None = None) -> None:
    """Write a figure, in all formats asked for; the same figure gives the same bytes.

    In a paper's style, or where csv is asked for, what it shows is written beside it: `data`,
    or else the points and bars that are drawn.
    """
    from matplotlib import rc_context

    look = _LOOK.get()
    width = STYLES[look.style]
    if width is not None:
        _fit_column(figure, width)
    suffixes = [end for end in dict.fromkeys([path.suffix, *look.formats]) if end != ".csv"]
    for suffix in suffixes:
        check_picture(path.with_suffix(suffix))
    if width is not None or ".csv" in look.formats:
        rows = drawn_data(figure) if data is None else data
        if rows:
            _write_csv(path.with_suffix(".csv"), rows)
    for suffix in suffixes:
        with replacing(path.with_suffix(suffix)) as temporary:
            dates = {".svg": "Date", ".pdf": "CreationDate"}
            metadata = {dates[suffix]: None} if suffix in dates else None
            # Text stays text, so that a paper's search and its fonts work.
            with rc_context({"svg.hashsalt": "falcon", "pdf.fonttype": 42}):
                figure.savefig(temporary, dpi=160 if width is None else 300, metadata=metadata)


def drawn_data(figure: Any) -> list[dict[str, Any]]:
    """The points and bars of a figure: panel, series, x, y."""
    rows: list[dict[str, Any]] = []
    for number, axis in enumerate(figure.axes):
        panel = axis.get_title(loc="left") or axis.get_title() or axis.get_ylabel() or str(number)

        def note(series: Any, x: Any, y: Any, panel: str = panel) -> None:
            name = "" if str(series).startswith("_") else series
            rows.append({"panel": panel, "series": name, "x": x, "y": y})

        for line in axis.get_lines():
            if line.get_transform().contains_branch(axis.transData):
                for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True):
                    note(line.get_label(), x, y)
        for points in axis.collections:
            if hasattr(points, "get_sizes"):
                for x, y in points.get_offsets().tolist():
                    note(points.get_label(), x, y)
        for bars in axis.containers:
            for bar in getattr(bars, "patches", ()):
                if bars.orientation == "horizontal":
                    note(bars.get_label(), bar.get_width(), bar.get_y() + bar.get_height() / 2)
                else:
                    note(bars.get_label(), bar.get_x() + bar.get_width() / 2, bar.get_height())
    return rows


def _write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    text = StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    demand_file_target(path, mark=text.getvalue().encode())
    writer.writerows(rows)
    write_text(path, text.getvalue())


def _fit_column(figure: Any, width_in: float) -> None:
    """Bring a figure to the width of a column: type of 5 to 8 points, no title above it all."""
    from matplotlib.gridspec import GridSpec
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.text import Text

    narrow = one_column()
    grids = [axis.get_subplotspec() for axis in figure.axes if axis.get_subplotspec() is not None]
    shape = grids[0].get_gridspec().get_geometry() if grids else (1, 1)
    panels = 1
    if narrow and shape[1] > 1:  # side by side there is no room: one above the other
        panels = shape[0] * shape[1]
        new = GridSpec(panels, 1, figure=figure)
        for axis, old in [(axis, axis.get_subplotspec()) for axis in figure.axes]:
            axis.set_subplotspec(new[old.rowspan.start * shape[1] + old.colspan.start, 0])
            axis.tick_params(labelleft=axis.yaxis.get_ticks_position() != "right")
    scale = width_in / figure.get_figwidth()
    least = (0.7 if narrow else 0.42) * width_in * panels
    height = max(least, figure.get_figheight() * scale, 0.55 * figure.get_figheight())
    figure.set_size_inches(width_in, min(height, 9.2))
    figure.suptitle("")
    for text in figure.findobj(Text):
        text.set_fontsize(max(5.0, min(8.0, 0.78 * text.get_fontsize())))
    letters = int(width_in * (17 if narrow else 13))
    for axis in figure.axes:
        for place in ("left", "center"):
            title = axis.get_title(loc=place)
            if title and "$" not in title:
                lines = [part for line in title.split("\n") for part in wrap(line, letters)]
                axis.set_title("\n".join(lines), loc=place, fontsize=7.5)
        below = axis.get_legend()
        if below is not None and below._ncols > 1:
            down = 0.5 * panels / figure.get_figheight()
            _renew_legend(axis, below, 3, loc="upper center", bbox_to_anchor=(0.5, -down))
        elif below is not None:
            for text in below.get_texts():
                text.set_fontsize(6)
    constrained = isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine)
    place = "outside lower center" if constrained else "upper center"
    for legend in list(figure.legends):
        long = any(len(text.get_text()) > 20 for text in legend.get_texts())
        columns = (4 if narrow else 6) // (2 if long else 1)
        _renew_legend(figure, legend, columns, loc=place)
    if not constrained and grids:
        top = 1 - (0.2 / figure.get_figheight() if figure.legends else 0)
        figure.tight_layout(rect=(0, 0, 1, top), pad=0.4)


def _renew_legend(owner: Any, old: Any, columns: int, **where: Any) -> None:
    """A legend of smaller type in as many columns as there is room for."""
    # What was drawn, where the axes know it: a legend's own handles have lost their error bars.
    drawn = {
        label: handle
        for axis in owner.figure.axes
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    labels = [text.get_text() for text in old.get_texts()]
    handles = [drawn.get(label, own) for label, own in zip(labels, old.legend_handles, strict=True)]
    old.remove()
    owner.legend(handles, labels, ncols=columns, frameon=False, fontsize=6, handlelength=1.7,
                 columnspacing=1.0, **where)  # fmt: skip
