"""Every table and figure of the paper by its name, in the paper's order."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from falcon_snn.errors import FalconError
from falcon_snn.report import paper_figures as figures
from falcon_snn.report import paper_tables as tables
from falcon_snn.report.exhibit import MARKS, Exhibit, Line
from falcon_snn.report.measurements import Measurements, load_measurements
from falcon_snn.report.page import write_page
from falcon_snn.report.paper_claims import claims

PAGE = "reproduce.html"

EXHIBITS: dict[str, Callable[[Measurements], Exhibit]] = {
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


def demand_exhibit(name: str | None) -> None:
    """Refuse a name that no exhibit has."""
    if name is not None and name not in EXHIBITS:
        raise FalconError(f"no exhibit '{name}'; choose one of {', '.join(EXHIBITS)}")


def exhibits(only: str | None = None, folders: Sequence[Path] = ()) -> list[Exhibit]:
    """All exhibits with our figures, or one of them; folders hold results of one's own."""
    demand_exhibit(only)
    found = load_measurements(folders)
    return [make(found) for name, make in EXHIBITS.items() if only in (None, name)]


def count_marks(lines: Sequence[Line]) -> dict[str, int]:
    """How many figures have each mark, in the order of MARKS."""
    marks = [one.mark for one in lines]
    return {mark: marks.count(mark) for mark in MARKS if mark in marks}


def write_reproduction(chosen: Sequence[Exhibit], folder: Path) -> Path:
    """Write the figures and one page with everything; return the page's path."""
    pictures = {e.name: [folder / file for file in e.pictures] for e in chosen}
    for exhibit in chosen:
        for file, draw in exhibit.pictures.items():
            draw(folder / file)
    counts = {e.name: count_marks(e.lines) for e in chosen}
    everything = count_marks([one for e in chosen for one in e.lines])
    page = folder / PAGE
    write_page(page, "reproduce.html.j2", exhibits=chosen, pictures=pictures, counts=counts,
               everything=everything)  # fmt: skip
    return page
