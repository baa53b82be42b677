"""The source: real numbers to counts to spikes. It comes before the timed core.

Inputs become 8-bit integers, (x - zero) * levels. Their counts come from a convolution and a step
that are learned (Falcon's encoder), from a learned step alone (pixels), or are the inputs as given
(spike counts). A count's spikes are spread evenly over the slots or fill the first of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from falcon_snn.errors import FalconError
from falcon_snn.hardware.energy import Operations
from falcon_snn.network.product import Product, Shape
from falcon_snn.network.stage import Stage
from falcon_snn.neuron.encoding import ENCODINGS
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

LARGEST = 127.0  # of an 8-bit input
DIGITAL_BITS = 8  # of the encoder's weights, whatever the analog arrays hold


@dataclass(frozen=True)
class Source(Stage):
    """The first stage of every network."""

    input: Shape
    product: Product | None = None
    levels: float = 1.0  # integer steps per unit of input
    zero: float = 0.0  # the input that becomes the integer 0
    given: bool = False  # inputs are counts already
    encoding: str = "first"

    operation = "source"
    emits = "spikes"

    @property
    def reads(self) -> tuple[str, ...]:
        return ()

    @property
    def firing(self) -> str:
        return "source"

    def shape(self, shapes: Mapping[str, Shape]) -> Shape:
        where = f"source '{self.name}'"
        if min(self.input) < 1:
            raise FalconError(f"{where}: its input is {self.input}; sizes are 1 or more")
        if not 1e-6 <= self.levels <= 1e6 or not abs(self.zero) <= 1e6:
            raise FalconError(
                f"{where}: levels is {self.levels}, zero is {self.zero}; levels lies in "
                "1e-6..1e6, zero in -1e6..1e6"
            )
        if self.encoding not in ENCODINGS:
            known = ", ".join(ENCODINGS)
            raise FalconError(f"{where}: unknown encoding '{self.encoding}'; choose {known}")
        if self.given and self.product:
            raise FalconError(f"{where}: counts as given take no convolution")
        if self.product is None:
            return self.input
        if self.product.pool != (1, 1) or self.product.groups != 1:
            raise FalconError(f"{where}: its convolution has no pooling and no groups")
        return self.product.shape(self.input, where)

    def lines(self, lines: Tensor) -> Tensor:
        return lines if self.product is None else self.product.lines(lines)

    def words(self, shapes: Mapping[str, Shape]) -> str:
        if self.product is not None:
            return self.product.words(self.input)
        return "counts as given" if self.given else "scaling"

    def fit(self, x: Tensor) -> Tensor:
        """Inputs as [clip, line, pixel, channel]; axes of size one may be left out."""
        sample, (lines, pixels, channels) = tuple(x.shape[1:]), self.input
        if len(sample) == 3 and sample[1:] == (pixels, channels):  # of any length in time
            return x
        bare = tuple(size for size in sample if size != 1)
        if bare == tuple(size for size in self.input if size != 1):
            return x.reshape(len(x), *self.input)
        if len(sample) == 2 and channels == 1 and sample[1] == pixels:  # other lengths in time
            return x.unsqueeze(3)
        if sample == (channels, lines, pixels):
            return x.permute(0, 2, 3, 1)
        if sample == (channels, lines) and pixels == 1:
            return x.permute(0, 2, 1).unsqueeze(2)
        wanted = " x ".join(map(str, self.input))
        raise FalconError(
            f"the data's samples are {' x '.join(map(str, sample))}, this network takes {wanted} "
            "(lines x pixels x channels)"
        )

    def integers(self, x: Tensor) -> Tensor:
        """8-bit inputs [clip, line, pixel, channel], still as float."""
        x = self.fit(x).float()
        if self.zero:
            x = x - self.zero
        return (x * self.levels).round().clamp(-LARGEST, LARGEST)

    def module(self, network: Network) -> Part:
        """Weights if there are any, and the counter; a source has no threshold to tune."""
        from falcon_snn.network.parts import Part, Weights
        from falcon_snn.network.quantise import Counter

        weights = None
        if self.product is not None:
            weights = Weights(self.product, self.input[2], DIGITAL_BITS)
        step = 1.0 if self.given else 3.0 / network.slots
        channels = network.shapes[self.name][2]
        fire = Counter(channels, network.slots, step, tunable=False, learned=not self.given)
        return Part(weights=weights, fire=fire)

    def count(self, part: Any, run: Counting | Slotwise) -> Tensor:
        from falcon_snn.neuron.layers import token_mask

        x = self.integers(run.x) / self.levels
        if run.lengths is not None:
            x = x * token_mask(run.lengths, x.shape[1])[:, :, None, None]
        norm = None
        if part.weights is not None:
            x, norm = part.weights.currents(x, x.new_ones(())), part.weights.norm
        count: Tensor = part.fire(x, None, norm, run.given(self.name))
        return count

    def slots(self, part: Any, run: Slotwise) -> Tensor:
        spikes = run.spikes(run.silence(self.name, self.count(part, run)), self.encoding)
        decoded: Tensor = spikes * part.fire.step()
        return decoded

    def convert(self, part: Any, conversion: Conversion) -> Converted:
        import numpy as np

        from falcon_snn.network.fixed_point import Input, neuron_rows

        tensors: dict[str, Tensor] = {}
        given = Input(float(np.float32(1.0 / self.levels)), largest=LARGEST)
        if part.weights is not None:
            folded = conversion.folded(part.weights)
            tensors["weight"], given = folded.codes, given.through(folded)
        return tensors, [neuron_rows(part.fire, conversion.exact(part.fire.step), [given])]

    def relate_steps(self, part: Any, restoring: Restoring) -> None:
        if not self.given and self.product is None:
            gain = restoring.neurons(self.name, "").gains[""]
            restoring.known([], [part.fire.step], gain * self.levels)

    def restore(self, part: Any, restoring: Restoring) -> None:
        if part.weights is not None:
            given, own = restoring.neurons(self.name, ""), restoring.exact(part.fire.step)
            part.weights.restore(
                restoring.tensor(self.name, "weight"), given.gains[""] * own * self.levels,
                given.static * own,
            )  # fmt: skip

    def run(self, run: Running) -> Tensor:
        import torch

        from falcon_snn.neuron import layers
        from falcon_snn.neuron.layers_torch import with_border
        from falcon_snn.neuron.packed import encoding_tensor

        if run.backend == "triton":
            from falcon_snn.neuron.fused import round_inputs

            x = round_inputs(self.fit(run.x), self.zero, self.levels, LARGEST)
        else:
            x = self.integers(run.x).to(torch.int8)
        factor, neurons = run.tensor(self.name, "factor"), run.neurons(self.name)
        slots, border = run.network.slots, run.network.borders[self.name]
        if self.product is not None:
            return layers.encode(
                x.contiguous(), run.tensor(self.name, "weight"), self.product.stride,
                self.product.padding, run.lengths, factor, neurons, slots, self.encoding,
                run.backend, border=border,
            )  # fmt: skip
        level = neurons.initial + slots * neurons.static + factor * x.int()
        count = (level // neurons.threshold).clamp(0, slots).long()
        if run.lengths is not None:
            count = count * layers.token_mask(run.lengths, x.shape[1])[:, :, None, None]
        trains = encoding_tensor(slots, self.encoding, x.device)[count]
        return with_border(trains, border)

    def witness(self, run: Witness) -> Tensor:
        x = self.integers(run.x)
        x = x * run.mask(None, x.shape[1])
        if self.product is not None:
            x = run.product(self.name, "", x, self.product)
        return run.fire(self.name, [("factor", x)])

    def timing(self, network: Network) -> list[graph.TimedStage]:
        return []

    def macs(self, network: Network) -> int:
        return 0 if self.product is None else self.product.macs(self.input)

    def operations(self, network: Network) -> Operations:
        """Arithmetic of its own, outside the timed core."""
        return Operations(macs_8x8=self.macs(network) or prod(self.input))

    def nir(self, export: Any) -> None:
        before = graph.INPUT
        if self.product is not None:
            # Inputs come once, so what every slot adds comes at once as well.
            added = export.numbers(self, "static") * export.network.slots
            before = export.array(self, "", before, self.product, added)
        export.neurons(self, (before,))

    def verilog(self, design: Any) -> None:
        design.source(self)

    def c(self, program: Any) -> None:
        program.source(self)
