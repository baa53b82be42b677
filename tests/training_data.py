"""Small things to train on: clips that a small network learns, in memory and as SSC files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from falcon_snn.data.augment import Augmentation
from falcon_snn.data.examples import Examples
from falcon_snn.data.ssc import FILE_OF, write_ssc
from falcon_snn.network.falcon import FalconConfig, falcon
from falcon_snn.network.qnn import Qnn
from falcon_snn.training.batches import Clips
from falcon_snn.training.recipe import load_recipe
from falcon_snn.training.step import Job

_JOB = ("resume", "model", "teachers", "profile", "facts", "delays")
WORDS = ("down", "left", "right")
CONFIG = FalconConfig(
    "small", blocks=1, features=8, tokens=10, classes=3, hidden=16, heads=2, ffn=16,
    encoder_channels=4, stem_channels=4, slots=3,
)  # fmt: skip
NETWORK = falcon(CONFIG)


def make_examples(clips: int, seed: int) -> Examples:
    """Noise in which the word's part of the features is louder."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(clips) % len(WORDS)
    x = torch.randn(clips, 10, 8, generator=draw)
    for clip, label in enumerate(labels.tolist()):
        x[clip, :, 3 * label : 3 * label + 2] += 2.0
    names = [f"{WORDS[label]}/{clip}" for clip, label in enumerate(labels)]
    return Examples(x, torch.full((clips,), 10), labels, names, WORDS)


def make_job(out: Path, phase: str = "qnn", **changes: Any) -> Job:
    """A job that runs in a moment; `changes` are fields of the job or of its recipe."""
    torch.manual_seed(3)
    fields = {key: changes.pop(key) for key in _JOB if key in changes}
    augment = Augmentation(shift_ms=10, time_masks=1, time_mask_frames=2)
    changes = {"batch": 12, "epochs": 3, "augment": augment, **changes}
    recipe = replace(load_recipe(phase), **changes)
    model = fields.pop("model", None) or Qnn(NETWORK)
    fields.setdefault("delays", dict.fromkeys(NETWORK.boundaries, 1) if recipe.spiking else None)
    clips = Clips(make_examples(48, 1), recipe, torch.device("cpu"), torch.zeros(0))
    return Job(model, recipe, clips, make_examples(30, 2), out, **fields)


def write_spikes(folder: Path, clips: int = 12) -> Path:
    """SSC files of a few clips; each word is a band of channels that spikes."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(5)
    for file in FILE_OF.values():
        labels = [clip % len(WORDS) for clip in range(clips)]
        units = [np.clip(draw.normal(120 + 230 * label, 60, 300), 0, 699) for label in labels]
        times = [np.sort(draw.uniform(0, draw.uniform(0.5, 0.9), 300)) for _ in labels]
        names = [f"{WORDS[label]}/{clip}" for clip, label in enumerate(labels)]
        write_ssc(folder / file, units, times, labels, WORDS, names, names)
    return folder
