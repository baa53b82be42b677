"""All clips on the device as one tensor; a batch is an index, and augmentation runs there too."""

from collections.abc import Iterator
from math import ceil
from typing import NamedTuple

import torch
from torch import Tensor

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
from falcon_snn.data.task import NO_WORDS, UNKNOWN
from falcon_snn.data.windows import stream_windows
from falcon_snn.errors import FalconError
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
        self.answers = torch.eye(len(data.words), device=device)  # by label
        self.spare = self._spare(data)
        self.noise = noise.to(device)  # float [samples], empty if none is wanted
        lengths = data.lengths if isinstance(data, Waves) else data.padded_lengths
        self.lengths = None if lengths is None else lengths.to(device)
        self.waves = isinstance(data, Waves)
        self.sound = isinstance(data, Waves) or data.kind in ("recordings", "spikes")
        if isinstance(data, Waves):
            self.x = data.waves.to(device)
        else:
            half = self.sound and data.x.is_floating_point()
            self.x = (data.x.half() if half else data.x).to(device)
        if self.sound:
            check_sound(recipe.augment)
        else:
            check_samples(recipe.augment, tuple(self.x.shape[1:]))
        if recipe.augment.stream and not (self.waves and {*NO_WORDS} <= {*self.words}):
            raise FalconError(
                "augment.stream needs recordings and the classes silence and unknown; set it to 0 "
                "in the recipe, or train with --words, --unknown and --silence"
            )

    def __len__(self) -> int:
        """Clips of an epoch."""
        return len(self.labels) - self.spare

    def _spare(self, data: Examples | Waves) -> int:
        """Clips of unknown words that an epoch leaves out, where there are some to spare."""
        if not data.spare:
            return 0
        none = torch.tensor([word in NO_WORDS for word in data.words])
        words = int((~none[data.labels]).sum())
        unknown = int((data.labels == data.words.index(UNKNOWN)).sum())
        return max(0, unknown - ceil(self.recipe.unknown * words))

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
        x, labels, targets = self.x[index], self.labels[index], None
        lengths = None if self.lengths is None else self.lengths[index]
        if self.waves:
            assert lengths is not None
            x = one_second(x, lengths, generator)
            clips, labels, targets = self._heard(x, labels, generator)
            x, lengths = log_mel(clips), None
        elif not self.sound:
            x = augment_samples(x, self.recipe.augment, generator)
        elif frames := round(self.recipe.augment.shift_ms / FRAME_MS):
            x, lengths = shift_frames(x, lengths, frames, generator)
        if self.sound:
            x = augment_features(x, self.recipe.augment, generator)
        if self.recipe.augment.mixup:
            targets = self.answers[labels] if targets is None else targets
            x, targets = mix(x, targets, self.recipe.augment.mixup, generator)
        return Batch(x, lengths, labels, targets)

    def _heard(
        self, clips: Tensor, labels: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Augmented waves and their labels; the first of them as windows of a stream."""
        settings = self.recipe.augment
        first = round(settings.stream * len(clips))
        rest = augment_waves(clips[first:], settings, self.noise, generator)
        if not first:
            return rest, labels, None
        windows, targets = stream_windows(
            clips[:first], labels[:first], self.words, settings, self.noise, generator
        )
        targets = torch.cat([targets, self.answers[labels[first:]]])
        return torch.cat([windows, rest]), targets.argmax(dim=1), targets


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
