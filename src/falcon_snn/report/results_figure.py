"""Accuracy against latency of our networks: the best for every latency, the paper's beside them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from falcon_snn.errors import FalconError
from falcon_snn.report.published import MAIN_RESULTS, QK_PREFIX
from falcon_snn.report.results import Result, of, paper_data
from falcon_snn.report.results_table import mean_test, test_interval
from falcon_snn.report.style import INK, SOFT, drawing, shared_legend
from falcon_snn.search.pareto import best_by_latency

# Streamed attention begins before the last slot is there. It changes when a result is ready, not
# the result, so every network is in the figure twice.
_BLUE, _RED = "#2563a8", "#c0392b"
_NEAR = 2.0  # points: the paper's networks that are worse than ours by more are put at the edge
_ATTENTION = {"serial": "white", "streamed": _BLUE}  # and the filling of its markers


class Plotted(NamedTuple):
    latency_us: float
    percent: float
    name: str


def places(results: Sequence[Result], setting: str, attention: str) -> list[Plotted]:
    """Where the spiking networks of a setting lie under one kind of attention."""
    return [
        Plotted(result.latency_with(attention), result.test_percent, result.configuration)
        for result in results
        if result.setting == setting
        and result.delays is not None
        and result.test_percent is not None
    ]


def draw_results(path: Path, results: Sequence[Result], setting: str) -> None:
    """One picture: our networks under both kinds of attention, their front, the paper's points.

    It ends a little after the QNN: a slower network gains nothing from spikes.
    """
    data, _, model = setting.partition("-")
    network = f"Falcon-{model.title()}"
    qnn = [r for r in results if r.setting == setting and r.delays is None]
    limit_us = 1.03 * (qnn[0].latency_us if qnn else float("inf"))
    found = {
        kind: [place for place in places(results, setting, kind) if place.latency_us < limit_us]
        for kind in _ATTENTION
    }
    ours = [place for both in found.values() for place in both]
    if not ours:
        raise FalconError(f"no spiking network of '{setting}' among the results; see `results`")
    with drawing(path, 8.4, 4.8) as figure:
        axis = figure.subplots()
        others = _others(results, setting)
        everyone = [*ours, *(Plotted(o.latency_us, o.percent, o.name) for o in others)]
        best = best_by_latency(everyone, [place[:2] for place in everyone])
        axis.step(
            [p.latency_us for p in best], [p.percent for p in best], where="post", color=_BLUE,
            linewidth=1.2, alpha=0.6, label="best up to this latency",
        )  # fmt: skip
        for kind, fill in _ATTENTION.items():
            axis.plot(
                [p.latency_us for p in found[kind]], [p.percent for p in found[kind]], "o",
                color=_BLUE, markerfacecolor=fill, label=f"{network}, {kind} attention",
            )  # fmt: skip
        if others:
            bars = [[row.percent - row.low for row in others],
                    [row.high - row.percent for row in others]]  # fmt: skip
            axis.errorbar([row.latency_us for row in others], [row.percent for row in others], bars,
                          fmt="*", color=_RED, markersize=9, capsize=3,
                          label="Kestrel (mean, range of seeds)")  # fmt: skip
        for row in others:
            axis.annotate(
                row.name, (row.latency_us, row.low), xytext=(0, -3), textcoords="offset points",
                rotation=-40, va="top", fontsize=7, color=INK,
            )  # fmt: skip
        for each in qnn[:1]:
            if each.test_percent is not None:
                axis.plot(each.latency_us, each.test_percent, "s", color=INK,
                          label=f"{network}, QNN")  # fmt: skip
        paper = _paper(setting, limit_us)
        worst = min(place.percent for place in ours)
        least = min([worst, *(each for _, each in paper if each > worst - _NEAR)]) - 0.3
        _draw_paper(axis, paper, least, setting)
        for place in [each for each in best if each in ours]:  # the others have their names
            axis.annotate(
                _words(place.name), (place.latency_us, place.percent), xytext=(-5, 3), ha="right",
                textcoords="offset points", fontsize=7, color=INK,
            )  # fmt: skip
        counts = "/".join(map(str, sorted({r.words for r in results if r.setting == setting})))
        axis.set(xlabel="modeled core latency (µs)", ylabel="test accuracy (%)",
                 title=f"{data.upper()}, {counts} words: accuracy against latency")  # fmt: skip
        _draw_chance(axis, [r for r in results if r.setting == setting])
        lowest = min([least, *(row.low - 0.1 for row in others)])
        left = 0 if others else min(place.latency_us for place in ours) - 8  # room for a name
        axis.set_xlim(left=left)
        axis.set_ylim(lowest, max(place.percent for place in ours) + 0.2)
        shared_legend(figure, columns=3)


def _words(configuration: str) -> str:
    """A configuration's name in words: t4-prefix-2 has four slots and a prefix of two."""
    slots, _, prefix = configuration.rpartition("prefix-")
    if not prefix.isdigit():
        return configuration
    return (f"T = {slots[1:-1]}, " if slots.startswith("t") else "") + f"Q/K prefix {prefix}"


class Spread(NamedTuple):
    """A network of several seeds."""

    name: str
    latency_us: float
    percent: float
    low: float
    high: float


def _others(results: Sequence[Result], setting: str) -> list[Spread]:
    """Networks of another family on the same data."""
    family = f"{setting.partition('-')[0]}-kestrel"
    found = []
    for name in dict.fromkeys(r.configuration for r in results if r.setting == family):
        seeds = of(results, family, name)
        read = [r.test_percent for r in seeds if r.test_percent is not None]
        if read and seeds[0].delays is not None:
            found.append(
                Spread(name, seeds[0].latency_us, sum(read) / len(read), min(read), max(read))
            )
    return found


def _paper(setting: str, limit_us: float) -> list[tuple[float, float]]:
    """Latency and accuracy of the paper's networks."""
    main = MAIN_RESULTS.get(setting, {}).values()
    rows = [(row.latency_us, row.accuracy_percent) for row in main]
    if setting == "gsc-medium":
        ablation = [(row.latency_us, row.test_after_percent) for row in QK_PREFIX]
        rows += [(us, percent) for us, percent in ablation if percent is not None]
    return [(us, percent) for us, percent in rows if us < limit_us]


def _draw_chance(axis: Any, results: Sequence[Result]) -> None:
    """How far other clips might move a network of one seed: one bar, at the upper right."""
    tested = [r for r in results if r.test_percent is not None]
    ends = test_interval(tested)
    if ends is not None:
        middle = mean_test(tested) or 0.0
        axis.errorbar([0.975], [middle], [[middle - ends[0]], [ends[1] - middle]], fmt="none",
                      ecolor=SOFT, capsize=3, transform=axis.get_yaxis_transform())  # fmt: skip
        axis.annotate("95 % interval\nof one network", (0.965, ends[0]), ha="right", va="bottom",
                      fontsize=7, color=SOFT, xycoords=axis.get_yaxis_transform())  # fmt: skip


def _draw_paper(axis: Any, rows: Sequence[tuple[float, float]], least: float, setting: str) -> None:
    """The paper's points; one that lies below the picture is named at its lower edge."""
    if rows:
        axis.plot(
            *zip(*rows, strict=True), "^", color=SOFT, label=f"the paper's ({paper_data(setting)})"
        )
    for us, percent in rows:
        if percent < least:
            axis.annotate(
                f"{percent:.2f}", (us, least), xytext=(us, least + 0.08), ha="center", fontsize=7,
                color=SOFT, arrowprops={"arrowstyle": "->", "color": SOFT},
            )  # fmt: skip
