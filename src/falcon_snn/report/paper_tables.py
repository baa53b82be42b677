"""The tables of the paper in its own layout, ours beneath each figure."""

from statistics import mean

from falcon_snn.network import falcon
from falcon_snn.pipeline.related_work import FIT_NOTE
from falcon_snn.report import published as paper
from falcon_snn.report.exhibit import (
    NOT_OURS,
    Cell,
    Exhibit,
    Grid,
    GridRow,
    Head,
    Line,
    accuracy_line,
    data_of,
    line,
    other_line,
    signed,
)
from falcon_snn.report.measurements import Measurements
from falcon_snn.report.modeled import config_of, core_us, network_of
from falcon_snn.report.related_work import compare as compare_related
from falcon_snn.report.results import MAIN, Result, beside_balanced
from falcon_snn.report.results_table import compare, mean_test
from falcon_snn.search.result_form import CHOSEN

TITLES = {"qnn": "Matched QNN", "full": "Full-lookahead", "fastest": "PDS–Fastest",
          "balanced": "PDS–Balanced", "accurate": "PDS–Accurate"}  # fmt: skip
SETTING_TITLES = {"ssc-medium": "SSC Falcon-Medium", "gsc-medium": "GSC Falcon-Medium",
                  "gsc-large": "GSC Falcon-Large"}  # fmt: skip


def main_results(found: Measurements) -> Exhibit:
    rows = []
    for name in MAIN:
        cells: list[Cell] = [TITLES[name]]
        for setting, published in paper.MAIN_RESULTS.items():
            what = f"{setting} {TITLES[name]}"
            cells += [
                accuracy_line(f"{what}, accuracy", published[name].accuracy_percent,
                            found.of(setting, name)),
                line(f"{what}, latency", published[name].latency_us, core_us(setting, name), "us"),
            ]  # fmt: skip
        rows.append(GridRow(cells, rule=name == "fastest"))
    heads = (
        (Head(""), *(Head(SETTING_TITLES[setting], 2) for setting in paper.MAIN_RESULTS)),
        (Head("Configuration"), *(Head(text) for _ in paper.MAIN_RESULTS
                                  for text in ("Acc. (%)", "latency (µs)"))),
    )  # fmt: skip
    caption = "Test accuracy and modeled network-core latency"
    notes = [
        "Latencies are those of the published delays on our model of the chip; our accuracies are "
        "under the delays that our own search chose.",
        *(_spoken(found, setting) for setting in paper.MAIN_RESULTS),
    ]
    return Exhibit("main-results", caption, Grid(heads, rows), [note for note in notes if note])


def _spoken(found: Measurements, setting: str) -> str:
    """Which of our schedules differ from our full lookahead."""
    full = found.of(setting, "full")
    parts = []
    for name in CHOSEN:
        verdict = compare(found.of(setting, name), full)
        if verdict is not None:
            word = "differs" if verdict.differs else "no difference"
            parts.append(f"{TITLES[name]} {signed(verdict.points)} points, {word} ({verdict.why})")
    if not parts:
        return ""
    return f"{SETTING_TITLES[setting]}, ours against our full lookahead: {'; '.join(parts)}."


def latency_comparison(found: Measurements) -> Exhibit:
    rows = []
    methods = ""
    for fitted in compare_related():
        row = fitted.published
        method = row.method.partition(",")[0]
        rows.append(GridRow((
            row.method, f"{row.parameters_millions:.2f}",
            Line(f"{row.method}, accuracy", row.accuracy_percent, None, "%", 2, NOT_OURS),
            line(f"{row.method}, latency", row.latency_us, fitted.modeled.us, "us",
                 why="Latencies of other people's networks are a fit."),
        ), rule=bool(methods) and method != methods))  # fmt: skip
        methods = method
    for model in ("Medium", "Large"):
        setting = f"gsc-{model.lower()}"
        pair = [(row, {"non-pipelined": "full", "Balanced": "balanced"}[row.method.split(", ")[1]])
                for row in paper.GSC_LATENCY_COMPARISON
                if row.method.startswith(f"Falcon-{model}")]  # fmt: skip
        rows.append(GridRow((
            f"Falcon-{model}, non-pipelined / Balanced",
            _parameters(f"Falcon-{model}, parameters", setting, pair[0][0].parameters_millions),
            tuple(accuracy_line(f"{row.method}, accuracy", row.accuracy_percent,
                              found.of(setting, name)) for row, name in pair),
            tuple(line(f"{row.method}, latency", row.latency_us, core_us(setting, name), "us")
                  for row, name in pair),
        ), rule=model == "Medium"))  # fmt: skip
    heads = [[Head(text) for text in ("Method", "Params. (M)", "Accuracy (%)", "Latency (µs)")]]
    caption = "Comparison on GSC in terms of model size, accuracy, and latency"
    return Exhibit("latency-comparison", caption, Grid(heads, rows), (FIT_NOTE,))


