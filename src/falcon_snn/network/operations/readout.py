"""The readout: spike counts, averaged over windows of the map, to class scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from falcon_snn.errors import FalconError
from falcon_snn.hardware.energy import Operations
from falcon_snn.network.product import Pair, Shape
from falcon_snn.network.stage import Stage
from falcon_snn.pipeline import graph

if TYPE_CHECKING:
    from torch import Tensor

    from falcon_snn.network.convert import Conversion
    from falcon_snn.network.description import Network
    from falcon_snn.network.integer import Running
    from falcon_snn.network.parts import Part
    from falcon_snn.network.qnn import Counting
    from falcon_snn.network.restore import Restoring
    from falcon_snn.network.rows import Converted
    from falcon_snn.network.temporal import Slotwise
    from falcon_snn.network.witness import Witness
    from falcon_snn.pipeline.energy import Activity


@dataclass(frozen=True)
class Readout(Stage):
    """The last stage of every network; it comes after the timed core."""

    source: str
    classes: int
    window: Pair = (0, 0)  # averaged over windows of this size; 0 is the whole axis
    norm: bool = False  # batch norm before
    dropout: float = 0.0

    operation = "readout"
    emits = "scores"

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.source,)

    def windows(self, before: Shape) -> tuple[Pair, int]:
        """The size of a window, and how many numbers all of them give."""
        lines, pixels, channels = before
        window = (self.window[0] or lines, self.window[1] or pixels)
        return window, (lines // window[0]) * (pixels // window[1]) * channels

    def shape(self, shapes: Mapping[str, Shape]) -> Shape:
        before = shapes[self.source]
        if min(self.window) < 0 or self.windows(before)[1] < 1 or not 0 <= self.dropout < 1:
            raise FalconError(
                f"readout '{self.name}': windows of {self.window} do not fit a map of "
                f"{before[0]} x {before[1]}, or dropout lies outside 0..1"
            )
        if self.classes < 2:
            raise FalconError(f"readout '{self.name}': {self.classes} classes; give two or more")
        return 1, 1, self.classes

    def words(self, shapes: Mapping[str, Shape]) -> str:
        before = shapes[self.source]
        (lines, pixels), features = self.windows(before)
        norm = "batch norm, " if self.norm else ""
        mean = f"mean over {lines} x {pixels}, " if (lines, pixels) != (1, 1) else ""
        return f"{norm}{mean}fc {features} -> {self.classes}"

    def module(self, network: Network) -> Part:
        from torch import nn

        from falcon_snn.network.parts import Normalise, Part

        before = network.shapes[self.source]
        linear = nn.Linear(self.windows(before)[1], self.classes)
        return Part(norm=Normalise(before[2]) if self.norm else None, linear=linear)

    def count(self, part: Any, run: Counting) -> Tensor:
        return self._scores(part, run.value(self.source), run)

    def slots(self, part: Any, run: Slotwise) -> Tensor:
        return self._scores(part, run.values[self.source].sum(dim=0), run)

    def _scores(self, part: Any, x: Tensor, run: Counting | Slotwise) -> Tensor:
        from torch.nn import functional as F

        from falcon_snn.network.parts import pool

        if part.norm is not None:
            x = part.norm(x)
        window, _ = self.windows((x.shape[1], x.shape[2], x.shape[3]))
        mask = run.mask(self.source, x.shape[1])
        if mask is None:
            x = pool(x, window, average=True)
        else:
            weight = mask.to(x) / mask.sum(dim=1, keepdim=True).clamp_min(1)
            x = pool(x * weight[:, :, None, None], window, average=False) / window[1]
        scores: Tensor = part.linear(F.dropout(x.flatten(1), self.dropout, part.training))
        return scores

    def convert(self, part: Any, conversion: Conversion) -> Converted:
        weight = part.linear.weight.double()
        base = part.linear.bias.double()
        scores = weight * conversion.step(self.source)
        if part.norm is not None:
            gain, shift = conversion.norm(part.norm)
            windows = weight.shape[1] // len(gain)
            base = weight @ shift.repeat(windows) + part.linear.bias
            scores = weight * (gain * conversion.step(self.source)).repeat(windows)
        return readout_integers(scores, base), []

    def restore(self, part: Any, restoring: Restoring) -> None:
        import torch

        weight, bias, grid = (
            restoring.tensor(self.name, each) for each in ("weight", "bias", "grid")
        )
        part.linear.weight.copy_(weight / grid / restoring.spike(self.source))
        part.linear.bias.copy_(bias / grid)
        if part.norm is not None:
            part.norm.restore(torch.ones_like(part.norm.bias), torch.zeros_like(part.norm.bias))

    def run(self, run: Running) -> Tensor:
        """Class scores times the places of a window, as float64 that holds exact integers."""
        return self._weigh(self.sums(run), run, run.inner(self.source).shape[1])

    def sums(self, run: Running) -> Tensor:
        """Spike counts, summed over the places of each window: float64 [clip, feature]."""
        from falcon_snn.network.parts import pool
        from falcon_snn.neuron import layers
        from falcon_snn.neuron.packed import count

        packed, lengths = run.inner(self.source), run.lines(self.source)
        clips, lines, pixels, channels = packed.shape
        window, _ = self.windows((lines, pixels, channels))
        if window[0] == lines and window[1] in (1, pixels):
            places = (lines, -1) if window[1] == 1 else (lines * pixels, -1)
            if lengths is not None and window[1] > 1:
                lengths = lengths * pixels
            return layers.pool(packed.reshape(clips, *places), lengths, run.backend).double()
        counts = count(packed).int()
        if lengths is not None:
            counts = counts * layers.token_mask(lengths, lines)[:, :, None, None]
        return pool(counts, window, average=False).flatten(1).double()

    def witness(self, run: Witness) -> Tensor:
        from falcon_snn.network.parts import pool

        values = run.values[self.source]
        lines = values.shape[1]
        window, _ = self.windows((lines, values.shape[2], values.shape[3]))
        values = values * run.mask(self.source, lines)
        return self._weigh(pool(values, window, average=False).flatten(1).double(), run, lines)

    def _weigh(self, pooled: Tensor, run: Running | Witness, lines: int) -> Tensor:
        weight, bias = (run.tensor(self.name, part).double() for part in ("weight", "bias"))
        return pooled @ weight.t() + bias * self.places(run, lines)

    def places(self, run: Running | Witness, lines: int) -> Tensor | int:
        """Real places of a window: scores are sums over them.

        A clip too short for any line counts as one line without spikes.
        """
        _, pixels, channels = run.network.shapes[self.source]
        (height, width), _ = self.windows((lines, pixels, channels))
        lengths = run.lines(self.source)
        return height * width if lengths is None else lengths[:, None].clamp_min(1) * width

    def timing(self, network: Network) -> list[graph.TimedStage]:
        return []

    def macs(self, network: Network) -> int:
        return self.windows(network.shapes[self.source])[1] * self.classes

    def operations(self, network: Network, activity: Activity, *, qnn: bool) -> Operations:
        """Arithmetic of its own, outside the timed core."""
        added = activity.neurons if qnn else activity.spikes
        return Operations(added[self.source], macs_8x8=self.macs(network))

    def nir(self, export: Any) -> None:
        export.readout(self)

    def verilog(self, design: Any) -> None:
        """It comes after the timed core."""

    def c(self, program: Any) -> None:
        program.readout(self)


def readout_integers(weight: Tensor, bias: Tensor) -> dict[str, Tensor]:
    """A readout of mean counts on the grid of integers: weight [class, feature], bias [class]."""
    import torch

    from falcon_snn.network.fixed_point import grid_exponent, to_int32

    largest = torch.maximum(weight.abs().max(), bias.abs().max())
    grid = torch.exp2(grid_exponent(largest, 1.0) - 10)  # sums of counts need ten bits
    return {"weight": to_int32(weight * grid), "bias": to_int32(bias * grid), "grid": grid}
