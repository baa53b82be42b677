"""The claims in the paper's text, each derived again: latencies from our model, accuracies from
our results, parameters counted.
"""

from falcon_snn.report import published as paper
from falcon_snn.report.exhibit import Exhibit, Line, line, listed, other_line
from falcon_snn.report.measurements import Measurements
from falcon_snn.report.modeled import core_us, less_percent
from falcon_snn.report.paper_tables import SETTING_TITLES, TITLES, parameters
from falcon_snn.report.results_table import compare

_SPIKESCR = next(row for row in paper.PRIOR_METHODS if row.method.startswith("SpikeSCR"))


def claims(found: Measurements) -> Exhibit:
    medium, large, ssc = "gsc-medium", "gsc-large", "ssc-medium"
    assert _SPIKESCR.gsc is not None
    spikescr_parameters = _SPIKESCR.gsc.parameters_millions * 1e6

    def faster(setting: str, name: str, than: str) -> float:
        return less_percent(core_us(setting, name), core_us(setting, than))

    def prefix(p: int) -> float:
        return less_percent(core_us(medium, "balanced", p), core_us(medium, "balanced"))

    lines = [
        line("Fastest against the matched QNN, Medium", 1.13,
             core_us(medium, "qnn") / core_us(medium, "fastest"), "x"),
        line("Balanced against the matched QNN, Medium", 8.6, faster(medium, "balanced", "qnn"),
             "% less", digits=1),
        line("Balanced against non-pipelined, Medium", 52.6, faster(medium, "balanced", "full"),
             "% less", digits=1),
        line("Balanced against non-pipelined, Large", 52.2, faster(large, "balanced", "full"),
             "% less", digits=1),
        line("Balanced beyond Fastest, SSC", 7.58,
             core_us(ssc, "balanced") - core_us(ssc, "fastest"), "us"),
        line("Q/K prefix 6 against 7", 4.71, prefix(6), "% less"),
        line("Q/K prefix 5 against 7", 9.43, prefix(5), "% less"),
        line("Uniform delay 1, Large", 180.42, core_us(large, "uniform:1"), "us"),
        line("Uniform delay 2, Large", 231.24, core_us(large, "uniform:2"), "us"),
        line("Parameters of Medium against SpikeSCR (3.15 M)", 73.9,
             less_percent(parameters(medium), spikescr_parameters), "% fewer", digits=1),
        _loss(found, 0.57, medium, "qnn", "fastest"),
        _loss(found, 0.29, medium, "qnn", "accurate"),
        _loss(found, 0.37, medium, "full", "balanced"),
        _loss(found, 0.72, large, "full", "balanced"),
        _loss(found, 1.78, ssc, "balanced", "fastest"),
        _loss(found, 5.16, medium, "balanced", "prefix-3"),
    ]  # fmt: skip
    return Exhibit("claims", "Claims in the text", listed(lines))


def _loss(found: Measurements, points: float, setting: str, better: str, worse: str) -> Line:
    """Accuracy that is lost from one configuration to another, in percentage points."""
    verdict = compare(found.of(setting, better), found.of(setting, worse))
    names = {**TITLES, "prefix-3": "its Q/K prefix 3"}
    network = SETTING_TITLES[setting]
    what = f"{network}: accuracy lost from {names[better]} to {names[worse]}"
    if verdict is None:
        return other_line(what, points, None, "points")
    why = f"{network}, our {names[better]} and {names[worse]}: {verdict.words}."
    return other_line(what, points, verdict.points, "points", why)
