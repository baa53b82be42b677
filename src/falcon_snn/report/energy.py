"""What `falcon-snn energy` says, as data: configurations side by side, and the paper's figures.

A figure is "fitted" where the profile was set to give it, otherwise "predicted", with its error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from falcon_snn.errors import FalconError
from falcon_snn.hardware.energy import CONDUCTION, STATIC, TILE_SUMS, Operations, arithmetic_pj
from falcon_snn.hardware.keys import ValueSource
from falcon_snn.hardware.profile import KEYS, Profile, with_value
from falcon_snn.pipeline.energy import Energy, on_profile
from falcon_snn.report.published import (
    ENERGY_ANALOG_MJ,
    ENERGY_ARITHMETIC_MJ,
    ENERGY_CORE_MJ,
)
from falcon_snn.search.pareto import beats

FITTED_ON = "gsc-medium"  # the network whose published figures set what is fitted
ARITHMETIC_KEYS = ("accumulate_pj", "mac_8x8_pj", "mac_8x4_pj")
STATIC_KEY = "tile_static_uw"
SLICES = (1, 2, 4)  # columns per weight: one as published; 8-bit weights in 3-bit cells need four


@dataclass(frozen=True)
class Configuration:
    """One network on the same weights and clips: the QNN, or the SNN under a schedule."""

    name: str
    delays: Mapping[str, int] | None
    energy: Energy
    accuracy: float  # percent of the clips


def energy_report(
    setting: str, configurations: Sequence[Configuration], main: Configuration
) -> dict[str, Any]:
    """Everything about the configurations; `main` is set beside the paper's figures, if it has any
    for this `setting` (`report.published.SETTING_OF`).
    """
    profile = main.energy.timing.profile
    front = front_of(configurations)
    return {
        "hardware": profile.name,
        "configurations": [
            {"name": one.name, "delays": one.delays, "accuracy": one.accuracy,
             "on_front": one.name in front, **_row(one.energy)}
            for one in configurations
        ],
        "weight_slices": [
            _slices(main.energy, count)
            for count in SLICES
            if count * profile.slice_bits >= profile.weight_bits - 1
        ],
        "published": published(setting, main),
        "profile": [
            {"key": name, "value": getattr(profile, name), "tag": profile.sources[name].tag,
             "source": profile.sources[name].text}
            for name, key in KEYS.items()
            if key.section == "energy"
        ],
    }  # fmt: skip


def front_of(configurations: Sequence[Configuration]) -> list[str]:
    """Names of those that no other beats in accuracy, latency and energy together."""
    costs = {
        one.name: (-one.accuracy, one.energy.timing.core_cycles, one.energy.core_mj)
        for one in configurations
    }
    every = costs.values()
    return [name for name, own in costs.items() if not any(beats(other, own) for other in every)]


def published(setting: str, main: Configuration) -> dict[str, Any] | None:
    """Ours beside the paper's figures, what ours is made of, and what would close the gap."""
    if setting not in ENERGY_ANALOG_MJ or main.delays is None:
        return None
    energy, profile = main.energy, main.energy.timing.profile
    kinds = {
        name: _kind(setting, profile, key)
        for name, key in (("arithmetic", ARITHMETIC_KEYS[0]), ("analog", STATIC_KEY))
    }
    figures = {
        "arithmetic": (energy.arithmetic_mj, ENERGY_ARITHMETIC_MJ[setting], kinds["arithmetic"]),
        "analog": (energy.analog_mj, ENERGY_ANALOG_MJ[setting], kinds["analog"]),
        "core": (energy.core_mj, ENERGY_CORE_MJ[setting], kinds["analog"]),
    }
    return {
        "setting": setting,
        "schedule": main.name,
        "figures": {
            name: {"ours_mj": ours, "paper_mj": paper, "kind": kind,
                   "error_percent": 100 * (ours / paper - 1)}
            for name, (ours, paper, kind) in figures.items()
        },
        "analog_inputs_mj": _analog_inputs(energy),
        "arithmetic_inputs_mj": _arithmetic_inputs(energy),
        "would_close_alone": _closing(energy, setting),
        "split": [_split("analog", energy), _split("arithmetic", energy)],
    }  # fmt: skip


def check_can_fit(setting: str) -> None:
    if setting != FITTED_ON:
        this = setting or "another"
        raise FalconError(f"only a {FITTED_ON} network can be fitted; this one is {this}")


