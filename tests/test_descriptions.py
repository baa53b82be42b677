"""A network's description as a document: damaged ones are refused in one line."""

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any, TypeVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from falcon_snn.errors import FalconError
from falcon_snn.network.description import Network, network_from_json
from falcon_snn.network.operations import Attention, Code, Fire, FireTerm, Readout, Source
from falcon_snn.network.product import Product
from falcon_snn.network.qnn import Qnn

Made = TypeVar("Made")
SMALL = Network(
    "small", 3,
    (
        Source("source", (4, 4, 1), Product(2, (3, 3), padding=(1, 1))),
        Fire("conv", (FireTerm("source", Product(2, (3, 3), padding=(1, 1))),)),
        Fire("pooled", (FireTerm("conv", Product(4, (1, 2), pool=(2, 2))),)),
        Code("q", "pooled", Product(4), 2),
        Code("k", "pooled", Product(4)),
        Fire("v", (FireTerm("pooled", Product(4)),), lookahead=True),
        Attention("context", "q", "k", "v", 2),
        Fire("residual", (FireTerm("context"), FireTerm("pooled")), norm=True),
        Readout("classes", "residual", 3),
    ),
)  # fmt: skip
STAGE = {name: number for number, name in enumerate(SMALL.by_name)}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The small network's description with one value changed, `stage.key.key`."""
    document: dict[str, Any] = json.loads(json.dumps(SMALL.as_json()))
    first, *keys = path.split(".")
    table: Any = document
    if first in STAGE:
        table = document["stages"][STAGE[first]]
    else:
        keys = [first, *keys]
    for key in keys[:-1]:
        table = table[int(key) if isinstance(table, list) else key]
    table[keys[-1]] = value
    return document


HUGE = 2**31 - 1
DAMAGED: list[tuple[dict[str, Any], str]] = [
    (changed("slots", "3"), "slots is '3', which is not allowed"),
    (changed("slots", True), "slots is 'True'"),
    (changed("slots", 0), r"slots is 0; it must lie in 1\.\.8"),
    (changed("slots", 256), r"slots is 256"),
    (changed("slots", 10**400), "slots is an integer of 1329 bits"),
    (changed("weight_bits", 9), "weight bits is 9"),
    (changed("name", "two\nlines"), "cannot be"),
    (changed("name", "x" * 1000), "cannot be"),
    (changed("nested", {"deep": 1}), "unknown key 'nested'"),
    (changed("stages", []), "must begin with a source"),
    (changed("stages", "none"), "list of stages"),
    (changed("stages", [None]), "unknown operation 'None'"),
    (changed("conv.operation", ["fire"]), "unknown operation"),
    (changed("conv.operation", "dense"), "unknown operation 'dense'"),
    (changed("conv.colour", 1), "unknown key 'colour'"),
    (changed("conv.co\nlour", 1), "unknown key"),
    (changed("conv.name", "input"), "stage name 'input' is not allowed"),
    (changed("conv.name", "source"), "two stages have the name 'source'"),
    (changed("conv.name", None), "is not allowed"),
    (changed("conv.terms", []), "nothing reads stage 'source'"),
    (changed("conv.terms", [{"reads": "source"}]), "fires on spikes alone"),
    (changed("conv.terms", [{"product": None}]), "lacks one of reads"),
    (changed("conv.terms", [1]), "is not a table"),
    (changed("conv.terms", {"reads": "source"}), "is not allowed|is not a table"),
    (changed("conv.terms.0.reads", "pooled"), "reads 'pooled', which is not a stage before it"),
    (changed("conv.terms.0.reads", "conv"), "reads 'conv', which is not a stage before it"),
    (changed("conv.terms.0.reads", "nowhere"), "which is not a stage before it"),
    (changed("conv.terms.0.product.kernel", [3]), "is not allowed"),
    (changed("conv.terms.0.product.kernel", [9, 9]), "does not fit into a map"),
    (changed("conv.terms.0.product.kernel", [0, 3]), "kernel is"),
    (changed("conv.terms.0.product.stride", [0, 1]), "stride is"),
    (changed("conv.terms.0.product.pool", [-1, 1]), "pool is"),
    (changed("conv.terms.0.product.pool", [3, 1]), "do not divide"),
    (changed("conv.terms.0.product.padding", [3, 3]), "not below kernel"),
    (changed("conv.terms.0.product.padding", [-1, 0]), "padding 0 or more"),
    (changed("conv.terms.0.product.groups", 3), "3 groups"),
    (changed("conv.terms.0.product.groups", 0), "1 or more"),
    (changed("conv.terms.0.product.norm", "layer"), "norm is batch or bias"),
    (changed("conv.terms.0.product.dropout", float("nan")), "is not allowed"),
    (changed("conv.terms.0.product.dropout", 10**400), "is not allowed"),
    (changed("conv.terms.0.product.outputs", HUGE), "weights; too many"),
    (changed("conv.terms.0.product.outputs", 2**40), "is not allowed"),
    (changed("source.product.outputs", HUGE), "weights; too many"),
    (changed("source.input", [4, 4, HUGE]), "weights; too many"),
    (changed("source.input", [4, 4]), "is not allowed"),
    (changed("source.input", [4, 0, 1]), "sizes are 1 or more"),
    (changed("source.levels", 0), "levels is 0"),
    (changed("source.levels", float("inf")), "is not allowed"),
    (changed("source.zero", float("nan")), "is not allowed"),
    (changed("source.given", True), "take no convolution"),
    (changed("source.given", 1), "is not allowed"),
    (changed("source.encoding", "rate"), "unknown encoding 'rate'"),
    (changed("q.prefix", 4), r"Q/K prefix is 4; it must lie in 1\.\.3"),
    (changed("q.prefix", 0), r"Q/K prefix is 0"),
    (changed("q.product.kernel", [2, 1]), "weights per position only"),
    (changed("q.source", "k"), "which is not a stage before it"),
    (changed("k.source", "q"), "needs the spikes of 'q', which gives codes"),
    (changed("context.q", "v"), "needs the codes of 'v', which gives spikes"),
    (changed("context.heads", 3), "heads can share"),
    (changed("context.heads", 0), "heads can share"),
    (changed("residual.terms.1.reads", "conv"), "they must be of one size"),
    (changed("classes.classes", 1), "two or more"),
    (changed("classes.classes", HUGE), "weights; too many"),
    (changed("classes.window", [1, 9]), "do not fit a map"),
    (changed("classes.source", "pooled"), "nothing reads stage 'residual'"),
    ({**SMALL.as_json(), "stages": SMALL.as_json()["stages"][1:]}, "must begin with a source"),
    ({**SMALL.as_json(), "stages": SMALL.as_json()["stages"][:-1]}, "end in a readout"),
    ({**SMALL.as_json(), "stages": SMALL.as_json()["stages"][::-1]}, "must begin with a source"),
    (changed("stages", [
        SMALL.as_json()["stages"][0],
        {**SMALL.as_json()["stages"][0], "name": "again"},
        SMALL.as_json()["stages"][-1],
    ]), "two sources"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "message"), DAMAGED)
