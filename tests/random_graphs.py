"""Random stage graphs and hardware profiles, small enough to run thousands of them."""

from dataclasses import replace
from random import Random

from tests.event_simulation import DIGITAL

from falcon_snn.hardware.profile import Profile, load_profile
from falcon_snn.pipeline.graph import INPUT, Graph, TimedStage

PAPER = load_profile()


def random_profile(random: Random) -> Profile:
    return replace(
        PAPER,
        t_adc_ns=random.choice([1.0, 3.7, 10.0]),
        active_rows=random.randint(1, 12),
        tile_rows=random.randint(1, 40),
        mux=random.randint(1, 4),
        hand_over_cycles=random.randint(0, 2),
        tokens_per_copy=random.randint(1, 3),
        clock_mhz=random.choice([50.0, 100.0, 333.3]),
        neuron_step_cycles=random.randint(0, 12),
        neurons_per_unit=random.choice([1, 1, 2, 5]),
        array_size=random.randint(1, 6),
        arrays=random.randint(1, 4),
        engines=random.randint(1, 4),
        engine_lanes=random.randint(1, 6),
        engine_sharing=random.choice(["shared", "per-block"]),
        attention=random.choice(["serial", "streamed"]),
    )


def random_graph(random: Random) -> Graph:
    """Any stages after any earlier ones, with attention-like chains among them."""
    slots = random.randint(1, 9)
    stages: list[TimedStage] = []
    spikes = [INPUT]  # whatever a digital stage may read
    for number in range(random.randint(1, 14)):
        name = f"block{random.randint(0, 2)}.s{number}"
        kind = random.choice(
            ["layer", "layer", "neuron", "residual", "quantise", *DIGITAL, *DIGITAL]
        )
        anything = [INPUT, *(stage.name for stage in stages)]
        if kind == "layer":
            array = TimedStage(f"{name}.array", "analog", (random.choice(spikes),),
                          inner=random.randint(1, 50), copies=random.randint(1, 5))  # fmt: skip
            stages.append(array)
            stages.append(random_reader(random, name, array.name, slots))
        elif kind in ("neuron", "quantise"):
            stages.append(random_reader(random, name, random.choice(anything), slots))
        elif kind == "residual":
            branches = tuple(random.choices(anything, k=random.randint(2, 3)))
            stages.append(TimedStage(name, kind, branches, full_lookahead=random.random() < 0.2))
        else:
            stages.append(random_digital(random, name, kind, spikes, stages))
        spikes.append(stages[-1].name)
    return Graph("random", slots, tuple(stages))


def random_reader(random: Random, name: str, source: str, slots: int) -> TimedStage:
    if random.random() < 0.3:
        prefix = random.choice([None, random.randint(1, slots)])
        return TimedStage(name, "quantise", (source,), prefix=prefix)
    return TimedStage(name, "neuron", (source,), full_lookahead=random.random() < 0.2)


def random_digital(
    random: Random, name: str, kind: str, spikes: list[str], stages: list[TimedStage]
) -> TimedStage:
    after = random.choices(spikes, k=2 if kind == "product" else random.randint(1, 2))
    rows, copies = random.randint(1, 14), random.randint(1, 5)
    earlier = [stage for stage in stages if stage.kind in DIGITAL]
    if earlier and random.random() < 0.7:  # go on where a digital stage left off, as attention does
        before = random.choice(earlier)
        after[0] = before.name
        if random.random() < 0.8:
            rows, copies = before.rows, before.copies
    inner = random.randint(1, 9) if kind == "product" else 1
    return TimedStage(name, kind, tuple(after), rows=rows, inner=inner,
                 columns=random.randint(1, 14), copies=copies)  # fmt: skip
