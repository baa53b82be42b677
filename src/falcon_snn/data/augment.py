"""Augmentation of speech (speed, time shift, background noise, SpecAugment), of images and signals
(shift, mirror, crop), and of both (mixup).

All of it is batched torch on the device of its input and draws from one torch.Generator (on that
device), so the same seed gives the same batch. A setting of 0 switches its part off.
"""

from dataclasses import dataclass, fields

import torch
from torch import Tensor
from torch.nn import functional as F

from falcon_snn.data.features import RATE_HZ
from falcon_snn.errors import FalconError


@dataclass(frozen=True)
class Augmentation:
    """The `[augment]` table of a training recipe; the default augments nothing."""

    speed: float = 0.0  # largest relative change, 0.1 plays 10 % slower to 10 % faster
    shift_ms: float = 0.0  # largest shift to either side; of features, in whole frames
    noise_probability: float = 0.0
    noise_level: float = 0.0  # largest noise amplitude, as a factor on the noise recording
    noise_snr_low_db: float = 0.0  # with a high bound above 0, noise by its ratio to the clip
    noise_snr_high_db: float = 0.0
    time_masks: int = 0
    time_mask_frames: int = 0  # widest time mask
    band_masks: int = 0
    band_mask_bands: int = 0  # widest frequency mask
    mixup: float = 0.0  # part of the clips to which another clip is added
    stream: float = 0.0  # part of the clips that are heard as in a stream, see `data.windows`
    shift_pixels: int = 0  # largest shift to either side, of images along both axes
    flip: float = 0.0  # part of the images that become their mirror image
    crop: float = 0.0  # largest part of an image's side that is cut away

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) >= 0:
                raise FalconError(f"augment.{field.name} is negative; 0 switches it off")
        for name in ("speed", "crop"):
            if getattr(self, name) >= 1:
                raise FalconError(f"augment.{name} must be below 1")
        for name in ("noise_probability", "mixup", "stream", "flip"):
            if getattr(self, name) > 1:
                raise FalconError(f"augment.{name} must be at most 1")
        if self.noise_snr_high_db < self.noise_snr_low_db:
            raise FalconError("augment.noise_snr_high_db must be at least noise_snr_low_db")
        if self.noise_snr_high_db and self.noise_level:
            raise FalconError("augment: give noise_level or noise_snr_high_db, not both")

    @property
    def noisy(self) -> bool:
        """Whether background noise is added to some clips."""
        return self.noise_probability * max(self.noise_level, self.noise_snr_high_db) > 0


def check_sound(settings: Augmentation) -> None:
    """Refuse what does not fit sound and spikes."""
    _refuse(settings, ("shift_pixels", "flip", "crop"), "sound or spikes")


def check_samples(settings: Augmentation, shape: tuple[int, ...]) -> None:
    """Refuse what does not fit images and arrays, of which `shape` is one sample."""
    sound = ("speed", "shift_ms", "noise_probability", "time_masks", "band_masks", "stream")
    _refuse(settings, sound, "images or arrays")
    if len(shape) == 1:
        _refuse(settings, ("flip", "crop"), "signals of one axis")
    elif len(shape) > 3:
        _refuse(settings, ("shift_pixels", "flip", "crop"), f"samples of {len(shape)} axes")


def _refuse(settings: Augmentation, names: tuple[str, ...], data: str) -> None:
    wrong = [f"augment.{name}" for name in names if getattr(settings, name)]
    if wrong:
        raise FalconError(f"{', '.join(wrong)}: does not fit {data}; set it to 0 in the recipe")


def augment_waves(
    waves: Tensor, settings: Augmentation, noise: Tensor, generator: torch.Generator
) -> Tensor:
    """Speed, shift and noise for clips, float [B, samples]; `noise` is float [samples]."""
    if settings.speed or settings.shift_ms:
        speed = 1.0 + settings.speed * symmetric(len(waves), generator)
        shift = settings.shift_ms / 1000 * RATE_HZ * symmetric(len(waves), generator)
        waves = warp(waves, speed, shift)
    if settings.noisy:
        waves = waves + some_noise(waves, waves.shape[1], settings, noise, generator)
    return waves


def augment_features(x: Tensor, settings: Augmentation, generator: torch.Generator) -> Tensor:
    """SpecAugment on [B, tokens, features]: masked entries become 0, the mean of a clip."""
    for _ in range(settings.time_masks):
        x = x * ~_mask(len(x), x.shape[1], settings.time_mask_frames, generator)[:, :, None]
    for _ in range(settings.band_masks):
        x = x * ~_mask(len(x), x.shape[2], settings.band_mask_bands, generator)[:, None, :]
    return x


def augment_samples(x: Tensor, settings: Augmentation, generator: torch.Generator) -> Tensor:
    """Crop, shift and mirror images [B, height, width(, channels)]; shift signals [B, places].

    A crop is between pixels, so it gives float32; the rest keeps the type.
    """
    if settings.crop:
        x = _crop(x, settings.crop, generator)
    if settings.shift_pixels:
        for axis in range(1, min(x.ndim, 3)):
            x = _shift(x, axis, settings.shift_pixels, generator)
    if settings.flip:
        mirrored = uniform(len(x), generator) < settings.flip
        x = torch.where(_over(mirrored, x), x.flip(2), x)
    return x