def method_comparison(found: Measurements) -> Exhibit:
    rows = []
    for method in paper.PRIOR_METHODS:
        cells: list[Cell] = [method.method]
        for dataset, reported in (("SSC", method.ssc), ("GSC", method.gsc)):
            if reported is None:
                cells += ["–", "–"]
                continue
            what = f"{method.method}, {dataset}, {reported.parameters_millions} M parameters"
            percent, deviation = reported.accuracy_percent, reported.deviation_percent
            runs = None if deviation is None else (percent - deviation, percent + deviation)
            prior = Line(what, percent, None, "%", 2, NOT_OURS, interval=runs)
            cells += [f"{reported.parameters_millions:.4g}", prior]
        rows.append(GridRow(cells))
    for number, model in enumerate(("Medium", "Large")):
        pair = [row for row in paper.FALCON_METHODS if row.method.startswith(f"Falcon-{model}")]
        cells = [f"Falcon-{model}, full lookahead / Accurate"]
        for dataset in ("ssc", "gsc"):
            reports = [getattr(row, dataset) for row in pair]
            if reports[0] is None:
                cells += ["–", "–"]
                continue
            setting = f"{dataset}-{model.lower()}"
            what = f"Falcon-{model}, {dataset.upper()}"
            cells += [
                _parameters(f"{what}, parameters", setting, reports[0].parameters_millions),
                tuple(accuracy_line(f"{row.method}, {dataset.upper()}", report.accuracy_percent,
                                  found.of(setting, name))
                      for row, report, name in zip(pair, reports, ("full", "accurate"),
                                                   strict=True)),
            ]  # fmt: skip
        rows.append(GridRow(cells, rule=number == 0))
    heads = (
        (Head(""), Head("SSC", 2), Head("GSC", 2)),
        (Head("Method / Configuration"), *2 * (Head("Params. (M)"), Head("Accuracy (%)"))),
    )
    caption = "Comparison with prior SNN speech-recognition methods"
    notes = ("The twelve prior methods are quoted as the paper quotes them.",)
    return Exhibit("method-comparison", caption, Grid(heads, rows), notes)


def random_adaptation(found: Measurements) -> Exhibit:
    titles = ["PDS", *(f"Random {number}" for number in range(1, 6))]
    by_setting = {setting: [found.of(setting, name) for name in beside_balanced(setting)]
                  for setting in _GSC_FIRST}  # fmt: skip
    rows = []
    for place, title in enumerate(titles):
        cells: list[Cell] = [title]
        for setting, groups in by_setting.items():
            row = paper.RANDOM_ADAPTATION[setting]
            published = (row.pds_percent, *row.random_percent)[place]
            cells.append(accuracy_line(f"{setting} {title}", published, groups[place]))
        rows.append(GridRow(cells))
    average: list[Cell] = ["Random average"]
    gain: list[Cell] = ["PDS gain (pp)"]
    notes = [
        "Ours, PDS and random schedules alike: GSC Falcon-Medium after full adaptation, the other "
        "two after ten epochs of QAT."
    ]
    for setting, (pds, *others) in by_setting.items():
        row = paper.RANDOM_ADAPTATION[setting]
        together = [result for group in others for result in group]
        ours = _mean_of(others)
        average.append(other_line(f"{setting} random average", row.random_average_percent, ours,
                                  why=data_of(together)))  # fmt: skip
        best = mean_test(pds)
        points = None if best is None or ours is None else best - ours
        gain.append(other_line(f"{setting} PDS gain", row.pds_gain_points, points, "points"))
        verdict = compare(pds, together)
        if verdict is not None:
            notes.append(f"{SETTING_TITLES[setting]}: PDS against {len(together)} random "
                         f"{'schedule' if len(together) == 1 else 'schedules'} of ours: "
                         f"{verdict.words}.")  # fmt: skip
    rows += [GridRow(average, rule=True), GridRow(gain)]
    heads = [[Head("Schedule"), *(Head(SETTING_TITLES[setting]) for setting in by_setting)]]
    caption = "Test accuracy (%) after full adaptation: PDS against random schedules"
    return Exhibit("random-adaptation", caption, Grid(heads, rows), notes)


_GSC_FIRST = ("gsc-medium", "gsc-large", "ssc-medium")  # as most of the paper has them


def _mean_of(groups: list[list[Result]]) -> float | None:
    read = [percent for group in groups if (percent := mean_test(group)) is not None]
    return mean(read) if read else None


