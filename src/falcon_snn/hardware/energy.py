"""What work costs: operations, accesses of the analog macro, cycles of a systolic array.

All energies are picojoules; a part of an energy has the name that the paper's breakdown gives it.
"""

from typing import NamedTuple

from falcon_snn.hardware.profile import Profile

Parts = dict[str, float]  # part to pJ

# Parts of every access; the conduction part (CABLC) follows the rows that are on instead.
_ACCESS_SHARES = {
    "ADC": ("adc_percent",),
    "REF": ("reference_percent",),
    "Control": ("control_percent",),
    "Readout (except ADC)": ("weighting_percent", "input_bits_percent", "subtraction_percent"),
}
CONDUCTION = "CABLC"
TILE_SUMS = "Tile accumulator"
STATIC = "Static"
ANALOG_PARTS = (CONDUCTION, *_ACCESS_SHARES, TILE_SUMS, STATIC)
DIGITAL_PARTS = ("Arithmetic", "Registers", "Control", "Leakage")


class Operations(NamedTuple):
    """Arithmetic by kind and precision."""

    accumulates: float = 0.0  # an 8-bit weight, or one spike, added to a sum
    macs_8x8: float = 0.0
    macs_8x4: float = 0.0  # 8 bits times a count

    def plus(self, other: "Operations") -> "Operations":
        return Operations(*(a + b for a, b in zip(self, other, strict=True)))


class AnalogWork(NamedTuple):
    """What one layer asks of its tiles for one inference."""

    accesses: float
    rows_on: float  # summed over the accesses
    tile_sums: float
    tile_us: float  # tiles times the microseconds for which they are active


class ArrayWork(NamedTuple):
    """What one matrix product asks of the systolic arrays."""

    macs: int
    array_cycles: int  # arrays times cycles


def arithmetic_pj(operations: Operations, profile: Profile) -> float:
    """Operation counts times cost per operation, the convention of the field."""
    return (
        operations.accumulates * profile.accumulate_pj
        + operations.macs_8x8 * profile.mac_8x8_pj
        + operations.macs_8x4 * profile.mac_8x4_pj
    )


def analog_pj(work: AnalogWork, profile: Profile) -> Parts:
    """Accesses at the published energy; only conduction depends on the data:

    E_CABLC = access_pj cablc_percent rows_on / conduction_rows.
    """
    one_percent_pj = profile.access_pj / 100
    row_pj = one_percent_pj * profile.cablc_percent / profile.conduction_rows
    parts = {CONDUCTION: work.rows_on * row_pj}
    for part, keys in _ACCESS_SHARES.items():
        percent = sum(getattr(profile, key) for key in keys)
        parts[part] = work.accesses * one_percent_pj * percent
    parts[TILE_SUMS] = work.tile_sums * profile.tile_sum_pj
    parts[STATIC] = work.tile_us * profile.tile_static_uw  # uW us = pJ
    return parts


def array_pj(work: ArrayWork, profile: Profile) -> Parts:
    """A product on S x S output-stationary arrays, in the cycles for which they run."""
    cells = profile.array_size**2
    return {
        "Arithmetic": work.macs * profile.array_mac_pj,
        "Registers": work.array_cycles * cells * profile.register_pj,
        "Control": work.array_cycles * profile.array_control_pj,
        "Leakage": work.array_cycles * profile.cycle_ns / 1000 * profile.array_leakage_uw,
    }
