"""The picture of `falcon-snn theory`: spike rasters, accuracy and count error by delay."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from falcon_snn.neuron.theorems import TheoremRun
from falcon_snn.report.style import GRID, INK, SOFT, one_column, save_figure
from falcon_snn.report.theory import Theory

CHANGED, FOLLOWING, WRONG = "#2563a8", "#d9822b", "#c0392b"


def draw_theory(path: Path, found: Theory) -> None:
    """Draw the label-1 rasters at three delays above the accuracy and the count error by delay."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    style = {"font.size": 9, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": SOFT,
             "xtick.color": INK, "ytick.color": INK}  # fmt: skip
    tight = [row["count_error_tight"] for row in found.by_delay]
    mean = [row["count_error_random_mean"] for row in found.by_delay]
    with plt.rc_context(style):
        narrow = one_column()
        figure = plt.figure(figsize=(5, 12) if narrow else (9.6, 5.6), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1, wspace=0.04, hspace=0.06)
        if narrow:
            panels = list(figure.subplots(5, 1))
        else:
            grid = figure.add_gridspec(2, 6, height_ratios=(1.15, 1))
            panels = [figure.add_subplot(grid[0, at : at + 2]) for at in (0, 2, 4)]
            panels += [figure.add_subplot(grid[1, at : at + 3]) for at in (0, 3)]
        for axes, delay in zip(panels, found.chosen, strict=False):
            named = narrow or axes is panels[0]
            _raster(axes, found.runs[delay - 1], found.accuracies[delay - 1], named=named)
        _accuracy(panels[3], found.accuracies, found.chosen)
        _count_error(panels[4], tight, mean)
        save_figure(figure, path, found.by_delay)
        plt.close(figure)


def _raster(axes: Any, run: TheoremRun, accuracy: Fraction, named: bool) -> None:
    trains = [*run.changed, *run.following]
    names = ["layer l   1", "2", "3", "layer l+1   1", "2"]
    rows = [4.6, 3.8, 3.0, 1.6, 0.8]
    slots = len(trains[0])
    for row, train in zip(rows, trains, strict=True):
        axes.plot([-0.45, slots - 0.55], [row, row], color=GRID, lw=1, zorder=0)
        colour = CHANGED if row > 2 else FOLLOWING
        fired = [slot for slot, spike in enumerate(train) if spike]
        axes.vlines(fired, row - 0.3, row + 0.3, color=colour, lw=5, capstyle="round")
        axes.text(slots - 0.1, row, str(sum(train)), ha="center", va="center", color=colour,
                  weight="bold")  # fmt: skip
    axes.text(slots - 0.1, 5.3, "count", ha="center", va="center", color=SOFT)
    right = run.prediction == run.sample.label
    verdict = f"label 1 read as {run.prediction}, {'right' if right else 'wrong'}"
    title = f"delay {run.delay}: accuracy {accuracy}\n{verdict}"
    axes.set_title(title, fontsize=9, color=INK if right else WRONG)
    axes.set_xlabel("output slot")
    axes.set(xlim=(-0.6, slots + 0.35), ylim=(0.2, 5.6), xticks=range(slots))
    axes.set_yticks(rows, names if named else [""] * len(rows))
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)


def _accuracy(axes: Any, accuracies: Sequence[Fraction], chosen: Sequence[int]) -> None:
    delays = range(1, len(accuracies) + 1)
    values = [float(value) for value in accuracies]
    axes.plot(delays, values, color=SOFT, lw=1.2, drawstyle="steps-mid", zorder=1)
    for delay, value in zip(delays, values, strict=True):
        colour = CHANGED if value == 1 else WRONG
        face = colour if delay in chosen else "white"
        axes.plot([delay], [value], "o", ms=7, mfc=face, mec=colour, zorder=2)
    axes.set_title("Proposition 1: counts of layer l never change, accuracy does", fontsize=9)
    axes.set(
        xlabel="delay of layer l (filled: the three above)", ylabel="accuracy", ylim=(0.3, 1.1)
    )
    axes.set_yticks([0.5, 1], ["1/2", "1"])
    _tidy(axes, delays)


def _count_error(axes: Any, tight: Sequence[int], mean: Sequence[float]) -> None:
    delays = range(1, len(tight) + 1)
    axes.plot(
        delays, tight, "o-", color=FOLLOWING, ms=5, label="tight stream (the bound, T - delay)"
    )
    axes.plot(delays, mean, "s-", color=CHANGED, ms=4, label="mean of random streams")
    axes.set_title("Theorem 1: the count error never rises with the delay", fontsize=9)
    axes.set(xlabel="delay", ylabel="count error in spikes", ylim=(-0.3, 1.45 * max(tight)))
    axes.legend(frameon=False)
    _tidy(axes, delays)


def _tidy(axes: Any, delays: range) -> None:
    axes.set_xticks(list(delays))
    axes.grid(axis="y", color=GRID)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
