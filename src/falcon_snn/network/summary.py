"""What a network is made of, as data: parameters, shapes, stages, counts of its parts."""

from typing import Any

from falcon_snn.network.description import Network
from falcon_snn.network.qnn import Qnn, parameter_count


def summary(network: Network) -> dict[str, Any]:
    """Parameters, multiply-accumulates and stages; the stages' parameters add up."""
    model = Qnn(network)
    return {
        "name": network.name,
        "slots": network.slots,
        "weight_bits": network.weight_bits,
        "classes": network.classes,
        "input": list(network.source.input),
        "parameters": parameter_count(model),
        "macs": sum(stage.macs(network) for stage in network.stages),
        "stages": [
            {
                "name": stage.name,
                "operation": stage.words(network.shapes),
                "reads": list(stage.reads),
                "shape": list(network.shapes[stage.name]),
                "firing": stage.firing,
                "parameters": parameter_count(model.part(stage.name)),
                "macs": stage.macs(network),
            }
            for stage in network.stages
        ],
        "searchable": list(network.boundaries),
    }
