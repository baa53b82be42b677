"""A trained network for other words: its spikes stay as they are, its readout is fitted anew.

Which words a network tells apart is up to its readout, a linear map of mean spike counts. So other
words need no training: a logistic regression on the counts of their clips, in minutes on a CPU.
Delays, latency and spikes of the core stay what they were.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from falcon_snn.data.task import examples_for
from falcon_snn.files import demand_file_target
from falcon_snn.forms import MOST_SEED, demand_within
from falcon_snn.network.integer import Snn
from falcon_snn.network.operations.readout import readout_integers
from falcon_snn.pipeline.schedule import Delays
from falcon_snn.training.batches import Clips
from falcon_snn.training.checkpoint import MARK
from falcon_snn.training.evaluate import batches
from falcon_snn.training.export import save_network
from falcon_snn.workflow.calibrating import best_offsets, cross_validated, minimise
from falcon_snn.workflow.model import THRESHOLDS, load
from falcon_snn.workflow.sources import Data, data_source
from falcon_snn.workflow.training import demand_classes, load_training, read_recipe
from falcon_snn.workflow.watch import SILENT, Watch

# A window that hears part of a word has an answer between two classes. It teaches a readout to be
# unsure, of whole words too; so answers that are less sure than this are left out.
SURE = 0.95
RIDGES = (0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4)  # on features of variance 1; mean loss of a clip


@dataclass(frozen=True)
class Refitted:
    """What was fitted, and what it gives on validation."""

    classes: tuple[str, ...]
    samples: int  # that the readout was fitted to
    ridge: float
    clips: int  # of validation
    accuracy: float  # percent of them, every fifth under offsets that the others choose


class _Tried(NamedTuple):
    """A readout on validation clips; confidences count, so the likeliest wins, not the rightest."""

    surprise: float
    ridge: float
    readout: Tensor  # [feature + 1, class], the last row the bias
    scores: Tensor
    offsets: Tensor


def refit(
    checkpoint: Path | str, data: Data, out: Path, *, classes: Sequence[str] | None = None,
    schedule: str | None = None, passes: int = 4, seed: int = 0, watch: Watch = SILENT,
) -> Refitted:  # fmt: skip
    """Write a network again with a readout for the data's classes, or for these of them.

    In every pass over the training clips each is heard otherwise: moved, faster or slower, in
    noise; with the classes unknown and silence half of them as in a stream, of which windows with
    a sure answer count. Class scores get the offsets that `calibrate` would give them.
    """
    model = load(checkpoint)
    demand_file_target(out, model.path, mark=MARK)
    demand_within("--passes", passes, 1, 100)
    demand_within("--seed", seed, 0, MOST_SEED)
    snn, delays, source = model.snn, model.delays(schedule), data_source(data)
    validation = examples_for(source, "validation", classes)
    demand_classes(data, validation, classes)
    new = replace(snn.network.readout, classes=len(validation.words))
    new.shape(snn.network.shapes)  # refuses a single class
    known = torch.cat([_features(snn, *each, delays) for each in batches(validation, snn.device)])
    x, targets = _heard(snn, delays, _training(source, classes, data), passes, seed, watch)
    mean, deviation = x.mean(dim=0), x.std(dim=0, correction=0).clamp_min(1e-3)
    best = _best(
        x.sub_(mean).div_(deviation), targets, (known - mean) / deviation, validation.labels, watch
    )
    weight = (best.readout[:-1] / deviation[:, None]).t().double()
    bias = best.readout[-1].double() - weight @ mean.double() + best.offsets
    right = cross_validated(best.scores, validation.labels, validation.words)
    accuracy = 100.0 * right / len(known)
    made = {"network": model.path.stem, "ridge": best.ridge, "passes": passes, "seed": seed}
    facts = {name: fact for name, fact in model.metadata.facts.items() if name != THRESHOLDS}
    metadata = replace(
        model.metadata, words=validation.words, metrics={"validation_accuracy": accuracy},
        delays=delays, facts={**facts, "refitted": made},
    )  # fmt: skip
    save_network(out, with_readout(snn, weight, bias), metadata)
    return Refitted(validation.words, len(x), best.ridge, len(known), accuracy)


def with_readout(snn: Snn, weight: Tensor, bias: Tensor) -> Snn:
    """The network with another readout of its mean counts: weight [class, feature]."""
    old = snn.network.readout
    stages = tuple(
        replace(old, classes=len(bias)) if stage is old else stage for stage in snn.network.stages
    )
    integers = {f"{old.name}.{part}": x for part, x in readout_integers(weight, bias).items()}
    return Snn(replace(snn.network, stages=stages), {**snn.tensors, **integers})


def _training(source: str, classes: Sequence[str] | None, data: Data) -> Clips:
    """Training clips, heard as in training, but neither mixed nor masked: the spikes know words."""
    recipe = read_recipe("qnn", "qnn", data, classes=classes)
    augment = replace(recipe.augment, mixup=0.0, time_masks=0, band_masks=0)
    recipe = replace(recipe, augment=augment)
    clips, noise = load_training(source, [recipe], classes)
    return Clips(clips, recipe, torch.device("cpu"), noise)


def _heard(
    snn: Snn, delays: Delays, clips: Clips, passes: int, seed: int, watch: Watch
) -> tuple[Tensor, Tensor]:
    """Mean counts of the training clips [sample, feature], and their answers [sample, class]."""
    heard, answers = [], []
    with watch.bar("clips", passes * len(clips)) as advance:
        for number in range(passes):
            for batch in clips.epoch(seed, number):
                own = clips.answers[batch.labels] if batch.targets is None else batch.targets
                sure = own.amax(dim=1) >= SURE
                lengths = None if batch.lengths is None else batch.lengths[sure]
                heard.append(_features(snn, batch.x[sure], lengths, delays))
                answers.append(own[sure])
                advance(len(own))
    return torch.cat(heard), torch.cat(answers)


def _features(snn: Snn, x: Tensor, lengths: Tensor | None, delays: Delays) -> Tensor:
    return snn.features(snn.streams(x, lengths, delays), lengths).float()


def _best(x: Tensor, targets: Tensor, known: Tensor, labels: Tensor, watch: Watch) -> _Tried:
    """The readout of all ridges under which the validation clips are likeliest."""
    tried = []
    with watch.bar("readouts", len(RIDGES)) as advance:
        for ridge, readout in _readouts(x, targets):
            scores = (known @ readout[:-1] + readout[-1]).double()
            offsets = best_offsets(scores, labels)
            surprise = float(F.cross_entropy(scores + offsets, labels))
            tried.append(_Tried(surprise, ridge, readout, scores, offsets))
            advance(1)
    return min(tried, key=lambda one: one.surprise)


def _readouts(x: Tensor, targets: Tensor) -> Iterator[tuple[float, Tensor]]:
    """Ridge and readout [feature + 1, class], its last row the bias, which no ridge holds back.

    Each begins where the one before ended.
    """
    readout = torch.zeros(x.shape[1] + 1, targets.shape[1], requires_grad=True)
    for ridge in RIDGES:

        def loss(ridge: float = ridge) -> Tensor:
            scores = torch.addmm(readout[-1], x, readout[:-1])
            return F.cross_entropy(scores, targets) + ridge * readout[:-1].square().sum()

        minimise(readout, loss, history=20)
        yield ridge, readout.detach().clone()
