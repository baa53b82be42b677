"""A network, written once: an ordered list of stages, and all that follows from it alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from falcon_snn.errors import FalconError
from falcon_snn.forms import shaped
from falcon_snn.network.operations import OPERATIONS, Attention, Code, Readout, Source
from falcon_snn.network.product import Pair, Product, Shape
from falcon_snn.network.stage import Stage
from falcon_snn.neuron.encoding import MAX_SLOTS
from falcon_snn.pipeline.graph import INPUT, Graph, check_name

if TYPE_CHECKING:
    from torch import Tensor

MAX_LEVELS = 255  # slots of a QNN; a spiking network has MAX_SLOTS at most
MAX_NUMBERS = 1 << 28  # weights in the arrays: a file that asks for more is not believed
MAX_TEXT = 200  # characters of a name
_LARGEST = 1 << 31  # of the numbers in a file


@dataclass(frozen=True)
class Network:
    """Stages in the order of execution: each reads earlier ones, from the source to the readout."""

    name: str
    slots: int  # T, the spike slots of a stage
    stages: tuple[Stage, ...]
    weight_bits: int = 8

    def __post_init__(self) -> None:
        if len(self.name) > MAX_TEXT or not self.name.isprintable():
            raise FalconError(f"the name of a network cannot be {self.name[:40]!r}")
        if not 1 <= self.slots <= MAX_LEVELS:
            raise FalconError(
                f"slots is {self.slots}; it must lie in 1..{MAX_SLOTS} (a QNN: 1..{MAX_LEVELS})"
            )
        if not 2 <= self.weight_bits <= 8:
            raise FalconError(f"weight bits is {self.weight_bits}; it must lie in 2..8")
        first, last = self.stages[:1], self.stages[-1:]
        if not isinstance(first and first[0], Source) or not isinstance(last[0], Readout):
            raise FalconError(
                f"network '{self.name}' must begin with a source and end in a readout"
            )
        seen: dict[str, Stage] = {}
        for stage in self.stages:
            self._check(stage, seen)
            seen[stage.name] = stage
        unread = set(seen) - {name for stage in self.stages for name in stage.reads}
        if unread != {last[0].name}:
            loose = min(unread - {last[0].name})
            raise FalconError(f"network '{self.name}': nothing reads stage '{loose}'")
        numbers = self.readout.macs(self)
        if self.source.product is not None:
            numbers += weight_count(self.source.product, self.source.input)
        for stage in self.stages:
            numbers += sum(weight_count(p, self.shapes[r]) for _, r, p in stage.products)
        if numbers > MAX_NUMBERS:
            raise FalconError(f"network '{self.name}' has {numbers:,} weights; too many")

    def _check(self, stage: Stage, seen: Mapping[str, Stage]) -> None:
        check_name(stage.name)
        if stage.name in seen:
            raise FalconError(f"two stages have the name '{stage.name}'; names must differ")
        attends = isinstance(stage, Attention)
        for number, read in enumerate(stage.reads):
            if read not in seen:
                raise FalconError(
                    f"stage '{stage.name}' reads '{read[:40]}', which is not a stage before it"
                )
            wanted = "codes" if attends and number < 2 else "spikes"  # of Q and K
            if seen[read].emits != wanted:
                raise FalconError(
                    f"stage '{stage.name}' needs the {wanted} of '{read}', which gives "
                    f"{seen[read].emits}"
                )
        if seen and isinstance(stage, Source):
            raise FalconError(f"network '{self.name}' has two sources")
        if isinstance(stage, Code) and stage.prefix not in (None, *range(1, self.slots + 1)):
            raise FalconError(f"Q/K prefix is {stage.prefix}; it must lie in 1..{self.slots}")

    @property
    def source(self) -> Source:
        first = self.stages[0]
        assert isinstance(first, Source)
        return first

    @property
    def readout(self) -> Readout:
        last = self.stages[-1]
        assert isinstance(last, Readout)
        return last

    @property
    def inner_stages(self) -> tuple[Stage, ...]:
        """All but the readout: the stages that have a stream."""
        return self.stages[:-1]

    @property
    def classes(self) -> int:
        return self.readout.classes

    @cached_property
    def by_name(self) -> dict[str, Stage]:
        return {stage.name: stage for stage in self.stages}

    @cached_property
    def shapes(self) -> dict[str, Shape]:
        """What comes out of every stage, for an input of full length."""
        shapes: dict[str, Shape] = {}
        for stage in self.stages:
            shapes[stage.name] = stage.shape(shapes)
        return shapes

    @cached_property
    def last_reader(self) -> dict[str, str]:
        """The last stage that reads each stage."""
        return {name: stage.name for stage in self.stages for name in stage.reads}

    @cached_property
    def boundaries(self) -> tuple[str, ...]:
        """The searchable stages, in network order."""
        return tuple(stage.name for stage in self.stages if stage.searchable)

    @property
    def lookahead(self) -> dict[str, int]:
        """Full lookahead: every boundary waits for all slots."""
        return dict.fromkeys(self.boundaries, self.slots)

    @cached_property
    def borders(self) -> dict[str, Pair]:
        """The silent border around each stream: as wide as the widest padding that reads it."""
        borders: dict[str, Pair] = dict.fromkeys(self.by_name, (0, 0))
        for stage in self.stages:
            for _, read, product in stage.products:
                _, _, padding = product.window()
                old = borders[read]
                borders[read] = (max(old[0], padding[0]), max(old[1], padding[1]))
        return borders

    @cached_property
    def silent(self) -> frozenset[str]:
        """Stages whose padded lines must not spike, because a kernel reads across lines."""
        across = {
            read
            for stage in self.stages
            for _, read, product in stage.products
            if product.window()[0][0] > 1
        }
        return frozenset({self.source.name, *across})

    @property
    def prefix(self) -> int:
        """The slots that Q and K wait for."""
        prefixes = {s.prefix or self.slots for s in self.stages if isinstance(s, Code)}
        return max(prefixes, default=self.slots)

    def inner(self, name: str, stream: Tensor) -> Tensor:
        """A stage's stream without its silent border."""
        lines, pixels = self.borders[name]
        return stream[:, lines : stream.shape[1] - lines, pixels : stream.shape[2] - pixels]

    def lines(self, lengths: Tensor) -> dict[str, Tensor]:
        """Lines that are real, of every stage's output, from those of the input."""
        found: dict[str, Tensor] = {}
        for stage in self.stages:
            found[stage.name] = stage.lines(found[stage.reads[0]] if stage.reads else lengths)
        return found

    def timed(self, name: str) -> str:
        """A stage's name in the timing graph, where the source is the input."""
        return INPUT if name == self.source.name else name

    @cached_property
    def graph(self) -> Graph:
        """The timed core: from the source spikes to the last stage before the readout."""
        self.demand_spikes()
        stages = tuple(part for stage in self.stages for part in stage.timing(self))
        if not stages:
            raise FalconError(f"network '{self.name}' has no stage between source and readout")
        return Graph(self.name, self.slots, stages)

    def demand_spikes(self) -> None:
        """Spikes are packed into bytes: an SNN has up to 8 slots; a QNN may have more levels."""
        if self.slots > MAX_SLOTS:
            raise FalconError(
                f"slots is {self.slots}; a spiking network has 1..{MAX_SLOTS} (`falcon-snn train "
                "--slots T --init CHECKPOINT` makes one from a QNN of more levels)"
            )

    def with_prefix(self, prefix: int | None) -> Network:
        """The same network whose Q and K wait for another number of slots."""
        if prefix is not None and not any(isinstance(stage, Code) for stage in self.stages):
            raise FalconError(f"network '{self.name}' has no Q and K, so no Q/K prefix")
        return self._changed(lambda s: replace(s, prefix=prefix) if isinstance(s, Code) else s)

    def with_slots(self, slots: int) -> Network:
        """The same network with another number of slots; Q and K wait for all of them."""
        whole = self._changed(lambda s: replace(s, prefix=None) if isinstance(s, Code) else s)
        return replace(whole, slots=slots)

    def with_source(self, **changes: Any) -> Network:
        """The same network with other settings of its source."""
        return replace(self, stages=(replace(self.source, **changes), *self.stages[1:]))

    def _changed(self, change: Any) -> Network:
        return replace(self, stages=tuple(map(change, self.stages)))

    def as_json(self) -> dict[str, Any]:
        """The description as plain data that `network_from_json` reads."""
        stages = [{"operation": stage.operation, **asdict(stage)} for stage in self.stages]
        facts = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**facts, "stages": stages}


