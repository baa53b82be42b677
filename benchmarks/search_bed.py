"""A trained spiking network that is cheap to evaluate: a bed on which searches can be compared.

It has Falcon's boundaries and joins (a stem of four stages, blocks with two residuals, a context
that waits for all slots), narrow fully connected layers instead of convolutions and attention, and
synthetic clips. It is trained as a QNN, so that full lookahead gives the QNN's answers.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from falcon_snn.network.falcon import FalconConfig, falcon
from falcon_snn.pipeline.schedule import Delays
from falcon_snn.search.predictor import Correct

SLOTS, WIDTH, FEATURES, CLASSES = 7, 32, 32, 20
Spikes = NDArray[np.float32]  # [slots, clips, neurons], zeros and ones


def synthetic_clips(n: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Points around three centres per class, seen through a random projection."""
    shape = np.random.default_rng(0)
    centres = shape.normal(size=(CLASSES, 3, 12))
    projection = shape.normal(size=(12, FEATURES)) / 4
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, CLASSES, n)
    hidden = centres[labels, draw.integers(0, 3, n)] + 0.55 * draw.normal(size=(n, 12))
    return np.clip(0.5 + hidden @ projection / 2, 0, 1).astype(np.float32), labels


def quantise(x: Tensor) -> Tensor:
    """Q(x) = clip(floor(T x + 1/2), 0, T) / T with a straight-through gradient."""
    clipped = x.clamp(0, 1)
    return clipped + (torch.floor(SLOTS * clipped + 0.5) / SLOTS - clipped).detach()


class Qnn(nn.Module):
    """The network as a QNN. Weights are multiples of 1/64, so that spikes reproduce it exactly."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.blocks = blocks
        widths = [FEATURES] + [WIDTH] * 4
        self.stem = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4 * blocks))
        self.norms = nn.ParameterList(torch.zeros(WIDTH) for _ in range(2 * blocks))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = quantise(x)
        for layer in self.stem:
            x = quantise(_linear(layer, x))
        for block in range(self.blocks):
            value, out, ffn1, ffn2 = self.layers[4 * block : 4 * block + 4]
            context = quantise(_linear(value, x))
            joined = x + quantise(_linear(out, context)) + _rounded(self.norms[2 * block])
            x = quantise(joined)
            inner = quantise(_linear(ffn2, quantise(_linear(ffn1, x))))
            x = quantise(x + inner + _rounded(self.norms[2 * block + 1]))
        logits: Tensor = self.head(x)
        return logits


def _rounded(weights: Tensor) -> Tensor:
    return weights + (torch.round(weights * 64) / 64 - weights).detach()


def _linear(layer: nn.Module, x: Tensor) -> Tensor:
    assert isinstance(layer, nn.Linear)
    return nn.functional.linear(x, _rounded(layer.weight), _rounded(layer.bias))


def trained(blocks: int, seed: int, steps: int = 500) -> Qnn:
    torch.manual_seed(seed)
    qnn = Qnn(blocks)
    features, labels = synthetic_clips(6000, seed=1000 + seed)
    x, y = torch.from_numpy(features), torch.from_numpy(labels)
    optimiser = torch.optim.AdamW(qnn.parameters(), lr=6e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 6e-3, total_steps=steps)
    for _ in range(steps):
        batch = torch.randint(0, len(x), (256,))
        loss = nn.functional.cross_entropy(qnn(x[batch]), y[batch], label_smoothing=0.05)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
    return qnn.eval()


def fire(currents: Spikes, delay: int) -> Spikes:
    """SN_delta with threshold 1 and membrane 1/2 at the start."""
    membrane = np.full(currents.shape[1:], 0.5, dtype=np.float32)
    spikes = np.zeros_like(currents)
    received = 0
    for slot in range(SLOTS):
        while received <= min(slot + delay - 1, SLOTS - 1):
            membrane += currents[received]
            received += 1
        spikes[slot] = membrane >= 1
        membrane -= spikes[slot]
    return spikes


class Bed:
    """The trained network as a predictor that keeps the spikes of the current schedule."""

    def __init__(self, blocks: int, seed: int, clips: int) -> None:
        qnn = trained(blocks, seed)
        features, self.labels = synthetic_clips(clips, seed=2000 + seed)
        network = falcon(FalconConfig("bed", blocks, features=64, tokens=98))
        self.boundaries = network.boundaries
        self._p: dict[str, NDArray[np.float32]] = {
            name: (value if name.startswith("head") else _rounded(value)).detach().numpy()
            for name, value in qnn.named_parameters()
        }
        counts = np.floor(SLOTS * features + 0.5)
        slots = np.arange(1, SLOTS + 1)[:, None, None]
        source = np.floor(slots * counts / SLOTS) - np.floor((slots - 1) * counts / SLOTS)
        self._source: Spikes = source.astype(np.float32)
        self._kept: list[dict[str, Spikes]] = []
        self._current: list[int] = []

    def start_from(self, delays: Delays) -> None:
        values = list(delays.values())
        if values != self._current:
            self._kept = list(self._states(delays, 0, {"x": self._source}))
            self._current = values

    def correct(self, delays: Delays) -> Correct:
        values = list(delays.values())
        same = next((i for i, d in enumerate(values) if d != self._current[i]), len(values))
        state = self._kept[same - 1] if same else {"x": self._source}
        *_, state = [state, *self._states(delays, same, state)]
        logits = state["x"].sum(axis=0) / SLOTS @ self._p["head.weight"].T + self._p["head.bias"]
        right: Correct = np.argmax(logits, axis=1) == self.labels
        return right

    def _states(
        self, delays: Delays, first: int, state: dict[str, Spikes]
    ) -> Iterator[dict[str, Spikes]]:
        """The spikes that are still needed, after each boundary from `first` on."""
        for index in range(first, len(self.boundaries)):
            name = self.boundaries[index]
            delay = delays[name]
            if index < 4:
                state = {"x": fire(self._currents(f"stem.{index}", state["x"]), delay)}
            else:
                block = (index - 4) // 5
                state = self._block(block, name.split(".")[1], state, delay)
            yield state

    def _block(
        self, block: int, kind: str, state: dict[str, Spikes], delay: int
    ) -> dict[str, Spikes]:
        layer = f"layers.{4 * block}"
        x = state["x"]
        if kind == "attn_out":
            context = fire(self._currents(layer, x), SLOTS)
            return {"x": x, "y": fire(self._currents(f"layers.{4 * block + 1}", context), delay)}
        if kind in ("residual1", "residual2"):
            norm = self._p[f"norms.{2 * block + (kind == 'residual2')}"]
            return {"x": fire(x + state["y"] + norm, delay)}
        source, number = (x, 2) if kind == "ffn1" else (state["y"], 3)
        return {"x": x, "y": fire(self._currents(f"layers.{4 * block + number}", source), delay)}

    def _currents(self, layer: str, spikes: Spikes) -> Spikes:
        currents: Spikes = spikes @ self._p[f"{layer}.weight"].T + self._p[f"{layer}.bias"]
        return currents
