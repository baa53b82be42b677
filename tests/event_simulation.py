"""The timing rules a second time: processes that wait for events, run by simpy.

Nothing here computes a start or an end. Every stage of every sample is a process that waits until
its inputs have come, takes the engine that it works on, holds it for as long as the work takes,
and says when it is done; the clock of the simulation tells the time. It shares the graph and the
profile with the package, and no line with its timing.
"""

import heapq
from collections.abc import Generator, Mapping
from itertools import count
from math import ceil
from typing import Any, NamedTuple

import simpy

from falcon_snn.hardware.profile import Profile
from falcon_snn.pipeline.graph import INPUT, Graph, TimedStage

Process = Generator[Any, Any, None]
Event = Any  # simpy has no types
DIGITAL = ("product", "elementwise")


class Network(NamedTuple):
    """What every sample runs through."""

    graph: Graph
    delays: Mapping[str, int]
    profile: Profile
    slots: int
    passes: int  # of an analog layer, per slot


def spiking(graph: Graph, delays: Mapping[str, int], profile: Profile) -> Network:
    return Network(graph, delays, profile, graph.slots, 1)


def quantised(graph: Graph, profile: Profile, passes: int) -> Network:
    """The quantised twin: one slot, which an analog layer serves with so many passes."""
    return Network(graph, dict.fromkeys(graph.boundaries, 1), profile, 1, passes)


def simulate(
    network: Network,
    samples: int = 1,
    interval: int = 0,
    timetable: Mapping[str, int] | None = None,
) -> list["Sample"]:
    """Send samples through a network, one every `interval` cycles.

    A timetable says how long after its sample entered a stage may take its engine; without one,
    stages take it as soon as they can.
    """
    env = simpy.Environment()
    servers: dict[str, Server] = {}
    stream = [
        Sample(env, network, number, servers, number * interval, timetable or {})
        for number in range(samples)
    ]
    for sample in stream:
        env.process(sample.enter())
    env.run()
    return stream


class Server:
    """Something that one sample uses at a time; when it is free, the oldest that waits gets it."""

    def __init__(self, env: Any) -> None:
        self.env, self.free = env, True
        self.waiting: list[tuple[int, int, Event]] = []
        self.tickets = count()

    def request(self, sample: int) -> Event:
        granted = self.env.event()
        heapq.heappush(self.waiting, (sample, next(self.tickets), granted))
        self._decide_later()
        return granted

    def release(self) -> None:
        self.free = True
        self._decide_later()

    def _decide_later(self) -> None:
        """Decide when all else of this instant has happened, so that its order does not matter."""
        decision = simpy.events.Event(self.env)
        decision._ok, decision._value = True, None
        decision.callbacks.append(self._decide)
        self.env.schedule(decision, priority=simpy.events.NORMAL + 1)

    def _decide(self, _: Event) -> None:
        if self.free and self.waiting:
            self.free = False
            heapq.heappop(self.waiting)[-1].succeed()


