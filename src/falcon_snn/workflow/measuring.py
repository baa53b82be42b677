"""What a trained network does: its conversion checked, its accuracy, its energy."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from falcon_snn.errors import FalconError
from falcon_snn.files import demand_file_target
from falcon_snn.hardware.profile import Profile, load_profile
from falcon_snn.network.activity import schedule_energy
from falcon_snn.network.convert import check
from falcon_snn.network.description import Network
from falcon_snn.network.integer import Snn
from falcon_snn.network.qnn import Qnn
from falcon_snn.neuron.layers import choose_layer_backend
from falcon_snn.pipeline.energy import Energy
from falcon_snn.pipeline.schedule import Delays, complete
from falcon_snn.report.energy import Configuration, energy_report
from falcon_snn.report.published import setting_of
from falcon_snn.search.result import read_result
from falcon_snn.search.statistics import wilson
from falcon_snn.training.checkpoint import (
    MARK,
    Metadata,
    load_checkpoint,
    load_metadata,
    load_model,
    model_of,
    under,
)
from falcon_snn.training.evaluate import accuracy, batches, qnn_predictions, snn_predictions
from falcon_snn.training.export import load_network, save_network
from falcon_snn.workflow.networks import delays_of, schedule_or_own
from falcon_snn.workflow.sources import Data, device, load_split
from falcon_snn.workflow.watch import SILENT, Advance, Watch

if TYPE_CHECKING:
    from falcon_snn.data.examples import Examples

QNN = "qnn"  # the schedule of a network without slots
FOUND = "found "  # and a number: the names of a search's schedules
_FEW_MACS = 10**10  # torch checks so many before numba has compiled what would be faster


@dataclass(frozen=True)
class Evaluation:
    """How many clips of a split a network labels correctly."""

    schedule: str
    delays: Delays | None  # None: the QNN
    clips: int
    right: int
    recall: dict[str, float]  # percent of the clips of each class
    confusion: list[list[int]]  # clips by what they are and what was answered
    spent_s: float = 0.0  # wall time of the network

    @property
    def accuracy(self) -> float:
        """Percent of all clips."""
        return 100.0 * self.right / self.clips

    @property
    def clips_per_s(self) -> float | None:
        """How fast it was, the first clip with all that loads among them; None: not timed."""
        return self.clips / self.spent_s if self.spent_s else None

    @property
    def mean_recall(self) -> float:
        """Percent, every class counting the same."""
        return sum(self.recall.values()) / len(self.recall)

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the accuracy, in percent."""
        low, high = wilson(self.right, self.clips)
        return 100.0 * low, 100.0 * high

    def as_json(self) -> dict[str, Any]:
        derived = ("accuracy", "interval", "mean_recall", "clips_per_s")
        facts = vars(self) | {name: getattr(self, name) for name in derived}
        return {name: value for name, value in facts.items() if name != "spent_s"}


def evaluation(
    schedule: str, delays: Delays | None, found: torch.Tensor, examples: "Examples",
    spent_s: float = 0.0,
) -> Evaluation:  # fmt: skip
    """Predictions compared with the labels."""
    labels, right = examples.labels.cpu(), found.cpu() == examples.labels.cpu()
    recall = {
        word: 100.0 * float(right[labels == label].double().mean())
        for label, word in enumerate(examples.words)
        if bool((labels == label).any())
    }
    classes = len(examples.words)
    pairs = torch.bincount(labels * classes + found.cpu(), minlength=classes**2)
    return Evaluation(schedule, delays, len(examples), int(right.sum()), recall,
                      pairs.view(classes, classes).tolist(), spent_s)  # fmt: skip


def evaluate(
    checkpoint: Path, data: Data, *, schedule: str | None = None, split: str = "validation",
    qk_prefix: int | None = None, limit: int | None = None, backend: str = "auto",
    noise_db: float | None = None, watch: Watch = SILENT,
) -> Evaluation:  # fmt: skip
    """Measure the accuracy of a network under a schedule, by default what it was trained for.

    With `noise_db`, on clips with noise at that ratio.
    """
    metadata, tensors = load_checkpoint(checkpoint)
    # The QNN of converted networks is full lookahead, in the very integers of the file.
    otherwise = "full" if under("integer.", tensors) else QNN
    schedule = schedule_or_own(schedule, metadata.delays, otherwise)
    examples = load_split(data, split, limit, metadata.words, noise_db)
    if schedule == QNN:
        if qk_prefix is not None:
            raise FalconError("the QNN has no slots, so no Q/K prefix; choose a --schedule")
        if backend != "auto":
            raise FalconError(
                f"the QNN runs in float, not with backend '{backend[:40]}'; add a --schedule (full "
                "gives the QNN's answers in integers), or leave out --backend"
            )
        model = model_of(metadata, tensors, checkpoint).to(device())
        began = time.perf_counter()
        with watch.bar("QNN", len(examples)) as advance:
            found = qnn_predictions(model, examples, advance=advance)
        return evaluation(schedule, None, found, examples, time.perf_counter() - began)
    snn, metadata = load_network(checkpoint, qk_prefix)
    delays = delays_of(schedule, snn.network, metadata.delays)
    began = time.perf_counter()
    with watch.bar("SNN", len(examples)) as advance:
        found = snn_predictions(
            snn.to(device()), examples, delays, backend=backend, advance=advance
        )
    return evaluation(schedule, delays, found, examples, time.perf_counter() - began)


