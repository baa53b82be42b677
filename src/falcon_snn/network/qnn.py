"""The trainable network: it computes with counts, so it is the QNN.

The SNN has the same parameters. For training the SNN, `forward` takes the counts that the integer
network's spikes gave (`spikes`): the values are then those of the spiking network, the gradients
those of the counts.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from falcon_snn.network.description import Network
from falcon_snn.network.quantise import Counter, StepSize, kept_as
from falcon_snn.neuron.layers import token_mask


class Qnn(nn.Module):
    """The trainable parts of a network, one per stage."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self.parts = nn.ModuleDict(
            {part_name(stage.name): stage.module(network) for stage in network.stages}
        )

    def part(self, name: str) -> Any:
        """The trainable part of a stage."""
        return self.parts[part_name(name)]

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, spikes: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """Class scores of inputs `x` [clip, ...] with `lengths` real lines each."""
        return self.execute(x, lengths, spikes, keep=False)[0]

    def execute(
        self, x: Tensor, lengths: Tensor | None = None,
        spikes: Mapping[str, Tensor] | None = None, *, keep: bool = True,
    ) -> tuple[Tensor, dict[str, Tensor]]:  # fmt: skip
        """Class scores and the integers of every stage, by stage name.

        Without `keep` those that are read by no later stage are gone, to save memory.
        """
        run = Counting(self, x, lengths, spikes)
        for stage in self.network.inner_stages:
            own = run.silence(stage.name, stage.count(self.part(stage.name), run))
            run.counts[stage.name] = own
            if not keep:
                for name in {*stage.reads}:
                    if self.network.last_reader[name] == stage.name:
                        del run.counts[name]
        readout = self.network.readout
        return readout.count(self.part(readout.name), run), run.counts


class Pass:
    """What every pass through the trainable network knows: its input, and what is padding."""

    def __init__(self, model: Qnn, x: Tensor, lengths: Tensor | None) -> None:
        self.model, self.network, self.x, self.lengths = model, model.network, x, lengths
        self._lines = None if lengths is None else self.network.lines(lengths)

    def part(self, name: str) -> Any:
        return self.model.part(name)

    def given(self, name: str) -> Tensor | None:
        """Another network's integers in the place of a stage's own, which has the gradient."""
        return None

    def step(self, step: StepSize) -> Tensor:
        """The value of a learned step."""
        return self._steps[step]

    @cached_property
    def _steps(self) -> dict[StepSize, Tensor]:
        """All steps at once: one operation each way, not one for every stage that reads another."""
        steps = [part for part in self.model.modules() if isinstance(part, StepSize)]
        values = torch.stack([step.log for step in steps]).exp()
        return dict(zip(steps, values.unbind(), strict=True))

    def mask(self, name: str, lines: int) -> Tensor | None:
        """True where a line of a stage is real, [clip, line]; None where nothing is padding."""
        return None if self._lines is None else token_mask(self._lines[name], lines)

    def silence(self, name: str, x: Tensor) -> Tensor:
        """No spikes from padded lines: padding then looks like the border of the clip."""
        if self._lines is None or name not in self.network.silent:
            return x
        lines = x.shape[-3]
        return x * token_mask(self._lines[name], lines)[:, :, None, None]


class Counting(Pass):
    """One pass with counts."""

    def __init__(
        self, model: Qnn, x: Tensor, lengths: Tensor | None,
        spikes: Mapping[str, Tensor] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(model, x, lengths)
        self.counts: dict[str, Tensor] = {}
        self._spikes = spikes

    def given(self, name: str) -> Tensor | None:
        return None if self._spikes is None else self._spikes[name]

    def value(self, name: str) -> Tensor:
        """The decoded value of a stage's counts."""
        decoded: Tensor = self.part(name).fire.decode(self.counts[name], self.spike(name))
        return decoded

    def spike(self, name: str) -> Tensor:
        """The value of one spike of a stage."""
        return self.step(self.part(name).fire.step)

    def sum(self, first: str, second: str) -> Tensor:
        """The decoded counts of two stages together."""
        a, b = self.counts[first], self.counts[second]
        if not a.is_cuda:
            return self.value(first) + self.value(second)
        from falcon_snn.neuron.fused_training import sum_of_counts

        return sum_of_counts(a, self.spike(first), b, self.spike(second))

    def currents(self, weights: Any, name: str) -> Tensor:
        """Weights times decoded counts; the step joins the weights, which are fewer."""
        counts = self.counts[name]
        with kept_as(torch.int8, counts):
            currents: Tensor = weights.currents(counts, self.spike(name))
        return currents


_EMPTY = nn.ModuleDict()  # has the names that no part may have


def part_name(stage: str) -> str:
    """A stage's name as a part of a ModuleDict may have it: no dots, and none of its own names."""
    name = stage.replace(".", "/")
    return f"{name}/" if hasattr(_EMPTY, name) else name


def with_description(model: Qnn, network: Network) -> Qnn:
    """The same parameters in a network of another description."""
    result = Qnn(network)
    result.load_state_dict(model.state_dict())
    return result.eval()


def with_prefix(model: Qnn, prefix: int) -> Qnn:
    """The same network whose Q and K wait for another number of slots."""
    return with_description(model, model.network.with_prefix(prefix))


def with_slots(model: Qnn, slots: int) -> Qnn:
    """The same network with another T: a stage's range alpha T stays, its levels change."""
    result = with_description(model, model.network.with_slots(slots))
    with torch.no_grad():
        for part in result.modules():
            if isinstance(part, Counter) and part.learned:
                part.step.log.add_(math.log(model.network.slots / slots))
    return result


def with_weight_bits(model: Qnn, bits: int) -> Qnn:
    """The same network with weights of fewer bits, or as it is if they have no more."""
    if model.network.weight_bits <= bits:
        return model
    return with_description(model, replace(model.network, weight_bits=bits))


def parameter_count(module: nn.Module) -> int:
    """Trainable parameters."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)
