"""The two energy breakdowns of the paper: analog parts and digital parts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from falcon_snn.hardware.energy import ANALOG_PARTS, DIGITAL_PARTS
from falcon_snn.report.style import drawing, shared_legend

_PARTS = tuple(dict.fromkeys((*ANALOG_PARTS, *DIGITAL_PARTS)))
_COLOURS = dict(zip(_PARTS, (
    "#e1812c", "#3b76af", "#6ba5d7", "#845b97", "#3a923a", "#b03030", "#9a9a9a", "#c28f2c",
    "#5b7f95", "#8c564b",
), strict=True))  # fmt: skip
_LEAST_LABELLED = 0.05  # shares below this have no room for a number


def draw_breakdown(path: Path, title: str, configurations: Sequence[dict[str, Any]]) -> None:
    """One bar per configuration of an energy report: left the analog parts, right the digital."""
    names = [one["name"] for one in configurations]
    analog = [one["analog_parts_mj"] for one in configurations]
    digital = [one["digital_parts_mj"] for one in configurations]
    rows = [_row(one) for one in configurations]
    with drawing(path, 11, 1.8 + 0.42 * len(configurations), rows) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        _bars(left, names, analog, ANALOG_PARTS, "a  Analog: convolutions and linear layers")
        _bars(right, names, digital, DIGITAL_PARTS, "b  Digital: attention products")
        left.invert_yaxis()
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        shared_legend(figure, columns=5)


def _row(one: dict[str, Any]) -> dict[str, Any]:
    analog = {f"analog {part} mJ": mj for part, mj in one["analog_parts_mj"].items()}
    digital = {f"digital {part} mJ": mj for part, mj in one["digital_parts_mj"].items()}
    return {"configuration": one["name"], **analog, **digital}


def _bars(
    axis: Any, names: list[str], bars: list[dict[str, float]], parts: Sequence[str], label: str
) -> None:  # fmt: skip
    start = [0.0] * len(bars)
    for part in parts:
        colour = _COLOURS[part]
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
    axis.set(title=label, xlabel="energy (mJ)", xlim=(0, 1.12 * max(start) or 1.0))
    axis.grid(axis="y", visible=False)
    axis.locator_params(axis="x", nbins=5)  # more would meet the other panel's
