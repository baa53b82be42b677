"""Hardware profiles: what the chip is, one TOML file, each value with its unit and its source."""

import tomllib
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from falcon_snn.errors import FalconError

TAGS = ("measured", "inferred", "assumed")


class Source(NamedTuple):
    """Where a value comes from."""

    tag: str  # one of TAGS
    text: str


def _number(section: str, low: float, high: float, meaning: str, **more: Any) -> Any:
    return field(metadata={"section": section, "range": (low, high), "meaning": meaning}, **more)


def _choice(section: str, choices: tuple[str, ...], meaning: str) -> Any:
    return field(metadata={"section": section, "choices": choices, "meaning": meaning})


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One chip. The metadata of a field says its section of the file and what it may be."""

    name: str
    sources: dict[str, Source] = field(default_factory=dict, repr=False, compare=False)

    t_set_ns: float = _number("analog", 0, 1e6, "input set-up and array settling")
    t_adc_ns: float = _number("analog", 0.001, 1e6, "one conversion")
    active_rows: int = _number("analog", 1, 65536, "rows on at once, N_active")
    tile_rows: int = _number("analog", 1, 65536, "rows of a tile, R_tile")
    mux: int = _number("analog", 1, 65536, "column groups read one after the other, F_MUX")
    outputs_per_access: int = _number("analog", 1, 65536, "columns read at once")
    weight_slices: int = _number("analog", 1, 16, "columns that hold one weight")
    hand_over_cycles: int = _number("analog", 0, 65536, "digital cycles to hand a sum over")
    tokens_per_copy: int = _number("analog", 1, 65536, "tokens that take turns on one copy")

    clock_mhz: float = _number("digital", 0.001, 1e5, "digital clock")
    neuron_step_cycles: int = _number("digital", 0, 65536, "scale, IF update and register")
    array_size: int = _number("digital", 1, 4096, "rows and columns of a systolic array")
    arrays: int = _number("digital", 1, 65536, "systolic arrays")
    engines: int = _number("digital", 1, 65536, "vector engines")
    engine_lanes: int = _number("digital", 1, 65536, "lanes of a vector engine")
    engine_sharing: str = _choice("digital", ("shared", "per-block"), "who owns arrays and engines")
    attention: str = _choice("digital", ("serial", "streamed"), "QK^T, ConSmax, AV: overlap or not")

    subarray_area_mm2: float | None = _number("area", 0, 1e6, "one analog sub-array", default=None)
    array_area_mm2: float | None = _number("area", 0, 1e6, "one systolic array", default=None)
    engine_area_mm2: float | None = _number("area", 0, 1e6, "one vector engine", default=None)

    def __post_init__(self) -> None:
        for key in KEYS.values():
            value = getattr(self, key.name)
            if value is None and key.optional:
                continue
            if not key.accepts(value):
                raise FalconError(f"profile '{self.name}': {key.name} = {value!r}; {key.allowed}")

    @property
    def cycle_ns(self) -> float:
        """One digital cycle."""
        return 1000 / self.clock_mhz

    @property
    def t_cycle_ns(self) -> float:
        """One analog access: t_cycle = t_set + t_ADC."""
        return float(_exact(self.t_set_ns) + _exact(self.t_adc_ns))

    @property
    def tile_row_groups(self) -> int:
        """Row groups of a full tile, ceil(R_tile / N_active)."""
        return -(-self.tile_rows // self.active_rows)

    def row_groups(self, inner: int) -> int:
        """Row groups of a layer with K inputs, ceil(min(K, R_tile) / N_active)."""
        return -(-min(inner, self.tile_rows) // self.active_rows)

    def accesses(self, inner: int) -> int:
        """N_cycle = ceil(min(K, R_tile) / N_active) * F_MUX: accesses of one analog pass."""
        return self.row_groups(inner) * self.mux

    def access_cycles(self, accesses: int) -> int:
        """Digital cycles that cover some accesses, rounded up; exact for decimal settings."""
        t_cycle_ns = _exact(self.t_set_ns) + _exact(self.t_adc_ns)
        cycles = accesses * t_cycle_ns * _exact(self.clock_mhz) / 1000
        return -(-cycles.numerator // cycles.denominator)

    def turns(self, copies: int) -> int:
        """How many of a layer's positions take turns on one copy of its arrays."""
        return -(-copies // -(-copies // self.tokens_per_copy))

    def pass_cycles(self, inner: int, copies: int = 1) -> int:
        """tau of one analog pass over all positions, in whole digital cycles, with hand-over."""
        return self.access_cycles(self.accesses(inner) * self.turns(copies)) + self.hand_over_cycles


class Key(NamedTuple):
    """What a profile key may hold, read off the dataclass."""

    name: str
    section: str
    kind: type
    optional: bool
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


def _keys() -> dict[str, Key]:
    kinds = {int: int, float: float, str: str, float | None: float}
    return {
        item.name: Key(
            item.name,
            item.metadata["section"],
            kinds[item.type],  # type: ignore[index]
            item.type == float | None,
            item.metadata.get("range"),
            item.metadata.get("choices"),
            item.metadata["meaning"],
        )
        for item in fields(Profile)
        if "section" in item.metadata
    }


KEYS = _keys()
SECTIONS = tuple(dict.fromkeys(key.section for key in KEYS.values()))


def shipped_profiles() -> dict[str, str]:
    """The profiles in the package: name to file text. `paper` is the default."""
    folder = resources.files("falcon_snn.hardware") / "profiles"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return {file.name.removesuffix(".toml"): file.read_text("utf-8") for file in files}


def load_profile(path: Path | str | None = None) -> Profile:
    """Read and check a profile: a shipped name, a file, or None for the paper's."""
    wanted = "paper" if path is None else str(path)
    shipped = shipped_profiles()
    if wanted in shipped:
        return parse_profile(shipped[wanted], f"{wanted}.toml")
    try:
        text = Path(wanted).read_text(encoding="utf-8")
    except FileNotFoundError:
        names = ", ".join(shipped)
        raise FalconError(f"{wanted}: no such file; shipped profiles are: {names}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FalconError(f"{wanted}: cannot be read ({error})") from None
    return parse_profile(text, wanted)


def parse_profile(text: str, file: str) -> Profile:
    """Check the text of a profile; `file` is what messages call it."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FalconError(f"{file}: not valid TOML ({error})") from None
    name = document.pop("name", Path(file).stem)
    if not isinstance(name, str):
        raise FalconError(f"{file}: name = {name!r}; allowed: a text")
    values: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    for section, entries in document.items():
        if section not in SECTIONS or not isinstance(entries, dict):
            allowed = ", ".join(f"[{known}]" for known in SECTIONS)
            raise FalconError(f"{file}: unknown section or key '{section}'; sections are {allowed}")
        for key_name, entry in entries.items():
            key = _known_key(file, section, key_name)
            values[key_name], sources[key_name] = _value(file, key, entry)
    for key in KEYS.values():
        if key.name not in values and not key.optional:
            raise FalconError(f"{file}: [{key.section}] {key.name} is missing; {key.allowed}")
    return Profile(name=name, sources=sources, **values)


def _known_key(file: str, section: str, name: str) -> Key:
    key = KEYS.get(name)
    if key is not None and key.section == section:
        return key
    if key is not None:
        raise FalconError(f"{file}: {name} belongs into section [{key.section}], not [{section}]")
    near = get_close_matches(name, KEYS, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]} ({KEYS[near[0]].allowed})?" if near else _all_keys(section)
    raise FalconError(f"{file}: [{section}] unknown key '{name}'; {hint}")


def _all_keys(section: str) -> str:
    return "allowed: " + ", ".join(key.name for key in KEYS.values() if key.section == section)


def _value(file: str, key: Key, entry: object) -> tuple[Any, Source]:
    where = f"{file}: [{key.section}] {key.name}"
    shape = '{ value = ..., tag = "measured|inferred|assumed", source = "..." }'
    if not isinstance(entry, dict) or set(entry) != {"value", "tag", "source"}:
        raise FalconError(f"{where} must be {shape}")
    if entry["tag"] not in TAGS:
        raise FalconError(f"{where} has tag {entry['tag']!r}; allowed: {', '.join(TAGS)}")
    if not isinstance(entry["source"], str) or not entry["source"].strip():
        raise FalconError(f"{where} has no source; say in words where the value comes from")
    if not key.accepts(entry["value"]):
        raise FalconError(f"{where} = {entry['value']!r}; {key.allowed}")
    value = float(entry["value"]) if key.kind is float else entry["value"]
    return value, Source(entry["tag"], entry["source"])


def _exact(value: float) -> Fraction:
    """The decimal that the file shows, so that 4.6 + 10.0 is 14.6 and nothing near it."""
    return Fraction(repr(value))