class Sample:
    """One sample: `ready[stage]` are the cycles at which its slots came, `held[stage]` from when
    to when the stage kept its engine."""

    def __init__(
        self,
        env: Any,
        network: Network,
        number: int,
        servers: dict[str, Server],
        entry: int,
        timetable: Mapping[str, int],
    ) -> None:
        self.env, self.number, self.servers = env, number, servers
        self.entry, self.timetable = entry, timetable
        self.graph, self.delays, self.profile, self.slots, self.passes = network
        self.ready: dict[str, list[int]] = {stage.name: [] for stage in self.graph.stages}
        self.held: dict[str, tuple[int, int]] = {}
        self.came: dict[str, list[Event]] = {
            name: [env.event() for _ in range(self.slots)] for name in (INPUT, *self.ready)
        }
        # Digital stages also say when each row group of each head is there: [head][row group].
        self.rows_came: dict[str, list[list[Event]]] = {
            stage.name: [
                [env.event() for _ in range(ceil(stage.rows / self.profile.array_size))]
                for _ in range(stage.copies)
            ]
            for stage in self.graph.stages
            if stage.kind in DIGITAL
        }

    def enter(self) -> Process:
        """All slots of the source are there at once; from then on every stage waits for its own."""
        yield self.env.timeout(self.entry)
        for event in self.came[INPUT]:
            event.succeed()
        issued: dict[str, Event] = {}  # the newest digital stage on each pool, in program order
        for stage in self.graph.stages:
            if stage.kind not in DIGITAL:
                work = self._analog if stage.kind == "analog" else self._neurons
                self.env.process(work(stage))
            else:
                before = issued.get(self._pool(stage))
                issued[self._pool(stage)] = self.env.process(self._digital(stage, before))

    def _done(self, stage: TimedStage, slot: int) -> None:
        self.ready[stage.name].append(self.env.now)
        self.came[stage.name][slot].succeed()

    def _take(self, stage: TimedStage, engine: str) -> Process:
        planned = self.entry + self.timetable.get(stage.name, 0)
        if planned > self.env.now:
            yield self.env.timeout(planned - self.env.now)
        yield self.servers.setdefault(engine, Server(self.env)).request(self.number)
        self.held[stage.name] = (self.env.now, -1)

    def _give_back(self, stage: TimedStage, engine: str) -> None:
        self.held[stage.name] = (self.held[stage.name][0], self.env.now)
        self.servers[engine].release()

    def _analog(self, stage: TimedStage) -> Process:
        (source,) = stage.after
        pass_cycles = self.profile.pass_cycles(stage.inner, stage.copies)
        for slot in range(self.slots):
            yield self.came[source][slot]
            if slot == 0:
                yield from self._take(stage, stage.name)
            for _ in range(self.passes):
                yield self.env.timeout(pass_cycles)
            self._done(stage, slot)
        self._give_back(stage, stage.name)

    def _neurons(self, stage: TimedStage) -> Process:
        """Decide slot after slot; a quantiser decides once, for all slots."""
        if stage.kind == "quantise":
            prefix = self.slots if stage.prefix is None else min(stage.prefix, self.slots)
            decisions = [(prefix - 1, range(self.slots))]
        else:
            delay = self.slots if stage.full_lookahead else self.delays[stage.name]
            decisions = [
                (min(slot + delay, self.slots) - 1, range(slot, slot + 1))
                for slot in range(self.slots)
            ]
        for number, (last_seen, slots) in enumerate(decisions):
            yield self.env.all_of([self.came[source][last_seen] for source in stage.after])
            if number == 0:
                yield from self._take(stage, stage.name)
            yield self.env.timeout(self.profile.neuron_step_cycles)
            for _ in range(1, self.profile.neurons_per_unit):  # one unit, neuron after neuron
                yield self.env.timeout(1)
            for slot in slots:
                self._done(stage, slot)
        self._give_back(stage, stage.name)

    def _pool(self, stage: TimedStage) -> str:
        """The arrays or the engines that a digital stage shares with others of its kind."""
        return f"{stage.block if self.profile.engine_sharing == 'per-block' else ''} {stage.kind}"

    def _digital(self, stage: TimedStage, before: Event | None) -> Process:
        """Heads run side by side, each on an engine of its own as long as there are any."""
        profile = self.profile
        streamed = profile.attention == "streamed"
        if before is not None:  # a pool does the stages of one sample in program order
            yield before
        yield self._row_group(stage, 0, 0) if streamed else self._complete(stage)
        yield from self._take(stage, self._pool(stage))
        engines = profile.arrays if stage.kind == "product" else profile.engines
        if streamed:  # a head keeps one array and one engine to itself
            engines = min(profile.arrays, profile.engines)
        lanes = [simpy.Resource(self.env) for _ in range(engines)]
        run_head = self._streamed_head if streamed else self._serial_head
        yield self.env.all_of([
            self.env.process(run_head(stage, head, lanes[head % engines]))
            for head in range(stage.copies)
        ])  # fmt: skip
        for slot in range(self.slots):
            self._done(stage, slot)
        self._give_back(stage, self._pool(stage))

    def _serial_head(self, stage: TimedStage, head: int, lane: Any) -> Process:
        with lane.request() as mine:
            yield mine
            if stage.kind == "product":
                for _ in self.rows_came[stage.name][head]:
                    yield self.env.timeout(self._row_group_cycles(stage))
                yield self.env.timeout(self._drain_cycles())
            else:
                values = stage.rows * stage.columns
                yield self.env.timeout(ceil(values / self.profile.engine_lanes))

    def _streamed_head(self, stage: TimedStage, head: int, lane: Any) -> Process:
        """Row group by row group, each as soon as the operands' rows are there."""
        size = self.profile.array_size
        with lane.request() as mine:
            yield mine
            for group, done in enumerate(self.rows_came[stage.name][head]):
                yield self._row_group(stage, head, group)
                if stage.kind == "product":
                    yield self.env.timeout(self._row_group_cycles(stage))
                    self.env.process(self._drain(done))
                else:
                    values = min(size, stage.rows - group * size) * stage.columns
                    yield self.env.timeout(ceil(values / self.profile.engine_lanes))
                    done.succeed()
            yield self.rows_came[stage.name][head][-1]

    def _complete(self, stage: TimedStage) -> Event:
        return self.env.all_of([self.came[source][-1] for source in stage.after])

    def _row_group(self, stage: TimedStage, head: int, group: int) -> Event:
        """What a row group needs: a product all of its second operand, else matching row groups."""
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
        return self.env.all_of(needed)

    def _drain(self, done: Event) -> Process:
        """Rows leave an array while the next ones are already inside."""
        yield self.env.timeout(self._drain_cycles())
        done.succeed()

    def _drain_cycles(self) -> int:
        return 2 * (self.profile.array_size - 1)

    def _row_group_cycles(self, stage: TimedStage) -> int:
        return stage.inner * ceil(stage.columns / self.profile.array_size)
