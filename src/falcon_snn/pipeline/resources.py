"""What the mapping costs in hardware, and what sharing arrays between tokens would save."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile
from falcon_snn.pipeline.graph import INPUT, Graph, TimedStage
from falcon_snn.pipeline.steps import digital_resource, qnn_plan, snn_plan
from falcon_snn.pipeline.throughput import measure_throughput
from falcon_snn.pipeline.timing import time_qnn, time_snn

MEMBRANE_BITS = 32


class LayerTiles(NamedTuple):
    """Tiles of one analog layer. Tiles of a layer run at once, so each is a sub-array."""

    layer: str
    tiles_per_copy: int  # ceil(K / R_tile) * ceil(N * slices / columns)
    copies: int  # positions, divided by the tokens that share a copy
    cell_use: float  # share of the sub-arrays' cells that hold a weight

    @property
    def tiles(self) -> int:
        return self.tiles_per_copy * self.copies


class NeuronUnits(NamedTuple):
    """The neurons of one firing or quantising stage, and what holds its results."""

    stage: str
    neurons: int
    units: int  # neurons_per_unit neurons share one
    buffer_bits: int  # T slots of every neuron, or an 8-bit code
    membrane_bits: int  # outside the units, where they are shared
    cells: float | None
    area_mm2: float | None  # units, buffers and membranes


@dataclass(frozen=True)
class Resources:
    """Everything that the network occupies; areas are None where the profile gives none."""

    layers: tuple[LayerTiles, ...]
    neurons: int  # accumulators with an IF update of their own
    arrays: int
    engines: int
    analog_area_mm2: float | None
    digital_area_mm2: float | None
    units: tuple[NeuronUnits, ...]

    @property
    def neuron_area_mm2(self) -> float | None:
        """Neuron units with their buffers and membranes, of all stages."""
        areas = [unit.area_mm2 for unit in self.units]
        return None if None in areas else sum(area for area in areas if area is not None)

    @property
    def tiles(self) -> int:
        return sum(layer.tiles for layer in self.layers)


def count_resources(graph: Graph, profile: Profile) -> Resources:
    """Tiles per layer, neurons, systolic arrays, vector engines, and area where it is known."""
    layers = []
    neurons = 0
    analog = {stage.name for stage in graph.stages if stage.kind == "analog"}
    # Two arrays that one stage adds up share its neurons: they count with the first of them.
    arrays_of = [[n for n in stage.after if n in analog] for stage in graph.stages]
    shared = {name for names in arrays_of for name in names[1:]}
    for stage in graph.stages:
        if stage.kind == "analog":
            tiles = profile.tiles(stage.inner, stage.columns)
            copies = profile.shared_copies(stage.copies)
            cells = tiles * max(profile.subarray_rows, profile.tile_rows) * profile.tile_columns
            use = stage.inner * stage.columns * profile.weight_slices / cells
            layers.append(LayerTiles(stage.layer, tiles, copies, use))
            neurons += 0 if stage.name in shared else stage.columns * stage.copies
    owners = {
        kind: len({digital_resource(s, profile) for s in graph.stages if s.kind == kind})
        for kind in ("product", "elementwise")
    }
    arrays = owners["product"] * profile.arrays
    engines = owners["elementwise"] * profile.engines
    tiles = sum(layer.tiles for layer in layers)
    digital = None
    if profile.array_area_mm2 is not None and profile.engine_area_mm2 is not None:
        digital = arrays * profile.array_area_mm2 + engines * profile.engine_area_mm2
    area = None if profile.subarray_area_mm2 is None else tiles * profile.subarray_area_mm2
    units = neuron_units(graph, profile)
    return Resources(tuple(layers), neurons, arrays, engines, area, digital, units)


def neuron_units(graph: Graph, profile: Profile) -> tuple[NeuronUnits, ...]:
    """Neuron units and buffers per stage. Sums that wait for a second input are not counted."""
    kinds = {stage.name: stage.kind for stage in graph.stages}
    sizes = {INPUT: 0}  # a graph does not say how wide its source is
    found = []
    for stage in graph.stages:
        sizes[stage.name] = stage.rows * stage.columns * stage.copies
        if stage.kind in ("neuron", "residual", "quantise"):
            neurons = sizes[stage.name] = max(sizes[name] for name in stage.after)
            spikes = not any(kinds.get(name) in ("analog", "product") for name in stage.after)
            found.append(_neuron_units(stage, neurons, spikes, graph.slots, profile))
    return tuple(found)


def _neuron_units(
    stage: TimedStage, neurons: int, spikes: bool, slots: int, profile: Profile
) -> NeuronUnits:
    shared = profile.neurons_per_unit > 1
    units = -(-neurons // profile.neurons_per_unit)
    bits = neurons * (8 if stage.kind == "quantise" else slots)
    membranes = neurons * MEMBRANE_BITS if shared else 0
    cells, area = profile.neuron_cells, profile.neuron_area_um2
    if shared:
        cells, area = profile.shared_neuron_cells, profile.shared_neuron_area_um2
    elif spikes:
        cells, area = profile.residual_cells, profile.residual_area_um2
    bit = profile.stored_bit_area_um2
    total = None
    if area is not None and bit is not None:
        total = (units * area + (bits + membranes) * bit) / 1e6
    return NeuronUnits(
        stage.name, neurons, units, bits, membranes, None if cells is None else units * cells, total
    )


class SharingPoint(NamedTuple):
    """One point of the curve: tokens that take turns on a copy, and what follows."""

    tokens_per_copy: int
    tiles: int
    snn_us: float
    qnn_us: float
    snn_per_s: float
    qnn_per_s: float


def sharing_curve(
    graph: Graph, delays: Mapping[str, int], profile: Profile, tokens: Sequence[int]
) -> list[SharingPoint]:
    """Array count, latency and throughput when N tokens take turns on one copy."""
    points = []
    for count in tokens:
        if count < 1:
            raise FalconError(f"{count} tokens cannot share a copy; allowed: 1 and more")
        shared = replace(profile, tokens_per_copy=count)
        snn = measure_throughput(snn_plan(graph, delays, shared)).densest
        qnn = measure_throughput(qnn_plan(graph, shared)).densest
        points.append(
            SharingPoint(
                count,
                count_resources(graph, shared).tiles,
                time_snn(graph, delays, shared).core_us,
                time_qnn(graph, shared).core_us,
                samples_per_s(snn.interval, shared),
                samples_per_s(qnn.interval, shared),
            )
        )
    return points


def samples_per_s(interval_cycles: int, profile: Profile) -> float:
    """Samples per second when one enters every `interval_cycles`."""
    return 1e9 / (interval_cycles * profile.cycle_ns)
