"""Validation accuracy over the epochs of all phases, a line per network."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from falcon_snn.files import read_json_lines
from falcon_snn.forms import shaped
from falcon_snn.report.style import GRID, INK, SCHEDULES, SOFT, drawing, shared_legend

CURVES = "curves.jsonl"  # what a training writes, a line per epoch


class _Epoch(TypedDict):
    """What is drawn of a line of the curves."""

    validation_accuracy: float


class Phase(NamedTuple):
    """The validation accuracy after each epoch of one phase, in percent."""

    name: str
    validation_percent: tuple[float, ...]


def read_phases(folder: Path, names: Sequence[str]) -> list[Phase]:
    """The curves of phases that trained in sub-folders of `folder`."""
    phases = []
    for name in names:
        path = folder / name / CURVES
        rows: list[_Epoch] = shaped(read_json_lines(path), list[_Epoch], path)
        phases.append(Phase(name, tuple(row["validation_accuracy"] for row in rows)))
    return phases


def draw_adaptation(
    path: Path,
    curves: Mapping[str, Sequence[Phase]],
    before_percent: Mapping[str, float],
    qnn_percent: float,
) -> None:
    """Accuracy from before the adaptation (epoch 0) to its end, with the QNN as a line."""
    with drawing(path, 5.5, 3.4) as figure:
        axis = figure.subplots()
        for name, phases in curves.items():
            marker, colour = SCHEDULES.get(name, (".", SOFT))
            values = [before_percent[name]]
            for phase in phases:
                values += phase.validation_percent
            axis.plot(range(len(values)), values, marker=marker, color=colour, markersize=4,
                      label=name)  # fmt: skip
        _mark_phases(axis, next(iter(curves.values())))
        axis.axhline(qnn_percent, color=INK, linewidth=1, linestyle=":", label="QNN")
        axis.set(xlabel="epoch (0: before adaptation)", ylabel="validation accuracy (%)")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.legend(loc="lower right")


def draw_curves(path: Path, curves: Mapping[str, Sequence[float]]) -> None:
    """Validation accuracy in percent after each epoch, a line per name."""
    with drawing(path, 5.5, 3.0) as figure:
        axis = figure.subplots()
        for name, values in curves.items():
            axis.plot(range(1, len(values) + 1), values, "o-", markersize=3, label=name)
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        axis.set(xlabel="epoch", ylabel="validation accuracy (%)")
        axis.xaxis.get_major_locator().set_params(integer=True)


def draw_panels(
    path: Path, panels: Mapping[str, Mapping[str, Sequence[float]]], *,
    first: Sequence[int] | None = None, budget: int | None = None,
) -> None:  # fmt: skip
    """Panels side by side under one legend: curves by name, validation accuracy in percent.

    `first` is the epoch that each panel begins with. `budget` marks an epoch, and the best one of
    every curve is marked, too.
    """
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    with drawing(path, 11, 3.8) as figure:
        axes = figure.subplots(1, len(panels), squeeze=False)
        for number, (axis, (title, curves)) in enumerate(zip(axes[0], panels.items(), strict=True)):
            begin = 1 if first is None else first[number]
            for name, values in curves.items():
                colour = f"C{names.index(name)}"
                epochs = range(begin, begin + len(values))
                axis.plot(epochs, values, "o-", markersize=3, linewidth=1.2, color=colour,
                          label=name)  # fmt: skip
                if budget is not None:
                    best = max(range(len(values)), key=lambda place: values[place])
                    axis.plot(begin + best, values[best], "*", markersize=11, color=colour)
            if budget is not None:
                axis.axvline(budget, color=SOFT, linewidth=1, linestyle="--")
            axis.set(xlabel="epoch", ylabel="" if number else "validation accuracy (%)")
            axis.set_title(f"{chr(ord('a') + number)}  {title}")
            axis.xaxis.get_major_locator().set_params(integer=True)
        shared_legend(figure, columns=6)


def _mark_phases(axis: Any, phases: Sequence[Phase]) -> None:
    """A line between phases, the name of each above."""
    end = 0
    for number, phase in enumerate(phases):
        begin, end = end, end + len(phase.validation_percent)
        if number:
            axis.axvline(begin + 0.5, color=GRID, linewidth=1)
        axis.annotate(
            phase.name, ((begin + end + 1) / 2, 1.0), xycoords=("data", "axes fraction"),
            ha="center", va="bottom", fontsize=8, color=SOFT,
        )  # fmt: skip
