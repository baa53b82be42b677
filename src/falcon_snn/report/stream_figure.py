"""Misses against false accepts: the curve of all thresholds, and the default's point on it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from falcon_snn.report.style import SOFT, drawing


def draw_stream(path: Path, title: str, facts: Mapping[str, Any]) -> None:
    """`facts` are those of `StreamReport.as_json`."""
    least = 0.5 / facts["hours"]  # where none was heard: half of one
    with drawing(path, 6.2, 4.4, list(facts["curve"])) as figure:
        axis = figure.subplots()
        rates = [max(point["false_per_hour"], least) for point in facts["curve"]]
        misses = [point["miss_percent"] for point in facts["curve"]]
        axis.plot(rates, misses, "-o", ms=3, color="#3b76af", label="thresholds")
        default = facts["default"]
        axis.plot([max(default["false_per_hour"], least)], [default["miss_percent"]], "D",
                  color="#e1812c", label=f"threshold {facts['rule']['threshold']:.3g}")  # fmt: skip
        for rate in map(float, facts["at_false_per_hour"]):
            axis.axvline(rate, color=SOFT, lw=0.7, ls=":")
        axis.set(xscale="log", xlabel=f"false accepts per hour (none: {least:.2g})",
                 ylabel="misses (%)", title=title,
                 ylim=(0, min(100, 1.05 * max(misses) + 1)))  # fmt: skip
        axis.legend()
