"""The spikes of one clip as a picture: a panel per stage, time to the right, neurons upward."""

from collections.abc import Mapping
from math import ceil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from falcon_snn.files import replacing
from falcon_snn.network.integer import IntegerFalcon, Streams
from falcon_snn.neuron.packed import unpack

_COLUMNS = 3
_FRAME_MS = 10.0


def spike_image(network: IntegerFalcon, name: str, streams: Streams) -> NDArray[np.uint8]:
    """Spikes of a stage's first clip as [neuron, token x slot], a token's slots side by side."""
    packed = network.inner(name, streams[name])[0].flatten(1)  # [token, neuron]
    spikes = unpack(packed, network.config.slots)  # [slot, token, neuron]
    image: NDArray[np.uint8] = spikes.permute(2, 1, 0).flatten(1).cpu().numpy()
    return image


def draw_raster(
    path: Path,
    network: IntegerFalcon,
    streams: Streams,
    delays: Mapping[str, int],
    features: NDArray[np.float32],
    title: str,
) -> None:
    """Draw the input features [token, feature] and the spikes of every stage of one clip."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = [name for name in network.stages if network.kind(name) != "code"]
    rows = ceil((1 + len(names)) / _COLUMNS)
    figure = Figure(figsize=(4.2 * _COLUMNS, 1.25 * rows + 0.8), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, _COLUMNS, sharex=True, squeeze=False).flatten()
    end_ms = features.shape[0] * _FRAME_MS
    panels[0].imshow(features.T, aspect="auto", origin="lower", extent=(0, end_ms, 0, 1))
    panels[0].set_title("input features", fontsize=8, loc="left")
    for panel, name in zip(panels[1:], names, strict=False):
        image = spike_image(network, name, streams)
        # Shrinking by the mean keeps sparse spikes visible where a pixel covers many neurons.
        panel.imshow(
            image, aspect="auto", origin="lower", cmap="Greys", vmin=0, vmax=1,
            interpolation="antialiased", extent=(0, end_ms, 0, 1),
        )  # fmt: skip
        wait = f", delay {delays[name]}" if name in delays else ""
        label = f"{name}{wait}: {image.shape[0]} neurons, {image.sum():,} spikes"
        panel.set_title(label, fontsize=8, loc="left")
    for panel in panels:
        panel.set_yticks([])
        panel.tick_params(labelsize=7)
    for panel in panels[1 + len(names) :]:
        panel.set_visible(False)
    for panel in panels[-_COLUMNS:]:
        panel.set_xlabel("time in the clip (ms), each frame with its slots", fontsize=7)
    figure.suptitle(title, fontsize=10)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=130)