def test_a_damaged_description_is_one_line(document: dict[str, Any], message: str) -> None:
    with pytest.raises(FalconError, match=message) as caught:
        network_from_json(document)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_what_is_no_description() -> None:
    values: list[Any] = [None, 1, "network", [], [1], {}, {"stages": None}, {"stages": {}}]
    for value in values:
        with pytest.raises(FalconError, match="a network is a table with a list of stages"):
            network_from_json(value)


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 0, 1, 2, 7, 300, 2**16, HUGE, 2**31, 10**400, 0.5, -1.0, float("nan"),
     float("inf"), "", "source", "conv", "a\nb", "x" * 500, [], [1, 1], [0, 0], [HUGE, HUGE],
     [1, 1, 1], {}, {"reads": "source"}, [[]], [None]]
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in a document."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path, *(found for key, each in inner for found in places(each, (*path, key)))]


def attempt(make: Callable[[], Made]) -> tuple[Made | None, str]:
    """What was made, or the message that says why not; any other exception is a fault."""
    try:
        return make(), ""
    except FalconError as error:
        return None, str(error)


@settings(max_examples=400)
@given(st.data())
def test_any_damage_is_one_line_or_a_network_of_sane_size(data: st.DataObject) -> None:
    document: Any = json.loads(json.dumps(SMALL.as_json()))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(document)[1:]))
        table = document
        for key in path[:-1]:
            table = table[key]
        if data.draw(st.integers(0, 3)):
            table[path[-1]] = deepcopy(data.draw(ODD))
        else:
            del table[path[-1]]
        if not isinstance(document, dict) or not document.get("stages"):
            break
    network, fault = attempt(lambda: network_from_json(document))
    if network is None:
        assert "\n" not in fault
        assert 0 < len(fault) < 300
        return
    assert network_from_json(json.loads(json.dumps(network.as_json()))) == network
    with torch.device("meta"):
        model = Qnn(network)
    assert sum(p.numel() for p in model.parameters()) < 2**30
    graph, fault = attempt(lambda: network.graph)
    assert "\n" not in fault
    assert graph is None or graph.boundaries == network.boundaries
