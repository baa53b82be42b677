"""The figures of the paper, ours beside them where it prints numbers, and drawn."""

from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from falcon_snn.hardware.profile import load_profile
from falcon_snn.pipeline.graph import INPUT, Graph, layer
from falcon_snn.pipeline.schedule import uniform
from falcon_snn.pipeline.timing import time_qnn, time_snn
from falcon_snn.report import published as paper
from falcon_snn.report.energy_figure import draw_breakdown
from falcon_snn.report.energy_form import FIGURES
from falcon_snn.report.exhibit import Exhibit, Line, line, listed, other_line
from falcon_snn.report.kernel_figure import draw_kernel
from falcon_snn.report.measurements import Measurements
from falcon_snn.report.modeled import core_us, less_percent, timing_of
from falcon_snn.report.paper_tables import SETTING_TITLES, TITLES
from falcon_snn.report.results import ABLATED, AFTER_TEN, Result
from falcon_snn.report.search_figures import draw_chosen, draw_delay_effects
from falcon_snn.report.theory import theory as run_theory
from falcon_snn.report.timeline import write_timeline
from falcon_snn.report.training_curves import draw_panels
from falcon_snn.search.result_form import CHOSEN

_SEARCH_DATA = "Our search looks at another network on other data."
_NO_SEARCH = "Drawn from our search of this network, which has not been run yet."
_SPIKES = "Ours from the spikes of another network on other clips."
_QAT_EPOCHS = 30
_NO_RESULTS = "Drawn from our results; there are none yet."


def pipeline_intro(found: Measurements) -> Exhibit:
    """Four equal layers: more rounds per layer, and yet an earlier end."""
    names = [f"layer{number}" for number in range(1, 5)]
    stages = [
        stage
        for name, before in zip(names, [INPUT, *names], strict=False)
        for stage in layer(name, before, 64, 64)
    ]
    graph, profile = Graph("four layers", 7, tuple(stages)), load_profile()
    timings = {"SNN, delay 1": time_snn(graph, uniform(1, names, 7), profile),
               "SNN, delay 3": time_snn(graph, uniform(3, names, 7), profile),
               "QNN": time_qnn(graph, profile)}  # fmt: skip
    lines = [
        line("rounds of a QNN layer with eight levels", 3, graph.bits, digits=0),
        line("timesteps of an SNN layer with eight levels", 7, graph.slots, digits=0),
        *(line(f"four equal layers, {name}", None, t.core_us, "us") for name, t in timings.items()),
    ]
    return Exhibit("pipeline-intro", "Cross-timestep pipelining and firing delay in SNNs",
                   listed(lines),
                   ("The paper's sketch has no numbers; four layers of 64 inputs stand in.",),
                   {"pipeline-intro.svg": partial(write_timeline, title="", timings=timings),
                    "pipeline-intro-kernel.svg": partial(draw_kernel, delays=(1, 3, 7))}
                   )  # fmt: skip


def pipeline_detail(found: Measurements) -> Exhibit:
    balanced, qnn = (timing_of("gsc-medium", name) for name in ("balanced", "qnn"))
    stem = balanced.ready("stem.fc2")
    lines = [
        line("block 0 starts", 7.64, balanced.us(stem[0]), "us"),
        line("last output slot of the stem", 18.92, balanced.us(stem[-1]), "us"),
        line("core latency", 119.64, balanced.core_us, "us"),
        line("matched QNN", 130.86, qnn.core_us, "us"),
        line("reduction", 8.6, less_percent(balanced.core_us, qnn.core_us), "%", digits=1),
        line("searchable IF stages", 19, len(balanced.graph.boundaries), digits=0),
    ]
    caption = "Latency example of Falcon-Medium with the Balanced schedule"
    draw = partial(write_timeline, title="", timings={"Balanced": balanced, "Matched QNN": qnn})
    return Exhibit("pipeline-detail", caption, listed(lines),
                   pictures={"pipeline-detail.svg": draw})  # fmt: skip


def theory(found: Measurements) -> Exhibit:
    """Theorem 1 and Proposition 1, executed."""
    ran = run_theory([1, 3, 5], slots=7)
    steps = [a - b for row in ran.errors for a, b in pairwise(row)]
    bound = sum(e > ran.slots - d for row in ran.errors for d, e in enumerate(row, start=1))
    lines = [
        line("Theorem 1: streams whose error rises with the delay, of 1000", 0,
             sum(step < 0 for step in steps), digits=0),
        line("Theorem 1: largest fall of the error for one more slot", 1, max(steps), digits=0),
        line("Theorem 1: errors above T - delay", 0, bound, digits=0),
        line("Theorem 1 is tight: error at delay 1, T = 7", 6,
             ran.by_delay[0]["count_error_tight"], digits=0),
        *(line(f"Proposition 1: accuracy at delay {delay}", published,
               float(ran.accuracies[delay - 1]))
          for delay, published in zip(ran.chosen, (1.0, 0.5, 1.0), strict=True)),
    ]  # fmt: skip
    return Exhibit("theory", "Theory for delay in SNNs: Theorem 1 and Proposition 1",
                   listed(lines))  # fmt: skip


