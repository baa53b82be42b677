"""What numba's compiler does not find by itself: sums that stay in registers, bits of many bytes.

Plain vectors of integers in LLVM's language, which every processor has instructions for.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

LANES = 16  # outputs that are added together
MOST_ROWS = 255  # that a sum of 16 bits has room for
_INDEX, _WORD = ir.IntType(64), ir.IntType(32)
_BYTES, _SHORTS, _WORDS = (ir.VectorType(ir.IntType(bits), LANES) for bits in (8, 16, 32))
_PAIRS, _PRODUCTS = (ir.VectorType(ir.IntType(bits), 2 * LANES) for bits in (16, 32))


def sum_rows(groups: int) -> Any:
    """A function that adds rows of int8 weights, 16 x `groups` columns of each, to int32 sums.

    (weights, at, stride, rows, first, last, sums, to): for each r in rows[first:last], no more
    than MOST_ROWS of them, sums[to + i] += weights[at + stride r + i].
    """

    @intrinsic
    def add(typing, weights, at, stride, rows, first, last, sums, to):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            values = _pointers_and_indices(context, builder, signature.args, arguments)
            weights, at, stride, rows, first, last, sums, to = values

            def add_row(row, totals):  # type: ignore[no-untyped-def]
                number = builder.zext(builder.load(builder.gep(rows, [row])), _INDEX)
                start = builder.add(at, builder.mul(number, stride))
                for group, total in enumerate(totals):
                    added = _load(builder, weights, start, group * LANES, _BYTES)
                    yield builder.add(total, builder.sext(added, _SHORTS))

            totals = _loop(builder, first, last, [_SHORTS] * groups, add_row)
            for group, total in enumerate(totals):
                before = _load(builder, sums, to, group * LANES, _WORDS)
                after = builder.add(before, builder.sext(total, _WORDS))
                _store(builder, after, sums, to, group * LANES)
            return context.get_dummy_value()

        return types.void(weights, at, stride, rows, first, last, sums, to), generate

    return add


def multiply_pairs(groups: int) -> Any:
    """A function that multiplies int16 numbers with 16 x `groups` columns, two rows at a time.

    (x, pairs, columns, at, stride, out, to): out[to + i] is the sum over p < `pairs` of
    x[2 p] columns[at + stride p + 2 i] + x[2 p + 1] columns[at + stride p + 2 i + 1], in int32.
    """

    @intrinsic
    def multiply(typing, x, pairs, columns, at, stride, out, to):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            values = _pointers_and_indices(context, builder, signature.args, arguments)
            x, pairs, columns, at, stride, out, to = values
            even, odd = (_WORDS(list(range(first, 2 * LANES, 2))) for first in (0, 1))

            def add_pair(pair, totals):  # type: ignore[no-untyped-def]
                place = builder.gep(x, [builder.mul(pair, _INDEX(2))])
                two = builder.load(builder.bitcast(place, _WORD.as_pointer()), align=2)
                left = builder.sext(builder.bitcast(_all(builder, two, _WORDS), _PAIRS), _PRODUCTS)
                start = builder.add(at, builder.mul(pair, stride))
                for group, total in enumerate(totals):
                    right = _load(builder, columns, start, group * 2 * LANES, _PAIRS)
                    products = builder.mul(left, builder.sext(right, _PRODUCTS))
                    halves = [
                        builder.shuffle_vector(products, _PRODUCTS(ir.Undefined), half)
                        for half in (even, odd)
                    ]
                    yield builder.add(total, builder.add(*halves))

            totals = _loop(builder, _INDEX(0), pairs, [_WORDS] * groups, add_pair)
            for group, total in enumerate(totals):
                _store(builder, total, out, to, group * LANES)
            return context.get_dummy_value()

        return types.void(x, pairs, columns, at, stride, out, to), generate

    return multiply


@intrinsic
def spike_mask(typing, packed, at, slot):  # type: ignore[no-untyped-def]
    """Bit i: whether packed[at + i] has a spike in the slot; reads 64 bytes."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        packed, at, slot = _pointers_and_indices(context, builder, signature.args, arguments)
        bytes_ = ir.VectorType(ir.IntType(8), 64)
        bit = builder.shl(bytes_.element(1), builder.trunc(slot, bytes_.element))
        seen = builder.and_(_load(builder, packed, at, 0, bytes_), _all(builder, bit, bytes_))
        return builder.bitcast(builder.icmp_unsigned("!=", seen, bytes_([0] * 64)), _INDEX)

    return types.uint64(packed, at, slot), generate


@intrinsic
def lowest_bit(typing, bits):  # type: ignore[no-untyped-def]
    """The place of the lowest bit that is set; 64 where none is."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.uint64(types.uint64), generate


@intrinsic
def count_bits(typing, bits):  # type: ignore[no-untyped-def]
    """How many bits are set."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


def _pointers_and_indices(context: Any, builder: Any, kinds: Any, arguments: Any) -> list[Any]:
    """Arrays as the address of their first element, integers in 64 bits."""
    return [
        context.make_array(kind)(context, builder, value).data
        if isinstance(kind, types.Array)
        else context.cast(builder, value, kind, types.int64)
        for kind, value in zip(kinds, arguments, strict=True)
    ]


def _loop(
    builder: Any, first: Any, last: Any, kinds: list[Any], body: Callable[[Any, list[Any]], Any]
) -> list[Any]:
    """Totals, zero at first, that `body` renews for every index from `first` up to `last`."""
    before = builder.block
    head, inner, after = (builder.append_basic_block(name) for name in ("head", "body", "after"))
    builder.branch(head)
    builder.position_at_end(head)
    index, *totals = (builder.phi(kind) for kind in (_INDEX, *kinds))
    index.add_incoming(first, before)
    for total, kind in zip(totals, kinds, strict=True):
        total.add_incoming(kind([0] * kind.count), before)
    builder.cbranch(builder.icmp_signed("<", index, last), inner, after)
    builder.position_at_end(inner)
    for total, renewed in zip(totals, list(body(index, totals)), strict=True):
        total.add_incoming(renewed, inner)
    index.add_incoming(builder.add(index, _INDEX(1)), inner)
    builder.branch(head)
    builder.position_at_end(after)
    return totals


def _all(builder: Any, value: Any, kind: Any) -> Any:
    """A vector of one value."""
    one = builder.insert_element(kind(ir.Undefined), value, _WORD(0))
    order = ir.VectorType(_WORD, kind.count)([0] * kind.count)
    return builder.shuffle_vector(one, kind(ir.Undefined), order)


def _load(builder: Any, array: Any, at: Any, offset: int, kind: Any) -> Any:
    place = builder.gep(array, [builder.add(at, _INDEX(offset))])
    align = kind.element.width // 8
    return builder.load(builder.bitcast(place, kind.as_pointer()), align=align)


def _store(builder: Any, value: Any, array: Any, at: Any, offset: int) -> None:
    place = builder.gep(array, [builder.add(at, _INDEX(offset))])
    align = value.type.element.width // 8
    builder.store(value, builder.bitcast(place, value.type.as_pointer()), align=align)
