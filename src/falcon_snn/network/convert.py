"""From the trained QNN to the integer SNN: batch norm folded, every number on its grid.

x/alpha of a stage is gain_j sum_i code_ij n_i + static_j with
gain_j = bn_gain_j scale_j alpha_in / alpha_out, a positive number once its sign has moved into the
codes, and static_j = bn_bias_j / alpha_out.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from falcon_snn.errors import FalconError
from falcon_snn.network.description import Network
from falcon_snn.network.fixed_point import Folded
from falcon_snn.network.integer import Snn
from falcon_snn.network.parts import Bias, Normalise, Weights
from falcon_snn.network.product import Shape
from falcon_snn.network.qnn import Qnn
from falcon_snn.network.quantise import StepSize
from falcon_snn.network.rows import Rows, apart, together
from falcon_snn.network.witness import witness


def convert(model: Qnn, network: Network | None = None) -> Snn:
    """The integer network of a trained one; `network` may differ in its Q/K prefix or encoding."""
    network = network or model.network
    network.demand_spikes()
    tensors: dict[str, Tensor] = {}
    with torch.no_grad():
        conversion = Conversion(model)
        rows: dict[tuple[str, int], Rows] = {}
        for stage in network.stages:
            done, others = stage.convert(model.part(stage.name), conversion)
            tensors |= {f"{stage.name}.{part}": tensor for part, tensor in done.items()}
            rows |= {(stage.name, number): each for number, each in enumerate(others)}
        for (name, _), found in together(rows).items():
            tensors |= {f"{name}.{part}": tensor for part, tensor in found.items()}
        tensors = apart(tensors)
    # A recorded step cannot ask; its loss shows what is not finite.
    asks = not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())
    for name, tensor in tensors.items() if asks else ():
        if tensor.is_floating_point() and not tensor.is_meta and not tensor.isfinite().all():
            raise FalconError(f"'{name}' is not finite: the weights are too large to be converted")
    return Snn(network, tensors)


class Conversion:
    """What a stage asks of the model while it is converted; found for all of it at once."""

    def __init__(self, model: Qnn) -> None:
        self.model, self.slots = model, model.network.slots
        parts = [*model.modules()]
        steps = [part for part in parts if isinstance(part, StepSize)]
        # In double: machines differ in the last bit of a float's exp, and conversion must not.
        exact = torch.stack([part.log for part in steps]).double().exp()
        self._steps = dict(zip(steps, exact.unbind(), strict=True))
        self._norms = together({p: p.rows() for p in parts if isinstance(p, Normalise | Bias)})
        self._weights = together(
            {p: p.rows(self._norms[p.norm]) for p in parts if isinstance(p, Weights)}
        )

    def part(self, name: str) -> Any:
        return self.model.part(name)

    def shape(self, name: str) -> Shape:
        return self.model.network.shapes[name]

    def exact(self, step: StepSize) -> Tensor:
        """A learned step, in double."""
        return self._steps[step]

    def step(self, name: str) -> Tensor:
        """The value of one spike of a stage, in double."""
        return self._steps[self.part(name).fire.step]

    def norm(self, norm: Normalise | Bias) -> tuple[Tensor, Tensor]:
        """Frozen batch norm as y = gain x + shift, in double."""
        found = self._norms[norm]
        return found["gain"], found["shift"]

    def folded(self, weights: Weights) -> Folded:
        """Weights and what follows them."""
        found = self._weights[weights]
        codes = found["codes"].view(weights.weight.shape)
        return Folded(codes, found["gain"], self._norms[weights.norm]["shift"], found["reach"])


@dataclass(frozen=True)
class StageReport:
    """What conversion made of a stage: ranges over its neurons, in thresholds (steps of a code)."""

    name: str
    kind: str
    neurons: int
    scale: tuple[float, float]  # gain per integer input
    static: tuple[float, float]  # input-independent current over all T slots


def conversion_report(snn: Snn) -> list[StageReport]:
    """One row per converted stage."""
    rows = []
    for stage in snn.network.inner_stages:
        numbers = {
            part: snn.tensors[f"{stage.name}.{part}"].double()
            for part in ("factor", "threshold", "static", "shift", "bias")
            if f"{stage.name}.{part}" in snn.tensors
        }
        if "shift" in numbers:
            unit, static = torch.exp2(numbers["shift"]), numbers["bias"]
        else:
            unit, static = numbers["threshold"], numbers["static"] * snn.network.slots
        scale, shift = _range(numbers["factor"] / unit), _range(static / unit)
        rows.append(StageReport(stage.name, stage.operation, unit.numel(), scale, shift))
    return rows


def _range(x: Tensor) -> tuple[float, float]:
    return float(x.min()), float(x.max())


def check(snn: Snn, x: Tensor, lengths: Tensor | None, backend: str = "auto") -> Tensor:
    """Predictions on `x`, after checking that full lookahead equals the QNN at every stage.

    Both are computed in the same integer arithmetic by different code; the first stage whose
    integers differ is an error.
    """
    full = snn.network.lookahead
    streams = snn.streams(x, lengths, full, backend)
    spiking, scores = snn.counts(streams), snn.scores(streams, lengths, backend)
    with torch.backends.cudnn.flags(enabled=False):  # its Winograd transforms are not exact
        counted, expected = witness(snn, x, lengths)
    for name, values in counted.items():
        differing = int((spiking[name].long() != values.long()).sum())
        if differing:
            raise FalconError(
                f"conversion check failed at stage {name}: {differing} of {values.numel()} counts "
                "differ between QNN and full-lookahead SNN; please report this as a bug"
            )
    if not torch.equal(scores, expected):
        raise FalconError("conversion check failed: scores differ at equal counts")
    return scores.argmax(dim=1)
