"""Attention in a hardware description: products on systolic arrays, ConSmax between them.

Products that share arrays are served in the order of the network: each waits for the one before
(`free`). Arrays take what the one that is served feeds them; the others feed nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from falcon_snn.interchange.verilog.stream import Stream, words
from falcon_snn.pipeline.steps import digital_cycles, digital_resource, elementwise_cycles

if TYPE_CHECKING:
    from falcon_snn.interchange.verilog.design import Design
    from falcon_snn.network.operations import Attention
    from falcon_snn.pipeline import graph

FEED_A, FEED_B = 9, 8  # bits of what an array takes: signed codes, and codes 0..255 of ConSmax
WIDTH = 32  # bits of an array's sums


@dataclass
class Pool:
    """Systolic arrays, and the products that run on them."""

    name: str
    arrays: int
    products: list[str] = field(default_factory=list)


def add_attention(design: Design, stage: Attention) -> Stream:
    """Q K^T, ConSmax and A V of one stage; gives the sums of A V."""
    scores, curve, mixed = stage.timing(design.network)[:3]
    tokens, heads, slots = scores.rows, stage.heads, design.network.slots
    name, profile = design.wire(stage.name), design.profile
    q, k, v = (design.stream(read) for read in stage.reads)
    streamed = profile.attention == "streamed"
    # A part is what the next step may start with: a group of rows of a round, or all of it.
    arrays = min(profile.arrays, profile.engines) if streamed else profile.arrays
    used = min(arrays, max(one.copies for one in design.graph.stages if one.kind == "product"))
    height = profile.array_size if streamed else tokens
    together = arrays if streamed else heads  # heads in a part of the map
    groups = -(-tokens // height)
    parts = groups * -(-heads // together)
    rows = -(-tokens // profile.array_size) * -(-heads // arrays)  # that Q K^T counts to
    if streamed:
        last = tokens - (groups - 1) * height
        cycles = [elementwise_cycles(h, tokens, profile) for h in (min(height, tokens), last)]
    else:
        cycles = [digital_cycles(curve, profile)] * 2

    width = _bits(127 * 127 * scores.inner)
    _product(design, f"{name}_qk", scores, used, {
        "PARTS": 1, "TRANSPOSED": 1, "SLOTS": 1, "WIDTH_A": 8, "WIDTH_B": 8, "WIDTH": width,
    }, {
        "left": f"{q.count} != 0", "right": f"{k.count} != 0", "a": q.slots, "b": k.slots,
    })  # fmt: skip
    edges = design.numbers(stage, "curve.table")[:, 1:256]
    design.module("falcon_consmax", f"{name}_consmax", {
        "ROWS": tokens, "COLUMNS": tokens, "COPIES": heads, "HEIGHT": height, "HEADS": together,
        "INPUTS": rows, "CYCLES": cycles[0], "LAST": cycles[1], "WIDTH": width,
        "FILE": design.add_file(f"{name}_curve.hex", words(edges.flatten())),
    }, {
        "ready": f"{name}_qk_count", "scores": f"{name}_qk_results",
        "count": design.new_wire(f"{name}_map_count", 16),
        "codes": design.new_wire(f"{name}_map", heads * tokens * tokens * FEED_A),
    })  # fmt: skip
    width = _bits(255 * slots * tokens)
    _product(design, f"{name}_av", mixed, used, {
        "PARTS": parts, "TRANSPOSED": 0, "SLOTS": slots, "WIDTH_A": FEED_A, "WIDTH_B": 1,
        "WIDTH": width,
    }, {
        "left": f"{name}_map_count", "right": f"{v.count} == 4'd{slots}",
        "a": f"{name}_map", "b": v.slots,
    })  # fmt: skip
    return Stream(f"{name}_av_whole", f"{name}_av_results", width, 1)


def add_arrays(design: Design, pool: Pool) -> None:
    """The arrays of a pool, behind all of their products."""
    size, names = design.profile.array_size, pool.products
    design.lines[:0] = [  # before the products that read them
        f"  logic [{2 * size - 2}:0] {pool.name}_done;",
        f"  logic [{pool.arrays * size * size * WIDTH - 1}:0] {pool.name}_sums;",
    ]
    for wire in ("valid", "first", "last", "a", "b"):
        fed = " | ".join(f"{one}_{wire}" for one in names)
        bits = {"a": pool.arrays * size * FEED_A, "b": pool.arrays * size * FEED_B}.get(wire, 1)
        design.lines.append(f"  assign {design.new_wire(f'{pool.name}_{wire}', bits)} = {fed};")
    design.module("falcon_array", pool.name, {
        "ARRAYS": pool.arrays, "SIZE": size, "WIDTH_A": FEED_A, "WIDTH_B": FEED_B, "WIDTH": WIDTH,
    }, {
        wire: f"{pool.name}_{wire}" for wire in ("valid", "first", "last", "a", "b", "done", "sums")
    })  # fmt: skip


def _product(
    design: Design, name: str, timed: graph.TimedStage, arrays: int, parameters: dict[str, Any],
    ports: dict[str, str],
) -> None:  # fmt: skip
    size, resource = design.profile.array_size, digital_resource(timed, design.profile)
    if resource not in design.pools:
        design.pools[resource] = Pool(f"arrays{len(design.pools)}", arrays)
    pool = design.pools[resource]
    free = f"{pool.products[-1]}_whole" if pool.products else "1'b1"
    pool.products.append(name)
    fed = {"valid": 1, "first": 1, "last": 1, "a": arrays * size * FEED_A,
           "b": arrays * size * FEED_B, "count": 16, "whole": 1,
           "results": timed.rows * timed.columns * timed.copies * parameters["WIDTH"]}  # fmt: skip
    wires = {wire: design.new_wire(f"{name}_{wire}", bits) for wire, bits in fed.items()}
    design.module("falcon_product", name, {
        "ROWS": timed.rows, "INNER": timed.inner, "COLUMNS": timed.columns,
        "COPIES": timed.copies, "ARRAYS": arrays, "SIZE": size, "FEED_A": FEED_A,
        "FEED_B": FEED_B, "WIDTH_S": WIDTH, **parameters,
    }, {
        "free": free, **ports, "feed_a": wires.pop("a"), "feed_b": wires.pop("b"), **wires,
        "done": f"{pool.name}_done",
        "sums": f"{pool.name}_sums",
    })  # fmt: skip


def _bits(most: int) -> int:
    """Bits of a signed number up to this one."""
    return most.bit_length() + 1
