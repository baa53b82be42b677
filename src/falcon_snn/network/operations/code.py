"""A signed 8-bit code from the first slots of a stream: Q and K of attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from falcon_snn.errors import FalconError
from falcon_snn.network.operations.fire import array_stage
from falcon_snn.network.product import Product, Shape
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


@dataclass(frozen=True)
class Code(Stage):
    """code = clip(round(w x / alpha), -127, 127), where x is T/p times the first p slots' sum."""

    source: str
    product: Product
    prefix: int | None = None  # p, the slots that it waits for; None means all of them

    operation = "code"
    emits = "codes"

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.source,)

    @property
    def products(self) -> tuple[tuple[str, str, Product], ...]:
        return (("", self.source, self.product),)

    @property
    def firing(self) -> str:
        return "8-bit code"

    def shape(self, shapes: Mapping[str, Shape]) -> Shape:
        one = (1, 1)
        product = self.product
        if (product.kernel, product.stride, product.pool, product.groups) != (one, one, one, 1):
            raise FalconError(f"stage '{self.name}': a code has weights per position only")
        return product.shape(shapes[self.source], f"stage '{self.name}'")

    def words(self, shapes: Mapping[str, Shape]) -> str:
        return self.product.words(shapes[self.source])

    def module(self, network: Network) -> Part:
        from falcon_snn.network.parts import Part, Weights
        from falcon_snn.network.quantise import SignedCode

        channels = network.shapes[self.source][2]
        weights = Weights(self.product, channels, network.weight_bits)
        return Part(weights=weights, code=SignedCode(4.0 / 127))

    def count(self, part: Any, run: Counting) -> Tensor:
        currents = run.currents(part.weights, self.source)
        code: Tensor = part.code(currents, part.weights.norm, run.given(self.name))
        return code

    def slots(self, part: Any, run: Slotwise) -> Tensor:
        slots = run.network.slots
        prefix = self.prefix or slots
        early = run.values[self.source][:prefix].sum(dim=0) * (slots / prefix)
        code: Tensor = part.code(part.weights(early))
        return code

    def convert(self, part: Any, conversion: Conversion) -> Converted:
        from falcon_snn.network.rows import Rows

        weight, gain, bias, reach = conversion.folded(part.weights)
        columns = {
            "gain": gain, "bias": bias, "reach": reach, "step": conversion.step(self.source),
            "alpha": conversion.exact(part.code.step),
        }  # fmt: skip
        settings = {"slots": conversion.slots, "prefix": self.prefix or conversion.slots}
        rows = Rows(_codes, len(weight), columns, ("factor", "bias", "shift"), settings)
        return {"weight": weight}, [rows]

    def restore(self, part: Any, restoring: Restoring) -> None:
        weight, factor, bias, shift = (
            restoring.tensor(self.name, each) for each in ("weight", "factor", "bias", "shift")
        )
        code, slots = restoring.exact(part.code.step), restoring.network.slots
        unit, heard = code / shift.exp2(), (self.prefix or slots) / slots
        gain = factor * unit / restoring.spike(self.source) * heard
        part.weights.restore(weight, gain, bias * unit - code / 2)

    def run(self, run: Running) -> Tensor:
        from dataclasses import replace

        from falcon_snn.neuron import layers

        bias, shift = (run.tensor(self.name, part) for part in ("bias", "shift"))
        term = run.term(self.name, "", self.source, self.product)
        term = replace(term, packed=term.window(), border=(0, 0))
        return layers.codes(term, bias, shift, self.prefix or run.network.slots, run.backend)

    def witness(self, run: Witness) -> Tensor:
        import torch

        factor, bias = (run.tensor(self.name, part).double() for part in ("factor", "bias"))
        grid = torch.exp2(run.tensor(self.name, "shift").double())
        early = run.early(self.source, self.prefix or run.network.slots)
        total = run.product(self.name, "", early, self.product)
        return ((factor * total.double() + bias) / grid).floor().clamp(-127, 127).float()

    def timing(self, network: Network) -> list[graph.TimedStage]:
        array = array_stage(network, f"{self.name}.array", self.source, self.product)
        return [array, graph.TimedStage(self.name, "quantise", (array.name,), prefix=self.prefix)]

    def nir(self, export: Any) -> None:
        prefix = self.prefix or export.network.slots
        added = export.numbers(self, "bias") / prefix
        export.code(self, export.array(self, "", self.source, self.product, added), prefix)

    def verilog(self, design: Any) -> None:
        design.code(self, design.array(self, "", self.source, self.product))

    def c(self, program: Any) -> None:
        program.code(self)


def _codes(
    gain: Tensor, bias: Tensor, reach: Tensor, step: Tensor, alpha: Tensor, slots: int, prefix: int
) -> dict[str, Tensor]:
    """The integers of all codes."""
    import torch

    from falcon_snn.network.fixed_point import grid_exponent, to_int32

    gain, bias, reach = gain * step / alpha, bias / alpha + 0.5, reach * slots
    exponent = grid_exponent(gain * reach + bias.abs(), 0.5 * reach + 1.0)
    grid = torch.exp2(exponent)
    return {
        "factor": to_int32(gain * slots / prefix * grid),
        "bias": to_int32(bias * grid),
        "shift": exponent.int(),
    }
