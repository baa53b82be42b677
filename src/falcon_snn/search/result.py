"""The result of a search: one JSON file that says everything, and the chosen schedules as files.

Nothing in it depends on time, threads or machines, so an interrupted search that was resumed
writes the same bytes as one that ran through.
"""

from itertools import combinations
from pathlib import Path
from typing import Any

from falcon_snn.errors import FalconError
from falcon_snn.files import read_json, write_json
from falcon_snn.pipeline.schedule import write_schedule
from falcon_snn.search.evaluations import Evaluations
from falcon_snn.search.pareto import Point, choose, pareto_filter
from falcon_snn.search.pds import Change, accuracy_gain, rescue_score, rescued_and_harmed
from falcon_snn.search.random_schedules import RandomSchedules, random_schedules
from falcon_snn.search.result_form import checked_result
from falcon_snn.search.space import Schedule, Space, unique
from falcon_snn.search.statistics import flattery, mcnemar, wilson

_FORMAT = "falcon search 1"


def search_result(
    evaluations: Evaluations,
    found: list[Schedule],
    changes: list[Change],
    *,
    cycle_ns: float,
    slots: int,
    random: int,
    seed: int,
    facts: dict[str, Any],
) -> dict[str, Any]:
    """Everything that a search saw and chose.

    For comparison it also evaluates uniform delays 1..slots and, beside each chosen schedule,
    `random` ones of the same delays and latency. They are not counted as the search's own.
    """
    space = evaluations.space
    searched = len(evaluations.asked)
    points = evaluations.points(found)
    chosen = {name: point.schedule for name, point in choose(points).items()}
    uniform = [(delay,) * len(space.boundaries) for delay in range(1, slots + 1)]
    evaluations.correct(space.start, uniform)
    random_ones = {name: _random(evaluations, chosen[name], random, seed) for name in chosen}
    number = {schedule: index for index, schedule in enumerate(evaluations.asked)}
    return {
        "format": _FORMAT,
        **facts,
        "boundaries": list(space.boundaries),
        "clips": evaluations.clips,
        "cycle_ns": cycle_ns,
        "budget_cycles": space.budget_cycles,
        "budget_us": space.budget_cycles * cycle_ns / 1000,
        "delta_max": space.delta_max,
        "schedules_searched": searched,
        "chosen": {name: number[schedule] for name, schedule in chosen.items()},
        "chosen_compared": [
            _compared(evaluations, (one, chosen[one]), (other, chosen[other]))
            for one, other in combinations(chosen, 2)
        ],
        "front": [number[point.schedule] for point in pareto_filter(points)],
        "found": [number[schedule] for schedule in found],
        "uniform": [number[schedule] for schedule in uniform],
        "random": {
            name: {
                "existing": random_ones[name].existing,
                "schedules": [
                    {
                        "schedule": number[schedule],
                        "p": mcnemar(
                            *rescued_and_harmed(
                                evaluations.answers(schedule), evaluations.answers(chosen[name])
                            )
                        ),
                    }
                    for schedule in random_ones[name].schedules
                ],
            }
            for name in chosen
        },
        "changes": [_change(space, number, change) for change in changes],
        "evaluated": [
            {"delays": _sparse(space, point.schedule), **_achieved(evaluations, point, cycle_ns)}
            for point in evaluations.points(evaluations.asked)
        ],
    }


def held_out_result(
    evaluations: Evaluations, held_out: Evaluations, result: dict[str, Any]
) -> dict[str, Any]:
    """The chosen schedules on the half of the clips that the search did not see."""
    start = evaluations.space.start
    chosen = {name: evaluations.asked[number] for name, number in result["chosen"].items()}
    held_out.correct(start, unique([start, *chosen.values()]))
    rows = {}
    for name, schedule in chosen.items():
        gains = flattery(
            evaluations.answers(start),
            evaluations.answers(schedule),
            held_out.answers(start),
            held_out.answers(schedule),
        )
        right = held_out.right(schedule)
        rows[name] = {
            "accuracy": right / held_out.clips,
            "interval": list(wilson(right, held_out.clips)),
            **gains._asdict(),
        }
    return {"clips": held_out.clips, "chosen": rows}


