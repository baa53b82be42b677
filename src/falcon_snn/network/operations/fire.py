"""Integrate and fire on the sum of one or two inputs: weights of spikes, or the spikes themselves.

One product is a layer; two streams of spikes are Falcon's residual; two products, or a product and
spikes, are a ResNet's: relu(conv(x) + shortcut(x)), with one firing for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from falcon_snn.errors import FalconError
from falcon_snn.network.product import SUFFIXES, Product, Shape
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
class FireTerm:
    """One input: a stream of spikes, through weights unless there are none."""

    reads: str
    product: Product | None = None


@dataclass(frozen=True)
class Fire(Stage):
    """V adds up its inputs slot by slot; slot t fires after input slot t + delay - 1."""

    terms: tuple[FireTerm, ...]
    lookahead: bool = False  # waits for all slots, whatever the schedule says
    norm: bool = False  # batch norm of the sum

    operation = "fire"
    emits = "spikes"

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(term.reads for term in self.terms)

    @property
    def inputs(self) -> tuple[tuple[str, FireTerm], ...]:
        """Its inputs, each with the suffix of its tensors."""
        return tuple(zip(SUFFIXES, self.terms, strict=False))

    @property
    def products(self) -> tuple[tuple[str, str, Product], ...]:
        return tuple(
            (suffix, term.reads, term.product)
            for suffix, term in self.inputs
            if term.product is not None
        )

    @property
    def searchable(self) -> bool:
        return not self.lookahead

    @property
    def firing(self) -> str:
        return "full lookahead" if self.lookahead else "delay"

    def shape(self, shapes: Mapping[str, Shape]) -> Shape:
        where = f"stage '{self.name}'"
        if not 1 <= len(self.terms) <= len(SUFFIXES):
            raise FalconError(f"{where} adds {len(self.terms)} inputs; it takes one or two")
        if len(self.terms) == 1 and not self.products:
            raise FalconError(f"{where} fires on spikes alone; put weights before it")
        found = [
            term.product.shape(shapes[term.reads], where) if term.product else shapes[term.reads]
            for term in self.terms
        ]
        if found[0] != found[-1]:
            sizes = " and ".join(" x ".join(map(str, one)) for one in found)
            raise FalconError(f"{where} adds maps of {sizes}; they must be of one size")
        return found[0]

    def lines(self, lines: Tensor) -> Tensor:
        product = self.terms[0].product
        return lines if product is None else product.lines(lines)

    def words(self, shapes: Mapping[str, Shape]) -> str:
        terms = [
            term.product.words(shapes[term.reads]) if term.product else term.reads
            for term in self.terms
        ]
        return (" + ".join(terms)) + (", batch norm" if self.norm else "")

    def module(self, network: Network) -> Part:
        from falcon_snn.network.parts import Normalise, Part, Weights
        from falcon_snn.network.quantise import Counter

        channels = network.shapes[self.name][2]
        weights = {
            f"weights{suffix}": Weights(product, network.shapes[read][2], network.weight_bits)
            for suffix, read, product in self.products
        }
        return Part(
            **weights,
            norm=Normalise(channels) if self.norm else None,
            fire=Counter(channels, network.slots, 3.0 / network.slots),
        )

    def count(self, part: Any, run: Counting) -> Tensor:
        if not self.products:
            return self._fire(part, run, run.sum(*self.reads), None, None)
        sums: list[tuple[Tensor, Any]] = []  # of each term, and the norm that it still needs
        for suffix, term in self.inputs:
            if term.product is None:
                sums.append((run.value(term.reads), None))
            else:
                weights = getattr(part, f"weights{suffix}")
                sums.append((run.currents(weights, term.reads), weights.norm))
        # The first product leaves its norm to the quantiser, which does both in one pass.
        (x, norm), *others = sorted(sums, key=lambda each: each[1] is None)
        extra = None
        for other, other_norm in others:
            extra = other if other_norm is None else other_norm(other)
        return self._fire(part, run, x, extra, norm)

    def _fire(self, part: Any, run: Counting, x: Tensor, extra: Tensor | None, norm: Any) -> Tensor:
        """Counts of norm(x) + extra, behind the stage's own batch norm if it has one."""
        if part.norm is not None:
            x = x if norm is None else norm(x)
            x, extra, norm = x if extra is None else x + extra, None, part.norm
        count: Tensor = part.fire(x, extra, norm, run.given(self.name))
        return count

    def slots(self, part: Any, run: Slotwise) -> Tensor:
        from falcon_snn.neuron.firing import fire_train

        current: Any = 0
        static: Any = 0
        for suffix, term in self.inputs:
            x = run.values[term.reads]
            if term.product is not None:
                weights = getattr(part, f"weights{suffix}")
                scale, shift = weights.norm.scaling()
                currents = weights.currents(x.flatten(0, 1), x.new_ones(()))
                x = currents.view(*x.shape[:2], *currents.shape[1:]) * scale
                static = static + shift
            current = current + x
        if part.norm is not None:
            scale, shift = part.norm.scaling()
            current, static = current * scale, static * scale + shift
        step = part.fire.step()
        spikes = fire_train(
            current.float() / step, self._delay(run),
            threshold=part.fire.threshold, offset=part.fire.offset, static=static / step,
            gradient="temporal",
        )  # fmt: skip
        decoded: Tensor = spikes * step
        return decoded

    def _delay(self, run: Slotwise | Running) -> int:
        return run.network.slots if self.lookahead else run.delays[self.name]

    def convert(self, part: Any, conversion: Conversion) -> Converted:
        from falcon_snn.network.fixed_point import Input, neuron_rows

        tensors: dict[str, Tensor] = {}
        inputs = []
        for suffix, term in self.inputs:
            given = Input(conversion.step(term.reads), largest=float(conversion.slots))
            if term.product is not None:
                folded = conversion.folded(getattr(part, f"weights{suffix}"))
                tensors[f"weight{suffix}"], given = folded.codes, given.through(folded)
            inputs.append(given)
        norm = (1.0, 0.0) if part.norm is None else conversion.norm(part.norm)
        return tensors, [neuron_rows(part.fire, conversion.exact(part.fire.step), inputs, norm)]

    def relate_steps(self, part: Any, restoring: Restoring) -> None:
        """Spikes without weights count as much as their step, two streams of them in proportion."""
        gains = restoring.neurons(self.name, *(suffix for suffix, _ in self.inputs)).gains
        bare = [
            (restoring.step(term.reads), gains[suffix])
            for suffix, term in self.inputs
            if term.product is None
        ]
        if len(bare) == 2:
            (one, gain), (other, other_gain) = bare
            restoring.known([one], [other], gain / other_gain)
        if part.norm is None:  # thresholds hold the rest
            for step, gain in bare:
                restoring.usual([step], [part.fire.step], gain)

    def restore(self, part: Any, restoring: Restoring) -> None:
        import torch

        given = restoring.neurons(self.name, *(suffix for suffix, _ in self.inputs))
        own, threshold = restoring.exact(part.fire.step), torch.ones_like(given.initial)
        # Gains of codes are positive; those of the stage's own norm may have either sign.
        scale = threshold.where(torch.stack([*given.gains.values()]).sum(dim=0) >= 0, -1.0)
        nothing = torch.zeros_like(threshold)
        for suffix, term in self.inputs:
            if term.product is None:  # weights could hold its gain; here norm or threshold does
                usual = restoring.spike(term.reads) / own
                if part.norm is None:
                    threshold = usual / given.gains[suffix]
                else:
                    scale = given.gains[suffix] / usual
        part.fire.restore(threshold, given.initial)
        constant = given.static * threshold * own
        if part.norm is not None:
            part.norm.restore(scale, constant)
            constant = nothing
        for suffix, term in self.inputs:
            if term.product is not None:
                gain = given.gains[suffix] * threshold * own / restoring.spike(term.reads)
                gain = gain / scale.where(scale != 0, 1.0)  # where it is 0, gains are
                codes = restoring.tensor(self.name, f"weight{suffix}")
                getattr(part, f"weights{suffix}").restore(codes, gain, constant)
                constant = nothing

    def run(self, run: Running) -> Tensor:
        from falcon_snn.neuron import layers

        terms = [
            run.term(self.name, suffix, term.reads, term.product) for suffix, term in self.inputs
        ]
        spikes = layers.fire(
            terms, run.neurons(self.name), run.network.slots, self._delay(run), run.backend,
            border=run.network.borders[self.name],
        )  # fmt: skip
        return run.silence(self.name, spikes)

    def witness(self, run: Witness) -> Tensor:
        sums = [
            (f"factor{suffix}", run.product(self.name, suffix, run.values[term.reads], term.product)
             if term.product else run.values[term.reads])
            for suffix, term in self.inputs
        ]  # fmt: skip
        return run.fire(self.name, sums)

    def timing(self, network: Network) -> list[graph.TimedStage]:
        stages, after = [], []
        for suffix, term in self.inputs:
            if term.product is None:
                after.append(network.timed(term.reads))
                continue
            array = array_stage(network, f"{self.name}.array{suffix}", term.reads, term.product)
            stages.append(array)
            after.append(array.name)
        kind = "neuron" if len(after) == 1 else "residual"
        fires = graph.TimedStage(self.name, kind, tuple(after), full_lookahead=self.lookahead)
        return [*stages, fires]

    def nir(self, export: Any) -> None:
        two, after = len(self.terms) == 2, []
        added = export.numbers(self, "static")
        for suffix, term in self.inputs:
            before = term.reads
            if term.product is not None:
                before = export.array(self, suffix, before, term.product, added)
                added = None  # one of two layers has it
            after.append(export.scale(self, suffix, before) if two else before)
        export.neurons(self, after, scaled=two)

    def verilog(self, design: Any) -> None:
        inputs = [
            design.array(self, suffix, term.reads, term.product)
            if term.product
            else design.stream(term.reads)
            for suffix, term in self.inputs
        ]
        design.neurons(self, inputs)

    def c(self, program: Any) -> None:
        program.fire(self)


def array_stage(network: Network, name: str, reads: str, product: Product) -> graph.TimedStage:
    """The analog array of a layer: positions and groups work side by side."""
    before = network.shapes[reads]
    lines, pixels, outputs = product.shape(before, name)
    return graph.TimedStage(
        name, "analog", (network.timed(reads),), inner=product.rows(before[2]),
        columns=outputs // product.groups, copies=lines * pixels * product.groups,
    )  # fmt: skip
