"""Clips as a detector meets them in a stream, for training: moved, cut off, with a neighbour.

A window of one second slides along words and pauses, so most of what it hears is not a word in the
middle of a clip: a word's first half, two words' ends, noise. Here each clip is heard from a
random place, with another clip before or after it, all words at about the same level and noise
over both. The answer is the word of which most is heard; of a word that is cut off it turns into
"unknown", and without any word into "silence".
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from falcon_snn.data.augment import Augmentation, some_noise, symmetric, uniform, warp
from falcon_snn.data.features import RATE_HZ, log_frames
from falcon_snn.data.scene import FADE_SAMPLES, WORD_LEVEL
from falcon_snn.data.stream import word_span
from falcon_snn.data.task import SILENCE, UNKNOWN

REACH_S = 0.8  # a window begins at most so long before or after its clip
PAUSE_S = 0.8  # the longest to the neighbour's clip
LEVEL_DB = 6.0  # words are at most so much louder or softer than usual
CUT, WHOLE = 0.5, 0.9  # heard parts of a word: up to one it is unknown, from the other on itself
TRACE = 0.25  # heard part from which it is no longer silence


def stream_windows(
    waves: Tensor, labels: Tensor, classes: Sequence[str], settings: Augmentation, noise: Tensor,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Windows [B, samples] of streams of the clips, and what they should answer [B, class]."""
    clips, samples = waves.shape
    silence, unknown = (classes.index(name) for name in (SILENCE, UNKNOWN))
    spoken = labels != silence
    span = RATE_HZ * torch.stack(word_span(log_frames(waves)), dim=1)
    gain_db = LEVEL_DB * symmetric(clips, generator)
    waves = _levelled(waves, span) * (spoken * 10.0 ** (gain_db / 20.0))[:, None]
    speed = 1.0 + settings.speed * symmetric(clips, generator)
    begin = RATE_HZ * REACH_S * symmetric(clips, generator)
    apart = samples + RATE_HZ * PAUSE_S * uniform(clips, generator)
    # A window that begins early hears the end of the neighbour before, one that begins late the
    # beginning of the one after.
    shifts = (-begin, torch.where(begin < 0, -apart, apart) - begin)
    heard = torch.zeros_like(waves)
    most, answer = torch.full_like(begin, -1.0), labels
    for neighbour, shift in enumerate(shifts):
        own = [part.roll(neighbour, 0) for part in (waves, speed, span, spoken, labels)]
        heard = heard + warp(own[0], own[1], shift)
        part = heard_part(own[2], own[1], shift, samples) * own[3]
        answer = torch.where(part > most, own[4], answer)
        most = torch.maximum(part, most)
    level = torch.full_like(begin, WORD_LEVEL)[:, None]
    if settings.noisy:
        heard = heard + some_noise(level, samples, settings, noise, generator)
    word = _ramp(most, CUT, WHOLE)[:, None]
    trace = _ramp(most, 0.0, TRACE)[:, None]
    answers = torch.eye(len(classes), device=waves.device)
    cut_off = torch.lerp(answers[silence], answers[unknown], trace)
    return heard, torch.lerp(cut_off, answers[answer], word)


def heard_part(span: Tensor, speed: Tensor, shift: Tensor, samples: int) -> Tensor:
    """How much of the words, spans [B, 2] of their clips, is left after `warp`: 0 to 1 [B]."""
    centre = (samples - 1) / 2
    moved = centre + shift[:, None] + (span - centre) / speed[:, None]
    inside = moved.clamp(0, samples)
    return (inside[:, 1] - inside[:, 0]) / (moved[:, 1] - moved[:, 0])


def _levelled(waves: Tensor, span: Tensor) -> Tensor:
    """Clips at the level of all words over their spans, beginning and ending softly."""
    time = torch.arange(waves.shape[1], device=waves.device)
    inside = (time >= span[:, :1]) & (time < span[:, 1:])
    power = (waves.square() * inside).sum(dim=1) / inside.sum(dim=1)
    fade = (torch.minimum(time, time.flip(0)) / FADE_SAMPLES).clamp(max=1.0)
    return waves * fade * (WORD_LEVEL / power.sqrt().clamp_min(1e-5))[:, None]


def _ramp(value: Tensor, low: float, high: float) -> Tensor:
    return ((value - low) / (high - low)).clamp(0.0, 1.0)
