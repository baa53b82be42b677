"""Schedules: published ones, and files that come back as they were written."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falcon_snn.config import boundaries, falcon_config
from falcon_snn.errors import FalconError
from falcon_snn.files import read_json
from falcon_snn.pipeline.schedule import (
    PUBLISHED,
    parse_schedule,
    read_schedule,
    write_schedule,
)

NAMES = boundaries(3)


@given(st.lists(st.integers(1, 7), min_size=19, max_size=19))
def test_written_schedules_are_read_back(values: list[int]) -> None:
    import tempfile

    delays = dict(zip(NAMES, values, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "schedule.json"
        write_schedule(file, delays, name="mine", accuracy=0.96)
        assert read_schedule(file, NAMES, 7) == delays
        assert read_json(file)["accuracy"] == 0.96


def test_published_schedules_name_real_boundaries_and_use_delays_up_to_3() -> None:
    for model, dataset in PUBLISHED:
        config = falcon_config(model, dataset)
        for name, listed in PUBLISHED[model, dataset].items():
            delays = parse_schedule(name, config, dataset, model)
            assert tuple(delays) == config.boundaries
            assert {b: d for b, d in delays.items() if d > 1} == listed
            assert max(delays.values()) <= 3


def test_a_published_schedule_does_not_fit_fewer_slots() -> None:
    config = falcon_config("medium", "gsc", slots=2)
    with pytest.raises(FalconError, match=r"block2\.residual2 is 3; it must lie in 1\.\.2"):
        parse_schedule("balanced", config, "gsc", "medium")
    assert set(parse_schedule("full", config).values()) == {2}
