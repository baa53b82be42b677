"""The page of a `design` run: every trial, the front, the rivals, what the limits excluded."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from falcon_snn.files import read_json, write_json
from falcon_snn.report.page import write_page
from falcon_snn.report.style import INK, SOFT, drawing, shared_legend
from falcon_snn.search.pareto import best_by_latency

# Files of the steps, and of the page.
SPACE, TRIALS, DESIGNS = "space.json", "trials.json", "designs.json"
RESULT, PAGE, FIGURE = "design.json", "design.html", "front.svg"
UNITS = {"us": "µs", "tiles": "tiles", "mj": "mJ"}
_BLUE, _RED = "#2563a8", "#c0392b"
_RIVALS = {"bit-serial QNN": "s", "QNN, overlapping row groups": "D", "bit-parallel QNN": "v",
           "one slot": "x"}  # fmt: skip


def write_design_page(run: Path, out: Path) -> Path:
    """Write `design.html`, its picture and `design.json` into `out`; the path of the page."""
    facts = read_json(run / "run.json")
    space = read_json(run / "space" / SPACE)
    trials = read_json(run / "contest" / TRIALS)
    designs = read_json(run / "designs" / DESIGNS)
    best = front(designs)
    for row in designs:
        row["on_front"] = row in best
    settings = facts["settings"]
    result = {
        "data": settings["data"], "hardware": settings["profile"]["name"],
        "limits": settings["limits"], "noise_db": settings["noise_db"],
        "space": {key: value for key, value in space.items() if key != "bands"},
        "designs": designs, "trials": trials,
    }  # fmt: skip
    write_json(out / RESULT, result)
    draw_designs(out / FIGURE, trials, designs, settings["limits"]["us"])
    page = out / PAGE
    write_page(
        page, "design.html.j2", result=result, figure=out / FIGURE, units=UNITS, run=run,
        tried=sorted(trials, key=lambda row: row["latency_us"]), settings=settings,
        command=shlex.join(facts.get("command", [])),
    )  # fmt: skip
    return page


def front(designs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Designs within the limits that are better than all that are as fast."""
    within = [row for row in designs if not row["breaks"]]
    snn = [row["networks"]["SNN"] for row in within]
    places = [(own["latency_us"], own["score"]) for own in snn]
    return best_by_latency(within, places)


def last_score(trial: dict[str, Any]) -> dict[str, float] | None:
    """The scores of a trial's last rung."""
    if not trial["scores"]:
        return None
    scores: dict[str, float] = trial["scores"][max(trial["scores"], key=int)]
    return scores


def draw_designs(
    path: Path, trials: Sequence[dict[str, Any]], designs: Sequence[dict[str, Any]],
    limit_us: float | None,
) -> None:  # fmt: skip
    """Score against latency: trials, the front, the rivals of its designs.

    Trials that ended early had few epochs and lie far below; those that would leave no room for the
    rest are drawn at the lower edge.
    """
    best = front(designs)
    seen = [network["score"] for row in best for network in row["networks"].values()]
    whole = [last_score(row) for row in trials if row["state"] == "complete"]
    low = min([*seen, *(scores["score"] for scores in whole if scores)])
    low -= 0.15 * (max(seen) - low) + 0.5

    with drawing(path, 8.4, 4.8) as figure:
        axis = figure.subplots()
        for state, colour, label in (
            ("pruned", SOFT, "ended early (at the lower edge: below it)"),
            ("complete", _BLUE, "fully trained"),
        ):  # fmt: skip
            for family, marker in (("kestrel", "o"), ("falcon", "^")):
                rows = [
                    (row["latency_us"], max(scores["score"], low))
                    for row in trials
                    if row["state"] == state and row["name"].startswith(family)
                    if (scores := last_score(row)) is not None
                ]
                if rows:
                    axis.plot(*zip(*rows, strict=True), marker, color=colour, markersize=4,
                              markerfacecolor="none", label=f"{family}, {label}")  # fmt: skip
        own = [row["networks"]["SNN"] for row in best]
        us, score = [row["latency_us"] for row in own], [row["score"] for row in own]
        axis.step(us, score, where="post", color=_RED, alpha=0.6)
        axis.plot(us, score, "o", color=_RED, label="the front, adapted")
        for number, (x, y, row) in enumerate(zip(us, score, best, strict=True)):
            # One above the other, since neighbours on a front lie close together.
            axis.annotate(
                row["name"], (x, y), xytext=(4, 5 + 9 * (number % 3)), textcoords="offset points",
                fontsize=7,
            )  # fmt: skip
        for title, marker in _RIVALS.items():
            rivals = [row["networks"][title] for row in best]
            axis.plot([r["latency_us"] for r in rivals], [r["score"] for r in rivals], marker,
                      color=INK, markersize=4, markerfacecolor="none", label=title)  # fmt: skip
        if limit_us is not None:
            axis.axvline(limit_us, color=SOFT, linestyle=":", linewidth=1)
            axis.text(limit_us, 0.01, " limit", transform=axis.get_xaxis_transform(), fontsize=7,
                      color=SOFT)  # fmt: skip
        axis.set(xlabel="modeled core latency (µs)", ylabel="validation score (%)")
        axis.margins(y=0.12)
        shared_legend(figure, columns=3)
