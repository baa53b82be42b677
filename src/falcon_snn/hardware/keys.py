"""What a key of a hardware profile may hold: its section, unit, range and meaning."""

from dataclasses import MISSING, fields
from typing import Any, NamedTuple

TAGS = ("measured", "inferred", "fitted", "assumed")


class ValueSource(NamedTuple):
    """Where a value comes from."""

    tag: str  # one of TAGS
    text: str


class Key(NamedTuple):
    """What a profile key may hold, read off the dataclass."""

    name: str
    section: str
    kind: type
    optional: bool
    default: Any  # what it is in a file that leaves it out, if not None
    limits: tuple[float, float] | None
    choices: tuple[str, ...] | None
    meaning: str

    @property
    def allowed(self) -> str:
        if self.choices is not None:
            return "allowed: " + ", ".join(f'"{choice}"' for choice in self.choices)
        assert self.limits is not None
        noun = "whole number" if self.kind is int else "number"
        return f"allowed: a {noun} from {self.limits[0]:g} to {self.limits[1]:g}"

    def accepts(self, value: object) -> bool:
        if self.choices is not None:
            return value in self.choices
        wanted = int if self.kind is int else (int, float)
        if isinstance(value, bool) or not isinstance(value, wanted):
            return False
        assert self.limits is not None
        return self.limits[0] <= value <= self.limits[1]


def keys_of(profile: type[Any]) -> dict[str, Key]:
    """The keys of a dataclass by name; its fields' metadata says what each may be."""
    kinds = {int: int, float: float, str: str, float | None: float}
    return {
        item.name: Key(
            item.name,
            item.metadata["section"],
            kinds[item.type],  # type: ignore[index]
            item.type == float | None,
            None if item.default is MISSING else item.default,
            item.metadata.get("range"),
            item.metadata.get("choices"),
            item.metadata["meaning"],
        )
        for item in fields(profile)
        if "section" in item.metadata
    }
