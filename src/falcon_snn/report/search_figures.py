"""Figures of a search, as in the paper: what a delay does, and what was chosen.

Accuracies carry their 95 % intervals; everything is read from the result file alone.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from falcon_snn.report.style import INK, SCHEDULES, SOFT, drawing, shared_legend
from falcon_snn.search.result import same_chosen

_TWO, _THREE, _GREEN, _RED = "#2563a8", "#d9822b", "#3a923a", "#c0392b"
_DELAY_COLOURS = {2: _TWO, 3: _THREE}

Row = dict[str, Any]


def write_search_figures(result: Row, folder: Path, suffix: str = ".png") -> list[Path]:
    """Write the figures `delay-effects` and `chosen-schedules`; return their paths."""
    paths = [folder / f"{name}{suffix}" for name in ("delay-effects", "chosen-schedules")]
    draw_delay_effects(paths[0], result)
    draw_chosen(paths[1], result)
    return paths


def draw_delay_effects(path: Path, result: Row) -> None:
    """What a delay does: everywhere, at each boundary, at three of them, and at the gates."""
    height = max(7.0, 1.6 + 0.21 * len(result["boundaries"]) * 1.9)
    with drawing(path, 11, min(height, 12.0)) as figure:
        panels = figure.subplots(2, 2).flat
        for axis, draw in zip(
            panels, (_uniform, _per_boundary, _representative, _screening), strict=True
        ):
            draw(axis, result)
        shared_legend(figure)


def draw_chosen(
    path: Path, result: Row, stages: Mapping[str, Mapping[str, float]] | None = None
) -> None:
    """What was chosen, random schedules beside it and, if given, what training made of each:
    validation accuracy in percent by stage.
    """
    draws = [_front, _against_random]
    if stages:
        draws.append(partial(_training_stages, stages))
    with drawing(path, 14 if stages else 5.5 * len(draws), 4.6) as figure:
        for axis, draw in zip(figure.subplots(1, len(draws)), draws, strict=True):
            draw(axis, result)
        shared_legend(figure)


def single_changes(result: Row) -> dict[tuple[str, int], Row]:
    """(boundary, delay) -> the schedule in which only that boundary waits."""
    return {
        (boundary, delay): row
        for row in result["evaluated"]
        if len(row["delays"]) == 1
        for boundary, delay in row["delays"].items()
    }


def representatives(result: Row) -> dict[str, str]:
    """Three boundaries with different answers to waiting: best, worst, and one that turns round.

    That one has the largest swing between delays 2 and 3 among those not named yet; with two
    slots there is no delay 3, and so no such boundary.
    """
    singles = single_changes(result)
    base = result["evaluated"][0]["accuracy"]
    delays = _short_delays(singles)
    both = [b for b in result["boundaries"] if all((b, d) in singles for d in delays)]
    if len(both) < 3 or not delays:
        return dict.fromkeys(both if delays else (), "")
    gain = {b: [singles[b, d]["accuracy"] - base for d in delays] for b in both}
    helps = max(both, key=lambda b: max(gain[b]))
    harms = min((b for b in both if b != helps), key=lambda b: min(gain[b]))
    if len(delays) == 1:
        return {helps: "gains most", harms: "loses most"}
    rest = [b for b in both if b not in (helps, harms)]
    turns = max(rest, key=lambda b: (gain[b][0] * gain[b][1] < 0, abs(gain[b][0] - gain[b][1])))
    return {helps: "gains most", turns: "swings most", harms: "loses most"}


def _short_delays(singles: Mapping[tuple[str, int], Row]) -> list[int]:
    """Of the delays 2 and 3 those that the search tried."""
    return [delay for delay in (2, 3) if any(tried == delay for _, tried in singles)]


def _uniform(axis: Any, result: Row) -> None:
    rows = [result["evaluated"][number] for number in result["uniform"]]
    delays = range(1, len(rows) + 1)
    _accuracy_line(axis, delays, rows, _TWO)
    axis.set(xlabel="uniform delay (slots)", ylabel="accuracy (%)", xticks=list(delays))
    axis.yaxis.label.set_color(_TWO)
    axis.set_title("a  The same delay everywhere")
    latency = axis.twinx()
    latency.plot(delays, [row["latency_us"] for row in rows], "s--", color=_THREE, markersize=4)
    latency.axhline(result["budget_us"], color=SOFT, linewidth=1, linestyle=":")
    latency.annotate(
        f"budget {result['budget_us']:.2f} µs", (len(rows), result["budget_us"]), color=SOFT,
        fontsize=8, ha="right", va="bottom", xytext=(0, 2), textcoords="offset points",
    )  # fmt: skip
    latency.set_ylabel("core latency (µs)", color=_THREE)
    latency.grid(visible=False)


def _per_boundary(axis: Any, result: Row) -> None:
    singles = single_changes(result)
    base = result["evaluated"][0]["accuracy"]
    names = result["boundaries"]
    delays = _short_delays(singles)
    for delay in delays:
        offset = 0.0 if len(delays) == 1 else -0.19 if delay == 2 else 0.19
        known = [(i, singles[n, delay]) for i, n in enumerate(names) if (n, delay) in singles]
        axis.barh(
            [index + offset for index, _ in known],
            [100 * (row["accuracy"] - base) for _, row in known],
            height=0.36, color=_DELAY_COLOURS[delay], label=f"1 → {delay}",
        )  # fmt: skip
    axis.axvline(0, color=INK, linewidth=0.8)
    axis.set_yticks(range(len(names)), names, fontsize=8 if len(names) < 22 else 6.5)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.grid(axis="y", visible=False)
    axis.set(xlabel="change of accuracy (percentage points)")
    axis.set_title("b  One boundary waits longer")


def _representative(axis: Any, result: Row) -> None:
    singles = single_changes(result)
    start, delays, found = result["evaluated"][0], _short_delays(singles), representatives(result)
    colours = (_GREEN, _RED) if len(found) == 2 else (_GREEN, SOFT, _RED)
    ends: list[tuple[float, str, str]] = []
    for (boundary, why), colour, shift in zip(
        found.items(), colours, (-0.03, 0.0, 0.03), strict=False
    ):
        rows = [start, *(singles[boundary, delay] for delay in delays)]
        _accuracy_line(axis, [delay + shift for delay in (1, *delays)], rows, colour)
        label = f"{boundary}\n({why})" if why else boundary
        ends.append((100 * rows[-1]["accuracy"], label, colour))
    # Named where they end, since their colours are of this panel alone; but not on each other.
    low, high = axis.get_ylim()
    free = low
    for end, label, colour in sorted(ends):
        place = max(end, free)
        free = place + 0.14 * (high - low)
        axis.annotate(
            label, (len(delays) + 1.03, place), xytext=(6, 0), textcoords="offset points",
            va="center", fontsize=8, color=colour,
        )  # fmt: skip
    axis.set(
        xlabel="delay of this boundary alone (slots)", ylabel="accuracy (%)", xticks=[1, *delays]
    )
    axis.set_xlim(0.85, len(delays) + 1.9)
    axis.set_title("c  Representative boundaries")


def _screening(axis: Any, result: Row) -> None:
    tau, eps = result["settings"]["tau"], 100 * result["settings"]["eps"]
    first = [change for change in result["changes"] if change["step"] == 1]
    first = list({change["after"]: change for change in first}.values())  # both paths start alike
    later = [change for change in result["changes"] if change["step"] > 1]
    _scatter(axis, later, color="#c3cad1", s=9, label="later steps of the search", zorder=1)
    for delay, colour in _DELAY_COLOURS.items():
        these = [change for change in first if list(change["delays"].values()) == [delay]]
        if these:
            _scatter(axis, these, color=colour, s=26, label=f"1 → {delay}", zorder=3)
    axis.axhline(tau, color=_GREEN, linewidth=1, linestyle="--")
    axis.axvline(eps, color=_GREEN, linewidth=1, linestyle="--")
    right, top = axis.get_xlim()[1], axis.get_ylim()[1]
    right, top = max(right, 2 * eps), max(top, 1.3 * tau)
    axis.set_xlim(right=right)
    axis.set_ylim(top=top)
    axis.fill_between(
        [eps, right], tau, top, color=_GREEN, alpha=0.12, linewidth=0, zorder=0,
        label=f"accepted: score ≥ {tau:g}, gain ≥ {eps:g} pp",
    )  # fmt: skip
    axis.set(xlabel="accuracy gain (percentage points)", ylabel="rescue score (R − H) / √(R + H)")
    axis.set_title("d  Candidates and the gates")


def _front(axis: Any, result: Row) -> None:
    rows = result["evaluated"]
    searched = rows[: result["schedules_searched"]]
    within = [row for row in searched if row["latency_cycles"] < result["budget_cycles"]]
    axis.scatter(
        [row["latency_us"] for row in within], [100 * row["accuracy"] for row in within],
        s=9, color="#c3cad1", label=f"{len(searched)} schedules evaluated", zorder=1,
    )  # fmt: skip
    front = sorted((rows[n] for n in result["front"]), key=lambda row: row["latency_cycles"])
    axis.plot(
        [row["latency_us"] for row in front], [100 * row["accuracy"] for row in front],
        drawstyle="steps-post", color=INK, linewidth=1.2, marker=".", label="front", zorder=2,
    )  # fmt: skip
    for names in same_chosen(result):
        (marker, colour), row = SCHEDULES[names[0]], rows[result["chosen"][names[0]]]
        axis.errorbar(
            row["latency_us"], 100 * row["accuracy"], yerr=_error([row]), fmt=marker, color=colour,
            markersize=7, capsize=3, zorder=3,
            label=f"{' = '.join(names)}: {100 * row['accuracy']:.2f} %, {row['latency_us']:.2f} µs",
        )  # fmt: skip
    axis.axvline(result["budget_us"], color=SOFT, linewidth=1, linestyle=":", label="budget")
    axis.set(xlabel="core latency (µs)", ylabel="accuracy (%)")
    axis.set_title("a  Evaluated schedules and the Pareto front")


def _against_random(axis: Any, result: Row) -> None:
    labels = []
    for place, names in enumerate(same_chosen(result)):
        name, (marker, colour) = names[0], SCHEDULES[names[0]]
        chosen = result["evaluated"][result["chosen"][name]]
        others = [
            result["evaluated"][entry["schedule"]] for entry in result["random"][name]["schedules"]
        ]
        for index, row in enumerate(others):
            shift = 0.18 + 0.3 * index / max(len(others) - 1, 1)
            axis.plot(place + shift, 100 * row["accuracy"], "o", color="#9aa5b1", markersize=4)
        if others:
            mean = 100 * sum(row["accuracy"] for row in others) / len(others)
            axis.hlines(mean, place + 0.12, place + 0.54, color=SOFT, linewidth=1.5)
        else:
            axis.annotate(
                "no other schedule\nhas these delays", (place, 100 * chosen["accuracy"]),
                fontsize=7.5, color=SOFT, va="center", xytext=(12, 0), textcoords="offset points",
            )  # fmt: skip
        axis.errorbar(
            place, 100 * chosen["accuracy"], yerr=_error([chosen]), fmt=marker, color=colour,
            markersize=7, capsize=3,
        )  # fmt: skip
        labels.append(" =\n".join(names) + f"\n{chosen['latency_us']:.2f} µs")
    axis.plot([], [], "o", color="#9aa5b1", markersize=4, label="random: same delays and latency")
    axis.plot([], [], color=SOFT, linewidth=1.5, label="their mean")
    axis.set_xticks(range(len(labels)), labels)
    axis.set_xlim(-0.3, len(labels) - 0.25)
    axis.grid(axis="x", visible=False)
    axis.set(ylabel="accuracy (%)")
    axis.set_title("b  Chosen against random places")


def _training_stages(stages: Mapping[str, Mapping[str, float]], axis: Any, result: Row) -> None:
    names = list(dict.fromkeys(stage for reached in stages.values() for stage in reached))
    for name, reached in stages.items():
        marker, colour = SCHEDULES[name]
        places = [names.index(stage) for stage in reached]
        axis.plot(places, list(reached.values()), marker=marker, color=colour, markersize=6)
    axis.set_xticks(range(len(names)), names)
    axis.set(xlabel="stage of training", ylabel="validation accuracy (%)")
    axis.set_title("c  Best after each stage of training")


def _accuracy_line(axis: Any, x: Any, rows: list[Row], colour: str) -> None:
    axis.errorbar(
        list(x), [100 * row["accuracy"] for row in rows], yerr=_error(rows), fmt="o-",
        color=colour, markersize=4, capsize=2, linewidth=1.4,
    )  # fmt: skip


def _error(rows: list[Row]) -> list[list[float]]:
    """Distances from accuracy to the ends of its interval, in points."""
    return [
        [100 * (row["accuracy"] - row["interval"][0]) for row in rows],
        [100 * (row["interval"][1] - row["accuracy"]) for row in rows],
    ]


def _scatter(axis: Any, changes: list[Row], **style: Any) -> None:
    gains = [100 * change["gain"] for change in changes]
    axis.scatter(gains, [change["score"] for change in changes], linewidth=0, **style)
