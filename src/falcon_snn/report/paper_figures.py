"""The figures of the paper, ours beside them where it prints numbers, and drawn."""

from collections.abc import Sequence
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
from falcon_snn.report.exhibit import Exhibit, Line, line
from falcon_snn.report.modeled import core_us, less_percent, timing_of
from falcon_snn.report.paper_tables import TITLES
from falcon_snn.report.results import Result, load_energy, load_search, of

Results = Sequence[Result]
_SEARCH_DATA = "another network on other data"
_NO_SEARCH = "Drawn from our search of this network, which has not been run yet."
_NO_RESULTS = "Drawn from our results; there are none yet."


def pipeline_intro(results: Results) -> Exhibit:
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
    return Exhibit("pipeline-intro", "Cross-timestep pipelining and firing delay in SNNs", lines,
                   ("The paper's sketch has no numbers; four layers of 64 inputs stand in.",),
                   partial(_intro, timings))  # fmt: skip


def pipeline_detail(results: Results) -> Exhibit:
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
    timings = {"Balanced": balanced, "Matched QNN": qnn}
    return Exhibit("pipeline-detail", caption, lines,
                   draw=partial(_timeline, "pipeline-detail", timings))  # fmt: skip


def theory(results: Results) -> Exhibit:
    """Theorem 1 and Proposition 1, executed."""
    from falcon_snn.neuron import theorems

    slots, delays = 7, (1, 3, 5)
    streams = theorems.random_streams(slots, 1000)
    errors = [theorems.count_errors(stream) for stream in streams]
    steps = [a - b for row in errors for a, b in pairwise(row)]
    tight = theorems.count_errors(theorems.tight_stream(slots))
    accuracies = [
        theorems.accuracy([theorems.run(s, d, slots) for s in theorems.samples(delays, slots)])
        for d in delays
    ]
    bound = sum(e > slots - d for row in errors for d, e in enumerate(row, start=1))
    lines = [
        line("Theorem 1: streams whose error rises with the delay, of 1000", 0,
             sum(step < 0 for step in steps), digits=0),
        line("Theorem 1: largest fall of the error for one more slot", 1, max(steps), digits=0),
        line("Theorem 1: errors above T - delay", 0, bound, digits=0),
        line("Theorem 1 is tight: error at delay 1, T = 7", 6, tight[0], digits=0),
        *(line(f"Proposition 1: accuracy at delay {delay}", published, float(ours))
          for delay, published, ours in zip(delays, (1.0, 0.5, 1.0), accuracies, strict=True)),
    ]  # fmt: skip
    return Exhibit("theory", "Theory for delay in SNNs: Theorem 1 and Proposition 1", lines)


def delay_effects(setting: str, results: Results) -> Exhibit:
    found = load_search(setting)
    published = paper.UNIFORM_DELAYS_GSC_LARGE if setting == "gsc-large" else {}
    lines = []
    for delay in (1, 2, 3, 7):
        row = published.get(delay)
        latency = core_us(setting, f"uniform:{delay}")
        lines.append(line(f"uniform delay {delay}, latency", row and row.latency_us, latency, "us"))
        ours = _percent(found, found["uniform"][delay - 1]) if found else None
        lines.append(
            _validation(f"uniform delay {delay}, validation", row and row.accuracy_percent, ours)
        )
    caption = f"Effects of firing delay on accuracy and latency, {setting}"
    return Exhibit(f"delay-effects-{setting}", caption, lines, () if found else (_NO_SEARCH,),
                   draw=partial(_search_figure, 0, setting, found) if found else None)  # fmt: skip


def search(setting: str, results: Results) -> Exhibit:
    found = load_search(setting)
    large = setting == "gsc-large"
    lines = []
    for name in ("fastest", "balanced", "accurate"):
        row = paper.SEARCH_GSC_LARGE[name] if large else None
        chosen = found["evaluated"][found["chosen"][name]] if found else None
        before = _percent(found, found["chosen"][name]) if found else None
        lines.append(_validation(f"{TITLES[name]}, validation before training",
                                 row and row.validation_before_percent, before))  # fmt: skip
        latency = paper.MAIN_RESULTS[setting][name].latency_us
        found_us = chosen["latency_us"] if chosen else None
        lines.append(line(f"{TITLES[name]}, latency of what the search chose", latency, found_us,
                          "us", why=_SEARCH_DATA))  # fmt: skip
        adapted = of(results, setting, name)
        after = mean(r.validation_percent for r in adapted) if adapted else None
        lines.append(_validation(f"{TITLES[name]}, validation after training",
                                 row and row.validation_after_percent, after))  # fmt: skip
    lines += _search_size(found, large)
    caption = f"Delay search and training, {setting}"
    return Exhibit(f"search-{setting}", caption, lines, () if found else (_NO_SEARCH,),
                   draw=partial(_search_figure, 1, setting, found) if found else None)  # fmt: skip


def _search_size(found: dict[str, Any] | None, large: bool) -> list[Line]:
    """Schedules evaluated, and random schedules at the Balanced latency."""
    others: list[float] = []
    if found is not None:
        numbers = [row["schedule"] for row in found["random"]["balanced"]["schedules"]]
        others = [_percent(found, number) for number in numbers]
    average, deviation = paper.SEARCH_GSC_LARGE_RANDOM_PERCENT if large else (None, None)
    schedules = paper.SEARCH_GSC_LARGE_SCHEDULES if large else None
    searched = found["schedules_searched"] if found else None
    return [
        line("schedules evaluated", schedules, searched, digits=0,
             why="the path depends on the trained network"),
        _validation("random schedules like Balanced, mean", average,
                    mean(others) if others else None),
        _validation("random schedules like Balanced, deviation", deviation,
                    stdev(others) if len(others) > 1 else None),
    ]  # fmt: skip


