"""Our own measurements: one JSON file per experiment in `falcon_snn/results`.

A file says what was trained, on what, from which commit, with which seed and teachers, for how many
epochs, and what came out. Latency is not in it: it follows from the network and the schedule. Older
files have `config`, the sizes of a Falcon network, instead of `network`, and some do not say which
test clips were named wrongly. Files that differ in their seed only are one entry of the table.

`setting` names the paper's network that it is compared with ("gsc-medium", "gsc-large",
"ssc-medium"). `configuration` is one of

    qnn, full, fastest, balanced, accurate      the paper's main table
    prefix-6 ... prefix-3                       the Q/K prefix ablation
    random-1 ... random-5                       random schedules after full adaptation
    balanced-10, random-1-10 ... random-5-10    the same after ten epochs of QAT
    full-30, random-1-30                        curves of 30 epochs of QAT beside Balanced's; in
                                                Medium random-1 has such a curve

or any other name for experiments that the paper does not have; networks that it does not have are
under "gsc-kestrel". A search is kept as the
`result.json` that it wrote, under the name `search-SETTING.json`; energy as what
`falcon-snn energy --json` printed for the Balanced schedule, under `energy-SETTING.json`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any, NotRequired, TypedDict, get_type_hints

from falcon_snn.errors import FalconError
from falcon_snn.files import demand_file_target, read_json, write_json
from falcon_snn.forms import shaped
from falcon_snn.hardware.profile import load_profile
from falcon_snn.network.description import Network, network_from_json
from falcon_snn.network.falcon import FalconConfig, falcon
from falcon_snn.pipeline.schedule import complete
from falcon_snn.pipeline.timing import time_qnn, time_snn
from falcon_snn.report.energy_form import read_beside_the_paper

FORMAT = "falcon result 1"
_OTHER_KINDS = ("search-", "energy-")
MAIN = ("qnn", "full", "fastest", "balanced", "accurate")
ABLATED = "gsc-medium"  # alone has the ablation of the prefix and random schedules fully adapted
AFTER_ALL = ("balanced", *(f"random-{number}" for number in range(1, 6)))
AFTER_TEN = tuple(f"{name}-10" for name in AFTER_ALL)


class TeacherOfResult(TypedDict):
    """A checkpoint that was distilled from."""

    file: str
    sha256: str | None  # None: a file from before it was noted


class PhaseOfResult(TypedDict):
    """One phase of the training."""

    name: str
    recipe: dict[str, Any]
    validation_percent: list[float]  # after each epoch
    teachers: NotRequired[list[TeacherOfResult]]  # empty: none; older files do not say


@dataclass(frozen=True)
class Result:
    """One experiment; accuracies in percent."""

    setting: str
    configuration: str
    data: str
    words: int
    network: Network
    delays: dict[str, int] | None  # None: the QNN
    attention: str  # serial (the paper) or streamed
    seed: int
    commit: str | None
    versions: dict[str, str]
    machine: str
    phases: list[PhaseOfResult]
    validation_percent: float
    test_percent: float | None  # None: only validation was read
    test_clips: int
    validation_before_percent: float | None = None  # the schedule before its adaptation
    test_before_percent: float | None = None
    noise_percent: dict[str, float] | None = None  # ratio in dB to test accuracy under noise
    noise_clips: int = 0
    data_key: str | None = None  # the hash of the clips
    test_wrong: list[int] | None = None  # which test clips were named wrongly; None: not kept
    train_minutes: float | None = None  # what the phases took on `machine`

    @property
    def file_name(self) -> str:
        return f"{self.setting}-{self.configuration}-seed{self.seed}.json"

    @property
    def epochs(self) -> int:
        return sum(len(phase["validation_percent"]) for phase in self.phases)

    @property
    def teachers(self) -> list[str] | None:
        """The teachers of all phases by their files; None if the file does not say."""
        named = [phase.get("teachers") for phase in self.phases]
        known = [teachers for teachers in named if teachers is not None]
        if len(known) < len(named):
            return None
        return list(dict.fromkeys(teacher["file"] for teachers in known for teacher in teachers))

    @property
    def latency_us(self) -> float:
        """Modeled core latency on the paper's chip."""
        return self.latency_with(self.attention)

    def latency_with(self, attention: str) -> float:
        """The same with serial (the paper) or streamed attention."""
        graph = self.network.graph
        profile = replace(load_profile(), attention=attention)
        if self.delays is None:
            return time_qnn(graph, profile).core_us
        return time_snn(graph, self.delays, profile).core_us


