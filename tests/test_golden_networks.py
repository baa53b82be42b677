"""The shipped networks compute what they always did, integer for integer.

`golden_networks.json` was written by the code before networks became lists of stages (the rows of
embedded-tiny-t2 and of Kestrel, which are younger, by the code after it, and the predictions of the
twelve-class networks when `calibrate` moved their scores): hashes of the integers
of every stage and of the predictions, on 160 clips of speech and 40 of noise with padding, under
three schedules. The tests take every tenth clip of some networks. All networks on all clips, in
some minutes:

    python -m tests.test_golden_networks
"""

import json
import sys
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from falcon_snn.data.examples import load_examples
from falcon_snn.network.integer import Snn
from falcon_snn.pipeline.schedule import Delays, complete, uniform
from falcon_snn.training.export import load_network
from falcon_snn.training.pretrained import pretrained_names, pretrained_path

GOLDEN: dict[str, Any] = json.loads(Path(__file__).with_name("golden_networks.json").read_text())
CHUNK = 50  # clips that run at once
EVERY = 10  # which of the clips the tests take
SOME = [name for name, row in GOLDEN["networks"].items() if "some" in row]


@cache
def clips() -> tuple[Tensor, Tensor]:
    """Speech of full length, and noise with padding behind its real frames."""
    speech = load_examples("embedded", "validation").x
    chosen = [clip * len(speech) // 160 for clip in range(160)]
    draw = torch.Generator().manual_seed(20)
    noise = torch.randint(-64, 65, (40, 98, 64), generator=draw) / 32
    lengths = torch.full((200,), 98)
    lengths[160:] = torch.randint(40, 99, (40,), generator=draw)
    return torch.cat([speech[chosen], noise]), lengths


def schedules(snn: Snn, balanced: Delays) -> dict[str, Delays]:
    boundaries, slots = snn.network.boundaries, snn.network.slots
    return {
        "delay1": uniform(1, boundaries, slots),
        "balanced": complete(balanced, boundaries, slots, "golden"),
        "full": uniform(slots, boundaries, slots),
    }


def hashes(snn: Snn, x: Tensor, lengths: Tensor, delays: Delays) -> dict[str, str]:
    """Of the integers of every stage, and of the predictions."""
    found = {
        name: sha256() for name in (*(s.name for s in snn.network.inner_stages), "predictions")
    }
    for first in range(0, len(x), CHUNK):
        part, real = x[first : first + CHUNK], lengths[first : first + CHUNK]
        streams = snn.streams(part, real, delays)
        values = snn.counts(streams) | {"predictions": snn.scores(streams, real).argmax(dim=1)}
        for name, value in values.items():
            found[name].update(value.contiguous().numpy().tobytes())
    return {name: each.hexdigest()[:16] for name, each in found.items()}


def test_the_clips_are_those_of_the_golden_file() -> None:
    x, _ = clips()
    integers = (x * 32).round().clamp(-127, 127).to(torch.int8)
    assert sha256(integers.numpy().tobytes()).hexdigest()[:16] == GOLDEN["features"]
    assert set(GOLDEN["networks"]) == set(pretrained_names())


@pytest.mark.parametrize("name", SOME)
def test_every_stage_of_a_shipped_network(name: str) -> None:
    row = GOLDEN["networks"][name]
    snn, _ = load_network(pretrained_path(name))
    x, lengths = (part[::EVERY] for part in clips())
    for schedule, delays in schedules(snn, row["balanced"]).items():
        assert hashes(snn, x, lengths, delays) == row["some"][schedule], schedule


def check_all(names: list[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Network, schedule and the stages that differ, on all clips."""
    for name in names or list(GOLDEN["networks"]):
        row = GOLDEN["networks"][name]
        snn, _ = load_network(pretrained_path(name))
        for schedule, delays in schedules(snn, row["balanced"]).items():
            found, wanted = hashes(snn, *clips(), delays), row["all"][schedule]
            yield (
                name,
                schedule,
                [key for key in wanted | found if found.get(key) != wanted.get(key)],
            )


if __name__ == "__main__":
    faults = 0
    for name, schedule, differing in check_all(sys.argv[1:]):
        print(name, schedule, f"differs at {', '.join(differing)}" if differing else "ok")
        faults += bool(differing)
    sys.exit(1 if faults else 0)
