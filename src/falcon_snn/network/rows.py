"""Numbers of many layers worked on at once: on a GPU all of them cost what those of one cost.

Conversion is arithmetic on a few numbers per neuron, layer by layer the same. A layer only says
which numbers; those of all layers are put below each other, and every operation runs once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

Number = Tensor | float
Layer = TypeVar("Layer")


@dataclass(frozen=True)
class Rows:
    """Numbers of one layer, a row per neuron, and the function that they are meant for.

    The function works row by row and gives its results by name. Layers whose functions and
    settings are the same share a call of it.
    """

    function: Callable[..., Mapping[str, Tensor]]
    count: int
    columns: Mapping[str, Number]  # each [count, ...], or one number for all rows
    gives: tuple[str, ...]  # the results that are wanted
    settings: Mapping[str, Any] = field(default_factory=dict)


# A stage's integers by suffix of their names, and what will be found with that of all stages.
Converted = tuple[dict[str, Tensor], list[Rows]]


def together(layers: Mapping[Layer, Rows]) -> dict[Layer, dict[str, Tensor]]:
    """The results of every layer, as views of those of all layers."""
    groups: dict[Any, list[Layer]] = {}
    for layer, rows in layers.items():
        widths = tuple(
            value.shape[1:] if isinstance(value, Tensor) else () for value in rows.columns.values()
        )
        key = rows.function, tuple(rows.settings.items()), widths
        groups.setdefault(key, []).append(layer)
    found: dict[Layer, dict[str, Tensor]] = {layer: {} for layer in layers}
    for group in groups.values():
        members = [layers[layer] for layer in group]
        first = members[0]
        device = next(v.device for v in first.columns.values() if isinstance(v, Tensor))
        numbers = {v for rows in members for v in rows.columns.values() if isinstance(v, float)}
        constants = {v: torch.full((), v, dtype=torch.float64, device=device) for v in numbers}
        columns = {
            name: _stacked([(rows.columns[name], rows.count) for rows in members], constants)
            for name in first.columns
        }
        counts = [rows.count for rows in members]
        for name, whole in first.function(**columns, **first.settings).items():
            for layer, part in zip(group, torch.split(whole, counts), strict=True):
                if name in layers[layer].gives:
                    found[layer][name] = part
    return found


def _stacked(parts: list[tuple[Number, int]], constants: Mapping[float, Tensor]) -> Tensor:
    """Columns of several layers below each other, each of as many rows."""
    given = [(constants[v] if isinstance(v, float) else v, count) for v, count in parts]
    return torch.cat([value if value.dim() else value.expand(count) for value, count in given])


def apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Views as tensors of their own memory, each at an address that suits every kernel."""
    own = {name: torch.empty_like(tensor) for name, tensor in tensors.items()}
    for dtype in {tensor.dtype for tensor in tensors.values()}:
        names = [name for name, tensor in tensors.items() if tensor.dtype == dtype]
        torch._foreach_copy_([own[name] for name in names], [tensors[name] for name in names])
    return own
