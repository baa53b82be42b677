"""Random spikes, weights and neurons of integer layers."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from falcon_snn.neuron.layers import IntegerNeurons, Term

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Draw:
    """Random tensors from one seed."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def integers(self, low: int, high: int, *shape: int, dtype: Any = torch.int32) -> Tensor:
        return torch.randint(low, high, shape, generator=self.generator).to(dtype).to(DEVICE)

    def neurons(self, outputs: int) -> IntegerNeurons:
        return IntegerNeurons(
            static=self.integers(-40_000, 40_000, outputs),
            initial=self.integers(-9, 90_000, outputs),
            threshold=self.integers(900, 200_000, outputs),
        )

    def spikes(self, *shape: int, slots: int = 7, border: tuple[int, int] = (0, 0)) -> Tensor:
        inner = self.integers(0, 1 << slots, *shape, dtype=torch.uint8)
        return F.pad(inner, (0, 0, border[1], border[1], border[0], border[0]))

    def weight(self, *shape: int) -> Tensor:
        return self.integers(-127, 128, *shape, dtype=torch.int8)

    def linear(self, rows: int, inputs: int, outputs: int, slots: int = 7) -> Term:
        x = self.spikes(rows, 1, 1, inputs, slots=slots)
        return Term(x, self.integers(1, 900, outputs), self.weight(outputs, 1, 1, inputs))