def weight_count(product: Product, before: Shape) -> int:
    """Weights of a product on a map, as the arrays hold them: pooled inputs, all groups."""
    kernel, _, _ = product.window()
    return product.outputs * kernel[0] * kernel[1] * before[2]


def weights_of(network: Network) -> int:
    """Trained weights of all layers, those that pooled inputs share counted once."""
    layers = [
        (product, network.shapes[read][2])
        for stage in network.stages for _, read, product in stage.products
    ]  # fmt: skip
    if network.source.product is not None:
        layers.append((network.source.product, network.source.input[2]))
    return network.readout.macs(network) + sum(
        product.outputs * product.kernel[0] * product.kernel[1] * channels // product.groups
        for product, channels in layers
    )


@dataclass(frozen=True)
class _Form:
    """A network in a file, except its stages."""

    name: str
    slots: int
    stages: list[str]
    weight_bits: int = 8


def network_from_json(values: Any) -> Network:
    """The network that plain data describe; what is missing, unknown or wrong gives one line."""
    if not isinstance(values, dict) or not isinstance(values.get("stages"), list):
        raise FalconError("a network is a table with a list of stages")
    stages = []
    for table in values["stages"]:
        operation = table.get("operation") if isinstance(table, dict) else None
        if not isinstance(operation, str) or operation not in OPERATIONS:
            known = ", ".join(OPERATIONS)
            raise FalconError(f"unknown operation {str(operation)[:40]!r}; known: {known}")
        rest = {key: value for key, value in table.items() if key != "operation"}
        where = f"stage {str(table.get('name'))[:40]!r}"
        stages.append(shaped(rest, OPERATIONS[operation], where, largest=_LARGEST))
    form: _Form = shaped({**values, "stages": []}, _Form, "network", largest=_LARGEST)
    return Network(form.name, form.slots, tuple(stages), form.weight_bits)
