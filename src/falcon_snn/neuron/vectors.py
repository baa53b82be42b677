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
INDEX, _WORD = ir.IntType(64), ir.IntType(32)
_BYTES, _SHORTS, WORDS = (ir.VectorType(ir.IntType(bits), LANES) for bits in (8, 16, 32))
PAIRS, PRODUCTS = (ir.VectorType(ir.IntType(bits), 2 * LANES) for bits in (16, 32))


def sum_rows(groups: int) -> Any:
    """A function that adds rows of int8 weights, 16 x `groups` columns of each, to int32 sums.

    (weights, at, stride, rows, first, last, sums, to): for each r in rows[first:last], no more
    than MOST_ROWS of them, sums[to + i] += weights[at + stride r + i].
    """

    @intrinsic
    def add(typing, weights, at, stride, rows, first, last, sums, to):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            values = pointers_and_indices(context, builder, signature.args, arguments)
            weights, at, stride, rows, first, last, sums, to = values

            def add_row(row, totals):  # type: ignore[no-untyped-def]
                number = builder.zext(builder.load(builder.gep(rows, [row])), INDEX)
                start = builder.add(at, builder.mul(number, stride))
                for group, total in enumerate(totals):
                    added = load(builder, weights, start, group * LANES, _BYTES)
                    yield builder.add(total, builder.sext(added, _SHORTS))

            totals = loop(builder, first, last, [_SHORTS] * groups, add_row)
            for group, total in enumerate(totals):
                before = load(builder, sums, to, group * LANES, WORDS)
                after = builder.add(before, builder.sext(total, WORDS))
                store(builder, after, sums, to, group * LANES)
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
            values = pointers_and_indices(context, builder, signature.args, arguments)
            x, pairs, columns, at, stride, out, to = values

            def add_pair(pair, totals):  # type: ignore[no-untyped-def]
                place = builder.gep(x, [builder.mul(pair, INDEX(2))])
                two = builder.load(builder.bitcast(place, _WORD.as_pointer()), align=2)
                left = builder.bitcast(splat(builder, two, WORDS), PAIRS)
                start = builder.add(at, builder.mul(pair, stride))
                for group, total in enumerate(totals):
                    right = load(builder, columns, start, group * 2 * LANES, PAIRS)
                    yield builder.add(total, sum_of_pairs(builder, left, right))

            totals = loop(builder, INDEX(0), pairs, [WORDS] * groups, add_pair)
            for group, total in enumerate(totals):
                store(builder, total, out, to, group * LANES)
            return context.get_dummy_value()

        return types.void(x, pairs, columns, at, stride, out, to), generate

    return multiply


def sum_of_pairs(builder: Any, left: Any, right: Any) -> Any:
    """Products of int16 numbers, added up two by two, in int32."""
    products = builder.mul(builder.sext(left, PRODUCTS), builder.sext(right, PRODUCTS))
    even, odd = (
        builder.shuffle_vector(
            products, PRODUCTS(ir.Undefined), WORDS(list(range(first, 2 * LANES, 2)))
        )
        for first in (0, 1)
    )
    return builder.add(even, odd)


@intrinsic
def spike_mask(typing, packed, at, slot):  # type: ignore[no-untyped-def]
    """Bit i: whether packed[at + i] has a spike in the slot; reads 64 bytes."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        packed, at, slot = pointers_and_indices(context, builder, signature.args, arguments)
        bytes_ = ir.VectorType(ir.IntType(8), 64)
        bit = builder.shl(bytes_.element(1), builder.trunc(slot, bytes_.element))
        seen = builder.and_(load(builder, packed, at, 0, bytes_), splat(builder, bit, bytes_))
        return builder.bitcast(builder.icmp_unsigned("!=", seen, bytes_([0] * 64)), INDEX)

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


def pointers_and_indices(context: Any, builder: Any, kinds: Any, arguments: Any) -> list[Any]:
    """Arrays as the address of their first element, integers in 64 bits, None as it is."""

    def taken(kind: Any, value: Any) -> Any:
        if isinstance(kind, types.NoneType):
            return None
        if isinstance(kind, types.Array):
            return context.make_array(kind)(context, builder, value).data
        return context.cast(builder, value, kind, types.int64)

    return [taken(kind, value) for kind, value in zip(kinds, arguments, strict=True)]


def loop(
    builder: Any, first: Any, last: Any, kinds: list[Any], body: Callable[[Any, list[Any]], Any]
) -> list[Any]:
    """Totals, zero at first, that `body` renews for every index from `first` up to `last`."""
    before = builder.block
    head, inner, after = (builder.append_basic_block(name) for name in ("head", "body", "after"))
    builder.branch(head)
    builder.position_at_end(head)
    index, *totals = (builder.phi(kind) for kind in (INDEX, *kinds))
    index.add_incoming(first, before)
    for total, kind in zip(totals, kinds, strict=True):
        total.add_incoming(kind([0] * kind.count), before)
    builder.cbranch(builder.icmp_signed("<", index, last), inner, after)
    builder.position_at_end(inner)
    for total, renewed in zip(totals, list(body(index, totals)), strict=True):
        total.add_incoming(renewed, inner)
    index.add_incoming(builder.add(index, INDEX(1)), inner)
    builder.branch(head)
    builder.position_at_end(after)
    return totals


def splat(builder: Any, value: Any, kind: Any) -> Any:
    """A vector of one value."""
    one = builder.insert_element(kind(ir.Undefined), value, _WORD(0))
    order = ir.VectorType(_WORD, kind.count)([0] * kind.count)
    return builder.shuffle_vector(one, kind(ir.Undefined), order)


def load(builder: Any, array: Any, at: Any, offset: int, kind: Any) -> Any:
    place = builder.gep(array, [builder.add(at, INDEX(offset))])
    align = kind.element.width // 8
    return builder.load(builder.bitcast(place, kind.as_pointer()), align=align)


def store(builder: Any, value: Any, array: Any, at: Any, offset: int) -> None:
    place = builder.gep(array, [builder.add(at, INDEX(offset))])
    align = value.type.element.width // 8
    builder.store(value, builder.bitcast(place, value.type.as_pointer()), align=align)
