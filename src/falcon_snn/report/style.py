"""Colours and type that the figures share."""

from pathlib import Path
from typing import Any

from falcon_snn.errors import FalconError
from falcon_snn.files import replacing

INK, SOFT, GRID = "#1f2933", "#7b8794", "#e4e7eb"
PICTURES = (".png", ".svg", ".pdf")
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


def check_picture(path: Path) -> None:
    """A picture's name says its format; ask before the work of drawing."""
    if path.suffix not in PICTURES:
        raise FalconError(f"{path}: a picture is written as .png, .svg or .pdf")


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure; the same figure gives the same bytes."""
    with replacing(path) as temporary:
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(temporary, dpi=160, metadata=metadata)
