"""What a run wrote down, read and checked at once: all that its page is made of."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from falcon_snn.errors import FalconError
from falcon_snn.files import read_json, read_text
from falcon_snn.forms import shaped
from falcon_snn.hardware.profile import Profile, parse_profile
from falcon_snn.report.energy_form import EnergyRows, adds_up
from falcon_snn.report.training_curves import CURVES, Phase, read_phases
from falcon_snn.search.result import read_result
from falcon_snn.search.result_form import CHOSEN
from falcon_snn.training.recipe import PHASES

STEPS = ("features", "qnn", "convert", "search", "adapt", "measure")
HARDWARE = "hardware.toml"


class _DataKey(TypedDict):
    key: str


class _Fingerprint(TypedDict):
    data: _DataKey


class _Recipe(TypedDict):
    epochs: int
    batch: int
    weight_rate: float
    neuron_rate: float


class _RunSettings(TypedDict):
    data: str
    seed: int
    fingerprint: _Fingerprint
    qnn_recipe: _Recipe | None
    adapt_recipes: dict[str, _Recipe]


class _Facts(TypedDict):
    settings: _RunSettings
    versions: dict[str, str]
    machine: str
    commit: str | None
    command: NotRequired[list[str]]
    start: NotRequired[str | None]


class _StepRecord(TypedDict):
    inputs: str
    seconds: float
    files: dict[str, str]


class _Adapted(TypedDict):
    folder: str
    delays: dict[str, int]
    validation_percent: float


class _Tested(TypedDict):
    percent: float
    interval: tuple[float, float]
    noisy_percent: NotRequired[float]


class _Test(TypedDict):
    clips: int
    noise_db: NotRequired[float | None]
    networks: dict[str, _Tested]
    before: dict[str, _Tested]


class _Effect(TypedDict):
    name: str
    mean: float
    worst: float


class _OnChips(TypedDict):
    name: str
    ideal: float
    effects: list[_Effect]


class _Chips(TypedDict):
    networks: list[_OnChips]


class _Check(TypedDict):
    clips: int
    differing_counts: int
    differing_predictions: int
    float_differs: int
    accuracy: float
    float_accuracy: float


class _Conversion(TypedDict):
    check: _Check


class _Clips(TypedDict):
    training: int
    validation: int
    testing: int


class _Data(TypedDict):
    words: list[str]
    clips: _Clips


@dataclass(frozen=True)
class RunFiles:
    """The files of a run that is done; each has the form that its step gave it."""

    facts: dict[str, Any]
    records: dict[str, Any]
    search: dict[str, Any]
    adapted: dict[str, Any]
    test: dict[str, Any]
    energy: list[dict[str, Any]]
    chips: list[dict[str, Any]]  # empty: the run knows the ideal chip alone
    conversion: dict[str, Any]
    data: dict[str, Any]
    profile: Profile
    curves: dict[str, list[Phase]]  # of each folder of the adaptation
    qnn_curve: Phase | None  # None: the run began with a trained network

    @property
    def phases(self) -> list[str]:
        return list(self.facts["settings"]["adapt_recipes"])


def read_run(run: Path) -> RunFiles:
    """Read the files of a run; the first that is missing or of another form is named."""
    if (run / "contest").is_dir():
        page = run / "report" / "design.html"
        raise FalconError(f"{run}: a run of `falcon-snn design`, which wrote its own page, {page}")
    facts = _read(run / "run.json", _Facts)
    records = {step: _record(run / "steps" / f"{step}.json", run, step) for step in STEPS}
    adapted = _read(run / "adapt" / "adapted.json", dict[str, _Adapted])
    test = _read(run / "measure" / "accuracy.json", _Test)
    energy = _read(run / "measure" / "energy.json", EnergyRows)["configurations"]
    for good, path in (
        (set(facts["settings"]["adapt_recipes"]) <= set(PHASES), "run.json"),
        (set(adapted) == set(CHOSEN), "adapt/adapted.json"),
        (
            all(
                row["folder"] in adapted and adapted[row["folder"]] == row
                for row in adapted.values()
            ),
            "adapt/adapted.json",
        ),
        ({"QNN", "full", *CHOSEN} <= set(test["networks"]), "measure/accuracy.json"),
        (set(CHOSEN) <= set(test["before"]) and test["clips"] > 0, "measure/accuracy.json"),
        ([row["name"] for row in energy] == ["QNN", "full", *CHOSEN], "measure/energy.json"),
        (all(map(adds_up, energy)), "measure/energy.json"),
    ):
        if not good:
            raise FalconError(f"{run / path}: not what a run writes there; run it again")
    on_chips = run / "measure" / "chips.json"
    chips = _read(on_chips, _Chips)["networks"] if on_chips.exists() else []
    effects = [[effect["name"] for effect in row["effects"]] for row in chips]
    if any(not names or names != effects[0] for names in effects):
        raise FalconError(f"{on_chips}: not what a run writes there; run it again")
    phases = list(facts["settings"]["adapt_recipes"])
    folders = {row["folder"] for row in adapted.values()}
    trained = (run / "qnn" / CURVES).exists()
    return RunFiles(
        facts=facts,
        records=records,
        search=read_result(run / "search" / "result.json"),
        adapted=adapted,
        test=test,
        energy=energy,
        chips=chips,
        conversion=_read(run / "convert" / "conversion.json", _Conversion)["check"],
        data=_read(run / "features" / "facts.json", _Data),
        profile=parse_profile(read_text(run / HARDWARE), str(run / HARDWARE)),
        curves={name: read_phases(run / "adapt" / name, phases) for name in sorted(folders)},
        qnn_curve=read_phases(run, ["qnn"])[0] if trained else None,
    )


def _read(path: Path, kind: Any) -> Any:
    return shaped(read_json(path), kind, path)


def _record(path: Path, run: Path, step: str) -> Any:
    record = read_json(path)
    if isinstance(record, dict) and "files" not in record:
        raise FalconError(f"{run}: step '{step}' is not done; continue with `falcon-snn run`")
    return shaped(record, _StepRecord, path)
