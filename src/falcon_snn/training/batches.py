"""All clips on the device as one tensor; a batch is an index, and augmentation runs there too."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from falcon_snn.data.augment import (
    augment_features,
    augment_samples,
    augment_waves,
    check_samples,
    check_sound,
    mix,
)
from falcon_snn.data.examples import Examples, Waves
from falcon_snn.data.features import log_mel, one_second
from falcon_snn.data.task import UNKNOWN
from falcon_snn.errors import FalconError
from falcon_snn.training.evaluate import same_length
from falcon_snn.training.recipe import Recipe, fitted_batch

FRAME_MS = 10  # from one token to the next, in log-mel features and in binned spikes


class Batch(NamedTuple):
    x: Tensor  # [batch, token, feature], or [batch, ...] of images and arrays
    lengths: Tensor | None  # None where no clip has padding
    labels: Tensor
    targets: Tensor | None  # [batch, word]: the words' shares in mixed clips; None if none is mixed


class Clips:
    """The training clips on one device.

    Features are kept as fp16, waves, spike counts, images and arrays as they come.
    """

    def __init__(
        self,
        data: Examples | Waves,
        recipe: Recipe,
        device: torch.device,
        noise: Tensor,
    ) -> None:
        self.recipe = recipe
        self.device = device
        self.labels = data.labels.to(device)
        self.words = data.words
        self.spare = data.spare
        self.noise = noise.to(device)  # float [samples], empty if none is wanted
        self.lengths: Tensor | None = data.lengths.to(device)
        self.waves = isinstance(data, Waves)
        self.sound = isinstance(data, Waves) or data.kind in ("recordings", "spikes")
        if isinstance(data, Waves):
            self.x = data.waves.to(device)
        else:
            half = self.sound and data.x.is_floating_point()
            self.x = (data.x.half() if half else data.x).to(device)
            if same_length(data):
                self.lengths = None
        if self.sound:
            check_sound(recipe.augment)
        else:
            check_samples(recipe.augment, tuple(self.x.shape[1:]))

    def __len__(self) -> int:
        """Clips of an epoch."""
        return len(self.labels) - self.spare

    @property
    def epoch_labels(self) -> Tensor:
        """The labels that an epoch has, in some order."""
        return self.labels[self._drawn(torch.arange(len(self.labels)).to(self.labels.device))]

    def _drawn(self, order: Tensor) -> Tensor:
        """All of an order but the first `spare` clips of unknown words."""
        if not self.spare:
            return order
        unknown = self.labels[order] == self.words.index(UNKNOWN)
        return order[~(unknown & (unknown.cumsum(0) <= self.spare))]

    @property
    def batch(self) -> int:
        """Clips of a step, of all processes together."""
        return fitted_batch(self.recipe, len(self))

    def steps(self) -> int:
        """Batches in an epoch; every clip is in one."""
        return -(-len(self) // self.batch)

    def epoch(self, seed: int, epoch: int, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        """The batches of one process in one epoch; the same for the same seed, epoch and rank.

        All are of one size, as a recorded step, batch norm and several processes need: the
        first clips of the epoch come again where the last batch would be smaller.
        """
        batch = self.batch
        if batch % world:
            raise FalconError(f"a batch of {batch} cannot be shared by {world} processes")
        share = batch // world
        order = torch.randperm(len(self.labels), generator=_generator("cpu", seed, epoch, 0))
        order = self._drawn(order.to(self.device))
        order = torch.cat((order, order[: self.steps() * batch - len(self)]))
        generator = _generator(self.device, seed, epoch, 1 + rank)
        for step in range(self.steps()):
            first = step * batch + rank * share
            yield self._batch(order[first : first + share], generator)

    def _batch(self, index: Tensor, generator: torch.Generator) -> Batch:
        x = self.x[index]
        lengths = None if self.lengths is None else self.lengths[index]
        if self.waves:
            assert lengths is not None
            clips = one_second(x, lengths, generator)
            x = log_mel(augment_waves(clips, self.recipe.augment, self.noise, generator))
            lengths = None
        elif not self.sound:
            x = augment_samples(x, self.recipe.augment, generator)
        elif frames := round(self.recipe.augment.shift_ms / FRAME_MS):
            x, lengths = shift_frames(x, lengths, frames, generator)
        if self.sound:
            x = augment_features(x, self.recipe.augment, generator)
        labels, targets = self.labels[index], None
        if self.recipe.augment.mixup:
            targets = F.one_hot(labels, len(self.words)).float()
            x, targets = mix(x, targets, self.recipe.augment.mixup, generator)
        return Batch(x, lengths, labels, targets)


def shift_frames(
    x: Tensor, lengths: Tensor | None, most: int, generator: torch.Generator
) -> tuple[Tensor, Tensor | None]:
    """Shift each clip by up to `most` tokens to either side; what moves in is 0."""
    tokens, device = x.shape[1], x.device
    by = torch.randint(-most, most + 1, (len(x), 1), generator=generator, device=device)
    source = torch.arange(tokens, device=device) - by
    inside = (source >= 0) & (source < tokens)
    rows = torch.arange(len(x), device=device)[:, None]
    shifted = x[rows, source.clamp(0, tokens - 1)] * inside[:, :, None]
    return shifted, None if lengths is None else (lengths + by[:, 0]).clamp(1, tokens)


def _generator(device: torch.device | str, seed: int, epoch: int, stream: int) -> torch.Generator:
    return torch.Generator(device).manual_seed(epoch_seed(seed, epoch, stream))


def epoch_seed(seed: int, epoch: int, stream: int) -> int:
    """Random numbers of their own for every seed, epoch and stream."""
    return (seed * 1_000_003 + epoch) * 1_009 + stream
