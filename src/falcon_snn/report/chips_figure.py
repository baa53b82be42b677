"""Accuracy over chips: one row per effect, one dot per chip."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from falcon_snn.report.style import check_picture, save_figure


def draw_chips(path: Path, title: str, ideal: float, rows: Sequence[dict[str, Any]]) -> None:
    """Dots are chips, a bar their mean; the line is the ideal chip."""
    from matplotlib.figure import Figure

    check_picture(path)
    figure = Figure(figsize=(8, 1.4 + 0.4 * len(rows)), dpi=120)
    axis = figure.subplots()
    axis.axvline(ideal, color="#9a9a9a", label=f"ideal chip {ideal:.2f} %")
    for at, row in enumerate(rows):
        axis.plot(row["accuracies"], [at] * row["chips"], "o", color="#3b76af", alpha=0.5, ms=5)
        axis.plot([row["mean"]], [at], "|", color="#e1812c", ms=16, mew=2.5)
    axis.set(yticks=range(len(rows)), yticklabels=[row["name"] for row in rows],
             xlabel="accuracy (%)", title=title)  # fmt: skip
    axis.invert_yaxis()
    axis.grid(axis="x", color="#e6e6e6")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9)
    figure.tight_layout()
    data = [
        {"effect": row["name"], "chip": number, "accuracy": accuracy}
        for row in rows
        for number, accuracy in enumerate(row["accuracies"])
    ]
    save_figure(figure, path, [{"effect": "ideal", "chip": 0, "accuracy": ideal}, *data])
