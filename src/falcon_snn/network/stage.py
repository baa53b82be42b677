"""What a network is made of: stages as data, and what every operation must be able to say.

A stage is a frozen record: a name, what it reads, its geometry. All that is ever done with a
network is a loop over its stages that asks each for one meaning: its shape, its trainable part,
counts, slots, integers and the way back from them, one integer step, the witness, its place in the
timing graph, its words in NIR. An operation is one file in `operations/`; nothing about a stage is
known from its name.

Values are [clip, line, pixel, channel]. A line is what has an order in time, or the rows of a
picture; a signal of one axis has one pixel per line, a vector one line of one pixel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from falcon_snn.network.product import Product, Shape
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
class Stage(ABC):
    """One stage of a network; its operation is its class."""

    name: str

    operation: ClassVar[str]  # its name in files
    emits: ClassVar[str]  # "spikes" (packed trains), "codes" (signed numbers) or "scores"

    @property
    @abstractmethod
    def reads(self) -> tuple[str, ...]:
        """The stages that it reads."""

    @property
    def products(self) -> tuple[tuple[str, str, Product], ...]:
        """Its layers of weights as (suffix of its tensors, what it reads, geometry)."""
        return ()

    @property
    def searchable(self) -> bool:
        """Whether a delay can be chosen for it."""
        return False

    @property
    def firing(self) -> str:
        """How it fires, for people."""
        return self.emits

    @abstractmethod
    def shape(self, shapes: Mapping[str, Shape]) -> Shape:
        """What comes out, without slots; a geometry that does not fit is an error."""

    def lines(self, lines: Tensor) -> Tensor:
        """Lines of its output that are real, from those of its first input."""
        return lines

    @abstractmethod
    def words(self, shapes: Mapping[str, Shape]) -> str:
        """What it computes, in a few words."""

    @abstractmethod
    def module(self, network: Network) -> Part:
        """Its trainable part."""

    @abstractmethod
    def count(self, part: Any, run: Counting) -> Tensor:
        """The QNN: its integers, with a gradient."""

    @abstractmethod
    def slots(self, part: Any, run: Slotwise) -> Tensor:
        """The spiking network in float: decoded spikes [slot, ...], with a gradient."""

    @abstractmethod
    def convert(self, part: Any, conversion: Conversion) -> Converted:
        """Its integers by suffix of their names, and what is found with that of other stages."""

    def relate_steps(self, part: Any, restoring: Restoring) -> None:  # noqa: B027
        """Say what its integers tell of learned steps, its own or those of stages that it reads."""

    @abstractmethod
    def restore(self, part: Any, restoring: Restoring) -> None:
        """Give its trainable part what its integers come from."""

    @abstractmethod
    def run(self, run: Running) -> Tensor:
        """One step of the integer network: its packed spikes or codes."""

    @abstractmethod
    def witness(self, run: Witness) -> Tensor:
        """Its integers computed from counts alone, by code other than `run`."""

    @abstractmethod
    def timing(self, network: Network) -> list[graph.TimedStage]:
        """Its stages in the timing graph."""

    def macs(self, network: Network) -> int:
        """Multiply-accumulates of one slot of one clip."""
        return sum(product.macs(network.shapes[read]) for _, read, product in self.products)

    @abstractmethod
    def nir(self, export: Any) -> None:
        """Add its nodes to a NIR graph (`interchange/nir_network.py`)."""

    @abstractmethod
    def verilog(self, design: Any) -> None:
        """Add its modules to a hardware description (`interchange/verilog/design.py`)."""

    @abstractmethod
    def c(self, program: Any) -> None:
        """Add its call to a C program (`interchange/c/program.py`)."""
