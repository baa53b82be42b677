"""Accuracy over a set of clips, of the QNN in float and of the integer SNN under a schedule."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from falcon_snn.data.examples import Examples
from falcon_snn.hardware.profile import Profile
from falcon_snn.network.calibrate import calibrate
from falcon_snn.network.chip import sampled
from falcon_snn.network.convert import convert
from falcon_snn.network.integer import Snn
from falcon_snn.network.qnn import Qnn
from falcon_snn.pipeline.schedule import Delays

VALIDATION_CHIP = 1 << 19  # between those that are tested and those of training
Advance = Callable[[int], None]


def _silent(clips: int) -> None:
    pass


@torch.no_grad()
def qnn_predictions(model: nn.Module, examples: Examples, *, advance: Advance = _silent) -> Tensor:
    """Labels that a QNN or a teacher gives in float32, int64 [N] on the CPU."""
    device = next(model.parameters()).device
    training = model.training
    model.eval()
    found = [
        _counted(model(x, lengths).argmax(dim=1), advance)
        for x, lengths in batches(examples, device)
    ]
    model.train(training)
    return torch.cat(found).cpu()


@torch.no_grad()
def snn_predictions(
    network: Snn,
    examples: Examples,
    delays: Delays,
    *,
    backend: str = "auto",
    advance: Advance = _silent,
) -> Tensor:
    """Labels that the integer SNN gives under a schedule, int64 [N] on the CPU."""
    found = [
        _counted(network.predict(x, lengths, delays, backend=backend), advance)
        for x, lengths in batches(examples, network.device)
    ]
    return torch.cat(found).cpu()


def accuracy(predictions: Tensor, examples: Examples, class_weight: float = 0.0) -> float:
    """Percent of the clips labelled correctly; a weight of 1 is the mean of the recalls."""
    labels = examples.labels.cpu()
    right = (predictions == labels).double()
    if not class_weight:
        return 100.0 * right.mean().item()
    weight = class_weights(labels, len(examples.words), class_weight).double()[labels]
    return 100.0 * ((right * weight).sum() / weight.sum()).item()


def class_weights(labels: Tensor, classes: int, power: float) -> Tensor:
    """The weight of a clip of each class, float [classes]: its class's size to the power of -power.

    The mean over all clips is one.
    """
    sizes = torch.bincount(labels, minlength=classes).clamp_min(1).double()
    weight = sizes**-power
    return (weight * len(labels) / weight[labels].sum()).float()


def validate(
    model: nn.Module, examples: Examples, delays: Delays | None, class_weight: float = 0.0,
    profile: Profile | None = None,
) -> float:  # fmt: skip
    """Validation accuracy in percent: of the SNN under `delays`, or of the QNN without them.

    With a profile, on one of its chips, of which the first clips set the converters.
    """
    if delays is None and profile is None:
        return accuracy(qnn_predictions(model, examples), examples, class_weight)
    assert isinstance(model, Qnn)
    snn, qnn = convert(model), delays is None
    delays = snn.network.lookahead if delays is None else delays
    if profile is not None:
        ranges = calibrate(snn, profile, *next(batches(examples, snn.device)), delays, qnn=qnn)
        snn = sampled(snn, profile, VALIDATION_CHIP, ranges, qnn=qnn)
    found = snn_predictions(snn, examples, delays)
    return accuracy(found, examples, class_weight)


def _counted(predictions: Tensor, advance: Advance) -> Tensor:
    advance(len(predictions))
    return predictions


def batches(examples: Examples, device: torch.device) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Clips and their lengths on the device; no lengths where no clip has padding."""
    lengths = examples.padded_lengths
    batch = 1024 if device.type == "cuda" else 64  # what a CPU's memory takes in its stride
    for first in range(0, len(examples), batch):
        part = slice(first, first + batch)
        some = None if lengths is None else lengths[part].to(device)
        yield examples.x[part].to(device), some


def on_device(examples: Examples, device: torch.device) -> Examples:
    """The same clips, kept on the device."""
    return replace(examples, x=examples.x.to(device), lengths=examples.lengths.to(device))
