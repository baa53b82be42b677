"""What a trained network means, written a second time: NumPy in double, from its parameters alone.

The oracle takes the integers that an execution gave to the stages before, computes the real-valued
level of a stage, and says what the stage must give, and where a level lies so close to a threshold
that rounding may decide. It shares no line with the package's network; names of parameters are
those of a checkpoint. Values are [..., line, pixel, channel].
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from falcon_snn.network.description import Network
from falcon_snn.network.operations import Attention, Code, Fire, Readout, Source
from falcon_snn.network.product import Product

Array = NDArray[np.float64]
Marks = NDArray[np.bool_]
FLOAT = 1e-5  # relative, of sums in single precision
GRID = 2.0**-28  # of the range of a neuron: a unit of its integer grid is smaller


class Drive(NamedTuple):
    """The input of a neuron, in steps: what the data add, what is constant, and rounding."""

    moving: Array
    constant: Array
    slack: Array  # how far single precision, or the integer grid, may be away


class Oracle:
    """One trained network."""

    def __init__(self, network: Network, state: Mapping[str, Tensor]) -> None:
        self.network, self.slots = network, network.slots
        self.state = {name: tensor.numpy() for name, tensor in state.items()}

    def number(self, stage: str, part: str) -> Array:
        array: Array = self.state[f"parts.{stage.replace('.', '/')}.{part}"].astype(np.float64)
        return array

    def has(self, stage: str, part: str) -> bool:
        return f"parts.{stage.replace('.', '/')}.{part}" in self.state

    def step(self, stage: str, part: str = "fire") -> Array:
        return np.exp(self.number(stage, f"{part}.step.log"))

    def source_count(self, x: Array) -> tuple[Array, Marks]:
        """Counts of inputs [clip, line, pixel, channel], and where they may differ."""
        source = self.network.source
        integers = np.clip(np.rint((x - source.zero) * source.levels), -127, 127) / source.levels
        inputs = [(integers, 127 / source.levels)]
        return self._count(source.name, self._drive(source, inputs, [source.product]))

    def fire_count(self, stage: Fire, counts: Mapping[str, Array]) -> tuple[Array, Marks]:
        """Counts of a stage from those before it."""
        return self._count(stage.name, self._fire_drive(stage, counts))

    def fire_spikes(
        self, stage: Fire, spikes: Mapping[str, Array], delay: int
    ) -> tuple[Array, Marks]:
        """Spikes [slot, ...]: slot t is decided once t + delay input slots are in."""
        drive = self._fire_drive(stage, spikes)
        initial, threshold = self._neuron(stage.name)
        received = np.cumsum(drive.moving, axis=0)
        fired, near = np.zeros_like(received[0]), np.zeros(received[0].shape, dtype=bool)
        found = []
        for slot in range(self.slots):
            seen = min(slot + delay, self.slots)
            potential = initial + drive.constant * seen / self.slots + received[seen - 1]
            needed = threshold * (fired + 1)
            near |= np.abs(potential - needed) <= drive.slack
            found.append((potential >= needed).astype(np.float64))
            fired = fired + found[-1]
        return np.stack(found), np.broadcast_to(near, (self.slots, *near.shape))

    def code(self, stage: Code, early: Array, slots: int) -> tuple[Array, Marks]:
        """Codes from the sum of the first `slots` slots, which stands for all of them."""
        step = self.step(stage.name, "code")
        value = early * (self.slots / slots) * self.step(stage.source)
        sums, constant, reach = self._weigh(stage.name, "weights", value, stage.product)
        range_ = (np.abs(reach) * self.slots * self.step(stage.source) + np.abs(constant)) / step
        units = self._codes_reach(stage.name, "weights", stage.product) * self.slots
        slack = FLOAT * range_ + (units + 2) * np.maximum(range_ * GRID, 2.0**-24)
        level = (sums + constant) / step + 0.5
        near = np.abs(level - np.rint(level)) <= slack
        return np.clip(np.floor(level), -127, 127), near

    def context(self, stage: Attention, q: Array, k: Array, count: Array) -> tuple[Array, Marks]:
        """Counts of the context from codes and values; a code near an edge makes its row unsure."""
        clips, lines, _, channels = q.shape
        size = channels // stage.heads
        found, near = np.zeros_like(count), np.zeros(count.shape, dtype=bool)
        scale = self.step(stage.q, "code") * self.step(stage.k, "code") / np.sqrt(size)
        map_step, step = self.step(stage.name, "consmax"), self.step(stage.name)
        beta, gamma = (
            self.number(stage.name, "consmax.beta"),
            self.number(stage.name, "consmax.log_gamma"),
        )
        initial, threshold = self._neuron(stage.name)
        for clip in range(clips):
            for head in range(stage.heads):
                own = slice(head * size, (head + 1) * size)
                scores = scale * (q[clip, :, 0, own] @ k[clip, :, 0, own].T)
                share = np.exp(scores - beta[head]) / np.exp(gamma[head])
                level = np.minimum(share / map_step, 1e6) + 0.5
                codes = np.clip(np.floor(level), 0, 255)
                slack = 1e-5 * (1 + np.abs(scores)) * level
                unsure = (np.abs(level - np.rint(level)) <= slack) & (level < 257)
                mixed = codes @ count[clip, :, 0, own] * map_step * self.step(stage.v) / step
                bound = codes.sum(axis=1, keepdims=True) * self.slots * map_step
                bound = bound * self.step(stage.v) / step
                reach = 255 * 2 * lines * self.slots
                wide = reach * map_step * self.step(stage.v) / step + 2.0
                slack = FLOAT * (bound + 1) + (reach + self.slots + 2) * GRID * wide
                drive = Drive(mixed, np.zeros(size), np.broadcast_to(slack, mixed.shape))
                counted, close = _counted(drive, initial[own], threshold[own], self.slots)
                found[clip, :, 0, own] = counted
                near[clip, :, 0, own] = close | unsure.any(axis=1, keepdims=True)
        assert lines == count.shape[1]
        return found, near

    def scores(self, count: Array) -> tuple[Array, Array]:
        """Class scores of the readout from counts, and how far rounding may be away."""
        readout = self.network.readout
        assert isinstance(readout, Readout)
        value = count * self.step(readout.source)
        if readout.norm:
            gain, shift = self._batch_norm(readout.name, "norm")
            value = value * gain + shift
        height = readout.window[0] or count.shape[1]
        width = readout.window[1] or count.shape[2]
        means = [
            value[:, top : top + height, left : left + width].mean(axis=(1, 2))
            for top in range(0, count.shape[1] - height + 1, height)
            for left in range(0, count.shape[2] - width + 1, width)
        ]
        weight = self.number(readout.name, "linear.weight")
        features = np.concatenate(means, axis=1)
        scores = features @ weight.T + self.number(readout.name, "linear.bias")
        # Scores have 14 bits behind the point, or 20 bits in all.
        largest = float(np.abs(features).max()) * float(np.abs(weight).max()) + 1.0
        terms = features.shape[1] * (self.slots + 1) + 1
        slack = np.full(scores.shape, terms * (2.0**-15 + 1e-6 * largest))
        return scores, slack

    def _fire_drive(self, stage: Fire, given: Mapping[str, Array]) -> Drive:
        inputs = [
            (given[term.reads] * self.step(term.reads), self.slots * self.step(term.reads))
            for term in stage.terms
        ]
        return self._drive(stage, inputs, [term.product for term in stage.terms])

    def _drive(
        self, stage: Source | Fire, inputs: list[tuple[Array, Any]],
        products: list[Product | None],
    ) -> Drive:  # fmt: skip
        """Currents of all inputs; each comes with its largest value."""
        moving: Any = 0.0
        constant: Any = 0.0
        reach: Any = 0.0
        units = 0.0
        for number, ((x, largest), product) in enumerate(zip(inputs, products, strict=True)):
            if product is None:
                moving, reach = moving + x, reach + largest
                units += self.slots
                continue
            part = f"weights{number + 1 if number else ''}"
            sums, more, one = self._weigh(stage.name, part, x, product)
            moving, constant, reach = moving + sums, constant + more, reach + one * largest
            units += float(self._codes_reach(stage.name, part, product).max()) * self.slots
        if isinstance(stage, Fire) and stage.norm:
            gain, shift = self._batch_norm(stage.name, "norm")
            moving, constant, reach = moving * gain, constant * gain + shift, reach * np.abs(gain)
        step = self.step(stage.name)
        initial, threshold = self._neuron(stage.name)
        wide = np.maximum((reach + np.abs(constant)) / step + np.abs(initial), threshold)
        if isinstance(stage, Source):
            units = 127 * units / self.slots
        slack = FLOAT * wide + (units + self.slots + 2) * GRID * wide
        zero = np.zeros_like(threshold)
        return Drive(moving / step, constant / step + zero, slack + zero)

    def _count(self, stage: str, drive: Drive) -> tuple[Array, Marks]:
        return _counted(drive, *self._neuron(stage), self.slots)

    def _neuron(self, stage: str) -> tuple[Array, Array]:
        """Initial potential and threshold, in steps."""
        return 0.5 + self.number(stage, "fire.offset"), self.number(stage, "fire.threshold")

    def _batch_norm(self, stage: str, part: str) -> tuple[Array, Array]:
        mean, var, weight, bias = (
            self.number(stage, f"{part}.{name}")
            for name in ("running_mean", "running_var", "weight", "bias")
        )
        deviation = np.sqrt(var + 1e-5)
        return weight / deviation, bias - weight * mean / deviation

    def _quantised(self, stage: str, part: str) -> tuple[Array, Array]:
        """Codes [output, line, pixel, input] and their scale per output; float32 as in training."""
        weight = self.number(stage, f"{part}.weight").astype(np.float32)
        largest = np.maximum(np.abs(weight).reshape(len(weight), -1).max(axis=1), np.float32(1e-8))
        # The encoder is digital: it has 8 bits, whatever the arrays hold.
        bits = 8 if stage == self.network.source.name else self.network.weight_bits
        scale = largest / np.float32(2 ** (bits - 1) - 1)
        codes = np.rint(weight / scale[:, None, None, None])
        return codes.astype(np.float64), scale.astype(np.float64)

    def _codes_reach(self, stage: str, part: str, product: Product) -> Array:
        codes, _ = self._quantised(stage, part)
        window = product.pool[0] * product.pool[1]
        total: Array = np.abs(codes).reshape(len(codes), -1).sum(axis=1) * window
        return total

    def _weigh(
        self, stage: str, part: str, x: Array, product: Product
    ) -> tuple[Array, Array, Array]:
        """Sums of weights and values, the constant behind them, and the largest sum of ones."""
        codes, scale = self._quantised(stage, part)
        gain: Array = np.ones(product.outputs)
        if product.norm == "batch":
            gain, shift = self._batch_norm(stage, f"{part}.norm")
        else:
            shift = self.number(stage, f"{part}.norm.bias")
        weight = codes * (scale * gain)[:, None, None, None]
        reach = np.abs(weight).reshape(len(weight), -1).sum(axis=1)
        if not product.average:
            reach = reach * product.pool[0] * product.pool[1]
        return convolve(x, weight, product), shift, reach


def _counted(drive: Drive, initial: Array, threshold: Array, slots: int) -> tuple[Array, Marks]:
    """Full thresholds in the whole input, between none and all slots."""
    level = (drive.moving + drive.constant + initial) / threshold
    nearest = np.clip(np.rint(level), 1, slots)
    near = np.abs(level - nearest) <= drive.slack / threshold
    return np.clip(np.floor(level), 0, slots), near


def convolve(x: Array, weight: Array, product: Product) -> Array:
    """Windows side by side are added up or averaged; then every tap of the kernel, one by one."""
    (down, across), (top, left) = product.pool, product.padding
    lines, pixels = x.shape[-3] // down, x.shape[-2] // across
    pooled = np.zeros((*x.shape[:-3], lines + 2 * top, pixels + 2 * left, x.shape[-1]))
    inside = pooled[..., top : top + lines, left : left + pixels, :]
    for line in range(down):
        for pixel in range(across):
            ends = lines * down, pixels * across
            inside += x[..., line : ends[0] : down, pixel : ends[1] : across, :]
    if product.average:
        pooled /= down * across
    outputs, high, wide, width = weight.shape
    size = (
        (lines + 2 * top - high) // product.stride[0] + 1,
        (pixels + 2 * left - wide) // product.stride[1] + 1,
    )
    out = np.zeros((*x.shape[:-3], *size, outputs))
    each = outputs // product.groups
    for group in range(product.groups):
        rows, columns = (
            slice(group * width, (group + 1) * width),
            slice(group * each, (group + 1) * each),
        )
        for line in range(high):
            for pixel in range(wide):
                stop = (
                    line + product.stride[0] * (size[0] - 1) + 1,
                    pixel + product.stride[1] * (size[1] - 1) + 1,
                )
                taps = pooled[
                    ...,
                    line : stop[0] : product.stride[0],
                    pixel : stop[1] : product.stride[1],
                    rows,
                ]
                out[..., columns] += taps @ weight[columns, line, pixel].T
    return out
