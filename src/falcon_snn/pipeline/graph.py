"""A network as a graph of named stages: what is computed after what, without any times.

One graph serves the spiking network and its quantised twin. A stage is one of

- `analog`       a layer with static weights: `inner` inputs, `columns` outputs, `copies` positions
- `neuron`       integrate and fire; a searchable boundary unless `full_lookahead`
- `residual`     adds matching slots of its inputs, then fires; searchable like a neuron
- `quantise`     one number from the first `prefix` slots (all of them if not given)
- `product`      (rows x inner) times (inner x columns) on a systolic array, `copies` heads
- `elementwise`  rows x columns values on a vector engine, `copies` heads

The reserved name `input` is the source, whose slots are all ready at time 0.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any

from falcon_snn.errors import FalconError
from falcon_snn.files import read_toml

INPUT = "input"
MAX_GRAPH_SLOTS = 64  # a graph is only timed; spikes that are packed into bytes have fewer

# Inputs that a stage of each kind takes, and the sizes that it must state.
_ARITY = {
    "analog": (1, 1), "neuron": (1, 1), "quantise": (1, 1),
    "residual": (2, 64), "product": (2, 2), "elementwise": (1, 64),
}  # fmt: skip
_SIZES = {
    "analog": ("inner", "columns", "copies"),
    "product": ("rows", "inner", "columns", "copies"),
    "elementwise": ("rows", "columns", "copies"),
}
KINDS = tuple(_ARITY)


@dataclass(frozen=True)
class TimedStage:
    """One stage of a graph; sizes that its kind does not use stay 1."""

    name: str
    kind: str
    after: tuple[str, ...]
    rows: int = 1
    inner: int = 1
    columns: int = 1
    copies: int = 1
    full_lookahead: bool = False  # neuron, residual: delay T, and not searchable
    prefix: int | None = None  # quantise: slots that it waits for

    @property
    def fires(self) -> bool:
        return self.kind in ("neuron", "residual")

    @property
    def searchable(self) -> bool:
        return self.fires and not self.full_lookahead

    @property
    def block(self) -> str:
        """The part of the name before its last dot: stages of one block share it."""
        return self.name.rpartition(".")[0]

    @property
    def layer(self) -> str:
        """The layer's name: that of its array without the suffix."""
        return self.name.removesuffix(".array")


@dataclass(frozen=True)
class Graph:
    """Stages in an order in which they can run; checked and sorted when made."""

    name: str
    slots: int
    stages: tuple[TimedStage, ...]

    def __post_init__(self) -> None:
        if not 1 <= self.slots <= MAX_GRAPH_SLOTS:
            raise FalconError(
                f"graph '{self.name}': slots is {self.slots}; allowed: 1..{MAX_GRAPH_SLOTS}"
            )
        if not self.stages:
            raise FalconError(f"graph '{self.name}' has no stages")
        _check(self)
        object.__setattr__(self, "stages", _in_order(self))

    @property
    def bits(self) -> int:
        """Bits of the matched QNN: b = ceil(log2(T + 1))."""
        return self.slots.bit_length()

    @property
    def boundaries(self) -> tuple[str, ...]:
        """The searchable stages, in network order."""
        return tuple(stage.name for stage in self.stages if stage.searchable)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Stages that nothing follows; the core ends when the last of them does."""
        used = {name for stage in self.stages for name in stage.after}
        return tuple(stage.name for stage in self.stages if stage.name not in used)

    def stage(self, name: str) -> TimedStage:
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise FalconError(f"graph '{self.name}' has no stage '{name}'")


def layer(
    name: str, after: str, inner: int = 1, columns: int = 1, copies: int = 1, *,
    lookahead: bool = False,
) -> tuple[TimedStage, TimedStage]:  # fmt: skip
    """An analog layer and the neurons after it: the stages `NAME.array` and `NAME`."""
    array = TimedStage(
        f"{name}.array", "analog", (after,), inner=inner, columns=columns, copies=copies
    )
    return array, TimedStage(name, "neuron", (array.name,), full_lookahead=lookahead)


def read_graph(path: Path | str) -> Graph:
    """Read a graph from TOML: `name`, `slots` and a `[[stage]]` table per stage.

    `kind = "layer"` stands for an analog stage and the neurons after it, as `layer` does.
    """
    document = read_toml(path)
    unknown = set(document) - {"name", "slots", "stage"}
    if unknown:
        raise FalconError(f"{path}: unknown key '{min(unknown)}'; allowed: name, slots, [[stage]]")
    slots, tables = document.get("slots", 7), document.get("stage", [])
    if not _is_count(slots):
        raise FalconError(f"{path}: slots = {slots!r}; allowed: a whole number, 1 or more")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise FalconError(f"{path}: stages are written as [[stage]] tables")
    stages = [stage for table in tables for stage in _stages(path, table)]
    try:
        return Graph(str(document.get("name", Path(path).stem)), slots, tuple(stages))
    except FalconError as error:
        raise FalconError(f"{path}: {error}") from None


def graph_toml(graph: Graph) -> str:
    """The graph as text that `read_graph` reads back."""
    lines = [f"name = {_toml(graph.name)}", f"slots = {graph.slots}"]
    for stage in graph.stages:
        lines += ["", "[[stage]]"]
        for item in fields(TimedStage):
            value = getattr(stage, item.name)
            if item.default is MISSING or value != item.default:
                lines.append(f"{item.name} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value).lower()


def _stages(path: Path | str, table: dict[str, Any]) -> Iterable[TimedStage]:
    name, kind, after = table.get("name"), table.get("kind"), table.get("after", [])
    if not isinstance(name, str):
        raise FalconError(f"{path}: a [[stage]] has no name")
    allowed = {item.name for item in fields(TimedStage)}
    unknown = set(table) - allowed
    if unknown:
        known = ", ".join(sorted(allowed))
        raise FalconError(f"{path}: stage '{name}': unknown key '{min(unknown)}'; allowed: {known}")
    if isinstance(after, str):
        after = [after]
    if not isinstance(after, list) or not all(isinstance(item, str) for item in after):
        raise FalconError(f"{path}: stage '{name}': after = {after!r}; allowed: a list of names")
    if kind == "layer":
        sizes = {key: table[key] for key in _SIZES["analog"] if key in table}
        rest = set(table) - set(sizes) - {"name", "kind", "after", "full_lookahead"}
        if len(after) != 1 or rest:
            raise FalconError(
                f"{path}: stage '{name}': a layer takes one name in after, and inner, columns, "
                "copies, full_lookahead"
            )
        return layer(name, after[0], **sizes, lookahead=table.get("full_lookahead", False))
    return (TimedStage(**{**table, "kind": kind, "after": tuple(after)}),)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def check_name(name: str) -> None:
    """Names appear in files, flags and pictures, so not every character is allowed."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,120}", name) or name == INPUT:
        raise FalconError(
            f"stage name '{name[:40]}' is not allowed; use letters, digits, '.', '_' and '-', "
            f"and not '{INPUT}', the source"
        )


