"""From the integer SNN back to a network that can be trained: the other way of `convert`.

Integers say what a stage computes, not how training had divided that among weights, batch norm and
steps. Batch norm gets running statistics of 0 and 1, weights the size that they begin a training
with, and thresholds are one where something else can hold them. Steps are those nearest to the
first ones of a training that give what their products must be. Converted again it is the same
network, but for the last digits of its constants.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from falcon_snn.network.integer import Snn
from falcon_snn.network.qnn import Qnn
from falcon_snn.network.quantise import StepSize

Steps = Sequence[StepSize]


def restore(snn: Snn) -> Qnn:
    """A network with parameters that these integers come from."""
    model = Qnn(snn.network).to(snn.device)
    with torch.no_grad():
        restoring = Restoring(snn, model)
        for stage in snn.network.stages:
            stage.relate_steps(model.part(stage.name), restoring)
        restoring.set_steps()
        for stage in snn.network.stages:
            stage.restore(model.part(stage.name), restoring)
    return model.eval()


class InThresholds(NamedTuple):
    """Neurons in units of their threshold, in double."""

    gains: dict[str, Tensor]  # of an input's integers, by its suffix
    static: Tensor  # over all slots
    initial: Tensor


class Restoring:
    """What a stage asks for while its parameters are found: the steps of all, then the rest."""

    def __init__(self, snn: Snn, model: Qnn) -> None:
        self.snn, self.model, self.network = snn, model, snn.network
        self._known: list[tuple[Steps, Steps, Tensor]] = []
        self._usual: list[tuple[Steps, Steps, Tensor]] = []

    def known(self, factors: Steps, divisors: Steps, gain: Tensor) -> None:
        """A quotient of steps that must be this gain, of every neuron that hears its input."""
        self._known.append((factors, divisors, gain))

    def usual(self, factors: Steps, divisors: Steps, gain: Tensor) -> None:
        """One that is about this gain if nothing else decides: thresholds can hold the rest."""
        self._usual.append((factors, divisors, gain))

    def set_steps(self) -> None:
        """The smallest changes of the steps' logarithms with which that holds."""
        steps = [part for part in self.model.modules() if isinstance(part, StepSize)]
        place = {step: number for number, step in enumerate(steps)}
        found = torch.stack([step.log for step in steps]).double()
        # Projects changes onto those that are still free.
        free = found.new_tensor([step.log.requires_grad for step in steps]).diag()
        for quotients in (self._known, self._usual):
            rows = found.new_zeros(len(quotients), len(steps))
            wanted = found.new_zeros(len(quotients))
            for number, (factors, divisors, gain) in enumerate(quotients):
                for power, members in ((1, factors), (-1, divisors)):
                    for step in members:
                        rows[number, place[step]] += power
                logs = gain.abs().log()
                heard = logs[logs.isfinite()]
                wanted[number] = heard.mean() if len(heard) else rows[number] @ found
            moving = rows @ free
            back = torch.linalg.pinv(moving, atol=1e-6)  # what is not free is nearly zero
            found = found + back @ (wanted - rows @ found)
            free = free - back @ moving
        for step, log in zip(steps, found, strict=True):
            step.log.copy_(log)

    def tensor(self, stage: str, part: str) -> Tensor:
        """Some of a stage's integers, in double."""
        return self.snn.tensors[f"{stage}.{part}"].double()

    def neurons(self, stage: str, *suffixes: str) -> InThresholds:
        """The neurons of a stage with the gains of these inputs."""
        threshold = self.tensor(stage, "threshold")
        gains = {suffix: self.tensor(stage, f"factor{suffix}") / threshold for suffix in suffixes}
        static = self.tensor(stage, "static") * self.network.slots / threshold
        return InThresholds(gains, static, self.tensor(stage, "initial") / threshold)

    def exact(self, step: StepSize) -> Tensor:
        """The value of a step in double, as conversion reads it."""
        return step.log.double().exp()

    def step(self, stage: str) -> StepSize:
        """The step of a stage that fires."""
        found: StepSize = self.model.part(stage).fire.step
        return found

    def spike(self, stage: str) -> Tensor:
        """The value of one spike of a stage."""
        return self.exact(self.step(stage))

    def code_step(self, stage: str) -> StepSize:
        """The step of a stage that gives codes."""
        found: StepSize = self.model.part(stage).code.step
        return found
