"""The generated part of a hardware description: a network's modules, wired, with their files.

Every stage adds its own (`Stage.verilog`); the modules themselves are the files in `rtl/` and
`model/`. A stream is "count and slots": one writer, many readers.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile
from falcon_snn.interchange.verilog.attention import Pool, add_arrays, add_attention
from falcon_snn.interchange.verilog.stream import Stream, words
from falcon_snn.network.integer import Snn
from falcon_snn.network.operations import Attention, Code, Fire, Source
from falcon_snn.network.product import Product
from falcon_snn.network.stage import Stage

LEAST_STEP = 3  # scale, update, register
LEAST_PASS = 2  # spikes in, sums out
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Monitored:
    """A stage whose slots the testbench compares."""

    stage: Stage
    wires: str
    bits: int  # of one slot
    slots: int


@dataclass(frozen=True)
class Instance:
    """A module in the network, with its parameters."""

    module: str
    parameters: Mapping[str, Any]


class Design:
    """Modules, wires and files so far; `folder.py` puts them together."""

    def __init__(self, snn: Snn, profile: Profile) -> None:
        self.snn, self.network, self.profile = snn, snn.network, profile
        self.graph = snn.network.graph
        self.lines: list[str] = []
        self.files: dict[str, str] = {}  # path to text
        self.instances: list[Instance] = []
        self.monitored: list[Monitored] = []
        self.streams: dict[str, Stream] = {}
        self.from_source: list[str] = []  # firing stages that nothing but the source feeds
        self._wires: dict[str, str] = {}
        self.pools: dict[str, Pool] = {}  # systolic arrays by who owns them
        if profile.neuron_step_cycles < LEAST_STEP:
            raise FalconError(
                f"neuron_step_cycles is {profile.neuron_step_cycles}; the neurons of the hardware "
                f"description take {LEAST_STEP} cycles or more"
            )
        for stage in self.network.stages:
            stage.verilog(self)
        for pool in self.pools.values():
            add_arrays(self, pool)

    # What stages call.

    def source(self, stage: Source) -> None:
        self.streams[stage.name] = Stream("source_count", "source_slots", 1, self.network.slots)

    def stream(self, name: str) -> Stream:
        return self.streams[name]

    def array(self, stage: Stage, suffix: str, reads: str, product: Product) -> Stream:
        """An analog array with its passes; its sums wait where the reader may be late."""
        timed = self.graph.stage(f"{stage.name}.array{suffix}")
        cycles = self.profile.pass_cycles(timed.inner, timed.copies)
        if cycles < max(LEAST_PASS, self.profile.neurons_per_unit):
            raise FalconError(
                f"a pass of '{timed.name}' takes {cycles} cycles; the hardware description needs "
                f"{max(LEAST_PASS, self.profile.neurons_per_unit)} or more (neurons of one unit "
                "take a sum each per cycle)"
            )
        weight = self.snn.arrays[f"{stage.name}.weight{suffix}"].numpy().astype(np.int64)
        kernel, stride, padding = product.window()
        before, after = self.network.shapes[reads], self.network.shapes[stage.name]
        size, name = after[0] * after[1] * after[2], self.wire(stage.name) + f"_array{suffix}"
        prompt = len(stage.reads) == 1 and cycles >= self.profile.decision_cycles
        width, depth = _sum_bits(weight), 1 if prompt else self.network.slots
        file = self.add_file(f"{name}.hex", _bytes(weight.reshape(len(weight), -1)))
        source = self.streams[reads]
        self.module("falcon_pass", f"{name}_pass", {"SLOTS": self.network.slots}, {
            "count": source.count, "start": self.new_wire(f"{name}_start"),
            "slot": self.new_wire(f"{name}_slot", 4), "done": self.new_wire(f"{name}_done"),
        })  # fmt: skip
        self.module("falcon_macro", f"{name}_macro", {
            "LINES": before[0], "PIXELS": before[1], "CHANNELS": before[2], "OUTPUTS": after[2],
            "KERNEL_0": kernel[0], "KERNEL_1": kernel[1], "STRIDE_0": stride[0],
            "STRIDE_1": stride[1], "PADDING_0": padding[0], "PADDING_1": padding[1],
            "N": size, "WIDTH": width, "CYCLES": cycles, "SLOTS": self.network.slots,
            "FILE": file,
        }, {
            "start": f"{name}_start", "slot": f"{name}_slot", "slots": source.slots,
            "done": f"{name}_done", "sums": self.new_wire(f"{name}_sums", size * width),
        })  # fmt: skip
        return self._buffer(name, size, width, depth, f"{name}_done", f"{name}_sums")

    def neurons(self, stage: Fire, inputs: Sequence[Stream]) -> None:
        """The neurons of a firing stage; the delay is an input of the network."""
        slots = self.network.slots
        delay = f"4'd{slots}"
        if stage.searchable:
            number = self.network.boundaries.index(stage.name)
            delay = f"delays[{4 * number}+:4]"
        if set(stage.reads) == {self.network.source.name} and not stage.products:
            self.from_source.append(stage.name)
            if stage.lookahead and slots > 1:
                self.check_delays({stage.name: slots})
        parts = ("static", "initial", "threshold", "factor", "factor2")
        self._neurons(stage, inputs, parts[: 3 + len(inputs)], slots, delay)

    def code(self, stage: Code, sums: Stream) -> None:
        """Q or K: one decision after the first slots."""
        prefix = stage.prefix or self.network.slots
        name, size, channels = self._bank(stage, (sums, sums), prefix, 1, f"4'd{prefix}")
        constants = np.concatenate([self.numbers(stage, p) for p in ("bias", "shift", "factor")])
        self.module("falcon_code", f"{name}_bank", {
            "N": size, "CHANNELS": channels, "SHARE": self.profile.neurons_per_unit,
            "WIDTH": sums.width, "DEPTH": sums.depth,
            "FILE": self.add_file(f"{name}.hex", words(constants)),
        }, self._control_wires(name) | {
            "sums": sums.slots, "codes": self.new_wire(f"{name}_out", size * 8)
        })  # fmt: skip
        self._output(stage, name, size, 8, 1)

    def attention(self, stage: Attention) -> None:
        """Products on systolic arrays, ConSmax between them, and the neurons behind."""
        mixed = add_attention(self, stage)
        # The neurons see all of their input at once.
        self._neurons(stage, (mixed,), ("static", "initial", "threshold", "factor"), 1, "4'd1")

    # The rest.

    def check_delays(self, delays: Mapping[str, int]) -> None:
        """Refuse what this hardware would do later than the model says."""
        for name in self.from_source:
            if delays.get(name, 1) > 1:
                raise FalconError(
                    f"'{name}' reads spikes of the source alone and waits for {delays[name]} of "
                    "them, which the model takes to be there at once; the hardware takes one per "
                    "cycle: its delay must be 1"
                )

    def _neurons(
        self, stage: Stage, inputs: Sequence[Stream], parts: Sequence[str], slots: int, delay: str
    ) -> None:
        out = self.network.slots
        a, b = inputs[0], inputs[-1]
        name, size, channels = self._bank(stage, (a, b), slots, out, delay)
        constants = {part: self.numbers(stage, part) for part in parts}
        # Attention takes all of its input at once, so what every slot adds comes at once as well.
        constants["static"] = constants["static"] * (out // slots)
        factors = np.concatenate([constants[part] for part in parts[3:]])
        rows = [constants.get(part, np.zeros(channels, np.int64))
                for part in (*parts[:3], "factor", "factor2")]  # fmt: skip
        self.module("falcon_neurons", f"{name}_bank", {
            "N": size, "CHANNELS": channels, "SHARE": self.profile.neurons_per_unit,
            "TERMS": len(inputs), "WIDTH_A": a.width, "DEPTH_A": a.depth, "WIDTH_B": b.width,
            "DEPTH_B": b.depth, "FACTOR": int(np.abs(factors).max()).bit_length() + 1,
            "FILE": self.add_file(f"{name}.hex", words(np.concatenate(rows))),
        }, self._control_wires(name) | {
            "in_a": a.slots, "in_b": b.slots, "spikes": self.new_wire(f"{name}_out", size)
        })  # fmt: skip
        self._output(stage, name, size, 1, out)

    def _bank(
        self, stage: Stage, inputs: tuple[Stream, Stream], slots: int, outputs: int, delay: str
    ) -> tuple[str, int, int]:
        """The controller of a bank of neurons; gives the bank's name, neurons and channels."""
        name, (lines, pixels, channels) = self.wire(stage.name), self.network.shapes[stage.name]
        wires = {
            wire: self.new_wire(f"{name}_{wire}", bits)
            for wire, bits in (
                ("issue", 1), ("add", 1), ("fire", 1), ("slot", 4), ("phase", 16), ("write", 1)
            )
        }  # fmt: skip
        self.module("falcon_control", f"{name}_control", {
            "INPUTS": slots, "OUTPUTS": outputs, "STEP": self.profile.neuron_step_cycles,
            "SHARE": self.profile.neurons_per_unit,
        }, {
            "delay": delay, "count_a": inputs[0].count, "count_b": inputs[1].count, **wires
        })  # fmt: skip
        return name, lines * pixels * channels, channels

    def _control_wires(self, name: str) -> dict[str, str]:
        return {wire: f"{name}_{wire}" for wire in ("issue", "add", "fire", "slot", "phase")}

    def _output(self, stage: Stage, name: str, size: int, width: int, slots: int) -> None:
        stream = self._buffer(name, size, width, slots, f"{name}_write", f"{name}_out", slots)
        self.streams[stage.name] = stream
        self.monitored.append(Monitored(stage, name, size * width, slots))

    def _buffer(
        self, name: str, size: int, width: int, depth: int, write: str, data: str,
        slots: int | None = None,
    ) -> Stream:  # fmt: skip
        count = self.new_wire(f"{name}_count", 4)
        held = self.new_wire(f"{name}_slots", depth * size * width)
        slots = self.network.slots if slots is None else slots
        self.module("falcon_slots", f"{name}_buffer", {
            "WIDTH": size * width, "SLOTS": slots, "DEPTH": depth,
        }, {"write": write, "data": data, "count": count, "slots": held})  # fmt: skip
        return Stream(count, held, width, depth)

    def numbers(self, stage: Stage, part: str) -> Numbers:
        return np.asarray(self.snn.tensors[f"{stage.name}.{part}"].numpy()).astype(np.int64)

    def wire(self, name: str) -> str:
        """A stage's name as an identifier that no other stage has."""
        if name not in self._wires:
            plain = re.sub(r"\W", "_", name)
            self._wires[name] = f"s{len(self._wires)}_{plain}"
        return self._wires[name]

    def new_wire(self, name: str, bits: int = 1) -> str:
        self.lines.append(f"  logic [{bits - 1}:0] {name};" if bits > 1 else f"  logic {name};")
        return name

    def add_file(self, name: str, text: str) -> str:
        path = f"parameters/{name}"
        self.files[path] = text
        return path

    def module(
        self, module: str, name: str, parameters: Mapping[str, Any], ports: Mapping[str, str]
    ) -> None:
        self.instances.append(Instance(module, parameters))
        given = ", ".join(
            f'.{key}("{value}")' if isinstance(value, str) else f".{key}({value})"
            for key, value in parameters.items()
        )
        wired = ", ".join(f".{key}({value})" for key, value in ports.items())
        self.lines.append(f"  {module} #({given}) {name} (.clk(clk), .reset(reset), {wired});")


def _sum_bits(weight: Numbers) -> int:
    """Bits of a signed sum of any of the weights of an output."""
    flat = weight.reshape(len(weight), -1)
    most = max(int(flat.clip(min=0).sum(axis=1).max()), int((-flat).clip(min=0).sum(axis=1).max()))
    return max(2, most.bit_length() + 1)


def _bytes(rows: Numbers) -> str:
    """Signed bytes in hexadecimal, a line per row."""
    return "".join(" ".join(f"{value & 0xFF:02x}" for value in row) + "\n" for row in rows.tolist())
