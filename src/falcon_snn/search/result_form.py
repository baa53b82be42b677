"""The form of a search's result file: what figures, tables and pages rely on."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypedDict

from falcon_snn.errors import FalconError
from falcon_snn.forms import shaped

CHOSEN = ("fastest", "balanced", "accurate")


class _Settings(TypedDict):
    tau: float
    eps: float


class _Evaluated(TypedDict):
    delays: dict[str, int]
    right: int
    accuracy: float
    interval: tuple[float, float]
    latency_cycles: int
    latency_us: float


class _Compared(TypedDict):
    one: str
    other: str
    only_other_right: int
    only_one_right: int
    p: float


class _RandomSchedule(TypedDict):
    schedule: int
    p: float


class _Random(TypedDict):
    existing: int | None
    schedules: list[_RandomSchedule]


class _Change(TypedDict):
    step: int
    before: int
    after: int
    delays: dict[str, int]
    gain: float
    score: float


class _Result(TypedDict):
    settings: _Settings
    boundaries: list[str]
    clips: int
    cycle_ns: float
    budget_cycles: int
    budget_us: float
    schedules_searched: int
    chosen: dict[str, int]
    chosen_compared: list[_Compared]
    front: list[int]
    found: list[int]
    uniform: list[int]
    random: dict[str, _Random]
    changes: list[_Change]
    evaluated: list[_Evaluated]


def checked_result(values: Any, path: Path) -> dict[str, Any]:
    """The result, if it has its form and its figures can be true; else one line that says why."""
    result: dict[str, Any] = shaped(values, _Result, path)
    rows = result["evaluated"]
    random = [each["schedule"] for one in result["random"].values() for each in one["schedules"]]
    changes = [change[end] for change in result["changes"] for end in ("before", "after")]
    numbers: Iterable[int] = (
        *result["chosen"].values(), *result["front"], *result["found"], *result["uniform"],
        *random, *changes,
    )  # fmt: skip
    names = {pair[key] for pair in result["chosen_compared"] for key in ("one", "other")}
    for good, what in (
        (result["clips"] > 0, "clips"),
        (rows and all(map(result["boundaries"].__contains__, _waiting(rows))), "evaluated"),
        (all(_possible(row, result["clips"]) for row in rows), "evaluated"),
        (all(0 <= number < len(rows) for number in numbers), "a number of a schedule"),
        (set(result["chosen"]) == set(result["random"]) == set(CHOSEN), "chosen"),
        (names <= set(CHOSEN), "chosen_compared"),
        (result["uniform"], "uniform"),
        (0 <= result["schedules_searched"] <= len(rows), "schedules_searched"),
    ):
        if not good:
            raise FalconError(f"{path}: not the result of a search ({what} cannot be right)")
    return result


def _waiting(rows: list[dict[str, Any]]) -> set[str]:
    return {name for row in rows for name in row["delays"]}


def _possible(row: dict[str, Any], clips: int) -> bool:
    low, high = row["interval"]
    # The ends of an interval are rounded: at 0 and 1 they may lie a hair off the accuracy.
    hair = 1e-9
    return bool(
        0 <= row["right"] <= clips
        and abs(row["accuracy"] * clips - row["right"]) < 1e-6 * clips
        and -hair <= low <= row["accuracy"] + hair
        and row["accuracy"] - hair <= high <= 1 + hair
        and row["latency_cycles"] >= 0
        and all(1 <= delay <= 255 for delay in row["delays"].values())
    )
