"""What stands between scores and words, chosen on validation clips and on streams made of them:
an offset of every class score, which becomes part of the readout, and two thresholds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from falcon_snn.data.features import exact_log_mel
from falcon_snn.data.task import NO_WORDS, SHARE, UNKNOWN, examples_for, silence
from falcon_snn.errors import FalconError
from falcon_snn.files import demand_file_target
from falcon_snn.network.fixed_point import to_int32
from falcon_snn.network.qnn import part_name
from falcon_snn.training.checkpoint import MARK, load_checkpoint, save_checkpoint
from falcon_snn.workflow.model import THRESHOLDS, Model, load
from falcon_snn.workflow.sources import Data, data_source
from falcon_snn.workflow.streaming import StreamReport, ThresholdPoint, evaluate_stream
from falcon_snn.workflow.watch import SILENT, Watch

_AT_ONCE = 64
NONE = -1  # the label of what is no word, where a network has no class for it
_RIDGE = 10.0  # an offset's square costs so much of the log-likelihood
_FOLDS = 5  # of the cross-validation


@dataclass(frozen=True)
class Calibrated:
    """What was chosen, and what it gives on validation."""

    offsets: dict[str, float]  # of the class scores
    clip_threshold: float
    accuracy_before: float  # percent of words, unknown words and silence
    accuracy: float  # the same, every fifth clip under what the other clips choose
    stream: StreamReport
    point: ThresholdPoint  # of the stream


def calibrate(
    checkpoint: Path, data: Data, out: Path, *, schedule: str | None = None, hours: float = 2.0,
    snr_db: float | None = 20.0, false_per_hour: float = 0.5, seed: int = 0, watch: Watch = SILENT,
) -> Calibrated:  # fmt: skip
    """Choose offsets and thresholds and write the network again with them."""
    metadata, tensors = load_checkpoint(checkpoint)
    demand_file_target(out, checkpoint, mark=MARK)
    model = load(checkpoint)
    scores, labels = _validation(model, data_source(data), schedule, watch)
    offsets = best_offsets(scores, labels)
    threshold = best_threshold(scores + offsets, labels, model.classes)
    share = 100.0 / len(labels)
    before = share * right_answers(scores, labels, model.classes)
    accuracy = share * cross_validated(scores, labels, model.classes)
    known = labels != NONE
    right = (scores + offsets)[known].argmax(dim=1) == labels[known]
    metrics = {"validation_accuracy": 100.0 * float(right.double().mean())}
    metadata = replace(metadata, metrics=metrics)
    moved = _moved(tensors, metadata.network.readout.name, offsets)
    with TemporaryDirectory() as folder:
        save_checkpoint(Path(folder) / "moved", metadata, moved)
        stream = evaluate_stream(
            Path(folder) / "moved", data, hours=hours, snr_db=snr_db, split="validation",
            schedule=schedule, seed=seed, watch=watch,
        )  # fmt: skip
    point = stream.at_most(false_per_hour)
    if point is None:
        raise FalconError(
            f"no threshold keeps to {false_per_hour:g} false accepts per hour; allow more"
        )
    facts = {**metadata.facts, THRESHOLDS: {"clip": threshold, "stream": point.threshold}}
    save_checkpoint(out, replace(metadata, facts=facts), moved)
    named = dict(zip(model.classes, offsets.tolist(), strict=True))
    return Calibrated(named, threshold, before, accuracy, stream, point)


def _validation(
    model: Model, source: str, schedule: str | None, watch: Watch
) -> tuple[Tensor, Tensor]:
    """Scores and labels of validation clips; silence is among them, for any network."""
    examples = examples_for(source, "validation", model.classes)
    if examples.words != model.classes:
        raise FalconError(f"{source}: its classes are not the network's {len(model.classes)}")
    x, labels = examples.x, examples.labels
    if not set(NO_WORDS) & set(model.classes):
        pieces = silence(source, "validation", round(SHARE * len(x)))
        x = torch.cat([x, exact_log_mel(torch.from_numpy(pieces).float() / 32768.0)])
        labels = torch.cat([labels, torch.full((len(pieces),), NONE)])
    found = []
    with watch.bar("clips", len(x)) as advance:
        for first in range(0, len(x), _AT_ONCE):
            found.append(model.scores(x[first : first + _AT_ONCE], schedule))
            advance(len(found[-1]))
    return torch.cat(found), labels


def best_offsets(scores: Tensor, labels: Tensor) -> Tensor:
    """What to add to the score of every class, float64 [class]: the likeliest, kept small."""
    known = labels != NONE
    offsets = torch.zeros(scores.shape[1], dtype=torch.float64, requires_grad=True)

    def loss() -> Tensor:
        unlikely = F.cross_entropy(scores[known] + offsets, labels[known], reduction="sum")
        return unlikely + _RIDGE * offsets.square().sum()

    minimise(offsets, loss, history=100)
    return offsets.detach()


def minimise(parameter: Tensor, loss: Callable[[], Tensor], history: int) -> None:
    """Move a parameter to where a convex loss is smallest, in a hundred steps at most."""
    solver = torch.optim.LBFGS(
        [parameter], max_iter=100, history_size=history, line_search_fn="strong_wolfe"
    )

    def closure() -> float:
        solver.zero_grad()
        total = loss()
        total.backward()  # type: ignore[no-untyped-call]
        return float(total.detach())

    solver.step(closure)  # type: ignore[no-untyped-call]


def right_answers(
    scores: Tensor, labels: Tensor, classes: Sequence[str], threshold: float = 0.0
) -> int:
    """How many answers are right where a word below the threshold becomes "unknown"."""
    top, answer = scores.softmax(dim=1).max(dim=1)
    rejected = classes.index(UNKNOWN) if UNKNOWN in classes else NONE
    is_word = torch.tensor([word not in NO_WORDS for word in classes])[answer]
    given = torch.where(is_word & (top < threshold), rejected, answer)
    return int((given == labels).sum())


def best_threshold(scores: Tensor, labels: Tensor, classes: Sequence[str]) -> float:
    """The lowest threshold of those with most right answers."""
    thresholds = np.linspace(0.0, 0.99, 100).tolist()
    return max(thresholds, key=lambda one: right_answers(scores, labels, classes, one))


def cross_validated(scores: Tensor, labels: Tensor, classes: Sequence[str]) -> int:
    """Right answers where no clip has a say in what is added to its own scores."""
    fold, right = torch.arange(len(labels)) % _FOLDS, 0
    for number in range(_FOLDS):
        rest, own = fold != number, fold == number
        offsets = best_offsets(scores[rest], labels[rest])
        threshold = best_threshold(scores[rest] + offsets, labels[rest], classes)
        right += right_answers(scores[own] + offsets, labels[own], classes, threshold)
    return right


def _moved(tensors: dict[str, Tensor], readout: str, offsets: Tensor) -> dict[str, Tensor]:
    """The tensors of a checkpoint, trainable or converted, with other class scores."""
    floats, integers = f"model.parts.{part_name(readout)}.linear.bias", f"integer.{readout}.bias"
    if integers in tensors:
        steps = (offsets * tensors[f"integer.{readout}.grid"]).round()
        return {**tensors, integers: to_int32(tensors[integers].double() + steps)}
    return {**tensors, floats: tensors[floats] + offsets.to(tensors[floats])}
