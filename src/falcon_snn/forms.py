"""Values from files, checked against the types that code relies on: one rule for all of them."""

from dataclasses import fields, is_dataclass
from math import isfinite
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from falcon_snn.errors import FalconError

MOST_CHIPS, MOST_WORKERS = 10_000, 1_000
MOST_SEED = (1 << 40) - 1  # training multiplies it by a million
LARGEST = 1 << 53  # of numbers: a float holds every integer up to this one
_LONGEST_TEXT = 10_000


def demand_within(option: str, value: float, low: float, high: float) -> None:
    """Refuse a number of a user's that would fail, or never end, much later; NaN is one of them."""
    if not low <= value <= high:
        bound = f"{high:,.0f} or less" if value > high else f"{low:g} or more"
        raise FalconError(f"{option} is {str(value)[:40]}; it must be {bound}")


def shaped(value: Any, kind: Any, where: Path | str, *, largest: float = LARGEST) -> Any:
    """A value from JSON as a type; what does not fit gives one line that names the place.

    `kind` is Any, int, float (finite), bool, str, dict[str, ...], list[...], a tuple, `... | None`,
    a TypedDict (which may have more keys), or a dataclass (which may not, and which is built).
    """
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        return None if value is None else shaped(value, parts[0], where, largest=largest)
    if origin is dict and isinstance(value, dict):
        return {
            key: shaped(each, parts[1], f"{where}, {key[:40]}", largest=largest)
            for key, each in value.items()
        }
    if origin in (list, tuple) and isinstance(value, list | tuple):
        alike = origin is list or parts[-1] is Ellipsis
        if alike or len(value) == len(parts):
            kinds = [parts[0]] * len(value) if alike else parts
            made = [
                shaped(each, one, f"{where}, item {number}", largest=largest)
                for number, (one, each) in enumerate(zip(kinds, value, strict=True), start=1)
            ]
            return origin(made)
    if is_dataclass(kind) or is_typeddict(kind):
        return _record(kind, value, where, largest)
    if _is_plain(kind, value, largest):
        return kind(value)
    raise FalconError(f"{where} is {_shown(value)}, which is not allowed")


def _record(kind: Any, values: Any, where: Path | str, largest: float) -> Any:
    """A table with the keys of a TypedDict or of a dataclass."""
    if not isinstance(values, dict):
        raise FalconError(f"{where} is {_shown(values)}, which is not a table")
    types = get_type_hints(kind)
    open_ended = is_typeddict(kind)
    known = list(types) if open_ended else [field.name for field in fields(kind)]
    unknown = [key for key in values if key not in known]
    if unknown and not open_ended:
        raise FalconError(
            f"{where}: unknown key {_shown(unknown[0])}; known keys: {', '.join(known)}"
        )
    made = {
        key: shaped(each, types[key], f"{where}, {key}", largest=largest)
        for key, each in values.items()
        if key in known
    }
    missing = [name for name in known if name not in values]
    if open_ended:
        if needed := kind.__required_keys__.intersection(missing):
            raise FalconError(f"{where} lacks '{min(needed)}'")
        return {**values, **made}
    try:
        return kind(**made)
    except TypeError:
        raise FalconError(f"{where} lacks one of {', '.join(missing)}") from None


def _is_plain(kind: Any, value: Any, largest: float) -> bool:
    if kind is int:
        return type(value) is int and abs(value) < largest
    if kind is float:
        return (
            type(value) in (int, float)
            and (type(value) is int or isfinite(value))
            and abs(value) < largest
        )
    if kind is str:
        return type(value) is str and len(value) <= _LONGEST_TEXT
    return kind is bool and type(value) is bool


def _shown(value: Any) -> str:
    """A value in a message; an integer can be too long even to write out."""
    if type(value) is int and abs(value) >= LARGEST:
        return f"an integer of {value.bit_length()} bits"
    return repr(str(value)[:40])