def qat_curves(results: Results) -> Exhibit:
    found = {setting: of(results, setting, "balanced") for setting in paper.SETTINGS}
    curves = {setting: rows[:1] for setting, rows in found.items() if rows}
    lines = [
        line(f"{setting}, epochs of QAT", 30, len(_qat(rows[0])) if rows else None, digits=0,
             why="each experiment says how many epochs it ran")
        for setting, rows in found.items()
    ]  # fmt: skip
    caption = "Validation accuracy during QAT for PDS-selected Balanced schedules"
    return Exhibit("qat-curves", caption, lines, () if curves else (_NO_RESULTS,),
                   draw=partial(_curves, "qat-curves", curves) if curves else None)  # fmt: skip


def random_curves(setting: str, results: Results) -> Exhibit:
    names = ["balanced-10", *(f"random-{number}-10" for number in range(1, 6))]
    found = {name: of(results, setting, name)[:1] for name in names}
    curves = {name: rows for name, rows in found.items() if rows}
    lines = [
        line(f"{name}, validation after ten epochs", None,
             rows[0].validation_percent if rows else None, "%")
        for name, rows in found.items()
    ]  # fmt: skip
    if curves.keys() == found.keys():
        best = max(curves, key=lambda name: curves[name][0].validation_percent)
        lines.append(line("PDS is the highest at epoch ten (1: yes)", 1, best == names[0],
                          digits=0, why=_SEARCH_DATA))  # fmt: skip
    caption = f"Equal-budget QAT: PDS Balanced against five random schedules, {setting}"
    return Exhibit(f"random-curves-{setting}", caption, lines, () if curves else (_NO_RESULTS,),
                   draw=partial(_curves, f"random-curves-{setting}", curves)
                   if curves else None)  # fmt: skip


def energy(results: Results) -> Exhibit:
    lines: list[Line] = []
    measured = {setting: load_energy(setting) for setting in paper.ENERGY_ANALOG_MJ}
    published = {"arithmetic": paper.ENERGY_ARITHMETIC_MJ, "analog": paper.ENERGY_ANALOG_MJ,
                 "core": paper.ENERGY_CORE_MJ}  # fmt: skip
    for setting, found in measured.items():
        for name, figures in published.items():
            ours = found["published"]["figures"][name] if found else None
            mj, kind = (ours["ours_mj"], ours["kind"]) if ours else (None, "")
            digits = 5 if name == "arithmetic" else 4 if name == "analog" else 2
            lines.append(line(f"{setting}, {name}", figures[setting], mj, "mJ", digits=digits,
                              close=0.1 * figures[setting], why=kind))  # fmt: skip
    there = {setting: found for setting, found in measured.items() if found is not None}
    notes = ["Digital breakdown: attention products only, as in the paper."]
    notes += [] if there else ["Needs a trained network and its spikes; not measured yet."]
    return Exhibit("energy", "Analog and digital energy breakdown, Balanced schedule", lines, notes,
                   partial(_energy_figures, there) if there else None)  # fmt: skip


def _percent(found: dict[str, Any], number: int) -> float:
    """Accuracy of one evaluated schedule of a search."""
    return 100 * float(found["evaluated"][number]["accuracy"])


def _validation(what: str, published: float | None, ours: float | None) -> Line:
    """Validation accuracies before training belong to one trained network: they cannot agree."""
    return line(what, published, ours, "%", close=0.5, why=_SEARCH_DATA)


def _intro(timings: dict[str, Any], folder: Path) -> list[Path]:
    """(a) layers that overlap, (b) what the delay means to one neuron."""
    from falcon_snn.report.kernel_figure import draw_kernel

    kernel = folder / "pipeline-intro-kernel.svg"
    draw_kernel(kernel, (1, 3, 7))
    return [*_timeline("pipeline-intro", timings, folder), kernel]


def _timeline(name: str, timings: dict[str, Any], folder: Path) -> list[Path]:
    from falcon_snn.report.timeline import write_timeline

    path = folder / f"{name}.svg"
    write_timeline(path, "", timings)
    return [path]


def _search_figure(which: int, setting: str, found: dict[str, Any], folder: Path) -> list[Path]:
    from falcon_snn.report.search_figures import write_search_figures

    return [write_search_figures(found, folder / setting, ".svg")[which]]


def _curves(name: str, curves: dict[str, list[Result]], folder: Path) -> list[Path]:
    from falcon_snn.report.training_curves import draw_curves

    path = folder / f"{name}.svg"
    values = {label: _qat(rows[0]) for label, rows in curves.items()}
    before = {label: rows[0].validation_before_percent for label, rows in curves.items()}
    known = {label: percent for label, percent in before.items() if percent is not None}
    if known.keys() == values.keys():
        from_start = {label: [known[label], *epochs] for label, epochs in values.items()}
        draw_curves(path, from_start, first_epoch=0)
    else:
        draw_curves(path, values)
    return [path]


def _energy_figures(there: dict[str, dict[str, Any]], folder: Path) -> list[Path]:
    from falcon_snn.report.energy_figure import draw_breakdown

    paths = []
    for setting, found in there.items():
        paths.append(folder / f"energy-{setting}.svg")
        draw_breakdown(paths[-1], f"{setting}, per inference", found["configurations"])
    return paths


def _qat(result: Result) -> list[float]:
    curves = {phase["name"]: phase["validation_percent"] for phase in result.phases}
    found: list[float] = curves.get("qat", [])
    return found
