"""Validation accuracy over the epochs of all phases, a line per network."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from falcon_snn.files import read_json_lines
from falcon_snn.forms import shaped
from falcon_snn.report.style import GRID, INK, SCHEDULES, SOFT, figure_style, save_figure


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
        path = folder / name / "curves.jsonl"
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
    import matplotlib.pyplot as plt

    with plt.rc_context(figure_style()):
        figure, axis = plt.subplots(figsize=(8, 4.2), layout="constrained")
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
        save_figure(figure, path)
        plt.close(figure)


def draw_curves(path: Path, curves: Mapping[str, Sequence[float]], first_epoch: int = 1) -> None:
    """Validation accuracy in percent after each epoch, a line per name; epoch 0 is before all."""
    import matplotlib.pyplot as plt

    with plt.rc_context(figure_style()):
        figure, axis = plt.subplots(figsize=(8, 3.2), layout="constrained")
        for name, values in curves.items():
            epochs = range(first_epoch, first_epoch + len(values))
            axis.plot(epochs, values, "o-", markersize=3, label=name)
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        axis.set(xlabel="epoch", ylabel="validation accuracy (%)")
        axis.xaxis.get_major_locator().set_params(integer=True)
        save_figure(figure, path)
        plt.close(figure)


def _mark_phases(axis: Any, phases: Sequence[Phase]) -> None:
    """A line where a phase ends, its name above."""
    end = 0
    for phase in phases:
        begin, end = end, end + len(phase.validation_percent)
        axis.axvline(end + 0.5, color=GRID, linewidth=1)
        axis.annotate(
            phase.name, ((begin + end + 1) / 2, 1.0), xycoords=("data", "axes fraction"),
            ha="center", va="bottom", fontsize=8, color=SOFT,
        )  # fmt: skip
