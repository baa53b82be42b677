"""The QNN in the integer network's own arithmetic, computed from counts: the converter's witness.

n = clip(floor((initial + T static + sum_k factor_k S_k) / threshold), 0, T) per stage, with S the
product of integer weights and counts. No slots, no packed spikes, no kernel of the spiking
execution. Sums of integers below 2^24 are exact in float32 in any order, potentials below 2^53 in
float64, so any difference from full lookahead is a fault. Only operations that ONNX has are used:
this is what `falcon-snn export --format onnx` writes.
"""

from dataclasses import replace

import torch
from torch import Tensor

from falcon_snn.network.integer import Snn
from falcon_snn.network.parts import convolve
from falcon_snn.network.product import Product
from falcon_snn.neuron.encoding import encoding_table
from falcon_snn.neuron.layers import token_mask


def witness(snn: Snn, x: Tensor, lengths: Tensor | None) -> tuple[dict[str, Tensor], Tensor]:
    """The integers of every stage, and class scores as `Snn.scores` gives them."""
    run = Witness(snn, x, lengths)
    for stage in snn.network.inner_stages:
        value = stage.witness(run)
        if stage.name in snn.network.silent:
            value = value * run.mask(stage.name, value.shape[1])
        run.values[stage.name] = value
    return run.values, snn.network.readout.witness(run)


class Witness:
    """One pass over counts."""

    def __init__(self, snn: Snn, x: Tensor, lengths: Tensor | None) -> None:
        self.snn, self.network, self.x, self.lengths = snn, snn.network, x, lengths
        self.values: dict[str, Tensor] = {}
        self._lines = None if lengths is None else self.network.lines(lengths)

    def tensor(self, stage: str, part: str) -> Tensor:
        return self.snn.tensors[f"{stage}.{part}"]

    def lines(self, name: str) -> Tensor | None:
        return None if self._lines is None else self._lines[name]

    def mask(self, name: str | None, lines: int) -> Tensor:
        """1 where a line of a stage (of the input: None) is real, [clip, line, 1, 1]."""
        real = self.lengths if name is None else self.lines(name)
        if real is None:
            return torch.ones((), device=self.x.device).expand(len(self.x), lines, 1, 1)
        return token_mask(real, lines).float()[:, :, None, None]

    def early(self, name: str, prefix: int) -> Tensor:
        """Spikes of a stage in its first slots, with full lookahead: the first n slots fire."""
        source = self.network.source
        if name != source.name:
            return self.values[name].clamp(max=prefix)
        table = encoding_table(self.network.slots, source.encoding)
        first = [float((byte & ((1 << prefix) - 1)).bit_count()) for byte in table]
        return torch.tensor(first, device=self.x.device)[self.values[name].long()]

    def product(self, stage: str, suffix: str, value: Tensor, product: Product) -> Tensor:
        """Sums of weights and counts; averages are left to the factor."""
        weight = self.tensor(stage, f"weight{suffix}").float()
        return convolve(value, weight, replace(product, average=False)).round()

    def fire(self, stage: str, sums: list[tuple[str, Tensor]]) -> Tensor:
        """Counts of a stage from the sums of its inputs, each with the name of its factor."""
        static, initial, threshold = (
            self.tensor(stage, part).double() for part in ("static", "initial", "threshold")
        )
        level = initial + self.network.slots * static
        for factor, total in sums:
            level = level + self.tensor(stage, factor).double() * total.double()
        return (level / threshold).floor().clamp(0, self.network.slots).float()

    @staticmethod
    def curve(scores: Tensor, table: Tensor) -> Tensor:
        """Codes of the attention map: how many of a head's 255 rising bounds a score has reached.

        Eight halvings, [clip, head, query, key]; entry c of the table is the least score of code c.
        """
        bounds = table.float()[:, :256]
        head = torch.arange(len(bounds), device=scores.device).view(1, -1, 1, 1) * 256
        code = torch.zeros_like(scores, dtype=torch.int64)
        for step in (128, 64, 32, 16, 8, 4, 2, 1):
            reached = scores >= bounds.flatten()[head + code + step]
            code = code + step * reached.long()
        return code.float()
