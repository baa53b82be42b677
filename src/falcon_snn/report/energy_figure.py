"""The two energy breakdowns of the paper: analog parts and digital parts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from falcon_snn.hardware.energy import ANALOG_PARTS, DIGITAL_PARTS
from falcon_snn.report.style import check_picture, save_figure

_COLOURS = ("#e1812c", "#3b76af", "#6ba5d7", "#845b97", "#3a923a", "#b03030", "#9a9a9a")
_LEAST_LABELLED = 0.05  # shares below this have no room for a number


def draw_breakdown(path: Path, title: str, configurations: Sequence[dict[str, Any]]) -> None:
    """One bar per configuration of an energy report: left the analog parts, right the digital."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    check_picture(path)
    figure = Figure(figsize=(13, 2.2 + 0.5 * len(configurations)), dpi=120)
    left, right = figure.subplots(1, 2, sharey=True)
    names = [one["name"] for one in configurations]
    analog = [one["analog_parts_mj"] for one in configurations]
    digital = [one["digital_parts_mj"] for one in configurations]
    _bars(left, names, analog, ANALOG_PARTS, "Analog: convolutions and linear layers (mJ)")
    _bars(right, names, digital, DIGITAL_PARTS, "Digital: attention products (mJ)")
    left.invert_yaxis()
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    figure.tight_layout()
    with rc_context({"svg.hashsalt": "falcon"}):
        save_figure(figure, path, [_row(one) for one in configurations])


def _row(one: dict[str, Any]) -> dict[str, Any]:
    analog = {f"analog {part} mJ": mj for part, mj in one["analog_parts_mj"].items()}
    digital = {f"digital {part} mJ": mj for part, mj in one["digital_parts_mj"].items()}
    return {"configuration": one["name"], **analog, **digital}


def _bars(
    axis: Any, names: list[str], bars: list[dict[str, float]], parts: Sequence[str], label: str
) -> None:  # fmt: skip
    start = [0.0] * len(bars)
    for part, colour in zip(parts, _COLOURS, strict=False):
        widths = [bar.get(part, 0.0) for bar in bars]
        axis.barh(names, widths, left=start, color=colour, label=part, height=0.7)
        for row, (width, bar) in enumerate(zip(widths, bars, strict=True)):
            share = bar[part] / sum(bar.values()) if width else 0.0
            if share >= _LEAST_LABELLED:
                axis.text(start[row] + width / 2, row, f"{share:.0%}", ha="center", va="center",
                          color="white", fontsize=8)  # fmt: skip
        start = [a + b for a, b in zip(start, widths, strict=True)]
    for row, total in enumerate(start):
        axis.text(total, row, f" {total:.3g}", va="center", fontsize=9)
    axis.set(title=label, xlim=(0, 1.12 * max(start) or 1.0))
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.12))
