"""Which classes a network takes for which: a matrix of shares, rows are what was said."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from falcon_snn.report.style import drawing


def draw_confusion(
    path: Path, title: str, words: Sequence[str], confusion: Sequence[Sequence[int]]
) -> None:
    """`confusion[said][answered]` counts clips."""
    counts = np.array(confusion, dtype=np.float64)
    share = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    side = max(4.0, 0.27 * len(words) + 1.8)
    rows = [
        {"said": words[said], "answered": words[answered], "clips": int(counts[said, answered])}
        for said, answered in np.ndindex(*counts.shape)
    ]
    with drawing(path, side, side, rows) as figure:
        axis = figure.subplots()
        axis.imshow(np.sqrt(share), cmap="Blues", vmin=0, vmax=10)  # roots: small shares show
        axis.set(xticks=range(len(words)), yticks=range(len(words)), xlabel="answered",
                 ylabel="said", title=title)  # fmt: skip
        axis.set_xticklabels(words, rotation=90)
        axis.set_yticklabels(words)
        axis.grid(visible=False)
        for said, answered in zip(*np.nonzero(share >= 1), strict=True):
            value = share[said, answered]
            axis.text(answered, said, f"{value:.0f}", ha="center", va="center", fontsize=6,
                      color="white" if value > 30 else "black")  # fmt: skip
