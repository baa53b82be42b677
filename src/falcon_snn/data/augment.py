"""Augmentation for keyword spotting: speed, time shift, background noise, SpecAugment, mixup.

All of it is batched torch on the device of its input and draws from one torch.Generator (on that
device), so the same seed gives the same batch. A setting of 0 switches its part off.
"""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from falcon_snn.data.features import RATE_HZ
from falcon_snn.errors import FalconError


@dataclass(frozen=True)
class Augmentation:
    """The `[augment]` table of a training recipe; the default augments nothing."""

    speed: float = 0.0  # largest relative change, 0.1 plays 10 % slower to 10 % faster
    shift_ms: float = 0.0  # largest shift to either side; of features, in whole frames
    noise_probability: float = 0.0
    noise_level: float = 0.0  # largest noise amplitude, as a factor on the noise recording
    time_masks: int = 0
    time_mask_frames: int = 0  # widest time mask
    band_masks: int = 0
    band_mask_bands: int = 0  # widest frequency mask
    mixup: float = 0.0  # part of the clips to which another clip is added

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) >= 0:
                raise FalconError(f"augment.{field.name} is negative; 0 switches it off")
        if self.speed >= 1 or max(self.noise_probability, self.mixup) > 1:
            raise FalconError(
                "augment.speed must be below 1, noise_probability and mixup at most 1"
            )


def augment_waves(
    waves: Tensor, settings: Augmentation, noise: Tensor, generator: torch.Generator
) -> Tensor:
    """Speed, shift and noise for clips, float [B, samples]; `noise` is float [samples]."""
    if settings.speed or settings.shift_ms:
        speed = 1.0 + settings.speed * _symmetric(len(waves), generator)
        shift = settings.shift_ms / 1000 * RATE_HZ * _symmetric(len(waves), generator)
        waves = warp(waves, speed, shift)
    if settings.noise_probability and settings.noise_level:
        waves = waves + _noise(waves, settings, noise, generator)
    return waves


def augment_features(x: Tensor, settings: Augmentation, generator: torch.Generator) -> Tensor:
    """SpecAugment on [B, tokens, features]: masked entries become 0, the mean of a clip."""
    for _ in range(settings.time_masks):
        x = x * ~_mask(len(x), x.shape[1], settings.time_mask_frames, generator)[:, :, None]
    for _ in range(settings.band_masks):
        x = x * ~_mask(len(x), x.shape[2], settings.band_mask_bands, generator)[:, None, :]
    return x


def mix(
    x: Tensor, targets: Tensor, mixup: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Mixup: some clips become (1 - s) of themselves and s of another, and so do their targets.

    s is drawn from 0 to 1/2, so a clip's own word stays the stronger one.
    """
    other = torch.randperm(len(x), generator=generator, device=generator.device)
    share = 0.5 * _uniform(len(x), generator) * (_uniform(len(x), generator) < mixup)
    return (
        torch.lerp(x.float(), x[other].float(), share[:, None, None]),
        torch.lerp(targets, targets[other], share[:, None]),
    )


def warp(waves: Tensor, speed: Tensor, shift: Tensor) -> Tensor:
    """Play clip b `speed[b]` times as fast about its centre and `shift[b]` samples later.

    y(t) = x(c + (t - c - shift) speed), linear between samples, zero outside the clip.
    """
    samples = waves.shape[1]
    centre = (samples - 1) / 2
    offset = torch.arange(samples, device=waves.device) - centre
    source = centre + (offset[None, :] - shift[:, None]) * speed[:, None]
    left = source.floor()
    weight = source - left
    padded = torch.nn.functional.pad(waves, (1, 1))
    # In `padded`, sample i has index i + 1, and the first and the last index hold zeros.
    here = padded.gather(1, (left + 1).clamp(0, samples + 1).long())
    following = padded.gather(1, (left + 2).clamp(0, samples + 1).long())
    return here + (following - here) * weight


def _noise(
    waves: Tensor, settings: Augmentation, noise: Tensor, generator: torch.Generator
) -> Tensor:
    """A random piece of the noise for a random part of the clips, at a random level."""
    clips, samples = waves.shape
    if len(noise) < samples:
        raise FalconError(f"background noise of {len(noise)} samples is shorter than a clip")
    chosen = _uniform(clips, generator) < settings.noise_probability
    level = _uniform(clips, generator) * settings.noise_level * chosen
    start = (_uniform(clips, generator) * (len(noise) - samples + 1)).long()
    return level[:, None] * noise[start[:, None] + torch.arange(samples, device=waves.device)]


def _mask(clips: int, size: int, widest: int, generator: torch.Generator) -> Tensor:
    """Per clip one run of up to `widest` places, bool [clips, size]."""
    width = (_uniform(clips, generator) * (min(widest, size) + 1)).long()
    start = (_uniform(clips, generator) * (size - width + 1)).long()
    place = torch.arange(size, device=generator.device)
    return (place >= start[:, None]) & (place < (start + width)[:, None])


def _uniform(count: int, generator: torch.Generator) -> Tensor:
    return torch.rand(count, generator=generator, device=generator.device)


def _symmetric(count: int, generator: torch.Generator) -> Tensor:
    return 2.0 * _uniform(count, generator) - 1.0
