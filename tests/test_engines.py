"""The shared engines: tasks wait for their inputs and an engine, and for nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falcon_snn.errors import FalconError
from falcon_snn.pipeline.engines import POOLS, Machine, Task, gemm_cycles, schedule


def task(pool: str, cycles: int, *after: int) -> Task:
    assert pool in POOLS
    return Task("layer", 0, 0, "array" if pool == "array" else "vector", cycles, frozenset(after))


@st.composite
def task_lists(draw: st.DrawFn) -> list[Task]:
    tasks: list[Task] = []
    for index in range(draw(st.integers(1, 25))):
        earlier = st.sets(st.integers(0, index - 1), max_size=3) if index else st.just(set[int]())
        tasks.append(
            task(draw(st.sampled_from(POOLS)), draw(st.integers(1, 9)), *sorted(draw(earlier)))
        )
    return tasks


def test_a_product_costs_what_the_paper_says() -> None:
    assert gemm_cycles(32, 256, 32) == 256 + 62
    assert gemm_cycles(98, 32, 98) == 574
    assert gemm_cycles(98, 98, 32) == 454


def test_ties_go_to_the_task_that_was_created_first() -> None:
    tasks = [task("array", 5), task("array", 5), task("array", 1)]
    assert [p.start for p in schedule(tasks, Machine(arrays=1, vectors=1))] == [0, 5, 10]


def test_an_earlier_release_goes_before_an_earlier_creation() -> None:
    tasks = [
        task("vector", 3),
        task("vector", 2),
        task("array", 4),
        task("array", 1, 0),  # released at 3
        task("array", 1, 1),  # released at 2, created later
    ]
    placements = schedule(tasks, Machine(arrays=1, vectors=2))
    assert placements[4].start == 4
    assert placements[3].start == 5


def test_a_task_cannot_wait_for_a_later_one() -> None:
    with pytest.raises(FalconError, match="must come after"):
        schedule([task("array", 1, 1), task("array", 1)], Machine())


@given(task_lists(), st.integers(1, 3), st.integers(1, 3))
def test_every_engine_is_used_fairly_and_never_twice(
    tasks: list[Task], arrays: int, vectors: int
) -> None:
    machine = Machine(arrays, vectors)
    placements = schedule(tasks, machine)
    released = [max((placements[a].end for a in t.after), default=0) for t in tasks]
    for index, (one, placed) in enumerate(zip(tasks, placements, strict=True)):
        assert placed.end - placed.start == one.cycles
        assert placed.start >= released[index]
        rivals = [i for i, other in enumerate(tasks) if other.pool == one.pool and i != index]
        for other in rivals:
            if placements[other].engine == placed.engine:
                apart = (
                    placements[other].end <= placed.start or placed.end <= placements[other].start
                )
                assert apart
            if (released[other], other) < (
                released[index],
                index,
            ):  # it stood before us in the queue
                assert placements[other].start <= placed.start
        if (
            placed.start > released[index]
        ):  # we waited, so every engine of the pool worked until then
            working = [i for i in rivals if placements[i].start < placed.start <= placements[i].end]
            assert len(working) == machine.engines(one.pool)
