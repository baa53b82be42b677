"""The picture of our results: who is on the front, and what cannot be drawn."""

from pathlib import Path

import pytest

from falcon_snn.errors import FalconError
from falcon_snn.report.results import load_results
from falcon_snn.report.results_figure import draw_results, places
from falcon_snn.search.pareto import best_by_latency


def test_the_front_holds_what_nobody_beats() -> None:
    networks = {
        "slow": (90.0, 96.0), "beaten": (80.0, 94.0), "no better than slow": (95.0, 96.0),
        "as fast as fast": (70.0, 94.5), "fast": (70.0, 95.0),
    }  # fmt: skip
    assert best_by_latency([*networks], [*networks.values()]) == ["fast", "slow"]


def test_streamed_attention_moves_a_network_in_time_only() -> None:
    results = load_results()
    serial, streamed = (places(results, "gsc-medium", kind) for kind in ("serial", "streamed"))
    assert [p.percent for p in serial] == [p.percent for p in streamed]
    assert all(b.latency_us <= a.latency_us for a, b in zip(serial, streamed, strict=True))
    full = next(p for p in serial if p.name == "full")
    assert round(full.latency_us, 2) == 252.44


def test_the_picture_is_drawn_or_refused(tmp_path: Path) -> None:
    draw_results(tmp_path / "front.svg", load_results(), "gsc-medium")
    assert (tmp_path / "front.svg").stat().st_size > 10_000
    with pytest.raises(FalconError, match=r"no spiking network of 'gsc-huge'"):
        draw_results(tmp_path / "front.png", load_results(), "gsc-huge")
    with pytest.raises(FalconError, match=r"x\.gif: a picture is written as"):
        draw_results(tmp_path / "x.gif", load_results(), "gsc-medium")
