"""Which schedules are worth having: Pareto filter, Fastest / Balanced / Accurate, hypervolume."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import inf
from typing import NamedTuple, TypeVar

from falcon_snn.search.space import Schedule

Row = TypeVar("Row")


class Point(NamedTuple):
    """A schedule with what it achieves. Whole numbers, so that equal means equal."""

    schedule: Schedule
    right: int  # clips named correctly
    cycles: int


def beats(costs: tuple[float, ...], others: tuple[float, ...]) -> bool:
    """No cost is higher, and one is lower."""
    return costs != others and all(a <= b for a, b in zip(costs, others, strict=True))


def dominates(one: Point, other: Point) -> bool:
    """At least as accurate and at least as fast, with a strict improvement in one."""
    return beats((-one.right, one.cycles), (-other.right, other.cycles))


def pareto_filter(points: Sequence[Point]) -> list[Point]:
    """Remove every point that another one dominates; the order stays."""
    return [point for point in points if not any(dominates(other, point) for other in points)]


def best_by_latency(rows: Sequence[Row], places: Sequence[tuple[float, float]]) -> list[Row]:
    """Rows that are better than all that are as fast, by latency; places are (latency, score)."""
    found: list[Row] = []
    best = -inf
    for index in sorted(range(len(rows)), key=lambda i: (places[i][0], -places[i][1])):
        if places[index][1] > best:
            best = places[index][1]
            found.append(rows[index])
    return found


def fastest(front: Sequence[Point]) -> Point:
    """The lowest latency, then the higher accuracy, then the first found."""
    return min(front, key=lambda point: (point.cycles, -point.right))


def accurate(front: Sequence[Point]) -> Point:
    """The highest accuracy, then the lower latency, then the first found."""
    return min(front, key=lambda point: (-point.right, point.cycles))


def balanced(front: Sequence[Point]) -> Point:
    """The largest scaled accuracy minus scaled latency, then the higher accuracy.

    Both are scaled to [0, 1] over the front; a zero range scales to 0.
    """
    rights = [point.right for point in front]
    cycles = [point.cycles for point in front]

    def score(point: Point) -> Fraction:
        return _scaled(point.right, rights) - _scaled(point.cycles, cycles)

    return min(front, key=lambda point: (-score(point), -point.right))


def choose(points: Sequence[Point]) -> dict[str, Point]:
    """Fastest, Balanced and Accurate of what a search found."""
    front = pareto_filter(points)
    return {
        "fastest": fastest(front),
        "balanced": balanced(front),
        "accurate": accurate(front),
    }


def hypervolume(points: Iterable[Point], *, right: int, cycles: int) -> int:
    """Area dominated beyond a reference point, in clips x cycles.

    The reference is the worst of both: fewest clips right, latency budget.
    """
    area, best = 0, right
    ordered = sorted(points, key=lambda point: (point.cycles, -point.right))
    for point in ordered:
        if point.cycles < cycles and point.right > best:
            area += (point.right - best) * (cycles - point.cycles)
            best = point.right
    return area


def _scaled(value: int, values: Sequence[int]) -> Fraction:
    low, high = min(values), max(values)
    return Fraction(value - low, high - low) if high > low else Fraction(0)
