"""SNN and QNN at one point of a sweep, and how the values of a sweep are written."""

from collections.abc import Mapping
from math import isfinite
from typing import Any, NamedTuple

from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import KEYS, Profile
from falcon_snn.pipeline.graph import Graph
from falcon_snn.pipeline.schedule import uniform
from falcon_snn.pipeline.timing import time_qnn, time_snn

MOST_VALUES = 1000  # of a sweep: more are a slip of the keyboard


class SweepPoint(NamedTuple):
    """Latencies at one value of a sweep (us)."""

    value: Any
    snn_us: float
    full_us: float
    qnn_us: float
    bit_parallel_qnn_us: float
    overlapped_qnn_us: float


def time_point(value: Any, graph: Graph, delays: Mapping[str, int], profile: Profile) -> SweepPoint:
    """Time a network under a schedule, beside its full lookahead and its QNNs."""
    full = uniform(graph.slots, graph.boundaries, graph.slots)
    return SweepPoint(
        value,
        time_snn(graph, delays, profile).core_us,
        time_snn(graph, full, profile).core_us,
        time_qnn(graph, profile).core_us,
        time_qnn(graph, profile, "bit-parallel").core_us,
        time_qnn(graph, profile, "overlapped").core_us,
    )


def parse_values(key: str, text: str) -> list[Any]:
    """Values written as `1,2,4` or `FIRST:LAST` or `FIRST:LAST:STEP`, ends included."""
    whole = key not in KEYS or KEYS[key].kind is int
    if key in KEYS and KEYS[key].choices is not None:
        return text.split(",")
    try:
        if ":" in text:
            first, last, *rest = (int(part) if whole else float(part) for part in text.split(":"))
            step = rest[0] if rest else 1
            if step <= 0 or len(rest) > 1:
                raise ValueError
            count = int((last - first) / step + 1e-9) + 1 if last >= first else 0
            if count > MOST_VALUES:
                raise FalconError(f"{count:,} values for {key}; at most {MOST_VALUES:,} are timed")
            if not count:
                raise FalconError(
                    f"values '{text[:60]}' for {key}: none; write the smaller end first"
                )
            return [first + step * n for n in range(count)]
        values = [int(part) if whole else float(part) for part in text.split(",")]
        if not all(isfinite(value) for value in values):
            raise ValueError
        return values
    except (ValueError, OverflowError):
        noun = "whole numbers" if whole else "numbers"
        raise FalconError(
            f"values '{text[:60]}' for {key}: write {noun} as 1,2,4 or FIRST:LAST or "
            "FIRST:LAST:STEP"
        ) from None
