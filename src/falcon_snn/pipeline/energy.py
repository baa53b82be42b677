"""Energy of one inference: operations and macro accesses of a stage graph, with measured spikes.

The spiking network drives one slot after the other into its arrays, the QNN one bit plane of its
counts after the other, or several where a pass takes several bits; both read every row group and
every column group in each pass, whatever the data. A Q/K prefix of p slots ends the passes of Q and
K after p.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from falcon_snn.hardware.energy import (
    AnalogWork,
    ArrayWork,
    Operations,
    Parts,
    analog_pj,
    arithmetic_pj,
    array_pj,
)
from falcon_snn.hardware.profile import Profile
from falcon_snn.pipeline.graph import INPUT, Graph, TimedStage
from falcon_snn.pipeline.steps import product_cycles
from falcon_snn.pipeline.timing import Timing, time_qnn, time_snn


@dataclass(frozen=True)
class Activity:
    """What was measured on data: the mean over clips, for a clip of full length.

    For a QNN a "spike" is a set bit of a count, and rows are on in bit planes.
    """

    source: str  # the stage whose spikes the core takes as its input
    rows: Mapping[str, float]  # layer to input rows on, summed over positions and passes
    spikes: Mapping[str, float]  # stage (and the source) to spikes of all its neurons
    neurons: Mapping[str, int]

    @property
    def spikes_per_neuron(self) -> float:
        return sum(self.spikes.values()) / sum(self.neurons.values())


@dataclass(frozen=True)
class Energy:
    """The energy of one inference; stages keep the order of the network."""

    timing: Timing
    activity: Activity
    outside: dict[str, Operations]  # counts before and after the core: source and readout
    operations: dict[str, Operations]  # stage to counts, source and readout included
    work: dict[str, AnalogWork]  # analog layer to what it asks of its tiles
    analog_pj: dict[str, Parts]  # layer to parts
    digital_pj: dict[str, Parts]  # product to parts

    @property
    def arithmetic_mj(self) -> float:
        """All operations at their cost: a network without any analog part, arithmetic only."""
        profile = self.timing.profile
        return _mj(sum(arithmetic_pj(counts, profile) for counts in self.operations.values()))

    @property
    def analog_mj(self) -> float:
        return _mj(sum(self.analog_parts.values()))

    @property
    def digital_mj(self) -> float:
        return _mj(sum(self.digital_parts.values()))

    @property
    def core_mj(self) -> float:
        return self.analog_mj + self.digital_mj

    @property
    def edp_nj_s(self) -> float:
        """Energy-delay product; mJ us are nJ s."""
        return self.core_mj * self.timing.core_us

    @property
    def analog_parts(self) -> Parts:
        return _sum_parts(self.analog_pj)

    @property
    def digital_parts(self) -> Parts:
        return _sum_parts(self.digital_pj)

    @property
    def stages_mj(self) -> dict[str, float]:
        """Core energy of every layer and product; they add up to the core's."""
        return {
            name: _mj(sum(parts.values()))
            for name, parts in (self.analog_pj | self.digital_pj).items()
        }


def graph_energy(
    graph: Graph, delays: Mapping[str, int] | None, activity: Activity,
    outside: dict[str, Operations], profile: Profile,
) -> Energy:  # fmt: skip
    """Energy of a network under a schedule, or of its QNN if there are no delays."""
    timing = time_qnn(graph, profile) if delays is None else time_snn(graph, delays, profile)
    work = {
        stage.layer: _analog_work(timing, stage, activity)
        for stage in graph.stages
        if stage.kind == "analog"
    }
    products = [stage for stage in graph.stages if stage.kind == "product"]
    source, readout = outside.items()
    inside = _operations(graph, activity, qnn=delays is None)
    return Energy(
        timing,
        activity,
        outside,
        dict([source, *inside.items(), readout]),
        work,
        {name: analog_pj(one, profile) for name, one in work.items()},
        {
            stage.name: array_pj(
                ArrayWork(_macs(stage), stage.copies * product_cycles(stage, profile)), profile
            )
            for stage in products
        },
    )


