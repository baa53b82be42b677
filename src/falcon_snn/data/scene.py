"""Long recordings made of clips, with known times: keywords, other words, pauses, noise.

Every word stands at the same ratio to the noise: its power over its own span to the power of the
noise of its scene. A scene depends on the seed and its number alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from falcon_snn.data.examples import Waves
from falcon_snn.data.features import FFT_SAMPLES, RATE_HZ, log_frames
from falcon_snn.data.stream import word_span
from falcon_snn.errors import FalconError

SCENE_S = 30
KEYWORD_SHARE = 0.5  # of the words in a scene, where there are others
PAUSE_S = (0.3, 2.0)
WORD_LEVEL = 0.05  # of a word's samples, root mean square
FADE_SAMPLES = 160  # a clip's own background begins and ends softly


@dataclass(frozen=True)
class Spoken:
    """A word of a scene, and when it is heard, in seconds of the scene."""

    word: str
    start_s: float  # of the word, from its loudness
    end_s: float
    clip_start_s: float
    clip_end_s: float

    def later(self, by_s: float) -> "Spoken":
        """The same in a recording in which the scene begins this much later."""
        times = (self.start_s, self.end_s, self.clip_start_s, self.clip_end_s)
        return Spoken(self.word, *(by_s + time_s for time_s in times))


@dataclass(frozen=True)
class Scene:
    """A piece of a long recording."""

    wave: NDArray[np.float32]  # 16 kHz
    spoken: list[Spoken]


def scenes(
    waves: Waves, noise: NDArray[np.float32], keywords: Sequence[str], *, count: int,
    snr_db: float | None, seed: int = 0,
) -> Iterator[Scene]:  # fmt: skip
    """Scenes of 30 s each, to be heard one after the other; without a ratio, no noise."""
    labels = waves.labels.numpy()
    wanted = np.isin(labels, [waves.words.index(word) for word in keywords])
    kinds = [np.flatnonzero(wanted), np.flatnonzero(~wanted)]
    if not len(kinds[0]):
        raise FalconError("no clips of the keywords; choose words that the data has")
    samples = SCENE_S * RATE_HZ
    if len(noise) < samples:
        noise = np.tile(noise, -(-samples // len(noise)))
    order = np.random.Generator(np.random.Philox([seed, 0]))
    # Every clip is used before one is used again.
    decks = [_deck(kind, order) for kind in kinds]
    for number in range(count):
        draw = np.random.Generator(np.random.Philox([seed, 1, number]))
        wave, spoken = np.zeros(samples), []
        at = draw.uniform(*PAUSE_S)
        while True:
            other = len(kinds[1]) and draw.random() >= KEYWORD_SHARE
            row = next(decks[1 if other else 0])
            clip, start_s, end_s = _clip(waves, row)
            first = round(at * RATE_HZ)
            if first + len(clip) > samples:
                break
            wave[first : first + len(clip)] += clip
            begin_s = first / RATE_HZ
            spoken.append(
                Spoken(waves.words[int(labels[row])], begin_s + start_s, begin_s + end_s, begin_s,
                       begin_s + len(clip) / RATE_HZ)
            )  # fmt: skip
            at += len(clip) / RATE_HZ + draw.uniform(*PAUSE_S)
        if snr_db is not None:
            start = int(draw.integers(len(noise) - samples + 1))
            piece = noise[start : start + samples].astype(np.float64)
            level = WORD_LEVEL * 10.0 ** (-snr_db / 20.0)
            wave += piece * (level / max(float(np.sqrt(np.square(piece).mean())), 1e-6))
        yield Scene(wave.astype(np.float32), spoken)


def _deck(rows: NDArray[np.int64], draw: np.random.Generator) -> Iterator[int]:
    while True:
        yield from draw.permutation(rows).tolist()


def _clip(waves: Waves, row: int) -> tuple[NDArray[np.float64], float, float]:
    """A clip at the level of all words, and where its word begins and ends."""
    length = max(int(waves.lengths[row]), FFT_SAMPLES)
    wave = waves.waves[row, :length].double() / 32768.0
    start_s, end_s = map(float, word_span(log_frames(wave)))
    clip = wave.numpy().copy()
    part = clip[int(start_s * RATE_HZ) : int(end_s * RATE_HZ)]
    clip *= WORD_LEVEL / max(float(np.sqrt(np.square(part).mean())), 1e-5)
    fade = np.linspace(0.0, 1.0, FADE_SAMPLES)
    clip[:FADE_SAMPLES] *= fade
    clip[-FADE_SAMPLES:] *= fade[::-1]
    return clip, start_s, end_s
