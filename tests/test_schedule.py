"""Schedules: published ones, and files that come back as they were written."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falcon_snn.errors import FalconError
from falcon_snn.files import read_json
from falcon_snn.network.falcon import PUBLISHED
from falcon_snn.pipeline.schedule import read_schedule, write_schedule
from falcon_snn.workflow.networks import built_in, delays_of

NAMES = built_in("medium").boundaries


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
    for model, dataset in (("medium", "gsc"), ("large", "gsc"), ("medium", "ssc")):
        network = built_in(model, dataset)
        for name, listed in PUBLISHED[network.name].items():
            delays = delays_of(name, network, None)
            assert tuple(delays) == network.boundaries
            assert {b: d for b, d in delays.items() if d > 1} == listed
            assert max(delays.values()) <= 3


def test_a_published_schedule_does_not_fit_fewer_slots() -> None:
    network = built_in("medium", slots=2)
    with pytest.raises(FalconError, match=r"block2\.residual2 is 3; it must lie in 1\.\.2"):
        delays_of("balanced", network, None)
    assert set(delays_of("full", network, None).values()) == {2}


def test_a_networks_own_schedule_is_asked_for_by_name() -> None:
    network, own = built_in("tiny"), dict.fromkeys(built_in("tiny").boundaries, 3)
    assert delays_of("own", network, own) == own
    with pytest.raises(FalconError, match="not trained under a schedule; choose a --schedule"):
        delays_of("own", network, None)
