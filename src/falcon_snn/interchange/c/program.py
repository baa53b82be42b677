"""The generated part of a C program: a network's integers, its memory, and a call per stage.

Every stage adds its own (`Stage.c`); the functions that are called are those of `text/runtime.c`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from falcon_snn.data.features import BANDS, CLIP_SAMPLES, FFT_SAMPLES, FRAMES
from falcon_snn.errors import FalconError
from falcon_snn.network.integer import Snn
from falcon_snn.network.operations import Attention, Code, Fire, Readout, Source
from falcon_snn.network.product import Product
from falcon_snn.network.stage import Stage
from falcon_snn.neuron.encoding import encoding_table

_TYPES = {"int8_t": np.int8, "uint8_t": np.uint8, "int32_t": np.int32}
_NEURONS = ("initial", "static", "threshold")
ALIGNED = 8  # bytes: what a double asks for
FEATURE_BYTES = 2 * 8 * FFT_SAMPLES  # the two buffers of features.c


@dataclass
class Buffer:
    """A stage's output in the memory that all share, from the step that writes it to the last."""

    size: int
    first: int
    last: int
    at: int = 0


class Program:
    """Constants, calls and memory so far; `folder.py` puts them together."""

    def __init__(self, snn: Snn, delays: Mapping[str, int]) -> None:
        self.snn, self.network, self.delays = snn, snn.network, delays
        self.constants: list[str] = []
        self.calls: list[str] = []
        self.constant_bytes = 0
        self.sums = self.more = 1  # numbers that the sums of one place need
        self.sound = self.network.source.input == (FRAMES, BANDS, 1)
        self.buffers: dict[str, Buffer] = {}
        self._place_buffers()
        for stage in self.network.stages:
            stage.c(self)

    @property
    def ram_bytes(self) -> int:
        """All static memory of the network."""
        features = FEATURE_BYTES if self.sound else 0
        return self.memory_bytes + 4 * (self.sums + self.more) + features

    @property
    def inputs(self) -> int:
        """Numbers of one clip as the caller gives them."""
        return CLIP_SAMPLES if self.sound else int(np.prod(self.network.source.input))

    # What stages call.

    def source(self, stage: Source) -> None:
        slots, (lines, pixels, channels) = self.network.slots, stage.input
        term = self._term(stage, "", "0", (lines, pixels, channels), stage.product)
        trains = self._constant("uint8_t", f"{stage.name}.trains",
                                encoding_table(slots, stage.encoding))  # fmt: skip
        inputs = self._at("inputs", "int8_t") if self.sound else "input"
        self.sums = max(self.sums, self._shape(stage)[2])
        self._call(stage, [term], f"falcon_source({self._at(stage.name)}, {self._sizes(stage)}, "
                   f"{inputs}, &term[0], &neurons, {slots}, {trains}, sums);")  # fmt: skip

    def fire(self, stage: Fire) -> None:
        slots, outputs = self.network.slots, self._shape(stage)[2]
        terms = [
            self._term(stage, suffix, self._at(term.reads), self.network.shapes[term.reads],
                       term.product)
            for suffix, term in stage.inputs
        ]  # fmt: skip
        delay = self.delays[stage.name] if stage.searchable else slots
        self.sums = max(self.sums, slots * outputs)
        if len(stage.terms) == 2 and stage.terms[1].product is not None:
            self.more = max(self.more, slots * outputs)
        self._call(stage, terms, f"falcon_fire({self._at(stage.name)}, {self._sizes(stage)}, term, "
                   f"{len(terms)}, &neurons, {slots}, {delay}, sums, more);")  # fmt: skip

    def code(self, stage: Code) -> None:
        before = self.network.shapes[stage.source]
        term = self._term(stage, "", self._at(stage.source), before, stage.product)
        bias = self._tensor(stage, "bias")
        shift = self._tensor(stage, "shift", "uint8_t")
        self.sums = max(self.sums, self._shape(stage)[2])
        self._call(stage, [term], f"falcon_code({self._at(stage.name, 'int8_t')}, "
                   f"{self._sizes(stage)}, &term[0], {bias}, {shift}, "
                   f"{stage.prefix or self.network.slots}, sums);", fires=False)  # fmt: skip

    def attention(self, stage: Attention) -> None:
        lines, _, channels = self._shape(stage)
        q, k = (self._at(name, "int8_t") for name in (stage.q, stage.k))
        curve = self._tensor(stage, "curve.table")
        factor = self._tensor(stage, "factor")
        self.sums = max(self.sums, channels // stage.heads)
        self._call(stage, [], f"falcon_attention({self._at(stage.name)}, {lines}, {channels}, "
                   f"{stage.heads}, {q}, {k}, {self._at(stage.v)}, {curve}, {factor}, &neurons, "
                   f"{self.network.slots}, sums);")  # fmt: skip

    def readout(self, stage: Readout) -> None:
        before = self.network.shapes[stage.source]
        window, _ = stage.windows(before)
        tensors = self.snn.tensors
        weights = self._constant("int32_t", f"{stage.name}.weights",
                                 tensors[f"{stage.name}.weight"].t())  # fmt: skip
        bias = self._tensor(stage, "bias")
        sizes = ", ".join(map(str, (*before, *window)))
        self.calls.append(f"    return falcon_readout(scores, {stage.classes}, "
                          f"{self._at(stage.source)}, {sizes}, {weights}, {bias});")  # fmt: skip
        grid = float(tensors[f"{stage.name}.grid"])
        self.logit_scale = 1.0 / (grid * window[0] * window[1])

    # How it is put together.

    def _place_buffers(self) -> None:
        """Outputs share memory: each has the lowest place that is free while it is needed."""
        stages = self.network.stages
        if self.sound:
            self.buffers["logs"] = Buffer(8 * FRAMES * BANDS, 0, 0)
            self.buffers["inputs"] = Buffer(FRAMES * BANDS, 0, 1)
        for step, stage in enumerate(self.network.inner_stages, start=1):
            last = max(at for at, other in enumerate(stages, start=1) if stage.name in other.reads)
            self.buffers[stage.name] = Buffer(int(np.prod(self._shape(stage))), step, last)
        placed: list[Buffer] = []
        for one in sorted(self.buffers.values(), key=lambda buffer: -buffer.size):
            near = [two for two in placed if one.first <= two.last and two.first <= one.last]
            ends = [0, *(-(-(two.at + two.size) // ALIGNED) * ALIGNED for two in near)]
            one.at = min(at for at in ends if _is_free(at, one.size, near))
            placed.append(one)
        self.memory_bytes = max(one.at + one.size for one in placed)

    def _shape(self, stage: Stage) -> tuple[int, int, int]:
        return self.network.shapes[stage.name]

    def _sizes(self, stage: Stage) -> str:
        return ", ".join(map(str, self._shape(stage)))

    def _at(self, name: str, kind: str = "uint8_t") -> str:
        place = f"memory.bytes + {self.buffers[name].at}"
        return place if kind == "uint8_t" else f"({kind} *)({place})"

    def _term(
        self, stage: Stage, suffix: str, spikes: str, before: tuple[int, int, int],
        product: Product | None,
    ) -> str:  # fmt: skip
        factor = self._tensor(stage, f"factor{suffix}")
        sizes = ", ".join(map(str, before))
        if product is None:
            return f"{{{spikes}, {sizes}, 0, {{1, 1}}, {{1, 1}}, {{0, 0}}, {factor}}}"
        name = f"{stage.name}.weight{suffix}"
        held = self.snn.arrays.get(name, self.snn.tensors[name])
        weights = self._constant("int8_t", name, held.permute(1, 2, 3, 0))
        geometry = ", ".join(f"{{{a}, {b}}}" for a, b in product.window())
        return f"{{{spikes}, {sizes}, {weights}, {geometry}, {factor}}}"

    def _tensor(self, stage: Stage, part: str, kind: str = "int32_t") -> str:
        name = f"{stage.name}.{part}"
        return self._constant(kind, name, self.snn.tensors[name])

    def _constant(self, kind: str, name: str, values: Tensor | Iterable[int]) -> str:
        """A constant array; gives its name in C."""
        numbers = np.asarray(values).ravel()
        identifier = f"constant{len(self.constants)}"
        self.constant_bytes += numbers.size * np.dtype(_TYPES[kind]).itemsize
        self.constants.append(
            f"static const {kind} {identifier}[{numbers.size}] = {{ /* {name} */\n"
            f"{number_lines(map(str, numbers.tolist()))}\n}};"
        )
        return identifier

    def _call(self, stage: Stage, terms: list[str], call: str, *, fires: bool = True) -> None:
        lines = [f"    {{ /* {stage.name}: {stage.words(self.network.shapes)} */"]
        if terms:
            listed = ",\n            ".join(terms)
            lines.append(f"        const falcon_term term[] = {{{listed}}};")
        if fires:
            names = ", ".join(self._tensor(stage, part) for part in _NEURONS)
            lines.append(f"        const falcon_neurons neurons = {{{names}}};")
        held = f"{self._at(stage.name)}, {self.buffers[stage.name].size}"
        self.calls += [
            *lines,
            f"        {call}",
            f'        WATCH("{stage.name}", {held});',
            "    }",
        ]


def _is_free(at: int, size: int, taken: list[Buffer]) -> bool:
    return all(at + size <= one.at or one.at + one.size <= at for one in taken)


def number_lines(numbers: Iterable[str]) -> str:
    """Numbers with commas, in lines of up to 100 characters."""
    lines, line = [], ""
    for number in numbers:
        if len(line) + len(number) > 98:
            lines.append(line)
            line = ""
        line += f"{number},"
    return "\n".join([*lines, line])


def c_text(text: str) -> str:
    """A text as a C string of plain characters."""
    octets = text.encode()
    if len(octets) > 500:
        raise FalconError(f"the class '{text[:40]}' has too long a name for C")
    plain = "".join(
        chr(octet) if 32 <= octet < 127 and chr(octet) not in '"\\?' else f"\\{octet:03o}"
        for octet in octets
    )
    return f'"{plain}"'


def feature_tables(levels: float, zero: float) -> tuple[str, int]:
    """The tables of features.c as a header, and their bytes."""
    from falcon_snn.data import features

    turns = 2 * np.pi * np.arange(FFT_SAMPLES) / FFT_SAMPLES
    filters = features.mel_filters()  # [bin, band]
    used = [np.flatnonzero(filters[:, band]) for band in range(BANDS)]
    # A filter narrower than the distance of two bins may have none; it then gives the floor.
    first = [int(bins[0]) if bins.size else 0 for bins in used]
    end = [int(bins[-1]) + 1 if bins.size else 0 for bins in used]
    spans = zip(first, end, strict=True)
    weights = np.concatenate([filters[a:b, band] for band, (a, b) in enumerate(spans)])
    tables: dict[str, Any] = {
        "window": 0.5 - 0.5 * np.cos(turns), "cosine": np.cos(turns), "sine": np.sin(turns),
        "filters": weights,
    }  # fmt: skip
    lines = [
        "/* Tables of the log-mel features. Generated. */",
        f"#define FALCON_FFT {FFT_SAMPLES}",
        f"#define FALCON_HOP {features.HOP_SAMPLES}",
        f"#define FALCON_FRAMES {FRAMES}",
        f"#define FALCON_BANDS {BANDS}",
        f"#define FALCON_LOG_FLOOR {features.LOG_FLOOR!r}",
        f"#define FALCON_LEVELS {float(levels)!r}f",
        f"#define FALCON_ZERO {float(zero)!r}f",
    ]
    for name, table in tables.items():
        numbers = number_lines(float(value).hex() for value in table)
        lines.append(f"static const double falcon_{name}[{len(table)}] = {{\n{numbers}\n}};")
    for name, bins in (("first_bin", first), ("end_bin", end)):
        numbers = number_lines(map(str, bins))
        lines.append(f"static const unsigned char falcon_{name}[{BANDS}] = {{\n{numbers}\n}};")
    size = 8 * sum(len(table) for table in tables.values()) + 2 * BANDS
    return "\n".join(lines) + "\n", size
