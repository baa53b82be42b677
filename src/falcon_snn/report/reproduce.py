"""Every table and figure of the paper by its name, in the paper's order."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from falcon_snn.errors import FalconError
from falcon_snn.report import paper_figures as figures
from falcon_snn.report import paper_tables as tables
from falcon_snn.report.exhibit import Exhibit
from falcon_snn.report.page import write_page
from falcon_snn.report.paper_claims import claims
from falcon_snn.report.results import Result, load_results

PAGE = "reproduce.html"

EXHIBITS: dict[str, Callable[[Sequence[Result]], Exhibit]] = {
    "claims": claims,
    "pipeline-intro": figures.pipeline_intro,
    "theory": figures.theory,
    "delay-effects-gsc-large": partial(figures.delay_effects, "gsc-large"),
    "search-gsc-large": partial(figures.search, "gsc-large"),
    "main-results": tables.main_results,
    "latency-comparison": tables.latency_comparison,
    "method-comparison": tables.method_comparison,
    "delay-effects-gsc-medium": partial(figures.delay_effects, "gsc-medium"),
    "delay-effects-ssc-medium": partial(figures.delay_effects, "ssc-medium"),
    "search-gsc-medium": partial(figures.search, "gsc-medium"),
    "search-ssc-medium": partial(figures.search, "ssc-medium"),
    "qat-curves": figures.qat_curves,
    "random-adaptation": tables.random_adaptation,
    "random-curves-ssc-medium": partial(figures.random_curves, "ssc-medium"),
    "random-curves-gsc-medium": partial(figures.random_curves, "gsc-medium"),
    "random-curves-gsc-large": partial(figures.random_curves, "gsc-large"),
    "energy": figures.energy,
    "qk-prefix": tables.qk_prefix,
    "architecture": tables.architecture,
    "schedules": tables.schedules,
    "pipeline-detail": figures.pipeline_detail,
}


def exhibits(only: str | None = None) -> list[Exhibit]:
    """All exhibits with our figures, or one of them."""
    if only is not None and only not in EXHIBITS:
        raise FalconError(f"no exhibit '{only}'; choose one of {', '.join(EXHIBITS)}")
    results = load_results()
    return [make(results) for name, make in EXHIBITS.items() if only in (None, name)]


def write_reproduction(chosen: Sequence[Exhibit], folder: Path) -> Path:
    """Write the figures and one page with everything; return the page's path."""
    pictures = {e.name: [] if e.draw is None else e.draw(folder) for e in chosen}
    marks: dict[str, int] = {}
    for exhibit in chosen:
        for each in exhibit.lines:
            marks[each.mark] = marks.get(each.mark, 0) + 1
    page = folder / PAGE
    write_page(page, "reproduce.html.j2", exhibits=chosen, pictures=pictures, marks=marks)
    return page