def fitted_profile(setting: str, main: Configuration) -> Profile:
    """The profile whose static power and arithmetic costs give the paper's figures exactly.

    Both are linear: E_analog = rest + static_uw tile_us, and all costs of arithmetic are scaled.
    """
    check_can_fit(setting)
    profile = main.energy.timing.profile
    scale = ENERGY_ARITHMETIC_MJ[setting] / main.energy.arithmetic_mj
    values = {key: getattr(profile, key) * scale for key in ARITHMETIC_KEYS}
    values[STATIC_KEY] = _closing_static_uw(main.energy, ENERGY_ANALOG_MJ[setting])
    if values[STATIC_KEY] < 0:
        raise FalconError(
            f"{STATIC_KEY} cannot be fitted: without static power the analog energy is "
            f"{_without_static_mj(main.energy):.4f} mJ, above the paper's "
            f"{ENERGY_ANALOG_MJ[setting]} mJ"
        )
    values = {key: float(f"{value:.6g}") for key, value in values.items()}
    figure = dict.fromkeys(values, f"arithmetic energy is {ENERGY_ARITHMETIC_MJ[setting]}")
    figure[STATIC_KEY] = f"analog energy is {ENERGY_ANALOG_MJ[setting]}"
    sources = {
        key: ValueSource(
            "fitted", f"so that the {text} mJ for {setting}, {main.name}, as in the paper"
        )
        for key, text in figure.items()
    }
    changes: dict[str, Any] = {**values, "sources": profile.sources | sources}
    return replace(profile, name=f"{profile.name}-fitted", **changes)


def _row(energy: Energy) -> dict[str, Any]:
    activity = energy.activity
    totals = Operations()
    for counts in energy.operations.values():
        totals = totals.plus(counts)
    return {
        "latency_us": round(energy.timing.core_us, 4),
        "arithmetic_mj": energy.arithmetic_mj,
        "analog_mj": energy.analog_mj,
        "digital_mj": energy.digital_mj,
        "core_mj": energy.core_mj,
        "edp_nj_s": energy.edp_nj_s,
        "spikes_per_neuron": activity.spikes_per_neuron,
        "operations": totals._asdict(),
        "analog_parts_mj": _in_mj(energy.analog_parts),
        "digital_parts_mj": _in_mj(energy.digital_parts),
        "stages": _stages(energy),
    }


def _stages(energy: Energy) -> list[dict[str, Any]]:
    """Every stage that spikes, computes or costs; `share` is of the core's energy."""
    activity, profile, core = energy.activity, energy.timing.profile, energy.core_mj
    names = dict.fromkeys([*energy.operations, *activity.spikes])
    rows: list[dict[str, Any]] = []
    for name in names:
        counts = energy.operations.get(name, Operations())
        work, mj = energy.work.get(name), energy.stages_mj.get(name, 0.0)
        spikes = activity.spikes.get(name)
        rows.append(
            {
                "name": name,
                "spikes_per_neuron": None if spikes is None else spikes / activity.neurons[name],
                "rows_on_per_access": None if work is None else work.rows_on / work.accesses,
                "accesses": None if work is None else work.accesses,
                **counts._asdict(),
                "arithmetic_mj": arithmetic_pj(counts, profile) * 1e-9,
                "core_mj": mj,
                "share": mj / core,
            }
        )
    return rows


def _slices(energy: Energy, count: int) -> dict[str, Any]:
    sliced = on_profile(energy, with_value(energy.timing.profile, "weight_slices", count))
    return {"weight_slices": count, "analog_mj": sliced.analog_mj, "core_mj": sliced.core_mj}


def _kind(setting: str, profile: Profile, key: str) -> str:
    if profile.sources[key].tag != "fitted":
        return "predicted, no fit"
    return "fitted" if setting == FITTED_ON else f"predicted, fitted on {FITTED_ON}"


def _analog_inputs(energy: Energy) -> dict[str, float]:
    """The way from accesses at the published energy to ours; it adds up."""
    profile, parts = energy.timing.profile, energy.analog_parts
    accesses_pj = sum(work.accesses for work in energy.work.values()) * profile.access_pj
    return _in_mj(
        {
            f"accesses at {profile.access_pj:g} pJ": accesses_pj,
            "rows that stay off": parts[CONDUCTION] - accesses_pj * profile.cablc_percent / 100,
            "tile accumulator": parts[TILE_SUMS],
            "static power in active windows": parts[STATIC],
        }
    )