def qk_prefix(found: Measurements) -> Exhibit:
    rows = []
    adapted: dict[int, list[Result]] = {}
    for row in paper.QK_PREFIX:
        what = f"p = {row.prefix}"
        reference = row.test_after_percent is None
        ours = found.of("gsc-medium", "balanced" if reference else f"prefix-{row.prefix}")
        adapted[row.prefix] = ours
        before = _mean([r.validation_percent if reference else r.validation_before_percent
                        for r in ours])  # fmt: skip
        after = _mean([r.validation_percent for r in ours])
        tested_before = mean_test(ours) if reference else _mean(
            [r.test_before_percent for r in ours])  # fmt: skip
        published = (row.validation_before_percent, row.validation_after_percent,
                     row.test_before_percent, row.test_after_percent)  # fmt: skip
        names = ("validation before", "validation after", "test before")
        cells: list[Cell] = [f"{row.prefix} (reference)" if reference else str(row.prefix)]
        cells.append(line(f"{what}, latency", row.latency_us,
                          core_us("gsc-medium", "balanced", row.prefix), "us"))  # fmt: skip
        for name, percent, value in zip(names, published, (before, after, tested_before),
                                        strict=False):  # fmt: skip
            cells.append("–" if percent is None else other_line(
                f"{what}, {name}", percent, value, why=data_of(ours)))  # fmt: skip
        last = published[-1]
        cells.append("–" if last is None else accuracy_line(f"{what}, test after", last, ours))
        rows.append(GridRow(cells))
    heads = [[Head(text) for text in (
        "Q/K prefix p", "Core latency (µs)", "Before val. (%)", "After val. (%)",
        "Before test (%)", "After test (%)")]]  # fmt: skip
    notes = ["Published accuracies are rounded to two digits here.", _prefix_verdict(adapted)]
    return Exhibit("qk-prefix", "Q/K prefix ablation on GSC with Falcon-Medium",
                   Grid(heads, rows), [note for note in notes if note])  # fmt: skip


def _prefix_verdict(adapted: dict[int, list[Result]]) -> str:
    """Which of our shorter prefixes differ from the full one after adaptation."""
    full, *_ = adapted.values()
    verdicts = {prefix: compare(ours, full) for prefix, ours in list(adapted.items())[1:]}
    known = {prefix: verdict for prefix, verdict in verdicts.items() if verdict is not None}
    if not known:
        return ""
    real = [f"p = {p} ({signed(v.points)}, {v.why})" for p, v in known.items() if v.differs]
    none = [f"p = {p}" for p, v in known.items() if not v.differs]
    said = f"Ours, against p = 7 after adaptation: {', '.join(real)} differ. " if real else ""
    return said + (f"These clips show no difference from our p = 7: {', '.join(none)}."
                   if none else "")  # fmt: skip


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None


def architecture(found: Measurements) -> Exhibit:
    ours = {model: falcon.architecture(config_of(f"gsc-{model}")) for model in ("medium", "large")}
    rows = [
        GridRow((row.component, *(
            line(f"{model.capitalize()}: {row.component}", getattr(row, model),
                 ours[model][row.component], digits=0)
            for model in ours
        )))
        for row in paper.ARCHITECTURE
    ]  # fmt: skip
    heads = [[Head("Component"), Head("Falcon-Medium"), Head("Falcon-Large")]]
    return Exhibit("architecture", "Architecture summary of the two Falcon variants",
                   Grid(heads, rows))  # fmt: skip


def schedules(found: Measurements) -> Exhibit:
    rows = []
    for setting in _GSC_FIRST:
        network = next(name for name, key in paper.SETTING_OF.items() if key == setting)
        named = {"fastest": {}, **falcon.PUBLISHED[network]}
        searched = found.searches.get(setting)
        for name, delays in named.items():
            cells: list[Cell] = [f"{SETTING_TITLES[setting]} {name.capitalize()}"]
            ours = searched["evaluated"][searched["chosen"][name]] if searched else None
            cells += [
                _waits(delays, slots) + (f"\nours: {_waits(ours['delays'], slots)}" if ours else "")
                for slots in (2, 3)
            ]
            what = f"{setting} {TITLES[name]}"
            cells += [
                line(f"{what}, latency of the published delays",
                     paper.MAIN_RESULTS[setting][name].latency_us, core_us(setting, name), "us"),
                other_line(f"{what}, latency of what our search chose",
                           paper.MAIN_RESULTS[setting][name].latency_us,
                           ours["latency_us"] if ours else None, "us",
                           "Our search looks at another network on other data."),
            ]  # fmt: skip
            rows.append(GridRow(cells, rule=name == "fastest"))
    heads = [[Head("Model and schedule"), Head("δ = 2", words=True), Head("δ = 3", words=True),
              Head("published delays (µs)"), Head("our search (µs)")]]  # fmt: skip
    return Exhibit("schedules", "Layer-wise firing delays", Grid(heads, rows))


def _waits(delays: dict[str, int], slots: int) -> str:
    return ", ".join(name for name, delay in delays.items() if delay == slots) or "–"


def _parameters(what: str, setting: str, millions: float) -> Line:
    return line(what, millions, parameters(setting) / 1e6, "M")


def parameters(setting: str) -> int:
    """Parameters of a network of the paper, counted."""
    from falcon_snn.network.qnn import Qnn, parameter_count

    return parameter_count(Qnn(network_of(setting)))
