"""Continuous inference: how often a sample can enter, what limits that, and how long it takes.

A stream is periodic: every sample runs the same steps, one interval after the sample before. An
array with static weights, a neuron group, the systolic arrays and the vector engines each serve
one stage of one sample at a time, from its first step to its last; so what they do must not
overlap with itself when it is shifted by the interval. Results wait in buffers between stages.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from falcon_snn.pipeline.steps import Plan

Placing = Literal["early", "packed"]


class Span(NamedTuple):
    """A stage on a resource, from its first step to its last."""

    stage: str
    resource: str
    start: int
    end: int


class Limit(NamedTuple):
    """How long one sample occupies a resource."""

    resource: str
    cycles: int


@dataclass(frozen=True)
class SampleStream:
    """A periodic stream: sample k does what sample 0 does, k intervals later."""

    plan: Plan
    interval: int
    ends: tuple[int, ...]
    spans: tuple[Span, ...]

    @cached_property
    def latency(self) -> int:
        graph = self.plan.graph
        return max(self.ends[self.plan.ready[name][-1]] for name in graph.outputs)

    @property
    def in_flight(self) -> int:
        """Samples that are inside at once, at most."""
        return -(-self.latency // self.interval)


@dataclass(frozen=True)
class Throughput:
    """Two ways to run a stream, and what limits it."""

    limits: tuple[Limit, ...]  # the most occupied resource first
    densest: SampleStream  # the shortest interval; stages wait for shared engines
    undisturbed: SampleStream  # the shortest interval at which a sample is as fast as alone


def measure_throughput(plan: Plan) -> Throughput:
    """The shortest interval, which the most occupied resource sets, and the undisturbed one."""
    alone = _place(plan, 0, "early")
    limits = occupation(alone)
    interval = max(limits[0].cycles, max(span.end - span.start for span in alone.spans), 1)
    while True:
        tries = [_place(plan, interval, placing) for placing in ("early", "packed")]
        fits = [stream for stream in tries if not clash(stream)]
        if fits:
            break
        interval += 1
    densest = min(fits, key=lambda stream: stream.latency)
    # A stage that has its resource to itself already fits; only the others are tried again.
    users = Counter(span.resource for span in alone.spans)
    sharing = tuple(span for span in alone.spans if users[span.resource] > 1)
    while clash(SampleStream(plan, interval, alone.ends, sharing)):
        interval += 1
    return Throughput(limits, densest, SampleStream(plan, interval, alone.ends, alone.spans))


def occupation(stream: SampleStream) -> tuple[Limit, ...]:
    """Cycles for which one sample keeps each resource, longest first."""
    total: dict[str, int] = {}
    for span in stream.spans:
        total[span.resource] = total.get(span.resource, 0) + span.end - span.start
    ordered = sorted(total.items(), key=lambda item: -item[1])
    return tuple(Limit(resource, cycles) for resource, cycles in ordered)


def clash(stream: SampleStream) -> bool:
    """Whether two stages, of any two samples, would want a resource at the same time."""
    by_resource: dict[str, list[Span]] = {}
    for span in stream.spans:
        taken = by_resource.setdefault(span.resource, [])
        if not _free(taken, span.start, span.end - span.start, stream.interval):
            return True
        taken.append(span)
    return False


def _place(plan: Plan, interval: int, placing: Placing) -> SampleStream:
    """Place stages in network order, each as early as inputs and shared resources allow.

    `early` takes the first gap that fits. `packed` puts a stage right after or right before
    what is placed already, so that the free time stays in one piece and the last stage fits too.
    Interval 0 is one sample alone.
    """
    ends = [0] * len(plan.steps)
    spans: list[Span] = []
    steps_of: dict[tuple[str, str], list[int]] = {}
    for index, step in enumerate(plan.steps):
        steps_of.setdefault((step.stage, step.resource), []).append(index)
    for (stage, resource), indices in steps_of.items():
        taken = [span for span in spans if span.resource == resource]
        first = _run_from(plan, indices, ends, 0)
        start, end = first
        if taken and interval:
            found = []
            for candidate in _candidates(taken, first, interval, placing):
                start, end = _run_from(plan, indices, ends, candidate)
                if _free(taken, start, end - start, interval):
                    found.append(start)
            start, end = _run_from(plan, indices, ends, min(found, default=first[0]))
        spans.append(Span(stage, resource, start, end))
    return SampleStream(plan, interval, tuple(ends), tuple(spans))


def _run_from(plan: Plan, indices: list[int], ends: list[int], earliest: int) -> tuple[int, int]:
    """Run the steps of a stage, none before `earliest`; give its start and its end."""
    begins = []
    for index in indices:
        step = plan.steps[index]
        begins.append(max([earliest, *(ends[before] for before in step.after)]))
        ends[index] = begins[-1] + step.cycles
    return min(begins), max(ends[index] for index in indices)


def _candidates(
    taken: list[Span], first: tuple[int, int], interval: int, placing: Placing
) -> list[int]:
    """Starts worth trying: at once, after each stage that is placed and, packed, before it."""
    earliest, length = first[0], first[1] - first[0]
    after = [earliest + (span.end - earliest) % interval for span in taken]
    if placing == "early":
        return [earliest, *after]
    return after + [earliest + (span.start - length - earliest) % interval for span in taken]


def _free(taken: list[Span], start: int, length: int, interval: int) -> bool:
    """Whether [start, start + length) misses every span in every period."""
    if length > interval:
        return False
    return all(
        (start - span.start) % interval >= span.end - span.start
        and (span.start - start) % interval >= length
        for span in taken
        if span.end > span.start and length
    )
