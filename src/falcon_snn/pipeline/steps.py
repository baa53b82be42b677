"""The rules of timing: each stage becomes steps, each step says how long and after what.

A step is one analog pass, one firing decision, one quantisation, one matrix product or one
element-wise operation (a row group of it when attention is streamed). Rules, for T slots:

1. analog      pass t follows input slot t and pass t-1
2. firing      decision t follows pass min(t + d - 1, T - 1) and decision t-1
3. residual    like firing, with slot min(t + d - 1, T - 1) of every branch
4. quantise    follows pass p - 1, for a prefix of p slots
5. product     follows the whole of both operands and the product before it on the same arrays
6. elementwise follows the whole of its operands and the one before it on the same engines

Streamed attention cuts 5 and 6 into groups of `array_size` rows. A row group of a product leaves
the array after the drain, while the next one is already inside; the element-wise operation takes
row groups as they leave; the next product takes row groups as they are ready, once the array is
free and its second operand is complete. The arrays and engines are the same ones.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile
from falcon_snn.pipeline.graph import INPUT, Graph, TimedStage

QnnStyle = Literal["strict", "bit-parallel", "overlapped"]
QNN_STYLES: tuple[QnnStyle, ...] = ("strict", "bit-parallel", "overlapped")


class Step(NamedTuple):
    """One piece of work; `after` are indices of earlier steps."""

    stage: str
    kind: str  # "analog", "fire", "quantise", "product", "drain" or "elementwise"
    slot: int  # slot, bit plane or row group
    cycles: int
    after: tuple[int, ...]
    resource: str  # what it occupies alone while it runs


class Plan:
    """The steps of one inference, in an order in which they can run, and what makes what ready."""

    def __init__(self, graph: Graph, profile: Profile) -> None:
        self.graph = graph
        self.profile = profile
        self.steps: list[Step] = []
        self.ready: dict[str, tuple[int, ...]] = {INPUT: ()}  # per slot, or per part of a QNN
        # Streamed attention, per round and row group; by name, rows and heads of the stage.
        self.rows: dict[tuple[str, int, int], tuple[int, ...]] = {}
        self.last_on: dict[str, tuple[int, ...]] = {}  # the latest step of a shared resource

    def add(
        self,
        stage: TimedStage,
        kind: str,
        slot: int,
        cycles: int,
        after: tuple[int, ...],
        resource: str,
    ) -> int:
        self.steps.append(
            Step(stage.name, kind, slot, cycles, tuple(dict.fromkeys(after)), resource)
        )
        return len(self.steps) - 1

    def slot(self, name: str, slot: int) -> tuple[int, ...]:
        """The step that makes a slot of a stage ready; nothing for the source."""
        return self.ready[name][slot : slot + 1] if name != INPUT else ()

    def whole(self, stage: TimedStage) -> tuple[int, ...]:
        """The steps that make the inputs of a stage complete."""
        return tuple(step for name in stage.after for step in self.ready[name][-1:])


def snn_plan(graph: Graph, delays: Mapping[str, int], profile: Profile) -> Plan:
    """The spiking network under a schedule."""
    check_delays(delays, graph)
    plan = Plan(graph, profile)
    for stage in graph.stages:
        if stage.kind == "analog":
            _passes(plan, stage)
        elif stage.fires:
            _fire(plan, stage, graph.slots if stage.full_lookahead else delays[stage.name])
        elif stage.kind == "quantise":
            prefix = stage.prefix or graph.slots
            after = plan.slot(stage.after[0], prefix - 1)
            step = plan.add(
                stage, "quantise", 0, profile.decision_cycles, after, f"{stage.name} neurons"
            )
            plan.ready[stage.name] = (step,) * graph.slots
        else:
            _digital(plan, stage, graph.slots)
    return plan


def qnn_plan(graph: Graph, profile: Profile, style: QnnStyle = "strict") -> Plan:
    """The quantised network of the same graph.

    `strict` is the paper's: a layer waits for the whole of the one before, and takes b passes,
    or fewer where a pass takes several bits.
    `bit-parallel` drives all bits at once: one pass. `overlapped` starts a row group of a layer
    as soon as the outputs that feed it are quantised, which is possible once the layer before is
    at its last row group; outputs leave in as many parts as a full tile has row groups.
    """
    plan = Plan(graph, profile)
    parts = profile.tile_row_groups if style == "overlapped" else 1
    planes = profile.bit_passes(graph.bits)
    for stage in graph.stages:
        if stage.kind == "analog":
            if style == "overlapped":
                _row_group_passes(plan, stage, parts)
            else:
                _bit_passes(plan, stage, 1 if style == "bit-parallel" else planes)
        elif stage.kind in ("product", "elementwise"):
            _digital(plan, stage, parts)
        else:
            kind = "fire" if stage.fires else "quantise"
            plan.ready[stage.name] = tuple(
                plan.add(
                    stage, kind, part, profile.decision_cycles,
                    tuple(step for name in stage.after for step in plan.slot(name, part)),
                    f"{stage.name} neurons {part}",
                )
                for part in range(parts)
            )  # fmt: skip
    return plan


def check_delays(delays: Mapping[str, int], graph: Graph) -> None:
    """Every boundary has a delay in 1..T, and nothing else has one."""
    boundaries = graph.boundaries
    for name in delays:
        if name not in boundaries:
            raise FalconError(f"unknown boundary '{name}'; boundaries are {', '.join(boundaries)}")
    for name in boundaries:
        delay = delays.get(name)
        if delay is None:
            raise FalconError(f"no delay is given for boundary '{name}'")
        if not 1 <= delay <= graph.slots:
            raise FalconError(f"delay of {name} is {delay}; it must lie in 1..{graph.slots}")


def product_cycles(stage: TimedStage, profile: Profile) -> int:
    """C_GEMM = ceil(m / S) * ceil(n / S) * k + 2 (S - 1), for one head on one S x S array."""
    groups = -(-stage.rows // profile.array_size)
    return groups * row_group_cycles(stage, profile) + drain_cycles(profile)


def row_group_cycles(stage: TimedStage, profile: Profile) -> int:
    """One group of S rows of a product: ceil(n / S) * k."""
    return -(-stage.columns // profile.array_size) * stage.inner


def drain_cycles(profile: Profile) -> int:
    """To fill and drain an S x S array: 2 (S - 1)."""
    return 2 * (profile.array_size - 1)


def elementwise_cycles(rows: int, columns: int, profile: Profile) -> int:
    """ceil(rows * columns / lanes), for one head on one engine."""
    return -(-rows * columns // profile.engine_lanes)


def _passes(plan: Plan, stage: TimedStage) -> None:
    cycles = plan.profile.pass_cycles(stage.inner, stage.copies)
    steps: list[int] = []
    for slot in range(plan.graph.slots):
        after = plan.slot(stage.after[0], slot) + tuple(steps[-1:])
        steps.append(plan.add(stage, "analog", slot, cycles, after, stage.name))
    plan.ready[stage.name] = tuple(steps)


def _fire(plan: Plan, stage: TimedStage, delay: int) -> None:
    last = plan.graph.slots - 1
    cycles, neurons = plan.profile.decision_cycles, f"{stage.name} neurons"
    inputs = [plan.ready[name] for name in stage.after if name != INPUT]
    steps: list[int] = []
    for slot in range(plan.graph.slots):
        needed = min(slot + delay - 1, last)
        after = (*[ready[needed] for ready in inputs], *steps[-1:])
        steps.append(plan.add(stage, "fire", slot, cycles, after, neurons))
    plan.ready[stage.name] = tuple(steps)


def _bit_passes(plan: Plan, stage: TimedStage, passes: int) -> None:
    cycles = plan.profile.pass_cycles(stage.inner, stage.copies)
    after = plan.whole(stage)
    for bit in range(passes):
        after = (plan.add(stage, "analog", bit, cycles, after, stage.name),)
    plan.ready[stage.name] = after


def _row_group_passes(plan: Plan, stage: TimedStage, parts: int) -> None:
    """All bits of row group 0, then of row group 1, ...; the last one column part by part."""
    groups = plan.profile.row_groups(stage.inner)
    planes = plan.profile.bit_passes(plan.graph.bits)
    total = planes * plan.profile.pass_cycles(stage.inner, stage.copies)
    before: tuple[int, ...] = ()
    for group in range(groups):
        needed = -(-(group + 1) * parts // groups) - 1
        before += plan.slot(stage.after[0], needed)
        pieces = parts if group == groups - 1 else 1
        ready = []
        for piece in range(pieces):
            start = -(-total * (group * pieces + piece) // (groups * pieces))
            end = -(-total * (group * pieces + piece + 1) // (groups * pieces))
            before = (plan.add(stage, "analog", group, end - start, before, stage.name),)
            ready.append(before[0])
    plan.ready[stage.name] = tuple(ready)


def _digital(plan: Plan, stage: TimedStage, width: int) -> None:
    """A product or an element-wise stage; its result is complete at once, for all `width` slots."""
    resource = digital_resource(stage, plan.profile)
    if plan.profile.attention == "streamed":
        _streamed(plan, stage, resource)
    else:
        after = plan.whole(stage) + plan.last_on.get(resource, ())
        cycles = digital_cycles(stage, plan.profile)
        plan.last_on[resource] = (plan.add(stage, stage.kind, 0, cycles, after, resource),)
    plan.ready[stage.name] = plan.last_on[resource] * width


def digital_resource(stage: TimedStage, profile: Profile) -> str:
    """Which arrays or engines a digital stage runs on: all blocks' or its own block's."""
    pool = "arrays" if stage.kind == "product" else "engines"
    return pool if profile.engine_sharing == "shared" else f"{stage.block} {pool}".strip()


def digital_cycles(stage: TimedStage, profile: Profile) -> int:
    """All heads of a serial stage: in rounds when there are more heads than engines."""
    if stage.kind == "product":
        return -(-stage.copies // profile.arrays) * product_cycles(stage, profile)
    rounds = -(-stage.copies // profile.engines)
    return rounds * elementwise_cycles(stage.rows, stage.columns, profile)


def _streamed(plan: Plan, stage: TimedStage, resource: str) -> None:
    """Row group by row group; a head has one array and one engine, and heads run in rounds."""
    profile = plan.profile
    rounds = -(-stage.copies // min(profile.arrays, profile.engines))
    heights = [
        min(profile.array_size, stage.rows - top)
        for top in range(0, stage.rows, profile.array_size)
    ]
    before = plan.last_on.get(resource, ())
    done: list[int] = []
    for number in range(rounds):
        for group, height in enumerate(heights):
            row = number * len(heights) + group
            after = before
            for position, name in enumerate(stage.after):
                # Operands of the same rows and heads come in row groups; the second of a product
                # is needed whole.
                rows = plan.rows.get((name, stage.rows, stage.copies))
                if rows is None or (stage.kind == "product" and position == 1):
                    after += plan.ready[name][-1:]
                else:
                    after += (rows[row],)
            if stage.kind == "product":
                cycles = row_group_cycles(stage, profile)
                work = plan.add(stage, "product", row, cycles, after, resource)
                drained = plan.add(stage, "drain", row, drain_cycles(profile), (work,), resource)
                before = (drained if group == len(heights) - 1 else work,)
                done.append(drained)
            else:
                cycles = elementwise_cycles(height, stage.columns, profile)
                before = (plan.add(stage, "elementwise", row, cycles, after, resource),)
                done.append(before[0])
    plan.rows[stage.name, stage.rows, stage.copies] = tuple(done)
    plan.last_on[resource] = before
