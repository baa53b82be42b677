"""The form of files that hold energies: of a run, and of `falcon-snn energy --json`."""

from pathlib import Path
from typing import Any, TypedDict

from falcon_snn.errors import FalconError
from falcon_snn.files import read_json
from falcon_snn.forms import shaped

FIGURES = ("arithmetic", "analog", "core")


class EnergyRow(TypedDict):
    """One configuration."""

    name: str
    arithmetic_mj: float
    analog_mj: float
    digital_mj: float
    core_mj: float
    edp_nj_s: float
    spikes_per_neuron: float
    analog_parts_mj: dict[str, float]
    digital_parts_mj: dict[str, float]


class EnergyRows(TypedDict):
    """What every such file has."""

    configurations: list[EnergyRow]


class _Figure(TypedDict):
    ours_mj: float


class _Published(TypedDict):
    figures: dict[str, _Figure]


class _BesideThePaper(EnergyRows):
    published: _Published


def read_beside_the_paper(path: Path) -> dict[str, Any]:
    """What `falcon-snn energy --json` printed for a network of the paper."""
    found: dict[str, Any] = shaped(read_json(path), _BesideThePaper, path)
    figures = found["published"]["figures"]
    if not all(map(adds_up, found["configurations"])) or not set(FIGURES) <= set(figures):
        raise FalconError(f"{path}: not what `falcon-snn energy --json` prints")
    return found


def adds_up(row: dict[str, Any]) -> bool:
    """Whether a row's parts are what energies can be: none below 0, and together above it."""
    parts = [*row["analog_parts_mj"].values(), *row["digital_parts_mj"].values()]
    return min([*parts, row["core_mj"], row["edp_nj_s"]]) >= 0 < row["core_mj"]
