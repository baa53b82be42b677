"""A chip taken apart: the same profile with one of its effects, and with none."""

from dataclasses import replace

from falcon_snn.hardware.profile import Profile

ALL = "all together"


def without_errors(profile: Profile) -> Profile:
    """The same precision, made perfectly; high resistance stays what it is."""
    return replace(
        profile, programming="none", read_noise="none", stuck_hrs_rate=0.0, stuck_lrs_rate=0.0,
        offset_steps=0.0, column_ohm=0.0, row_ohm=0.0,
    )  # fmt: skip


def is_random(profile: Profile) -> bool:
    """Whether two chips of the profile differ, or two readings of one."""
    rates = profile.stuck_hrs_rate + profile.stuck_lrs_rate + profile.offset_steps
    return profile.programming != "none" or profile.read_noise != "none" or rates > 0


def _size(model: str, sigma: float) -> str:
    """How large errors are: so much, or by the name of measured cells."""
    return f"{100 * sigma:g} %" if sigma else model


def effects(profile: Profile, weight_bits: int) -> dict[str, Profile]:
    """Each effect of the profile alone, by name, then all of them together.

    Weights of `weight_bits` are held exactly, in as many slices as they need, and sums are exact,
    unless that is the effect. An offset is counted in steps of a converter, so it comes with the
    precision of the profile, weights and converter.
    """
    bits = max(weight_bits, profile.weight_bits)
    alone = replace(
        without_errors(profile), converter_range="exact", weight_bits=bits,
        weight_slices=max(profile.weight_slices, -(-(bits - 1) // profile.slice_bits)),
    )  # fmt: skip
    precision, stuck = without_errors(profile), profile.stuck_hrs_rate + profile.stuck_lrs_rate
    found = {
        f"{profile.weight_bits}-bit weights": replace(
            alone, weight_bits=profile.weight_bits, weight_slices=profile.weight_slices
        ),
        f"converter, {profile.converter_levels} levels": replace(
            alone, converter_range=profile.converter_range
        ),
        "both": precision,
        f"programming, {_size(profile.programming, profile.programming_sigma)}": replace(
            alone, programming=profile.programming, programming_sigma=profile.programming_sigma
        ),
        f"read noise, {_size(profile.read_noise, profile.read_sigma)}": replace(
            alone, read_noise=profile.read_noise, read_sigma=profile.read_sigma
        ),
        f"stuck cells, {100 * stuck:g} %": replace(
            alone, stuck_hrs_rate=profile.stuck_hrs_rate, stuck_lrs_rate=profile.stuck_lrs_rate
        ),
        "both and offset": replace(precision, offset_steps=profile.offset_steps),
        "both, untrimmed offset": replace(
            precision, offset_steps=profile.offset_steps, offset_trim="none"
        ),
        "wires": replace(alone, column_ohm=profile.column_ohm, row_ohm=profile.row_ohm),
    }  # fmt: skip
    seen, kept = [alone, profile], {}
    for name, one in found.items():
        if one not in seen:  # otherwise the profile lacks it, or has nothing else
            kept[name] = one
            seen.append(one)
    return {**kept, ALL: profile}
