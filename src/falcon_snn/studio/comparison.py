"""Two states side by side: a pinned one and the present one, and how they differ."""

from collections.abc import Mapping
from typing import NamedTuple

from falcon_snn.hardware.profile import KEYS
from falcon_snn.studio.numbers import Latency
from falcon_snn.studio.state import StudioState


class Side(NamedTuple):
    """A state with what follows from it; accuracy and energy where they were measured."""

    state: StudioState
    now: Latency
    accuracy: float | None = None  # share of the clips
    energy_mj: float | None = None


class Row(NamedTuple):
    """One line of the table; `change` is empty where two texts are compared."""

    what: str
    pinned: str
    present: str
    change: str = ""


def comparison(pinned: Side, present: Side) -> list[Row]:
    """Latency, energy and accuracy, the parts of the path, then only choices that differ."""
    rows = [_figure("core latency (µs)", pinned.now.core_us, present.now.core_us)]
    if pinned.accuracy is not None and present.accuracy is not None:
        percent = (100 * pinned.accuracy, 100 * present.accuracy)
        rows.append(_figure("accuracy (%)", *percent))
    if pinned.energy_mj is not None and present.energy_mj is not None:
        rows.append(_figure("energy (mJ)", pinned.energy_mj, present.energy_mj, digits=5))
    rows.append(_figure("matched QNN (µs)", pinned.now.qnn.core_us, present.now.qnn.core_us))
    rows += [
        _figure(f"path: {part} (µs)", us, present.now.parts_us.get(part, 0.0))
        for part, us in pinned.now.parts_us.items()
    ]
    return rows + _choices(pinned.state, present.state)


def _choices(pinned: StudioState, present: StudioState) -> list[Row]:
    rows = []
    for what, one, other in (
        ("network", pinned.network.name, present.network.name),
        ("spike slots T", pinned.slots, present.slots),
        ("Q/K prefix", pinned.prefix, present.prefix),
        ("hardware", pinned.profile.name, present.profile.name),
    ):
        if one != other:
            rows.append(Row(what, str(one), str(other)))
    rows += [
        Row(key, _text(getattr(pinned.profile, key)), _text(getattr(present.profile, key)))
        for key in KEYS
        if getattr(pinned.profile, key) != getattr(present.profile, key)
    ]
    return rows + _delays(pinned.delays, present.delays)


def _delays(pinned: Mapping[str, int], present: Mapping[str, int]) -> list[Row]:
    rows = []
    for name in dict.fromkeys([*present, *pinned]):
        one, other = pinned.get(name), present.get(name)
        if one != other:
            change = "" if one is None or other is None else f"{other - one:+d}"
            rows.append(Row(f"delay of {name}", _text(one), _text(other), change))
    return rows


def _figure(what: str, one: float, other: float, digits: int = 2) -> Row:
    change = round(other - one, digits)
    text = "the same" if not change else f"{change:+.{digits}f}"
    return Row(what, f"{one:.{digits}f}", f"{other:.{digits}f}", text)


def _text(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:g}" if isinstance(value, float) else str(value)