def delay_effects(setting: str, found: Measurements) -> Exhibit:
    searched = found.searches.get(setting)
    published = paper.UNIFORM_DELAYS_GSC_LARGE if setting == "gsc-large" else {}
    lines = []
    for delay in (1, 2, 3, 7):
        row = published.get(delay)
        latency = core_us(setting, f"uniform:{delay}")
        lines.append(line(f"uniform delay {delay}, latency", row and row.latency_us, latency, "us"))
        ours = _percent(searched, searched["uniform"][delay - 1]) if searched else None
        lines.append(other_line(f"uniform delay {delay}, validation", row and row.accuracy_percent,
                                ours, why=_SEARCH_DATA))  # fmt: skip
    caption = f"Effects of firing delay on accuracy and latency, {SETTING_TITLES[setting]}"
    name = f"delay-effects-{setting}"
    draw = {f"{name}.svg": partial(draw_delay_effects, result=searched)} if searched else {}
    return Exhibit(name, caption, listed(lines), () if searched else (_NO_SEARCH,), draw)


def search(setting: str, found: Measurements) -> Exhibit:
    searched = found.searches.get(setting)
    large = setting == "gsc-large"
    lines = []
    for name in CHOSEN:
        row = paper.SEARCH_GSC_LARGE[name] if large else None
        chosen = searched["evaluated"][searched["chosen"][name]] if searched else None
        before = _percent(searched, searched["chosen"][name]) if searched else None
        adapted = found.of(setting, name)
        after = mean(r.validation_percent for r in adapted) if adapted else None
        lines += [
            other_line(f"{TITLES[name]}, validation before training",
                       row and row.validation_before_percent, before, why=_SEARCH_DATA),
            other_line(f"{TITLES[name]}, latency of what the search chose",
                       paper.MAIN_RESULTS[setting][name].latency_us,
                       chosen["latency_us"] if chosen else None, "us", _SEARCH_DATA),
            other_line(f"{TITLES[name]}, validation after training",
                       row and row.validation_after_percent, after, why=_SEARCH_DATA),
        ]  # fmt: skip
    lines += _search_size(searched, large)
    caption = f"Delay search and training, {SETTING_TITLES[setting]}"
    name = f"search-{setting}"
    stages = {one: _stages(rows[0]) for one in CHOSEN if (rows := found.of(setting, one))}
    draw = {f"{name}.svg": partial(draw_chosen, result=searched, stages=stages)} if searched else {}
    return Exhibit(name, caption, listed(lines), () if searched else (_NO_SEARCH,), draw)


def _search_size(searched: dict[str, Any] | None, large: bool) -> list[Line]:
    """Schedules evaluated, and random schedules at the Balanced latency."""
    others: list[float] = []
    if searched is not None:
        numbers = [row["schedule"] for row in searched["random"]["balanced"]["schedules"]]
        others = [_percent(searched, number) for number in numbers]
    average, deviation = paper.SEARCH_GSC_LARGE_RANDOM_PERCENT if large else (None, None)
    schedules = paper.SEARCH_GSC_LARGE_SCHEDULES if large else None
    return [
        other_line("schedules evaluated", schedules,
                   searched["schedules_searched"] if searched else None, "", _SEARCH_DATA,
                   digits=0),
        other_line("random schedules like Balanced, mean", average,
                   mean(others) if others else None, why=_SEARCH_DATA),
        other_line("random schedules like Balanced, deviation", deviation,
                   stdev(others) if len(others) > 1 else None, why=_SEARCH_DATA),
    ]  # fmt: skip


def qat_curves(found: Measurements) -> Exhibit:
    """PDS Balanced over the epochs of QAT; a random schedule and full lookahead beside it."""
    lines: list[Line] = []
    panels: dict[str, dict[str, list[float]]] = {}
    notes = ["Dashed: the budget of ten epochs; starred: the best epoch."]
    for setting in ("gsc-medium", "gsc-large", "ssc-medium"):
        network = SETTING_TITLES[setting]
        random = "random-1" if setting == ABLATED else "random-1-30"
        names = {"PDS Balanced": "balanced", "random schedule": random, "full lookahead": "full-30"}
        there = {title: found.of(setting, name) for title, name in names.items()}
        curves = {title: _qat(rows[0]) for title, rows in there.items() if rows}
        for title in names:
            best = max(curves[title]) if title in curves else None
            lines.append(line(f"{network}, {title}, best validation", None, best, "%"))
        if (epochs := len(curves.get("PDS Balanced", ()))) in range(1, _QAT_EPOCHS):
            notes.append(f"{network}: ours has {epochs} epochs, the paper {_QAT_EPOCHS}.")
        if curves:
            panels[network] = curves
    notes += [] if panels else [_NO_RESULTS]
    caption = "Validation accuracy during QAT for PDS-selected Balanced schedules"
    draw = {"qat-curves.svg": partial(draw_panels, panels=panels, budget=10)} if panels else {}
    return Exhibit("qat-curves", caption, listed(lines), notes, draw)


