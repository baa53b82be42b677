"""Hardware profiles: what the chip is, one TOML file, each value with its unit and its source."""

import json
import os
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fractions import Fraction
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from falcon_snn.errors import FalconError
from falcon_snn.files import parse_toml, read_text
from falcon_snn.hardware.cells import SIGMAS
from falcon_snn.hardware.keys import TAGS, Key, ValueSource, keys_of

RANGES = ("exact", "unit", "least-squares", "quantile")  # see `network/calibrate.py`


def _number(section: str, low: float, high: float, meaning: str, **more: Any) -> Any:
    return field(metadata={"section": section, "range": (low, high), "meaning": meaning}, **more)


def _share(meaning: str) -> Any:
    return _number("energy", 0, 100, f"share of an access: {meaning}")


def _area(meaning: str) -> Any:
    return _number("area", 0, 1e6, meaning, default=None)


def _choice(section: str, choices: tuple[str, ...], meaning: str, **more: Any) -> Any:
    return field(metadata={"section": section, "choices": choices, "meaning": meaning}, **more)


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One chip. The metadata of a field says its section of the file and what it may be."""

    name: str
    sources: dict[str, ValueSource] = field(default_factory=dict, repr=False, compare=False)

    t_set_ns: float = _number("analog", 0, 1e6, "input set-up and array settling")
    t_adc_ns: float = _number("analog", 0.001, 1e6, "one conversion")
    active_rows: int = _number("analog", 1, 65536, "rows on at once, N_active")
    tile_rows: int = _number("analog", 1, 65536, "rows of a tile, R_tile")
    subarray_rows: int = _number("analog", 1, 65536, "rows that a sub-array has in silicon")
    mux: int = _number("analog", 1, 65536, "column groups read one after the other, F_MUX")
    outputs_per_access: int = _number("analog", 1, 65536, "columns read at once")
    weight_slices: int = _number("analog", 1, 16, "columns that hold one weight")
    hand_over_cycles: int = _number("analog", 0, 65536, "digital cycles to hand a sum over")
    tokens_per_copy: int = _number("analog", 1, 65536, "tokens that take turns on one copy")

    weight_bits: int = _number("precision", 2, 8, "bits of a weight, sign included", default=8)
    slice_bits: int = _number("precision", 1, 8, "bits of a slice besides its sign", default=7)
    input_bits: int = _number("precision", 1, 8, "bits of a count that one pass takes", default=1)
    sensing: str = _choice(
        "precision", ("subtracted", "apart"), "positive and negative current: before the converter "
        "or after it", default="subtracted",
    )  # fmt: skip
    converter_levels: int = _number(
        "precision", 3, 4095, "levels of the converter, zero among them", default=15
    )
    converter_range: str = _choice(
        "precision", RANGES, "range of a layer's converters; exact: sums are not rounded",
        default="exact",
    )  # fmt: skip

    programming: str = _choice(
        "errors", tuple(SIGMAS), "error of a written cell, drawn once", default="none"
    )
    programming_sigma: float = _number(
        "errors", 0, 1, "of independent (of LRS) or proportional error", default=0.0
    )
    read_noise: str = _choice(
        "errors", ("none", "independent", "proportional"), "noise of a cell at every access",
        default="none",
    )  # fmt: skip
    read_sigma: float = _number("errors", 0, 1, "of read noise, like programming", default=0.0)
    stuck_hrs_rate: float = _number("errors", 0, 1, "part of the cells stuck at HRS", default=0.0)
    stuck_lrs_rate: float = _number("errors", 0, 1, "part of the cells stuck at LRS", default=0.0)
    offset_steps: float = _number(
        "errors", 0, 100, "sigma of a converter's offset, in its steps", default=0.0
    )
    offset_trim: str = _choice(
        "errors", ("none", "silent"), "silent: what a column gives without spikes is subtracted",
        default="none",
    )  # fmt: skip
    on_off_ratio: float = _number(
        "errors", 1.01, 1e12, "conductance of LRS over that of HRS", default=1e12
    )
    lrs_kohm: float = _number("errors", 0.001, 1e6, "resistance of a cell in LRS", default=10.0)
    column_ohm: float = _number(
        "errors", 0, 1e6, "wire of a column, from one cell to the next", default=0.0
    )
    row_ohm: float = _number(
        "errors", 0, 1e6, "wire that feeds the rows, from one to the next", default=0.0
    )

    clock_mhz: float = _number("digital", 0.001, 1e5, "digital clock")
    neuron_step_cycles: int = _number("digital", 0, 65536, "scale, IF update and register")
    neurons_per_unit: int = _number(
        "digital", 1, 65536, "neurons that one unit serves in turn", default=1
    )
    array_size: int = _number("digital", 1, 4096, "rows and columns of a systolic array")
    arrays: int = _number("digital", 1, 65536, "systolic arrays")
    engines: int = _number("digital", 1, 65536, "vector engines")
    engine_lanes: int = _number("digital", 1, 65536, "lanes of a vector engine")
    engine_sharing: str = _choice("digital", ("shared", "per-block"), "who owns arrays and engines")
    attention: str = _choice("digital", ("serial", "streamed"), "QK^T, ConSmax, AV: overlap or not")

    access_pj: float = _number("energy", 0, 1e6, "one access with conduction_rows on, all parts")
    control_percent: float = _share("macro sequencing and control")
    reference_percent: float = _share("reference currents of the converters, REF")
    cablc_percent: float = _share("input supply with array conduction, CABLC")
    adc_percent: float = _share("conversion, ADC")
    weighting_percent: float = _share("current weighting, DSWCT")
    input_bits_percent: float = _share("input-bit accumulation, SINWP-SC")
    subtraction_percent: float = _share("positive minus negative current, PN-ISUB")
    conduction_rows: float = _number("energy", 0.001, 65536, "rows on at the published CABLC share")
    tile_sum_pj: float = _number("energy", 0, 1e6, "adding one tile's sum to the others'")
    tile_static_uw: float = _number("energy", 0, 1e6, "static power of a tile while it is active")
    accumulate_pj: float = _number("energy", 0, 1e6, "adding an 8-bit weight to a sum")
    mac_8x8_pj: float = _number("energy", 0, 1e6, "multiply-accumulate, 8 x 8 bits")
    mac_8x4_pj: float = _number("energy", 0, 1e6, "multiply-accumulate, 8 bits x a count")
    array_mac_pj: float = _number("energy", 0, 1e6, "one multiply-accumulate of an array's cell")
    register_pj: float = _number("energy", 0, 1e6, "registers of one array cell, per cycle")
    array_control_pj: float = _number("energy", 0, 1e6, "control of one array, per cycle")
    array_leakage_uw: float = _number("energy", 0, 1e6, "leakage of one array while it runs")

    subarray_area_mm2: float | None = _area("one analog sub-array")
    array_area_mm2: float | None = _area("one systolic array")
    engine_area_mm2: float | None = _area("one vector engine")
    neuron_cells: float | None = _area("cells of a neuron unit of its own")
    neuron_area_um2: float | None = _area("a neuron unit of its own")
    shared_neuron_cells: float | None = _area("cells of a unit for several neurons, no membranes")
    shared_neuron_area_um2: float | None = _area("a unit for several neurons, no membranes")
    residual_cells: float | None = _area("cells of a unit that adds spikes only")
    residual_area_um2: float | None = _area("a unit that adds spikes only")
    stored_bit_area_um2: float | None = _area("a stored bit: slots, codes, shared membranes")

    def __post_init__(self) -> None:
        for key in KEYS.values():
            value = getattr(self, key.name)
            if value is None and key.optional:
                continue
            if not key.accepts(value):
                raise FalconError(f"profile '{self.name}': {key.name} = {value!r}; {key.allowed}")
        shares = [name for name in KEYS if name.endswith("_percent")]
        total = sum(getattr(self, name) for name in shares)
        if abs(total - 100) > 0.05:
            names = ", ".join(shares)
            raise FalconError(
                f"profile '{self.name}': the shares of an access add up to {total:g} %, not 100; "
                f"they are {names}"
            )
        stored_bits = self.slice_bits * self.weight_slices
        if stored_bits < self.weight_bits - 1:
            raise FalconError(
                f"profile '{self.name}': weights of {self.weight_bits} bits have "
                f"{self.weight_bits - 1} besides the sign, but {self.weight_slices} x "
                f"{self.slice_bits} bits are stored; raise weight_slices or lower weight_bits"
            )
        if self.stuck_hrs_rate + self.stuck_lrs_rate > 1:
            raise FalconError(
                f"profile '{self.name}': stuck_hrs_rate and stuck_lrs_rate add up to "
                f"{self.stuck_hrs_rate + self.stuck_lrs_rate:g}; the sum "
                "cannot exceed 1"
            )

    @property
    def cycle_ns(self) -> float:
        """One digital cycle."""
        return 1000 / self.clock_mhz

    @property
    def t_cycle_ns(self) -> float:
        """One analog access: t_cycle = t_set + t_ADC."""
        return float(self._exact_t_cycle_ns)

    @property
    def _exact_t_cycle_ns(self) -> Fraction:
        return _exact(self.t_set_ns) + _exact(self.t_adc_ns)

    @property
    def decision_cycles(self) -> int:
        """One firing decision or code of all neurons; those of one unit follow cycle by cycle."""
        return self.neuron_step_cycles + self.neurons_per_unit - 1

    @property
    def tile_row_groups(self) -> int:
        """Row groups of a full tile, ceil(R_tile / N_active)."""
        return -(-self.tile_rows // self.active_rows)

    @property
    def largest_code(self) -> int:
        """Of a converter: where currents are subtracted before it, as many codes lie below zero."""
        return (self.converter_levels - 1) // (2 if self.sensing == "subtracted" else 1)

    def bit_passes(self, bits: int) -> int:
        """Passes for a count of `bits` bits, of which one pass takes `input_bits`."""
        return -(-bits // self.input_bits)

    def row_groups(self, inner: int) -> int:
        """Row groups of a layer with K inputs, ceil(min(K, R_tile) / N_active)."""
        return -(-min(inner, self.tile_rows) // self.active_rows)

    def layer_row_groups(self, inner: int) -> int:
        """Row groups of all tiles that hold K inputs."""
        tiles, rest = divmod(inner, self.tile_rows)
        return tiles * self.tile_row_groups + -(-rest // self.active_rows)

    def column_groups(self, columns: int) -> int:
        """Accesses side by side that read all columns of a layer's weights."""
        return -(-columns * self.weight_slices // self.outputs_per_access)

    def tiles(self, inner: int, columns: int) -> int:
        """Tiles of one copy of a layer: ceil(K / R_tile) * ceil(N * slices / columns)."""
        across = -(-columns * self.weight_slices // self.tile_columns)
        return -(-inner // self.tile_rows) * across

    def accesses(self, inner: int) -> int:
        """N_cycle = ceil(min(K, R_tile) / N_active) * F_MUX: accesses of one analog pass."""
        return self.row_groups(inner) * self.mux

    @cached_property
    def _access_cycles(self) -> Fraction:
        return self._exact_t_cycle_ns * _exact(self.clock_mhz) / 1000

    def access_cycles(self, accesses: int) -> int:
        """Digital cycles that cover the accesses, rounded up; exact for decimal settings."""
        one = self._access_cycles
        return -(-accesses * one.numerator // one.denominator)

    @property
    def tile_columns(self) -> int:
        """Columns of a tile: F_MUX groups of as many as are read at once."""
        return self.mux * self.outputs_per_access

    def shared_copies(self, positions: int) -> int:
        """Copies of a layer's arrays where `tokens_per_copy` of its positions share one."""
        return -(-positions // self.tokens_per_copy)

    def turns(self, positions: int) -> int:
        """How many of a layer's positions take turns on one copy of its arrays."""
        return -(-positions // self.shared_copies(positions))

    def pass_cycles(self, inner: int, positions: int = 1) -> int:
        """tau of one analog pass over all positions, in whole digital cycles, with hand-over."""
        accesses = self.accesses(inner) * self.turns(positions)
        return self.access_cycles(accesses) + self.hand_over_cycles


def with_value(profile: Profile, key: str, value: Any) -> Profile:
    """The profile with one value changed, by the name of its key."""
    changes: dict[str, Any] = {key: value}
    return replace(profile, **changes)


def differences(first: Profile, second: Profile) -> dict[str, tuple[Any, Any]]:
    """The keys whose values differ, each with both values."""
    pairs = {name: (getattr(first, name), getattr(second, name)) for name in KEYS}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


KEYS = keys_of(Profile)
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
    if not os.path.exists(wanted):
        raise FalconError(f"{wanted}: no such file; shipped profiles are: {', '.join(shipped)}")
    return parse_profile(read_text(wanted), wanted)


def profile_toml(profile: Profile) -> str:
    """The profile as text that `parse_profile` reads back, sources included."""
    lines = [f"name = {json.dumps(profile.name, ensure_ascii=False)}"]
    for section in SECTIONS:
        lines += ["", f"[{section}]"]
        for key in KEYS.values():
            value = getattr(profile, key.name)
            if key.section == section and value is not None:
                source = profile.sources[key.name]
                entry = {"value": value, "tag": source.tag, "source": source.text}
                pairs = (f"{k} = {json.dumps(v, ensure_ascii=False)}" for k, v in entry.items())
                lines.append(f"{key.name} = {{ {', '.join(pairs)} }}")
    return "\n".join(lines) + "\n"


def parse_profile(text: str, file: str) -> Profile:
    """Check the text of a profile; `file` is what messages call it."""
    document = parse_toml(text, file)
    name = document.pop("name", Path(file).stem)
    if not isinstance(name, str):
        raise FalconError(f"{file}: name = {name!r}; allowed: text")
    values, sources = _values_of(file, document.pop("like", None))
    for section, entries in document.items():
        if section not in SECTIONS or not isinstance(entries, dict):
            allowed = ", ".join(f"[{known}]" for known in SECTIONS)
            raise FalconError(f"{file}: unknown section or key '{section}'; sections are {allowed}")
        for key_name, entry in entries.items():
            key = _known_key(file, section, key_name)
            values[key_name], sources[key_name] = _value(file, key, entry)
    for key in KEYS.values():
        if key.name not in values and key.default is not None:
            values[key.name] = key.default
            sources[key.name] = ValueSource("assumed", "not in the file; this is the default")
        elif key.name not in values and not key.optional:
            raise FalconError(f"{file}: [{key.section}] {key.name} is missing; {key.allowed}")
    try:
        return Profile(name=name, sources=sources, **values)
    except FalconError as error:
        raise FalconError(f"{file}: {error}") from None


def _values_of(file: str, like: object) -> tuple[dict[str, Any], dict[str, ValueSource]]:
    """The values and sources of the shipped profile that a file starts from, if it names one."""
    if like is None:
        return {}, {}
    shipped = shipped_profiles()
    if not isinstance(like, str) or like not in shipped:
        raise FalconError(f"{file}: like = {like!r}; shipped profiles are: {', '.join(shipped)}")
    base = parse_profile(shipped[like], f"{like}.toml")
    return {name: getattr(base, name) for name in KEYS}, dict(base.sources)


def _known_key(file: str, section: str, name: str) -> Key:
    key = KEYS.get(name)
    if key is not None and key.section == section:
        return key
    if key is not None:
        raise FalconError(f"{file}: {name} belongs in section [{key.section}], not [{section}]")
    near = get_close_matches(name, KEYS, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]} ({KEYS[near[0]].allowed})?" if near else _all_keys(section)
    raise FalconError(f"{file}: [{section}] unknown key '{name}'; {hint}")


def _all_keys(section: str) -> str:
    return "allowed: " + ", ".join(key.name for key in KEYS.values() if key.section == section)


def _value(file: str, key: Key, entry: object) -> tuple[Any, ValueSource]:
    where = f"{file}: [{key.section}] {key.name}"
    shape = f'{{ value = ..., tag = "{"|".join(TAGS)}", source = "..." }}'
    if not isinstance(entry, dict) or set(entry) != {"value", "tag", "source"}:
        raise FalconError(f"{where} must be {shape}")
    if entry["tag"] not in TAGS:
        raise FalconError(f"{where} has tag {entry['tag']!r}; allowed: {', '.join(TAGS)}")
    if not isinstance(entry["source"], str) or not entry["source"].strip():
        raise FalconError(f"{where} has no source; say in words where the value comes from")
    if not key.accepts(entry["value"]):
        raise FalconError(f"{where} = {entry['value']!r}; {key.allowed}")
    value = float(entry["value"]) if key.kind is float else entry["value"]
    return value, ValueSource(entry["tag"], entry["source"])


def _exact(value: float) -> Fraction:
    """The decimal that the file shows, so that 4.6 + 10.0 is 14.6 and not just near it."""
    return Fraction(repr(value))
