"""The network executed slot by slot in torch, so that gradients pass through the times of spikes.

The same parameters as `Qnn`, batch norm frozen; currents are float, so a spike may differ from
the integer network's where a potential lies within rounding of its threshold. Every stage costs T
matrix products, which is why the rate gradient is the default in training.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from falcon_snn.network.qnn import Pass, Qnn
from falcon_snn.network.quantise import straight_through
from falcon_snn.neuron.packed import encode, unpack


class SlotNetwork(nn.Module):
    """A network under a schedule of delays, run through its slots."""

    def __init__(self, model: Qnn, delays: Mapping[str, int]) -> None:
        super().__init__()
        self.model, self.delays = model, dict(delays)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Class scores of clips, as `Qnn.forward` gives them."""
        run = Slotwise(self.model, x, lengths, self.delays)
        for stage in self.model.network.inner_stages:
            run.values[stage.name] = run.silence(stage.name, stage.slots(run.part(stage.name), run))
        readout = self.model.network.readout
        return readout.slots(run.part(readout.name), run)


class Slotwise(Pass):
    """One pass through the slots; values are decoded spikes [slot, clip, line, pixel, channel]."""

    def __init__(
        self, model: Qnn, x: Tensor, lengths: Tensor | None, delays: Mapping[str, int]
    ) -> None:
        super().__init__(model, x, lengths)
        self.delays = delays
        self.values: dict[str, Tensor] = {}

    def spikes(self, count: Tensor, encoding: str) -> Tensor:
        """A count as spikes [slot, ...]; each spike passes back a T-th of the count's gradient."""
        slots = self.network.slots
        spikes = unpack(encode(count.detach().round().to(torch.uint8), slots, encoding), slots)
        return straight_through(spikes.to(count), (count / slots).expand(slots, *count.shape))
