"""Accuracy over chips: one row per effect, one dot per chip."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from falcon_snn.report.style import drawing


def draw_chips(path: Path, title: str, ideal: float, rows: Sequence[dict[str, Any]]) -> None:
    """Dots are chips, a bar their mean; the line is the ideal chip."""
    data = [
        {"effect": row["name"], "chip": number, "accuracy": accuracy}
        for row in [{"name": "ideal", "accuracies": [ideal]}, *rows]
        for number, accuracy in enumerate(row["accuracies"])
    ]
    with drawing(path, 8, 1.4 + 0.4 * len(rows), data) as figure:
        _dots(figure.subplots(), title, ideal, rows)


def _dots(axis: Any, title: str, ideal: float, rows: Sequence[dict[str, Any]]) -> None:
    axis.axvline(ideal, color="#9a9a9a", label=f"ideal chip {ideal:.2f} %")
    for at, row in enumerate(rows):
        axis.plot(row["accuracies"], [at] * row["chips"], "o", color="#3b76af", alpha=0.5, ms=5,
                  label=None if at else "a chip")  # fmt: skip
        axis.plot([row["mean"]], [at], "|", color="#e1812c", ms=16, mew=2.5,
                  label=None if at else "mean")  # fmt: skip
    axis.set(yticks=range(len(rows)), yticklabels=[row["name"] for row in rows],
             ylim=(len(rows) - 0.5, -0.5), xlabel="accuracy (%)", title=title)  # fmt: skip
    axis.grid(axis="y", visible=False)
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
