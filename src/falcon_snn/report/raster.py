"""The spikes of one clip as a picture: a panel per stage, time to the right, neurons upward."""

from collections.abc import Mapping
from math import ceil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from falcon_snn.network.integer import Snn, Streams
from falcon_snn.neuron.packed import unpack
from falcon_snn.report.style import check_picture, save_figure

_COLUMNS = 3
_FRAME_MS = 10.0


def spike_image(snn: Snn, name: str, streams: Streams) -> NDArray[np.uint8]:
    """Spikes of a stage's first clip as [neuron, line x slot], a line's slots side by side."""
    packed = snn.network.inner(name, streams[name])[0].flatten(1)  # [line, neuron]
    spikes = unpack(packed, snn.network.slots)  # [slot, line, neuron]
    image: NDArray[np.uint8] = spikes.permute(2, 1, 0).flatten(1).cpu().numpy()
    return image


def draw_raster(
    path: Path,
    snn: Snn,
    streams: Streams,
    delays: Mapping[str, int],
    features: NDArray[np.float32],
    title: str,
    frame_ms: float | None = _FRAME_MS,
) -> None:
    """Draw the input [line, ...] and the spikes of every stage of one clip.

    `frame_ms` is the time from one line to the next; None if lines are not in time.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    check_picture(path)
    names = [stage.name for stage in snn.network.inner_stages if stage.emits == "spikes"]
    rows = ceil((1 + len(names)) / _COLUMNS)
    figure = Figure(figsize=(4.2 * _COLUMNS, 1.25 * rows + 0.8), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, _COLUMNS, sharex=True, squeeze=False).flatten()
    end = len(features) * (frame_ms or 1.0)
    rows_of_input = features.reshape(len(features), -1).T
    panels[0].imshow(rows_of_input, aspect="auto", origin="lower", extent=(0, end, 0, 1))
    panels[0].set_title("input features", fontsize=8, loc="left")
    for panel, name in zip(panels[1:], names, strict=False):
        image = spike_image(snn, name, streams)
        # Shrinking by the mean keeps sparse spikes visible where a pixel covers many neurons.
        panel.imshow(
            image, aspect="auto", origin="lower", cmap="Greys", vmin=0, vmax=1,
            interpolation="antialiased", extent=(0, end, 0, 1),
        )  # fmt: skip
        wait = f", delay {delays[name]}" if name in delays else ""
        label = f"{name}{wait}: {image.shape[0]} neurons, {image.sum():,} spikes"
        panel.set_title(label, fontsize=8, loc="left")
    for panel in panels:
        panel.set_yticks([])
        panel.tick_params(labelsize=7)
    for panel in panels[1 + len(names) :]:
        panel.set_visible(False)
    along = "time in the clip (ms), each frame with its slots"
    if frame_ms is None:
        along = "lines of the input, each with its slots"
    for panel in panels[-_COLUMNS:]:
        panel.set_xlabel(along, fontsize=7)
    figure.suptitle(title, fontsize=10)
    save_figure(figure, path)
