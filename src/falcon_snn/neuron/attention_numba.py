"""Attention in integers on the CPU: scores, codes and context of one head of a clip at a time."""

from typing import TYPE_CHECKING

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from falcon_snn.neuron.integer_numba import count_row, lookahead
from falcon_snn.neuron.numba_backend import use_torch_threads
from falcon_snn.neuron.vectors import LANES, count_bits, multiply_pairs

if TYPE_CHECKING:
    from falcon_snn.neuron.layers import AttentionCurve, IntegerNeurons

BUCKETS = 4096  # of a head's scores


def attention(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, heads: int, curve: "AttentionCurve",
    factor: Tensor, neurons: "IntegerNeurons", slots: int,
) -> Tensor:  # fmt: skip
    clips, tokens, _ = q.shape
    real = torch.full((clips,), tokens) if lengths is None else lengths
    spikes = torch.empty_like(v)
    use_torch_threads()
    table = curve.table.numpy()
    parameters = (factor, neurons.initial, neurons.static, neurons.threshold)
    _mix_and_fire(
        q.numpy(), k.numpy(), v.numpy(), real.numpy(), heads, table, *_buckets(table), slots,
        *(parameter.numpy() for parameter in parameters), spikes.numpy(),
    )  # fmt: skip
    return spikes


@njit(cache=True, error_model="numpy", nogil=True)
def _buckets(table):  # type: ignore[no-untyped-def]
    """Scores in buckets of one size, a power of two: the code of each bucket's smallest score.

    The first bucket ends where code 1 begins. Also how many more edges of the table lie within a
    bucket, at most: one if the curve is smooth.
    """
    heads = table.shape[0]
    shifts = np.zeros(heads, np.int64)
    edges = np.zeros(heads, np.int64)
    codes = np.zeros((heads, BUCKETS + 1), np.uint8)
    for head in range(heads):
        smallest, largest = np.int64(table[head, 1]), np.int64(table[head, 255])
        while (largest - smallest) >> shifts[head] >= BUCKETS:
            shifts[head] += 1
        code = 1
        for bucket in range(((largest - smallest) >> shifts[head]) + 1):
            before = code
            while code < 255 and table[head, code + 1] <= smallest + (bucket << shifts[head]):
                code += 1
            edges[head] = max(edges[head], code - before)
            codes[head, bucket + 1] = code
        edges[head] = max(edges[head], 255 - code)
        if shifts[head] == 0:
            edges[head] = 0  # every score has its own bucket
    return shifts, edges, codes


@njit(parallel=True, cache=True, error_model="numpy", nogil=True)
def _mix_and_fire(  # type: ignore[no-untyped-def]
    q, k, v, lengths, heads, table, shifts, edges, codes, slots, factor, initial, static_per_slot,
    threshold, spikes,
):  # fmt: skip
    """SN_T of the sum over keys of the map's code times the value's count.

    Padded keys have code 0.
    """
    clips, tokens, channels = q.shape
    size = channels // heads
    pairs, key_pairs = (size + 1) // 2, (tokens + 1) // 2
    keys, width = (-(-tokens // LANES) * LANES, -(-size // LANES) * LANES)
    for task in prange(clips * heads):
        clip, head = task // heads, task % heads
        first = np.uint64(head * size)
        own = slice(head * size, (head + 1) * size)
        neurons = lookahead(
            slots, factor[own], initial[own], static_per_slot[own], threshold[own], 1
        )
        length = min(lengths[clip], tokens)
        edges_of_head, codes_of_head = table[head], codes[head]
        # Two channels of a key side by side, and two keys of a channel.
        columns = np.zeros(pairs * keys * 2, np.int16)
        values = np.zeros(key_pairs * width * 2, np.int16)
        for token in range(tokens):
            for i in range(np.uint64(size)):
                at = ((i >> np.uint64(1)) * np.uint64(keys) + np.uint64(token)) * np.uint64(2)
                columns[at + (i & np.uint64(1))] = k[clip, token, first + i]
                at = np.uint64(token // 2 * width * 2 + token % 2) + np.uint64(2) * i
                values[at] = count_bits(np.uint64(v[clip, token, first + i]))
        query = np.zeros(2 * pairs, np.int16)
        scores = np.empty(keys, np.int32)
        places = np.empty(keys, np.int64)
        levels = np.zeros(2 * key_pairs, np.int16)
        context = np.empty(width, np.int32)
        for token in range(tokens):
            for i in range(np.uint64(size)):
                query[i] = q[clip, token, first + i]
            _multiply(query, pairs, columns, keys, scores)
            _look_up(
                scores, length, edges_of_head, shifts[head], edges[head], codes_of_head, places,
                levels,
            )  # fmt: skip
            _multiply(levels, key_pairs, values, width, context)
            count_row(context, slots, neurons, spikes[clip, token, own])


@njit(cache=True, error_model="numpy", nogil=True)
def _look_up(scores, length, table, shift, edges, codes, places, levels):  # type: ignore[no-untyped-def]
    smallest, largest = np.int64(table[1]), np.int64(table[255])
    start = smallest - (1 << shift)
    for key in range(np.uint64(length)):
        near = min(max(np.int64(scores[key]), smallest - 1), largest)
        places[key] = (near - start) >> shift
    if edges == 1:
        for key in range(np.uint64(length)):
            code = np.uint64(codes[np.uint64(places[key])])
            levels[key] = code + np.uint64(scores[key] >= table[code + np.uint64(1)])
        return
    for key in range(np.uint64(length)):
        code = np.uint64(codes[np.uint64(places[key])])
        for _ in range(edges):
            code += np.uint64(scores[key] >= table[code + np.uint64(1)])
        levels[key] = code


_multiply_7, _multiply_2, _multiply_1 = (multiply_pairs(groups) for groups in (7, 2, 1))


@njit(cache=True, error_model="numpy", nogil=True)
def _multiply(x, pairs, columns, width, out):  # type: ignore[no-untyped-def]
    """x times `width` columns."""
    stride = 2 * width
    column = 0
    while width - column >= 7 * LANES:
        _multiply_7(x, pairs, columns, 2 * column, stride, out, column)
        column += 7 * LANES
    while width - column >= 2 * LANES:
        _multiply_2(x, pairs, columns, 2 * column, stride, out, column)
        column += 2 * LANES
    while width - column >= LANES:
        _multiply_1(x, pairs, columns, 2 * column, stride, out, column)
        column += LANES
