"""The thresholds of a network, chosen on validation clips and on streams made of them."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from falcon_snn.data.features import exact_log_mel
from falcon_snn.data.task import NO_WORDS, SHARE, UNKNOWN, examples_for, silence
from falcon_snn.errors import FalconError
from falcon_snn.training.checkpoint import load_checkpoint, save_checkpoint
from falcon_snn.workflow.model import THRESHOLDS, Model, load
from falcon_snn.workflow.sources import Data, data_source
from falcon_snn.workflow.streaming import Point, StreamReport, evaluate_stream
from falcon_snn.workflow.watch import SILENT, Watch

_AT_ONCE = 64
NONE = -1  # the label of what is no word, where a network has no class for it


@dataclass(frozen=True)
class Calibrated:
    """What was chosen, and what it gives on validation."""

    clip_threshold: float
    accuracy_before: float  # percent of words, unknown words and silence
    accuracy: float
    stream: StreamReport
    point: Point  # of the stream


def calibrate(
    checkpoint: Path, data: Data, out: Path, *, schedule: str | None = None, hours: float = 2.0,
    snr_db: float | None = 20.0, false_per_hour: float = 0.5, seed: int = 0, watch: Watch = SILENT,
) -> Calibrated:  # fmt: skip
    """Choose both thresholds and write the network again with them."""
    metadata, tensors = load_checkpoint(checkpoint)
    if out.exists() and out.resolve() == checkpoint.resolve():
        raise FalconError(f"{out}: is the network itself; write to another file")
    model = load(checkpoint)
    confidences, labels = _validation(model, data_source(data), schedule, watch)
    threshold, before, right = best_threshold(confidences, labels, model.classes)
    stream = evaluate_stream(
        checkpoint, data, hours=hours, snr_db=snr_db, split="validation", schedule=schedule,
        seed=seed, watch=watch,
    )  # fmt: skip
    point = stream.at_most(false_per_hour)
    if point is None:
        raise FalconError(
            f"no threshold keeps to {false_per_hour:g} false accepts per hour; allow more"
        )
    chosen = {"clip": threshold, "stream": point.threshold}
    facts = {**metadata.facts, THRESHOLDS: chosen}
    save_checkpoint(out, replace(metadata, facts=facts), tensors)
    share = 100.0 / len(labels)
    return Calibrated(threshold, share * before, share * right, stream, point)


def _validation(
    model: Model, source: str, schedule: str | None, watch: Watch
) -> tuple[Tensor, Tensor]:
    """Confidences and labels of validation clips; silence is among them, for any network."""
    examples = examples_for(source, "validation", model.classes)
    if examples.words != model.classes:
        raise FalconError(f"{source}: its classes are not the {len(model.classes)} of the network")
    x, labels = examples.x, examples.labels
    if not set(NO_WORDS) & set(model.classes):
        pieces = silence(source, "validation", round(SHARE * len(x)))
        x = torch.cat([x, exact_log_mel(torch.from_numpy(pieces).float() / 32768.0)])
        labels = torch.cat([labels, torch.full((len(pieces),), NONE)])
    found = []
    with watch.bar("clips", len(x)) as advance:
        for first in range(0, len(x), _AT_ONCE):
            found.append(model.confidences(x[first : first + _AT_ONCE], schedule))
            advance(len(found[-1]))
    return torch.cat(found), labels


def best_threshold(
    confidences: Tensor, labels: Tensor, classes: tuple[str, ...]
) -> tuple[float, int, int]:
    """The threshold below which a word becomes "unknown", and right answers before and after.

    Of thresholds that are equally good the lowest.
    """
    top, answer = confidences.max(dim=1)
    rejected = classes.index(UNKNOWN) if UNKNOWN in classes else NONE
    is_word = torch.tensor([word not in NO_WORDS for word in classes])[answer]
    best, before = (0.0, 0), 0
    for threshold in np.linspace(0.0, 0.99, 100).tolist():
        given = torch.where(is_word & (top < threshold), rejected, answer)
        right = int((given == labels).sum())
        before = right if threshold == 0 else before
        best = max(best, (threshold, right), key=lambda one: (one[1], -one[0]))
    return best[0], before, best[1]