def write_result(folder: Path, result: dict[str, Any]) -> None:
    """Write `result.json` and one schedule file for each of the chosen."""
    for name, number in result["chosen"].items():
        row = result["evaluated"][number]
        delays = {boundary: row["delays"].get(boundary, 1) for boundary in result["boundaries"]}
        write_schedule(
            folder / f"{name}.json",
            delays,
            name=name,
            accuracy=row["accuracy"],
            interval=row["interval"],
            latency_us=row["latency_us"],
        )
    write_json(folder / "result.json", result)


def same_chosen(result: dict[str, Any]) -> list[list[str]]:
    """The names of the chosen schedules; those of one schedule are together."""
    groups: dict[int, list[str]] = {}
    for name, number in result["chosen"].items():
        groups.setdefault(number, []).append(name)
    return list(groups.values())


def distinct_pairs(result: dict[str, Any]) -> list[dict[str, Any]]:
    """The comparisons of chosen schedules that differ, each once."""
    first = {names[0] for names in same_chosen(result)}
    return [pair for pair in result["chosen_compared"] if {pair["one"], pair["other"]} <= first]


def read_result(path: Path) -> dict[str, Any]:
    """Read the JSON file of a search."""
    result = read_json(path)
    if not isinstance(result, dict) or result.get("format") != _FORMAT:
        raise FalconError(f"{path}: not the result of a search (format '{_FORMAT}')")
    return checked_result(result, path)


def _random(evaluations: Evaluations, like: Schedule, n: int, seed: int) -> RandomSchedules:
    found = random_schedules(like, evaluations.space.latency, n, seed)
    evaluations.correct(evaluations.space.start, found.schedules)
    return found


def _sparse(space: Space, schedule: Schedule) -> dict[str, int]:
    """Only the boundaries that wait: a boundary that is not listed has delay 1."""
    return {name: delay for name, delay in space.delays(schedule).items() if delay > 1}


def _achieved(evaluations: Evaluations, point: Point, cycle_ns: float) -> dict[str, Any]:
    clips = evaluations.clips
    return {
        "right": point.right,
        "accuracy": point.right / clips,
        "interval": list(wilson(point.right, clips)),
        "latency_cycles": point.cycles,
        "latency_us": point.cycles * cycle_ns / 1000,
    }


def _compared(
    evaluations: Evaluations, one: tuple[str, Schedule], other: tuple[str, Schedule]
) -> dict[str, Any]:
    """McNemar's test of two chosen schedules on the same clips."""
    rescued, harmed = rescued_and_harmed(evaluations.answers(one[1]), evaluations.answers(other[1]))
    return {
        "one": one[0],
        "other": other[0],
        "only_other_right": rescued,
        "only_one_right": harmed,
        "p": mcnemar(rescued, harmed),
    }


def _change(space: Space, number: dict[Schedule, int], change: Change) -> dict[str, Any]:
    differs = [
        (name, after)
        for name, before, after in zip(space.boundaries, change.before, change.after, strict=True)
        if before != after
    ]
    return {
        "path": change.path,
        "step": change.step,
        "before": number[change.before],
        "after": number[change.after],
        "delays": dict(differs),
        "rescued": change.rescued,
        "harmed": change.harmed,
        "gain": accuracy_gain(change.rescued, change.harmed, change.clips),
        "score": rescue_score(change.rescued, change.harmed),
        "added_cycles": change.added_cycles,
        # The third gate, latency, is always passed: what fails it is not evaluated.
        "passed": {"score": change.passes_tau, "gain": change.passes_eps, "latency": True},
        "accepted": change.accepted,
    }
