"""The tables of the paper, ours beside them."""

from collections.abc import Sequence
from statistics import mean

from falcon_snn.network import falcon
from falcon_snn.pipeline.related_work import FIT_NOTE
from falcon_snn.report import published as paper
from falcon_snn.report.exhibit import NOT_OURS, Exhibit, Line, accuracy_line, line
from falcon_snn.report.modeled import config_of, core_us, network_of
from falcon_snn.report.related_work import compare
from falcon_snn.report.results import MAIN, Result, load_search, mean_test, of

Results = Sequence[Result]
Tested = tuple[float | None, Result | None]
TITLES = {"qnn": "Matched QNN", "full": "Full lookahead", "fastest": "Fastest",
          "balanced": "Balanced", "accurate": "Accurate"}  # fmt: skip


def tested(
    results: Results, setting: str, configuration: str
) -> tuple[float | None, Result | None]:
    """Our test accuracy, the mean over seeds, and one of the experiments behind it."""
    found = of(results, setting, configuration)
    return (mean_test(found), found[0]) if found else (None, None)


def main_results(results: Results) -> Exhibit:
    lines = []
    for setting, rows in paper.MAIN_RESULTS.items():
        for name in MAIN:
            what = f"{setting} {TITLES[name]}"
            lines.append(
                line(f"{what}, latency", rows[name].latency_us, core_us(setting, name), "us")
            )
            ours, source = tested(results, setting, name)
            lines.append(
                accuracy_line(f"{what}, accuracy", rows[name].accuracy_percent, ours, source)
            )
    return Exhibit("main-results", "Test accuracy and modeled network-core latency", lines)


def latency_comparison(results: Results) -> Exhibit:
    lines = []
    for fitted in compare():
        row = fitted.published
        lines.append(line(f"{row.method}, latency", row.latency_us, fitted.modeled.us, "us",
                          close=0.02 * row.latency_us, why="a fit"))  # fmt: skip
        what = f"{row.method}, accuracy"
        lines.append(Line(what, row.accuracy_percent, None, "%", 2, NOT_OURS, ""))
    for row in paper.GSC_LATENCY_COMPARISON:
        if not row.method.startswith("Falcon"):
            continue
        model, kind = row.method.removeprefix("Falcon-").split(", ")
        setting = f"gsc-{model.lower()}"
        name = {"non-pipelined": "full", "Balanced": "balanced"}[kind]
        lines.append(line(f"{row.method}, latency", row.latency_us, core_us(setting, name), "us"))
        ours, source = tested(results, setting, name)
        lines.append(accuracy_line(f"{row.method}, accuracy", row.accuracy_percent, ours, source))
        lines.append(_parameters(f"{row.method}, parameters", setting, row.parameters_millions))
    caption = "Comparison on GSC in terms of model size, accuracy, and latency"
    return Exhibit("latency-comparison", caption, lines, (FIT_NOTE,))


def method_comparison(results: Results) -> Exhibit:
    lines = []
    for row in paper.PRIOR_METHODS:
        for dataset, reported in (("SSC", row.ssc), ("GSC", row.gsc)):
            if reported is not None:
                what = f"{row.method}, {dataset}, {reported.parameters_millions} M parameters"
                lines.append(Line(what, reported.accuracy_percent, None, "%", 2, NOT_OURS, ""))
    for row in paper.FALCON_METHODS:
        model, kind = row.method.removeprefix("Falcon-").split(", ")
        name = {"full lookahead": "full", "Accurate": "accurate"}[kind]
        for dataset, reported in (("ssc", row.ssc), ("gsc", row.gsc)):
            if reported is not None:
                setting = f"{dataset}-{model.lower()}"
                what = f"{row.method}, {dataset.upper()}"
                ours, source = tested(results, setting, name)
                lines.append(accuracy_line(what, reported.accuracy_percent, ours, source))
                lines.append(
                    _parameters(f"{what}, parameters", setting, reported.parameters_millions)
                )
    caption = "Comparison with prior SNN speech-recognition methods"
    notes = ("The twelve prior methods are quoted as the paper quotes them.",)
    return Exhibit("method-comparison", caption, lines, notes)