def beside_balanced(setting: str) -> tuple[str, ...]:
    """PDS's Balanced and five random schedules like it, all adapted for as long as each other."""
    return AFTER_ALL if setting == ABLATED else AFTER_TEN


def paper_data(setting: str) -> str:
    """What the paper's accuracies of a setting were measured on."""
    return "SSC, 35 words" if setting.startswith("ssc") else "GSC v2, 35 words"


def results_folder() -> Path:
    return Path(str(package_files("falcon_snn") / "results"))


def demand_names(setting: str, configuration: str) -> None:
    """Refuse names that the file of a result cannot have, before anything is measured."""
    for option, name in (("--setting", setting), ("--configuration", configuration)):
        if not re.fullmatch(r"[\w.-]{1,80}", name, re.ASCII) or name.startswith(_OTHER_KINDS):
            raise FalconError(f"{option} is '{name[:40]}'; give a name such as gsc-medium or qnn")


def write_result(path: Path, result: Result) -> None:
    demand_file_target(path, mark=FORMAT.encode())
    write_json(path, {"format": FORMAT, **vars(result), "network": result.network.as_json()})


def read_result(path: Path) -> Result:
    """Read one experiment; a file of another kind gives one clear line."""
    values = read_json(path)
    if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
        raise FalconError(f"{path}: not the result of an experiment (format '{FORMAT}')")
    try:
        if "config" in values:
            config = {"name": values.get("setting"), **_table(values.pop("config"))}
            network = falcon(shaped(config, FalconConfig, "config"))
        else:
            network = network_from_json(values.get("network"))
        values.pop("network", None)
        kinds = {name: kind for name, kind in get_type_hints(Result).items() if name in values}
        known = {name: shaped(values[name], kind, name) for name, kind in kinds.items()}
        result = Result(**{**values, **known, "network": network})
        if result.delays is not None:
            complete(result.delays, network.boundaries, network.slots, "delays")
        replace(load_profile(), attention=result.attention)
    except (TypeError, FalconError) as error:
        raise FalconError(f"{path}: not the result of an experiment ({error})") from None
    return result


def _table(value: Any) -> dict[str, Any]:
    checked: dict[str, Any] = shaped(value, dict[str, Any], "config")
    return checked


def teachers_in(facts: dict[str, Any]) -> list[TeacherOfResult]:
    """The teachers that a checkpoint's facts name."""
    hashes = facts.get("teachers", [])
    files = facts.get("teacher_files", ["not noted"] * len(hashes))
    return [{"file": file, "sha256": sha} for file, sha in zip(files, hashes, strict=True)]


def load_results(folder: Path | None = None) -> list[Result]:
    """All experiments, in the order of their file names."""
    folder = folder or results_folder()
    if not folder.is_dir():
        raise FalconError(f"{folder}: no such folder")
    paths = sorted(folder.glob("*.json"))
    return [read_result(path) for path in paths if not path.name.startswith(_OTHER_KINDS)]


def load_search(setting: str, folder: Path | None = None) -> dict[str, Any] | None:
    """What our search of a network found, if it was run."""
    from falcon_snn.search.result import read_result as read_search

    path = (folder or results_folder()) / f"search-{setting}.json"
    return read_search(path) if path.exists() else None


def load_energy(setting: str, folder: Path | None = None) -> dict[str, Any] | None:
    """Our energy of a network under its Balanced schedule, if it was measured."""
    path = (folder or results_folder()) / f"energy-{setting}.json"
    return read_beside_the_paper(path) if path.exists() else None


def of(results: Sequence[Result], setting: str, configuration: str) -> list[Result]:
    """The experiments (one per seed) of a configuration."""
    return [r for r in results if (r.setting, r.configuration) == (setting, configuration)]
