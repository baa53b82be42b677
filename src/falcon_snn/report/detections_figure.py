"""A recording and the words that were heard in it: spectrogram above, confidences below."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from falcon_snn.data.stream import FRAME_S
from falcon_snn.report.style import INK, SOFT, drawing

_MOST_COLUMNS = 4_000


def draw_detections(path: Path, pieces: Sequence[Any], detector: Any, title: str) -> None:
    """`pieces` are what `workflow.detecting.follow` gave for the recording of a detector."""
    rule, keywords = detector.rule, list(detector.keywords)
    windows = [piece.windows for piece in pieces if len(piece.windows)]
    end_s = np.concatenate([part.end_s for part in windows])
    # Of overlapping windows the newest frames; the first window is whole.
    newest = [part.logs[:, -rule.every_frames :].flatten(0, 1).numpy() for part in windows]
    first = windows[0].logs[0, : -rule.every_frames].numpy()
    frames = np.concatenate([first, *newest])
    frames = frames[:: max(1, len(frames) // _MOST_COLUMNS)]
    confidences = np.concatenate([p.confidences for p in pieces if len(p.windows)])
    detections = [one for piece in pieces for one in piece.detections]
    with drawing(path, 9, 4.6, [one.as_json() for one in detections] or None) as figure:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        upper.imshow(frames.T, origin="lower", aspect="auto", cmap="magma",
                     extent=(0, float(end_s[-1]), 0, frames.shape[1]))  # fmt: skip
        upper.set(title=title, ylabel="mel band")
        upper.grid(visible=False)
        heard = list(dict.fromkeys(one.word for one in detections))
        for word in heard:
            lower.plot(end_s, confidences[:, keywords.index(word)], label=word)
        lower.axhline(rule.threshold, color=SOFT, ls="--", lw=0.8)
        for one in detections:
            upper.axvspan(one.start_s, one.end_s, color="white", alpha=0.18)
            upper.text((one.start_s + one.end_s) / 2, frames.shape[1] - 2, one.word, color="white",
                       ha="center", va="top", fontsize=8)  # fmt: skip
            lower.axvline(one.answer_s, color=INK, lw=0.8)
        lower.set(xlabel="time (s)", ylabel="confidence", ylim=(0, 1.02),
                  xlim=(0, max(detector.heard_s, FRAME_S)))  # fmt: skip
        if heard:
            lower.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