def on_profile(energy: Energy, profile: Profile) -> Energy:
    """The same network and spikes on other hardware."""
    timing = energy.timing
    return graph_energy(timing.graph, timing.delays, energy.activity, energy.outside, profile)


def passes(graph: Graph, stage: TimedStage, profile: Profile, *, qnn: bool) -> int:
    """Passes of an analog stage: of b bits, T slots, or p slots where only a prefix is read."""
    if qnn:
        return profile.bit_passes(graph.bits)
    readers = [other for other in graph.stages if stage.name in other.after]
    prefixes = [
        other.prefix or graph.slots if other.kind == "quantise" else graph.slots
        for other in readers
    ]
    return max(prefixes, default=graph.slots)


def _analog_work(timing: Timing, stage: TimedStage, activity: Activity) -> AnalogWork:
    profile, graph = timing.profile, timing.graph
    count = passes(graph, stage, profile, qnn=timing.delays is None)
    runs = [n for n, step in enumerate(timing.steps) if step.stage == stage.name][:count]
    window_us = timing.us(timing.ends[runs[-1]] - timing.starts[runs[0]])
    column_groups = profile.column_groups(stage.columns)
    row_groups = profile.layer_row_groups(stage.inner)
    copies = profile.shared_copies(stage.copies)
    input_tiles = -(-stage.inner // profile.tile_rows)
    sums = input_tiles * stage.columns * profile.weight_slices * stage.copies
    return AnalogWork(
        accesses=float(row_groups * column_groups * stage.copies * count),
        rows_on=activity.rows[stage.layer] * column_groups,
        tile_sums=float(sums * count),
        tile_us=profile.tiles(stage.inner, stage.columns) * copies * window_us,
    )


def _operations(graph: Graph, activity: Activity, *, qnn: bool) -> dict[str, Operations]:
    """Counts per stage of the core."""
    counts: dict[str, Operations] = {}
    for stage in graph.stages:
        if stage.kind == "analog" and qnn:
            macs = stage.inner * stage.columns * stage.copies
            counts[stage.layer] = Operations(macs_8x4=macs)
        elif stage.kind == "analog":
            added = activity.rows[stage.layer] * stage.columns
            counts[stage.layer] = Operations(accumulates=added)
        elif stage.kind == "product":
            counts[stage.name] = _product(graph, stage)
        elif stage.kind == "residual":
            streams = [name for name in stage.after if not _is_analog(graph, name)]
            added = sum(_additions(name, activity, qnn) for name in streams)
            own = counts.get(stage.name, Operations())
            counts[stage.name] = own.plus(Operations(accumulates=added))
    return counts


def _is_analog(graph: Graph, name: str) -> bool:
    return name != INPUT and graph.stage(name).kind == "analog"


def _additions(name: str, activity: Activity, qnn: bool) -> float:
    """Adding up a stream: one accumulate per spike, one per count in a QNN."""
    name = activity.source if name == INPUT else name
    return activity.neurons[name] if qnn else activity.spikes[name]


def _product(graph: Graph, stage: TimedStage) -> Operations:
    """A product of two codes has 8 bits on both sides, one with counts 4 on one of them."""
    counted = any(name == INPUT or graph.stage(name).fires for name in stage.after)
    macs = _macs(stage)
    return Operations(macs_8x4=macs) if counted else Operations(macs_8x8=macs)


def _macs(stage: TimedStage) -> int:
    return stage.rows * stage.inner * stage.columns * stage.copies


def _sum_parts(stages: Mapping[str, Parts]) -> Parts:
    total: Parts = {}
    for parts in stages.values():
        for part, pj in parts.items():
            total[part] = total.get(part, 0.0) + pj
    return total


def _mj(pj: float) -> float:
    return pj * 1e-9
