"""A small set that can be learned, as SSC files: each word is a band of channels that spikes."""

from pathlib import Path

import numpy as np

from falcon_snn.data.ssc import FILE_OF, write_ssc

WORDS = ("down", "left", "right", "up")


def make_set(folder: Path, training: int = 48, validation: int = 16) -> Path:
    """Write training and validation files of a few clips, always the same."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(5)
    for split, clips in (("training", training), ("validation", validation)):
        labels = [clip % len(WORDS) for clip in range(clips)]
        units, times = [], []
        for label in labels:
            spikes = 600
            near = draw.normal(90 + 170 * label, 60, spikes)
            units.append(np.clip(near, 0, 699).astype(np.uint16))
            times.append(
                np.sort(draw.uniform(0, draw.uniform(0.5, 0.9), spikes)).astype(np.float32)
            )
        names = [f"{WORDS[label]}/{clip}" for clip, label in enumerate(labels)]
        write_ssc(folder / FILE_OF[split], units, times, labels, WORDS, names, names)
    return folder