def random_curves(setting: str, found: Measurements) -> Exhibit:
    titles = ["PDS Balanced", *(f"random {number}" for number in range(1, 6))]
    there = {title: rows[0] for title, name in zip(titles, AFTER_TEN, strict=True)
             if (rows := found.of(setting, name))}  # fmt: skip
    reached = {title: _qat(result)[-1] for title, result in there.items()}
    lines = [line(f"{title}, validation at epoch ten", None, reached.get(title), "%")
             for title in titles]  # fmt: skip
    notes = ["The paper: PDS has the highest validation accuracy at epoch ten."]
    pds = reached.pop(titles[0], None)
    if pds is not None and reached:
        low, high = min(reached.values()), max(reached.values())
        place = "within their range" if low <= pds <= high else "outside their range"
        notes.append(f"Ours, one run each: {pds:.2f} % against {low:.2f} to {high:.2f} %, {place}.")
    notes += [] if there else [_NO_RESULTS]
    caption = f"Equal-budget QAT: PDS Balanced and random schedules, {SETTING_TITLES[setting]}"
    name = f"random-curves-{setting}"
    draw = {f"{name}.svg": partial(_draw_random, there=there)} if there else {}
    return Exhibit(name, caption, listed(lines), notes, draw)


def energy(found: Measurements) -> Exhibit:
    lines: list[Line] = []
    measured = {name: found.energies.get(name) for name in paper.ENERGY_ANALOG_MJ}
    for setting, ours in measured.items():
        network, figures = SETTING_TITLES[setting], ours["published"]["figures"] if ours else {}
        mj = {name: figures[name]["ours_mj"] if figures else None
              for name in FIGURES}  # fmt: skip
        lines += [
            line(f"{network}, arithmetic", paper.ENERGY_ARITHMETIC_MJ[setting], mj["arithmetic"],
                 "mJ", digits=5, why="The paper does not publish the cost of an accumulate."),
            other_line(f"{network}, analog", paper.ENERGY_ANALOG_MJ[setting], mj["analog"], "mJ",
                       _SPIKES, digits=4),
            other_line(f"{network}, core", paper.ENERGY_CORE_MJ[setting], mj["core"], "mJ",
                       _SPIKES, digits=2),
        ]  # fmt: skip
    there = {setting: ours for setting, ours in measured.items() if ours is not None}
    notes = ["Digital breakdown: attention products only, as in the paper."]
    notes += [] if there else ["Needs a trained network and its spikes; not measured yet."]
    bars = [
        {**row, "name": SETTING_TITLES[setting]}
        for setting, ours in there.items()
        for row in ours["configurations"]
        if row["name"] not in ("QNN", "full")
    ]
    title = "Balanced schedule, per inference"
    draw = {"energy.svg": partial(draw_breakdown, title=title, configurations=bars)} if bars else {}
    caption = "Analog and digital energy breakdown, Balanced schedule"
    return Exhibit("energy", caption, listed(lines), notes, draw)


def _percent(found: dict[str, Any], number: int) -> float:
    """Accuracy of one evaluated schedule of a search."""
    return 100 * float(found["evaluated"][number]["accuracy"])


def _stages(result: Result) -> dict[str, float]:
    """The best validation accuracy before training and up to the end of each of its phases."""
    before, reached = result.validation_before_percent, {}
    if before is not None:
        reached["before"] = before
    best = 0.0
    for phase in result.phases:
        best = max(best, *phase["validation_percent"])
        reached[phase["name"]] = best
    return reached


def _draw_random(path: Path, there: dict[str, Result]) -> None:
    """(a) all ten epochs, from before the first where it is known; (b) from the fourth on."""
    curves = {title: _qat(result) for title, result in there.items()}
    before = {title: result.validation_before_percent for title, result in there.items()}
    known = {title: percent for title, percent in before.items() if percent is not None}
    first = 0 if known.keys() == curves.keys() else 1
    whole = {title: [known[title], *curve] if first == 0 else curve
             for title, curve in curves.items()}  # fmt: skip
    closer = {title: curve[3:] for title, curve in curves.items()}
    draw_panels(path, {"all epochs": whole, "from epoch 4 on": closer}, first=(first, 4))


def _qat(result: Result) -> list[float]:
    curves = {phase["name"]: phase["validation_percent"] for phase in result.phases}
    found: list[float] = curves.get("qat", [])
    return found
