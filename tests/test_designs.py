"""The space of `design`: what a design costs untrained, what a limit excludes, who is drawn."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import load_profile
from falcon_snn.network.samples import Samples
from falcon_snn.search.designs import Limits, bands, draw, make_space, parse_space, read_space

SPEECH = Samples((98, 64, 1), 30, 32.0)
PAPER = load_profile()


def test_costs_of_known_designs() -> None:
    space = make_space(read_space("default"), SPEECH, Limits(us=16.0), PAPER)
    found = {each.name: each for each in space.candidates}
    # By hand: n stages and T slots take n + T - 1 passes of 188 cycles, and 3 more for each stage;
    # tiles are ceil(rows / 36) * ceil(columns / 128) at every position of the output map.
    seven = found["kestrel 64:64-128-256 T2"]
    assert seven.latency_us == pytest.approx(((7 + 1) * 188 + 7 * 3) / 100)
    assert seven.tiles == 51_760
    assert found["kestrel 64:128-256 T2"].latency_us == pytest.approx(11.43)
    assert found["kestrel 64:128-256 T2"].tiles == 26_672
    assert all(each.latency_us <= 16 for each in space.candidates)


def test_a_limit_excludes_what_breaks_it_and_nothing_else() -> None:
    values = read_space("default")
    free = make_space(values, SPEECH, Limits(), PAPER)
    assert len(free.candidates) == free.designs - free.unfit
    limits = Limits(us=20.0, tiles=50_000, mj=0.2)
    limited = make_space(values, SPEECH, limits, PAPER)
    kept = {
        each.number
        for each in free.candidates
        if each.latency_us <= 20 and each.tiles <= 50_000 and each.least_mj <= 0.2
    }
    assert {each.number for each in limited.candidates} == kept
    assert limited.designs == free.designs
    assert limited.excluded["tiles"] == sum(each.tiles > 50_000 for each in free.candidates)


def test_the_least_energy_is_a_bound() -> None:
    """With spikes, an inference of the same network costs more."""
    import torch

    from falcon_snn.network.activity import schedule_energy
    from falcon_snn.network.convert import convert
    from falcon_snn.network.qnn import Qnn

    samples = Samples((16, 8, 1), 3, 32.0)
    space = make_space(read_space("tiny"), samples, Limits(), PAPER)
    torch.manual_seed(0)
    for each in space.candidates[::4]:
        snn = convert(Qnn(each.network))
        x = torch.randn(4, 16, 8)
        spiking, _ = schedule_energy(snn, [(x, None)], each.delays, PAPER)
        assert sum(spiking.activity.spikes.values()) > 0
        assert spiking.core_mj > each.least_mj > 0.5 * spiking.core_mj


def test_another_chip_has_other_designs() -> None:
    values, limits = read_space("default"), Limits(us=10.0)
    slow = make_space(values, SPEECH, limits, PAPER)
    fast = make_space(values, SPEECH, limits, replace(PAPER, mux=8, outputs_per_access=16))
    assert len(fast.candidates) > 2 * len(slow.candidates)


def test_bands_part_the_latencies() -> None:
    space = make_space(read_space("default"), SPEECH, Limits(us=16.0), PAPER)
    found = bands(space, 3)
    assert [each for band in found for each in band] == list(space.candidates)
    for before, after in pairwise(found):
        assert before[-1].latency_us < after[0].latency_us
    assert len(bands(space, 1)) == 1
    drawn = draw(found[-1], 10, seed=1)
    assert drawn == draw(found[-1], 10, seed=1) != draw(found[-1], 10, seed=2)
    assert len({each.number for each in drawn}) == 10
    assert len(draw(found[0], 10_000, seed=0)) == len(found[0])


def test_larger_designs_are_drawn_more_often() -> None:
    space = make_space(read_space("default"), SPEECH, Limits(us=16.0), PAPER)
    band = list(space.candidates)
    mean = sum(each.weights for each in band) / len(band)
    firsts = [draw(band, 1, seed)[0].weights for seed in range(200)]
    assert sum(firsts) / len(firsts) > 1.2 * mean


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": ({"slots": [1], "owl": {}}, "unknown key 'owl'"),
    "no slots": ({"kestrel": {}}, "needs 'slots'"),
    "no family": ({"slots": [1]}, "needs 'slots' and a table"),
    "a key is missing": ({"slots": [1], "falcon": {"blocks": [1]}}, "has the keys"),
    "empty": ({"slots": []}, "needs 'slots' and a table"),
    "no list": (
        {"slots": 2, "falcon": {"blocks": [1], "hidden": [1], "stem_stride": [1],
                                "qk_prefix": [1]}},
        "list of whole numbers",
    ),
    "too large": (
        {"slots": [1], "falcon": {"blocks": [9**9], "hidden": [1], "stem_stride": [1],
                                  "qk_prefix": [1]}},
        "list of whole numbers",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_spaces(case: str) -> None:
    values, message = BAD[case]
    with pytest.raises(FalconError, match=message):
        parse_space(values, "my.toml")


def test_files_that_are_no_space(tmp_path: Path) -> None:
    with pytest.raises(FalconError, match="no space 'owl'"):
        read_space("owl")
    bad = tmp_path / "bad.toml"
    bad.write_bytes(b"\xff\xfe")
    with pytest.raises(FalconError, match="cannot be read"):
        read_space(bad)
    many = {"slots": list(range(1, 9)), "kestrel": {
        "stem_channels": list(range(1, 30)), "blocks": [4], "widths": list(range(1, 12)),
        "long_blocks": [0],
    }}  # fmt: skip
    with pytest.raises(FalconError, match="more than 20,000 designs"):
        make_space(many, Samples((8, 1, 1), 2, 1.0), Limits(), PAPER)


@pytest.mark.parametrize("limits", [{"us": 0}, {"tiles": -1}, {"mj": float("nan")}])
def test_bad_limits(limits: dict[str, float]) -> None:
    with pytest.raises(FalconError, match="must be a number above 0"):
        Limits(**limits)  # type: ignore[arg-type]
