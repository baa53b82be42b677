"""All that was measured: results, searches and energies, shipped or a user's own."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from falcon_snn.errors import FalconError
from falcon_snn.report.published import SETTINGS
from falcon_snn.report.results import Result, load_energy, load_results, load_search, of


@dataclass(frozen=True)
class Measurements:
    """By the paper's settings."""

    results: Sequence[Result]
    searches: dict[str, dict[str, Any]]
    energies: dict[str, dict[str, Any]]

    def of(self, setting: str, configuration: str) -> list[Result]:
        """The experiments (one per seed) of a configuration."""
        return of(self.results, setting, configuration)


def load_measurements(folders: Sequence[Path] = ()) -> Measurements:
    """What is shipped; a folder's own replaces what has the same setting and configuration."""
    places: list[Path | None] = [None, *folders]
    searches, energies = (
        {name: found for place in places for name in SETTINGS if (found := load(name, place))}
        for load in (load_search, load_energy)
    )
    return Measurements(load_replaced(folders), searches, energies)


def load_replaced(folders: Sequence[Path]) -> list[Result]:
    """Shipped results and those of folders, each folder before the shipped ones and those left of
    it: what is measured again under the same name is one entry, not a mixture.
    """
    results = load_results()
    for folder in folders:
        own = load_results(folder)
        if not own:
            raise FalconError(
                f"{folder}: no results in it; `falcon-snn results record` writes them"
            )
        again = {(r.setting, r.configuration) for r in own}
        results = [r for r in results if (r.setting, r.configuration) not in again] + own
    return results