def _check(graph: Graph) -> None:
    by_name: dict[str, TimedStage] = {}
    for stage in graph.stages:
        check_name(stage.name)
        if stage.name in by_name:
            raise FalconError(f"two stages have the name '{stage.name}'; names must differ")
        by_name[stage.name] = stage
    for stage in graph.stages:
        _check_stage(graph, stage, by_name)


def _check_stage(graph: Graph, stage: TimedStage, by_name: dict[str, TimedStage]) -> None:
    where = f"stage '{stage.name}'"
    if stage.kind not in KINDS:
        raise FalconError(f"{where}: unknown kind '{stage.kind}'; allowed: {', '.join(KINDS)}")
    least, most = _ARITY[stage.kind]
    if not least <= len(stage.after) <= most:
        wanted = str(least) if least == most else f"{least} or more"
        given = len(stage.after)
        raise FalconError(f"{where}: a {stage.kind} stage takes {wanted} in after, not {given}")
    for name in stage.after:
        if name != INPUT and name not in by_name:
            raise FalconError(f"{where} follows '{name}', which is not a stage")
        before = by_name.get(name)
        if before is not None and before.kind == "analog" and stage.kind in (
            "analog", "product", "elementwise"
        ):  # fmt: skip
            raise FalconError(
                f"{where} follows the sums of '{name}'; put a neuron or quantise stage between"
            )
    for size in ("rows", "inner", "columns", "copies"):
        value = getattr(stage, size)
        if not _is_count(value):
            raise FalconError(f"{where}: {size} = {value!r}; allowed: a whole number, 1 or more")
        if value != 1 and size not in _SIZES.get(stage.kind, ()):
            raise FalconError(f"{where}: {size} means nothing for a {stage.kind} stage")
    if not isinstance(stage.full_lookahead, bool) or (stage.full_lookahead and not stage.fires):
        raise FalconError(f"{where}: full_lookahead is true or false, on neuron and residual only")
    if stage.prefix is not None:
        if stage.kind != "quantise":
            raise FalconError(f"{where}: prefix means nothing for a {stage.kind} stage")
        if not _is_count(stage.prefix) or stage.prefix > graph.slots:
            raise FalconError(f"{where}: prefix is {stage.prefix}; it must lie in 1..{graph.slots}")


def _in_order(graph: Graph) -> tuple[TimedStage, ...]:
    """Stages so that each follows its inputs; where there is a choice, the given order stays."""
    index = {stage.name: number for number, stage in enumerate(graph.stages)}
    followers: list[list[int]] = [[] for _ in graph.stages]
    missing = [0] * len(graph.stages)
    for number, stage in enumerate(graph.stages):
        for name in set(stage.after) - {INPUT}:
            followers[index[name]].append(number)
            missing[number] += 1
    ready = [number for number, count in enumerate(missing) if not count]
    heapify(ready)
    order: list[TimedStage] = []
    while ready:
        number = heappop(ready)
        order.append(graph.stages[number])
        for follower in followers[number]:
            missing[follower] -= 1
            if not missing[follower]:
                heappush(ready, follower)
    if len(order) < len(graph.stages):
        stuck = [stage.name for stage, count in zip(graph.stages, missing, strict=True) if count]
        raise FalconError(f"the graph has a cycle through {', '.join(sorted(stuck)[:6])}")
    return tuple(order)