def random_adaptation(results: Results) -> Exhibit:
    lines = []
    for setting, row in paper.RANDOM_ADAPTATION.items():
        pds, source = tested(results, setting, "balanced")
        lines.append(accuracy_line(f"{setting} PDS", row.pds_percent, pds, source))
        others = []
        for number, percent in enumerate(row.random_percent, start=1):
            ours, source = tested(results, setting, f"random-{number}")
            others += [] if ours is None else [ours]
            lines.append(accuracy_line(f"{setting} random {number}", percent, ours, source))
        average = mean(others) if others else None
        lines.append(
            accuracy_line(f"{setting} random average", row.random_average_percent, average, source)
        )
        gain = None if pds is None or average is None else pds - average
        lines.append(
            accuracy_line(f"{setting} PDS gain", row.pds_gain_points, gain, source, "points")
        )
    caption = "Test accuracy after full adaptation: PDS against random schedules"
    return Exhibit("random-adaptation", caption, lines)


def qk_prefix(results: Results) -> Exhibit:
    lines = []
    for row in paper.QK_PREFIX:
        what = f"p = {row.prefix}"
        latency = core_us("gsc-medium", "balanced", row.prefix)
        lines.append(line(f"{what}, latency", row.latency_us, latency, "us"))
        reference = row.test_after_percent is None
        found = of(results, "gsc-medium", "balanced" if reference else f"prefix-{row.prefix}")
        ours = found[0] if found else None
        published = (row.validation_before_percent, row.validation_after_percent,
                     row.test_before_percent, row.test_after_percent)  # fmt: skip
        names = ("validation before", "validation after", "test before", "test after")
        lines += [
            accuracy_line(f"{what}, {name}", percent, value, ours)
            for name, percent, value in zip(
                names, published, _before_and_after(ours, reference), strict=True
            )
            if percent is not None
        ]
    return Exhibit("qk-prefix", "Q/K prefix ablation on GSC with Falcon-Medium", lines)


def _before_and_after(ours: Result | None, reference: bool) -> tuple[float | None, ...]:
    """Validation before and after, test before and after; the reference is not trained again."""
    if ours is None:
        return (None,) * 4
    after = (ours.validation_percent, ours.test_percent)
    before = after if reference else (ours.validation_before_percent, ours.test_before_percent)
    return before[0], after[0], before[1], after[1]


def architecture(results: Results) -> Exhibit:
    lines = []
    for model in ("medium", "large"):
        ours = falcon.architecture(config_of(f"gsc-{model}"))
        lines += [
            line(f"{model.capitalize()}: {row.component}", getattr(row, model),
                 ours[row.component], digits=0)
            for row in paper.ARCHITECTURE
        ]  # fmt: skip
    return Exhibit("architecture", "Architecture summary of the two Falcon variants", lines)


def schedules(results: Results) -> Exhibit:
    lines, notes = [], []
    for network, published in falcon.PUBLISHED.items():
        setting, named = paper.SETTING_OF[network], {"fastest": {}, **published}
        lines += [
            line(f"{setting} {TITLES[name]}: latency of the published delays",
                 paper.MAIN_RESULTS[setting][name].latency_us, core_us(setting, name), "us")
            for name in named
        ]  # fmt: skip
        found = load_search(setting)
        for name, delays in named.items():
            notes.append(f"{setting} {TITLES[name]}, published: {_waits(delays)}")
            if found is not None:
                ours = found["evaluated"][found["chosen"][name]]
                notes.append(f"{setting} {TITLES[name]}, our search: {_waits(ours['delays'])} "
                             f"({ours['latency_us']:.2f} us)")  # fmt: skip
    return Exhibit("schedules", "Layer-wise firing delays", lines, notes)


def _waits(delays: dict[str, int]) -> str:
    return ", ".join(f"{name} {delay}" for name, delay in delays.items()) or "every delay is 1"


def _parameters(what: str, setting: str, millions: float) -> Line:
    return line(what, millions, parameters(setting) / 1e6, "M")


def parameters(setting: str) -> int:
    """Parameters of a network of the paper, counted."""
    from falcon_snn.network.qnn import Qnn, parameter_count

    return parameter_count(Qnn(network_of(setting)))
