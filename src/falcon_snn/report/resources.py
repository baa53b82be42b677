"""Tiles, neurons, engines and area of a network, and what sharing arrays would save."""

from collections.abc import Sequence
from typing import Any

from falcon_snn.hardware.profile import Profile
from falcon_snn.pipeline.graph import Graph
from falcon_snn.pipeline.resources import SharingPoint, count_resources


def resources_report(
    graph: Graph, profile: Profile, curve: Sequence[SharingPoint]
) -> dict[str, Any]:
    """All that `falcon-snn resources` shows, with its curve of sharing."""
    counted = count_resources(graph, profile)
    shared = "shared_" if profile.neurons_per_unit > 1 else ""
    source = profile.sources.get(f"{shared}neuron_area_um2")
    return {
        "network": graph.name,
        "tiles": counted.tiles,
        "neurons": counted.neurons,
        "systolic_arrays": counted.arrays,
        "vector_engines": counted.engines,
        "analog_area_mm2": counted.analog_area_mm2,
        "digital_area_mm2": counted.digital_area_mm2,
        "neuron_area_mm2": counted.neuron_area_mm2,
        "neuron_area_source": None if source is None else source._asdict(),
        "neuron_units": [unit._asdict() for unit in counted.units],
        "layers": [
            {**layer._asdict(), "cell_use": round(layer.cell_use, 4), "tiles": layer.tiles}
            for layer in counted.layers
        ],
        "sharing": [point._asdict() for point in curve],
    }
