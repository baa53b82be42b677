"""Attention without reductions: C = SN_T(A V), A = Q_A(ConSmax(Q K^T / sqrt(d_h)))."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from falcon_snn.errors import FalconError
from falcon_snn.network.product import Shape
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

MAX_PADDING = 2  # clips may have this many times the lines that the network was made for
_CURVE = ("curve.table", "curve.slope", "curve.offset")


@dataclass(frozen=True)
class Attention(Stage):
    """Every line attends to all lines; values are complete counts, so it fires with delay T."""

    q: str
    k: str
    v: str
    heads: int

    operation = "attention"
    emits = "spikes"

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.q, self.k, self.v)

    @property
    def firing(self) -> str:
        return "full lookahead"

    def shape(self, shapes: Mapping[str, Shape]) -> Shape:
        found = {shapes[name] for name in self.reads}
        shape = shapes[self.v]
        if len(found) > 1 or shape[1] != 1 or self.heads < 1 or shape[2] % self.heads:
            raise FalconError(
                f"stage '{self.name}': Q, K and V must be equal maps of one pixel per line, whose "
                f"channels {self.heads} heads can share"
            )
        return shape

    def words(self, shapes: Mapping[str, Shape]) -> str:
        return f"{self.heads} heads, ConSmax(Q K^T) V"

    def module(self, network: Network) -> Part:
        from falcon_snn.network.parts import Part
        from falcon_snn.network.quantise import ConSmax, Counter

        tokens, _, channels = network.shapes[self.v]
        fire = Counter(channels, network.slots, 3.0 / network.slots)
        return Part(consmax=ConSmax(self.heads, tokens), fire=fire)

    def count(self, part: Any, run: Counting) -> Tensor:
        q, k, v = (run.counts[name] for name in self.reads)
        if q.is_cuda:  # the counts themselves: their products are exact
            return self._context(part, q, k, v, run, run.spike(self.v))
        return self._context(part, q, k, run.value(self.v), run)

    def slots(self, part: Any, run: Slotwise) -> Tensor:
        value = run.values[self.v].sum(dim=0)
        count = self._context(part, run.values[self.q], run.values[self.k], value, run)
        # With full lookahead all spikes come at once, one in each of the first slots.
        decoded: Tensor = part.fire.decode(run.spikes(count, "first"), run.step(part.fire.step))
        return decoded

    def _context(
        self, part: Any, q: Tensor, k: Tensor, v: Tensor, run: Counting | Slotwise, one: Any = 1.0
    ) -> Tensor:
        """Counts of A V for the codes of Q and K and values v * one; padded keys get nothing."""
        import torch

        from falcon_snn.network.quantise import kept_as

        size = q.shape[-1] // self.heads
        steps = [run.step(run.part(name).code.step) for name in (self.q, self.k)]
        step = steps[0] * steps[1] / size**0.5
        mask, value_step = run.mask(self.v, q.shape[1]), one * run.step(part.consmax.step)
        if q.is_cuda:
            from falcon_snn.neuron.attention_training import context

            q, k, v = (each.flatten(2).to(q) for each in (q, k, v))
            offset = part.consmax.log_offset()
            mixed = context(q, k, v, mask, self.heads, step, offset, value_step)
        else:
            attention = part.consmax(self.split(q) @ self.split(k).transpose(2, 3), step)
            if mask is not None:
                attention = attention * mask[:, None, None, :]
            with kept_as(torch.int16, attention):
                mixed = attention @ self.split(v * value_step).to(attention)
            mixed = mixed.transpose(1, 2).flatten(2)
        count: Tensor = part.fire(mixed.unsqueeze(2), given=run.given(self.name))
        return count

    def split(self, x: Tensor) -> Tensor:
        """[clip, line, 1, channel] to [clip, head, line, head size]."""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def convert(self, part: Any, conversion: Conversion) -> Converted:
        from falcon_snn.network.fixed_point import Input, neuron_rows
        from falcon_snn.network.rows import Rows

        tokens, _, channels = conversion.shape(self.v)
        consmax, most = part.consmax, 255.0 * MAX_PADDING * tokens
        values = Input(
            conversion.step(self.v), float(conversion.slots), conversion.exact(consmax.step), most
        )
        fires = neuron_rows(part.fire, conversion.exact(part.fire.step), [values])
        columns = {
            "q": conversion.exact(conversion.part(self.q).code.step),
            "k": conversion.exact(conversion.part(self.k).code.step),
            "beta": consmax.beta, "log_gamma": consmax.log_gamma, "log_step": consmax.step.log,
        }  # fmt: skip
        settings = {"size": channels // self.heads}
        return {}, [fires, Rows(_curve, self.heads, columns, _CURVE, settings)]

    def relate_steps(self, part: Any, restoring: Restoring) -> None:
        size = restoring.network.shapes[self.v][2] // self.heads
        codes = [restoring.code_step(name) for name in (self.q, self.k)]
        restoring.known(codes, [], restoring.tensor(self.name, "curve.slope") * size**0.5)
        values, given = (
            [restoring.step(self.v), part.consmax.step],
            restoring.neurons(self.name, ""),
        )
        restoring.usual(values, [part.fire.step], given.gains[""])

    def restore(self, part: Any, restoring: Restoring) -> None:
        given, consmax = restoring.neurons(self.name, ""), part.consmax
        value = restoring.spike(self.v) * restoring.exact(consmax.step)
        part.fire.restore(value / restoring.exact(part.fire.step) / given.gains[""], given.initial)
        offset = restoring.tensor(self.name, "curve.offset")
        consmax.beta.copy_(offset - consmax.log_gamma - consmax.step.log)

    def run(self, run: Running) -> Tensor:
        from falcon_snn.neuron import layers
        from falcon_snn.neuron.layers_torch import with_border

        curve = layers.AttentionCurve(*(run.tensor(self.name, part) for part in _CURVE))
        q, k, v = (run.inner(name).flatten(2).contiguous() for name in self.reads)
        context = layers.attention(
            q, k, v, run.lines(self.v), self.heads, curve, run.tensor(self.name, "factor"),
            run.neurons(self.name), run.network.slots, run.backend,
        )  # fmt: skip
        trains = with_border(context.unsqueeze(2), run.network.borders[self.name])
        return run.silence(self.name, trains)

    def witness(self, run: Witness) -> Tensor:
        q, k, v = (self.split(run.values[name]) for name in self.reads)
        levels = run.curve(q @ k.mT, run.tensor(self.name, "curve.table"))
        levels = levels * run.mask(self.v, v.shape[2])[:, None, None, :, 0, 0]
        mixed = (levels @ v).transpose(1, 2).flatten(2).unsqueeze(2)
        return run.fire(self.name, [("factor", mixed)])

    def _block(self, network: Network) -> str:
        """What its products are named after: its block, if no other attention shares that."""
        block = self.name.rpartition(".")[0]
        others = [s.name for s in network.stages if isinstance(s, Attention) and s != self]
        shared = any(name.rpartition(".")[0] == block for name in others)
        return self.name if shared or not block else block

    def timing(self, network: Network) -> list[graph.TimedStage]:
        lines, _, channels = network.shapes[self.v]
        size, block, value = channels // self.heads, self._block(network), network.timed(self.v)
        return [
            graph.TimedStage(f"{block}.qk", "product", (self.q, self.k),
                        rows=lines, inner=size, columns=lines, copies=self.heads),
            graph.TimedStage(f"{block}.consmax", "elementwise", (f"{block}.qk",),
                        rows=lines, columns=lines, copies=self.heads),
            graph.TimedStage(f"{block}.av", "product", (f"{block}.consmax", value),
                        rows=lines, inner=lines, columns=size, copies=self.heads),
            graph.TimedStage(self.name, "neuron", (f"{block}.av",), full_lookahead=True),
        ]  # fmt: skip

    def macs(self, network: Network) -> int:
        lines, _, channels = network.shapes[self.v]
        return 2 * lines * lines * channels

    def nir(self, export: Any) -> None:
        curve = {part: export.numbers(self, part) for part in _CURVE}
        export.neurons(self, self.reads, more={"heads": self.heads, **curve})

    def verilog(self, design: Any) -> None:
        design.attention(self)

    def c(self, program: Any) -> None:
        program.attention(self)


def _curve(
    q: Tensor, k: Tensor, beta: Tensor, log_gamma: Tensor, log_step: Tensor, size: int
) -> dict[str, Tensor]:
    """The map's curve for every head."""
    import torch

    slope, offset = q * k / size**0.5, beta + log_gamma + log_step
    code = torch.arange(1, 256, device=offset.device)
    # exp(slope s - offset) rounds to code c or more from s = (ln(c - 1/2) + offset) / slope on.
    smallest = ((code - 0.5).double().log() + offset.double()[:, None]) / slope[:, None]
    smallest = smallest.ceil().clamp(-(2**31) + 2, 2**31 - 2).int()
    edge = torch.full((len(offset), 1), 2**31 - 1, device=offset.device, dtype=torch.int32)
    table = torch.cat([-edge, smallest, edge], dim=1)
    return dict(zip(_CURVE, (table, slope.float(), offset), strict=True))
