"""The paper's tables as data: the sums, means and gains that the paper prints must hold in them."""

import pytest

from falcon_snn.network.falcon import PUBLISHED, falcon_config
from falcon_snn.report import published as paper


def test_tables_agree_with_each_other() -> None:
    main = paper.MAIN_RESULTS
    rows = {row.method: row for row in paper.GSC_LATENCY_COMPARISON}
    for size in ("medium", "large"):
        for label, key in (("non-pipelined", "full"), ("Balanced", "balanced")):
            row = rows[f"Falcon-{size.title()}, {label}"]
            assert (row.accuracy_percent, row.latency_us) == main[f"gsc-{size}"][key]
        assert main[f"gsc-{size}"]["balanced"][0] == paper.RANDOM_ADAPTATION[f"gsc-{size}"][0]
    reference = paper.QK_PREFIX[0]
    assert reference.latency_us == main["gsc-medium"]["balanced"].latency_us
    assert round(reference.test_before_percent, 2) == main["gsc-medium"]["balanced"][0]
    assert set(main) == set(paper.SETTINGS) == set(paper.SETTING_OF.values())
    assert set(paper.SETTING_OF) == set(PUBLISHED)
    assert len(paper.PRIOR_METHODS) == 12
    for key, found in paper.SEARCH_GSC_LARGE.items():
        assert found.latency_us == main["gsc-large"][key].latency_us


@pytest.mark.parametrize("setting", paper.SETTINGS)
def test_random_averages_and_gains(setting: str) -> None:
    row = paper.RANDOM_ADAPTATION[setting]
    mean = sum(row.random_percent) / len(row.random_percent)
    assert mean == pytest.approx(row.random_average_percent, abs=0.0051)
    # The paper takes the gain from figures with more digits than it prints.
    assert row.pds_percent - mean == pytest.approx(row.pds_gain_points, abs=0.0151)


@pytest.mark.parametrize("size", ["medium", "large"])
def test_our_configuration_has_the_paper_s_architecture(size: str) -> None:
    config = falcon_config(size, "gsc")
    column = {row.component: getattr(row, size) for row in paper.ARCHITECTURE}
    assert column["Transformer blocks"] == config.blocks
    assert column["Hidden dimension"] == config.hidden
    assert column["Attention heads"] == config.heads
    assert column["FFN intermediate dimension"] == config.ffn
    assert column["Classifier output classes"] == config.classes
    assert column["Total FC layers"] == 2 + 6 * config.blocks + 1