def mix(
    x: Tensor, targets: Tensor, mixup: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Mixup: some clips become (1 - s) of themselves and s of another, and so do their targets.

    s is drawn from 0 to 1/2, so a clip's own word stays the stronger one.
    """
    other = torch.randperm(len(x), generator=generator, device=generator.device)
    share = 0.5 * uniform(len(x), generator) * (uniform(len(x), generator) < mixup)
    return (
        torch.lerp(x.float(), x[other].float(), _over(share, x)),
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
    padded = F.pad(waves, (1, 1))
    # In `padded`, sample i has index i + 1, and the first and the last index hold zeros.
    here = padded.gather(1, (left + 1).clamp(0, samples + 1).long())
    following = padded.gather(1, (left + 2).clamp(0, samples + 1).long())
    return here + (following - here) * weight


def _shift(x: Tensor, axis: int, most: int, generator: torch.Generator) -> Tensor:
    """Shift each sample by up to `most` places along an axis; what moves in repeats the edge."""
    size, device = x.shape[axis], x.device
    by = torch.randint(-most, most + 1, (len(x), 1), generator=generator, device=device)
    source = (torch.arange(size, device=device) - by).clamp(0, size - 1)
    index = source.view(len(x), *(size if at == axis else 1 for at in range(1, x.ndim)))
    return x.gather(axis, index.expand_as(x))


def _crop(x: Tensor, most: float, generator: torch.Generator) -> Tensor:
    """A random window of each image, its side 1 - most to 1 of the image's, at full size again."""
    side = 1 - most * uniform(len(x), generator)
    # In coordinates from -1 to 1, as affine_grid has them, the window's centre can move this far.
    centre = [(1 - side) * symmetric(len(x), generator) for _ in range(2)]
    none = torch.zeros_like(side)
    window = torch.stack([side, none, centre[0], none, side, centre[1]], dim=1).view(-1, 2, 3)
    channels = x.float()[:, None] if x.ndim == 3 else x.float().permute(0, 3, 1, 2)
    grid = F.affine_grid(window, list(channels.shape), align_corners=False)
    cut = F.grid_sample(channels, grid, padding_mode="border", align_corners=False)
    return cut[:, 0] if x.ndim == 3 else cut.permute(0, 2, 3, 1)


def some_noise(
    signal: Tensor,
    samples: int,
    settings: Augmentation,
    noise: Tensor,
    generator: torch.Generator,
) -> Tensor:
    """A random piece of the noise for a random part of the clips, at a random level.

    Where the level is a ratio, it is to the power of `signal`, [B, any].
    """
    clips = len(signal)
    chosen = uniform(clips, generator) < settings.noise_probability
    drawn = uniform(clips, generator)
    pieces = noise_pieces(noise, uniform(clips, generator), samples)
    low, high = settings.noise_snr_low_db, settings.noise_snr_high_db
    if high:
        level = snr_level(signal, pieces, low + (high - low) * drawn)
    else:
        level = drawn * settings.noise_level
    return (level * chosen)[:, None] * pieces


def noise_pieces(noise: Tensor, place: Tensor, samples: int) -> Tensor:
    """Pieces of a noise recording, [B, samples]; `place` in 0..1 says where each begins."""
    if len(noise) < samples:
        raise FalconError(f"background noise of {len(noise)} samples is shorter than a clip")
    start = (place * (len(noise) - samples + 1)).long()
    return noise[start[:, None] + torch.arange(samples, device=noise.device)]


def snr_level(waves: Tensor, pieces: Tensor, snr_db: Tensor) -> Tensor:
    """The factor [B] that brings pieces of noise to a ratio of powers, each over its whole clip."""
    signal, noise = (each.square().mean(dim=1) for each in (waves, pieces))
    return (signal / noise.clamp_min(1e-12)).sqrt() * 10.0 ** (-snr_db / 20.0)


def _mask(clips: int, size: int, widest: int, generator: torch.Generator) -> Tensor:
    """Per clip one run of up to `widest` places, bool [clips, size]."""
    width = (uniform(clips, generator) * (min(widest, size) + 1)).long()
    start = (uniform(clips, generator) * (size - width + 1)).long()
    place = torch.arange(size, device=generator.device)
    return (place >= start[:, None]) & (place < (start + width)[:, None])


def _over(values: Tensor, x: Tensor) -> Tensor:
    """One value per clip, in a shape that fits all entries of the clip."""
    return values.view(-1, *[1] * (x.ndim - 1))


def uniform(count: int, generator: torch.Generator) -> Tensor:
    """Random numbers in 0..1."""
    return torch.rand(count, generator=generator, device=generator.device)


def symmetric(count: int, generator: torch.Generator) -> Tensor:
    """Random numbers in -1..1."""
    return 2.0 * uniform(count, generator) - 1.0