def _arithmetic_inputs(energy: Energy) -> dict[str, float]:
    """Arithmetic energy by what is computed: layers by their block; it adds up."""
    products = {stage.name for stage in energy.timing.graph.stages if stage.kind == "product"}
    groups: dict[str, float] = {}
    for name, counts in energy.operations.items():
        if name in energy.outside:
            group = name
        else:
            group = "attention" if name in products else f"{_block(name)} layers"
        pj = arithmetic_pj(counts, energy.timing.profile)
        groups[group] = groups.get(group, 0.0) + pj
    return _in_mj(groups)


def _split(figure: str, energy: Energy) -> dict[str, Any]:
    """Energy of a block (what has attention) and of the rest.

    The paper's come from the difference of Large and Medium.
    """
    if figure == "analog":
        paper = ENERGY_ANALOG_MJ
        pj = {name: sum(parts.values()) for name, parts in energy.analog_pj.items()}
    else:
        paper, counts = ENERGY_ARITHMETIC_MJ, energy.operations
        pj = {name: arithmetic_pj(n, energy.timing.profile) for name, n in counts.items()}
    medium, large = paper["gsc-medium"], paper["gsc-large"]
    paper_block = (large - medium) / 2  # five blocks less three
    stages = energy.timing.graph.stages
    blocks = {_block(stage.name) for stage in stages if stage.kind == "product"}
    in_blocks = sum(value for name, value in pj.items() if _block(name) in blocks) * 1e-9
    return {
        "figure": figure,
        "per_block": {"ours_mj": in_blocks / len(blocks), "paper_mj": paper_block},
        "outside_blocks": {
            "ours_mj": sum(pj.values()) * 1e-9 - in_blocks,
            "paper_mj": medium - 3 * paper_block,
        },
    }


def _closing(energy: Energy, setting: str) -> list[dict[str, Any]]:
    """Inputs, each with the value that alone would give the paper's figure (None: no value can)."""
    profile = energy.timing.profile
    accesses = sum(work.accesses for work in energy.work.values())
    rows_on = sum(work.rows_on for work in energy.work.values())
    gap_pj = (ENERGY_ANALOG_MJ[setting] - energy.analog_mj) * 1e9
    row_pj = profile.access_pj * profile.cablc_percent / 100 / profile.conduction_rows
    scale = ENERGY_ARITHMETIC_MJ[setting] / energy.arithmetic_mj
    accumulates_pj = profile.accumulate_pj * sum(n.accumulates for n in energy.operations.values())
    spikes = 1 + (ENERGY_ARITHMETIC_MJ[setting] - energy.arithmetic_mj) * 1e9 / accumulates_pj
    per_neuron = energy.activity.spikes_per_neuron
    dynamic_pj = energy.analog_mj * 1e9 - energy.analog_parts[STATIC]
    dynamic_pj -= energy.analog_parts[TILE_SUMS]
    closing = (
        ("analog", "static power per tile (uW)", profile.tile_static_uw,
         _closing_static_uw(energy, ENERGY_ANALOG_MJ[setting])),
        ("analog", "rows on per access", rows_on / accesses,
         rows_on / accesses + gap_pj / row_pj / accesses),
        ("analog", "energy per access (pJ)", profile.access_pj,
         profile.access_pj * (1 + gap_pj / dynamic_pj)),
        ("arithmetic", "energy per accumulate (pJ), others alike", profile.accumulate_pj,
         profile.accumulate_pj * scale),
        ("arithmetic", "spikes per neuron", per_neuron, per_neuron * spikes),
    )  # fmt: skip
    return [
        {"figure": figure, "input": name, "ours": ours, "needed": None if value < 0 else value}
        for figure, name, ours, value in closing
    ]


def _closing_static_uw(energy: Energy, wanted_mj: float) -> float:
    tile_us = sum(work.tile_us for work in energy.work.values())
    return (wanted_mj - _without_static_mj(energy)) * 1e9 / tile_us


def _without_static_mj(energy: Energy) -> float:
    return energy.analog_mj - energy.analog_parts[STATIC] * 1e-9


def _block(name: str) -> str:
    """The group that a stage is shown in: the text before its first dot."""
    return name.partition(".")[0]


def _in_mj(parts: Mapping[str, float]) -> dict[str, float]:
    return {part: pj * 1e-9 for part, pj in parts.items()}
