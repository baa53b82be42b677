"""The timing rules a second time: processes that wait for events, run by simpy.

Nothing here computes a start or an end. Every stage is a process that waits until its inputs have
come, holds the engine that it works on for as long as the work takes, and says when it is done;
the clock of the simulation tells the time. It shares the graph and the profile with the package,
and no line with its timing.
"""

from collections.abc import Generator, Mapping
from math import ceil
from typing import Any

import simpy

from falcon_snn.hardware.profile import Profile
from falcon_snn.pipeline.graph import INPUT, Graph, Stage

Process = Generator[Any, Any, None]
Event = Any  # simpy has no types
DIGITAL = ("product", "elementwise")


def simulate_snn(
    graph: Graph, delays: Mapping[str, int], profile: Profile
) -> dict[str, tuple[int, ...]]:
    """The cycle at which each slot of each stage is ready."""
    return _Simulation(graph, delays, profile, slots=graph.slots, passes=1).run()


def simulate_qnn(graph: Graph, profile: Profile, passes: int) -> dict[str, tuple[int, ...]]:
    """The quantised twin: one slot, which an analog layer serves with so many passes."""
    delays = dict.fromkeys(graph.boundaries, 1)
    return _Simulation(graph, delays, profile, slots=1, passes=passes).run()


class _Simulation:
    def __init__(
        self, graph: Graph, delays: Mapping[str, int], profile: Profile, slots: int, passes: int
    ) -> None:
        self.graph, self.delays, self.profile = graph, delays, profile
        self.slots, self.passes = slots, passes
        self.env = simpy.Environment()
        self.came: dict[str, list[Event]] = {
            name: [self.env.event() for _ in range(slots)]
            for name in (INPUT, *(stage.name for stage in graph.stages))
        }
        # Digital stages also say when each row group of each head is there: [head][row group].
        self.rows_came: dict[str, list[list[Event]]] = {
            stage.name: [
                [self.env.event() for _ in range(ceil(stage.rows / profile.array_size))]
                for _ in range(stage.copies)
            ]
            for stage in graph.stages
            if stage.kind in DIGITAL
        }
        self.pools: dict[str, Any] = {}

    def run(self) -> dict[str, tuple[int, ...]]:
        ready: dict[str, list[int]] = {stage.name: [] for stage in self.graph.stages}
        for name, times in ready.items():
            for event in self.came[name]:
                event.callbacks.append(lambda _, times=times: times.append(self.env.now))
        for event in self.came[INPUT]:
            event.succeed()
        for stage in self.graph.stages:
            self.env.process(self._behaviour(stage))
        self.env.run()
        assert all(len(times) == self.slots for times in ready.values()), "a stage never finished"
        return {name: tuple(times) for name, times in ready.items()}

    def _behaviour(self, stage: Stage) -> Process:
        if stage.kind == "analog":
            return self._analog(stage)
        if stage.fires:
            return self._firing(stage)
        if stage.kind == "quantise":
            return self._quantise(stage)
        # Digital stages of one pool are issued in program order: the requests queue up here,
        # in the order of the graph, before any time has passed.
        return self._digital(stage, self._pool(stage).request())

    def _analog(self, stage: Stage) -> Process:
        (source,) = stage.after
        for slot in range(self.slots):
            yield self.came[source][slot]
            for _ in range(self.passes):
                yield self.env.timeout(self.profile.pass_cycles(stage.inner, stage.copies))
            self.came[stage.name][slot].succeed()

    def _firing(self, stage: Stage) -> Process:
        delay = self.slots if stage.full_lookahead else self.delays[stage.name]
        for slot in range(self.slots):
            last_seen = min(slot + delay, self.slots) - 1
            yield self.env.all_of([self.came[source][last_seen] for source in stage.after])
            yield self.env.timeout(self.profile.neuron_step_cycles)
            self.came[stage.name][slot].succeed()

    def _quantise(self, stage: Stage) -> Process:
        (source,) = stage.after
        prefix = self.slots if stage.prefix is None else min(stage.prefix, self.slots)
        yield self.came[source][prefix - 1]
        yield self.env.timeout(self.profile.neuron_step_cycles)
        self._all_slots(stage)

    def _digital(self, stage: Stage, turn: Event) -> Process:
        """Heads run side by side, each on an engine of its own as long as there are any."""
        yield turn
        profile = self.profile
        engines = profile.arrays if stage.kind == "product" else profile.engines
        if profile.attention == "streamed":  # a head keeps one array and one engine to itself
            engines = min(profile.arrays, profile.engines)
        lanes = [simpy.Resource(self.env) for _ in range(engines)]
        head_process = self._streamed_head if profile.attention == "streamed" else self._serial_head
        heads = [
            self.env.process(head_process(stage, head, lanes[head % engines]))
            for head in range(stage.copies)
        ]
        yield self.env.all_of(heads)
        self._pool(stage).release(turn)
        self._all_slots(stage)

    def _serial_head(self, stage: Stage, head: int, lane: Event) -> Process:
        """The whole of one head, once all its operands are complete."""
        yield self.env.all_of([self.came[source][-1] for source in stage.after])
        with lane.request() as mine:
            yield mine
            if stage.kind == "product":
                for _ in self.rows_came[stage.name][head]:
                    yield self.env.timeout(self._row_group_cycles(stage))
                yield self.env.timeout(self._drain_cycles())
            else:
                values = stage.rows * stage.columns
                yield self.env.timeout(ceil(values / self.profile.engine_lanes))

    def _streamed_head(self, stage: Stage, head: int, lane: Event) -> Process:
        """Row group by row group, each as soon as the operands' rows are there."""
        size = self.profile.array_size
        with lane.request() as mine:
            yield mine
            for group, done in enumerate(self.rows_came[stage.name][head]):
                yield self.env.all_of(self._streamed_operands(stage, head, group))
                if stage.kind == "product":
                    yield self.env.timeout(self._row_group_cycles(stage))
                    self.env.process(self._drain(done))
                else:
                    values = min(size, stage.rows - group * size) * stage.columns
                    yield self.env.timeout(ceil(values / self.profile.engine_lanes))
                    done.succeed()
            yield self.rows_came[stage.name][head][-1]

    def _streamed_operands(self, stage: Stage, head: int, group: int) -> list[Event]:
        """A product needs all of its second operand; other operands may come in row groups."""
        needed = []
        for position, source in enumerate(stage.after):
            before = None if source == INPUT else self.graph.stage(source)
            if (
                before is not None
                and before.kind in DIGITAL
                and (before.rows, before.copies) == (stage.rows, stage.copies)
                and not (stage.kind == "product" and position == 1)
            ):
                needed.append(self.rows_came[source][head][group])
            else:
                needed.append(self.came[source][-1])
        return needed

    def _drain(self, done: Event) -> Process:
        """Rows leave an array while the next ones are already inside."""
        yield self.env.timeout(self._drain_cycles())
        done.succeed()

    def _drain_cycles(self) -> int:
        return 2 * (self.profile.array_size - 1)

    def _row_group_cycles(self, stage: Stage) -> int:
        return stage.inner * ceil(stage.columns / self.profile.array_size)

    def _all_slots(self, stage: Stage) -> None:
        """A complete result: every slot of it is there at once."""
        for event in self.came[stage.name]:
            event.succeed()

    def _pool(self, stage: Stage) -> Any:
        """The arrays or the engines that a digital stage shares with others of its kind."""
        owner = stage.block if self.profile.engine_sharing == "per-block" else ""
        return self.pools.setdefault(f"{owner}/{stage.kind}", simpy.Resource(self.env))
