"""Small real files that the data tests write."""

from functools import cache
from itertools import count, islice
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from falcon_snn.data.clips import SPLITS, hash_split


def tone(hertz: float, samples: int = 16_000, rate_hz: int = 16_000) -> NDArray[np.float32]:
    """A tone that fades in and out."""
    time_s = np.arange(samples) / rate_hz
    return (0.4 * np.sin(2 * np.pi * hertz * time_s) * np.hanning(samples)).astype(np.float32)


@cache
def speaker_in(split: str, number: int) -> str:
    """The name of a speaker whom the published rule puts into the split."""
    fitting = (i for i in count() if hash_split(f"speaker{i}_nohash_0.wav") == split)
    return f"speaker{next(islice(fitting, number, None))}"


def write_folder(folder: Path, clips_per_split: int = 2) -> Path:
    """A folder of recordings in the published form: two words, all splits, noise."""
    for label, word in enumerate(("no", "yes")):
        (folder / word).mkdir(parents=True)
        for split in SPLITS:
            for number in range(clips_per_split):
                name = f"{speaker_in(split, number)}_nohash_{label}.wav"
                wave = tone(400 + 900 * label + 70 * number, samples=16_000 - 1_500 * number)
                soundfile.write(folder / word / name, wave, 16_000)
    (folder / "_background_noise_").mkdir()
    soundfile.write(folder / "_background_noise_" / "tap.wav", 0.1 * tone(50, 40_000), 16_000)
    return folder