def convert_checkpoint(
    checkpoint: Path, out: Path, *, data: Data | None = None, split: str = "validation",
    limit: int | None = None, qk_prefix: int | None = None, backend: str = "auto",
    watch: Watch = SILENT,
) -> tuple[Snn, dict[str, Any] | None]:  # fmt: skip
    """Write the integers of a checkpoint; with data, check them against the QNN first."""
    demand_file_target(out, checkpoint, mark=MARK)
    choose_layer_backend(backend, device())
    (snn, metadata), checked = load_network(checkpoint, qk_prefix), None
    if data is not None:
        examples = load_split(data, split, limit, metadata.words)
        checked = {"data": str(data), "split": split} | check_conversion(
            load_model(checkpoint)[0], snn, examples, backend, watch
        )
    save_network(out, snn, metadata)
    return snn, checked


def check_conversion(
    model: Qnn, snn: Snn, examples: "Examples", backend: str = "auto", watch: Watch = SILENT
) -> dict[str, Any]:
    """Full lookahead against the QNN in integers, and against the float QNN of training."""
    moved, found = snn.to(device()), []
    macs = sum(stage.macs(snn.network) for stage in snn.network.stages)
    if backend == "auto" and device().type == "cpu" and macs * len(examples) < _FEW_MACS:
        backend = "torch"
    with watch.bar("check", len(examples)) as advance:
        for x, lengths in batches(examples, device()):
            found.append(check(moved, x, lengths, backend).cpu())
            advance(len(x))
    floats = qnn_predictions(model.to(device()), examples)
    model.cpu()
    predictions = torch.cat(found)
    return {
        "clips": len(examples),
        "differing_counts": 0,
        "differing_predictions": 0,
        "float_differs": int((predictions != floats).sum()),
        "accuracy": accuracy(predictions, examples),
        "float_accuracy": accuracy(floats, examples),
    }


@dataclass(frozen=True)
class Measured:
    """One network under a schedule on test clips: accuracy and energy."""

    evaluation: Evaluation
    energy: Energy

    def configuration(self, name: str) -> Configuration:
        """The same as a row of an energy report."""
        return Configuration(name, self.evaluation.delays, self.energy, self.evaluation.accuracy)


def energy(
    checkpoint: Path, data: Data, schedules: Sequence[str] = (), *,
    more: Mapping[str, Delays] | None = None, split: str = "test", limit: int | None = None,
    profile: Profile | None = None, backend: str = "auto", watch: Watch = SILENT,
) -> dict[str, Measured]:  # fmt: skip
    """What an inference costs: QNN, full lookahead, schedules by name, and more delays by name."""
    metadata = load_metadata(checkpoint)
    network = metadata.network
    runs: dict[str, Delays | None] = {"QNN": None, "full": delays_of("full", network, None)}
    for name in schedules or default_schedules(metadata):
        runs[name] = delays_of(name, network, metadata.delays)
    runs |= more or {}
    snn = load_network(checkpoint)[0].to(device())
    examples = load_split(data, split, limit, metadata.words)
    with watch.bar("spikes", len(runs) * len(examples)) as advance:
        return {
            name: measure(snn, examples, delays, profile or load_profile(), name, backend, advance)
            for name, delays in runs.items()
        }


def energy_file(
    checkpoint: Path, data: Data, split: str, measured: Mapping[str, Measured], main: str
) -> dict[str, Any]:
    """What `energy` measured, as a file says it; `main` is set beside the paper's figures."""
    network = load_metadata(checkpoint).network
    rows = {name: one.configuration(name) for name, one in measured.items()}
    return {
        "checkpoint": str(checkpoint), "data": str(data), "split": split,
        "clips": measured[main].evaluation.clips, "network": network.name,
        **energy_report(setting_of(network.name, network.slots), list(rows.values()), rows[main]),
    }  # fmt: skip


def found_schedules(search: Path, network: Network) -> dict[str, Delays]:
    """The schedules on the front of a search's `result.json`: `more` of an energy measurement."""
    result = read_result(search)
    return {
        f"{FOUND}{number}": complete(
            result["evaluated"][number]["delays"], network.boundaries, network.slots, str(search)
        )
        for number in result["front"]
    }


def default_schedules(metadata: Metadata) -> list[str]:
    """What is measured by default."""
    return [schedule_or_own(None, metadata.delays, "fastest")]


def measure(
    snn: Snn, examples: "Examples", delays: Delays | None, profile: Profile, name: str,
    backend: str = "auto", advance: Advance = lambda clips: None,
) -> Measured:  # fmt: skip
    """Accuracy and energy in one pass; no delays mean the QNN."""

    def counted_batches() -> Iterator[tuple[torch.Tensor, torch.Tensor | None]]:
        for x, lengths in batches(examples, snn.device):
            yield x, lengths
            advance(len(x))

    measured, found = schedule_energy(snn, counted_batches(), delays, profile, backend)
    return Measured(evaluation(name, delays, found, examples), measured)
