"""The codes of two row groups of a sampled chip in vectors: sums, noise and converters."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from falcon_snn.neuron.vectors import (
    INDEX,
    LANES,
    PAIRS,
    WORDS,
    load,
    loop,
    pointers_and_indices,
    splat,
    store,
    sum_of_pairs,
)

_WIDE = ir.VectorType(INDEX, LANES // 2)
SUMS = 32  # that five inputs can make


def add_codes(vectors: int) -> Any:
    """A function that adds the codes of two row groups to those before, for one row in one pass.

    (tables, index, at, other, where, entries, places, place, key, words, level, level_other,
    shift, low, high, codes, to): for each of the LANES x `vectors` outputs i, codes[to + i] gets
    the code of a sum of `entries` numbers tables[e, index[at + where[e]], i] for the first
    group, and behind them those of index[other + where[e]] for the second, both with the noise
    of key and places[place + i]; with none if key is None. `words` holds the weights of the bytes
    of noise: 16 bits for the bytes 0 and 2, then for 1 and 3, of a level and a group each.
    """

    @intrinsic
    def add(  # type: ignore[no-untyped-def]
        typing, tables, index, at, other, where, entries, places, place, key, words, level,
        level_other, shift, low, high, codes, to,
    ):  # fmt: skip
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            (tables, index, at, other, where, entries, places, place, key, words, level,
             level_other, shift, low, high, codes, to) = pointers_and_indices(
                context, builder, signature.args, arguments
            )  # fmt: skip
            width = LANES * vectors
            behind = builder.mul(entries, INDEX(SUMS * width))

            def add_entry(entry, totals):  # type: ignore[no-untyped-def]
                byte = builder.load(builder.gep(where, [entry]))
                start = builder.mul(entry, INDEX(SUMS * width))
                for half, begin in enumerate((at, other)):
                    spikes = builder.load(builder.gep(index, [builder.add(begin, byte)]))
                    spikes = builder.zext(spikes, INDEX)
                    here = builder.add(start, builder.mul(spikes, INDEX(width)))
                    here = builder.add(here, behind) if half else here
                    for vector in range(vectors):
                        one = load(builder, tables, here, vector * LANES, WORDS)
                        yield builder.add(totals[half * vectors + vector], one)

            sums = loop(builder, INDEX(0), entries, [WORDS] * (2 * vectors), add_entry)
            shift, low, high = (
                splat(builder, builder.trunc(value, WORDS.element), WORDS)
                for value in (shift, low, high)
            )
            if key is not None:
                weights = [
                    [
                        splat(builder, builder.load(builder.gep(words, [
                            builder.add(one, INDEX(2 * half + odd))
                        ])), WORDS)
                        for odd in (0, 1)
                    ]
                    for half, one in enumerate((level, level_other))
                ]  # fmt: skip
                wide = splat(builder, key, _WIDE)
            for vector in range(vectors):
                before = load(builder, codes, to, vector * LANES, WORDS)
                if key is not None:
                    hashes = load(builder, places, place, vector * LANES, WORDS)
                    drawn = _bytes(builder, _mixed(builder, hashes, wide))
                for half in (0, 1):
                    total = sums[half * vectors + vector]
                    if key is not None:
                        for each, weight in zip(drawn, weights[half], strict=True):
                            pair = builder.bitcast(weight, PAIRS)
                            total = builder.add(total, sum_of_pairs(builder, each, pair))
                    code = builder.ashr(total, shift)
                    below = builder.icmp_signed("<", code, low)
                    code = builder.select(below, low, code)
                    above = builder.icmp_signed(">", code, high)
                    before = builder.add(before, builder.select(above, high, code))
                store(builder, before, codes, to, vector * LANES)
            return context.get_dummy_value()

        return types.void(tables, index, at, other, where, entries, places, place, key, words,
                          level, level_other, shift, low, high, codes, to), generate  # fmt: skip

    return add


def _mixed(builder: Any, places: Any, key: Any) -> Any:
    """The lower half of 64-bit products with a key, xor the upper one."""
    shift = splat(builder, INDEX(32), _WIDE)
    low = _WIDE([(1 << 32) - 1] * _WIDE.count)
    two = builder.bitcast(places, _WIDE)  # even and odd places side by side
    even = builder.mul(builder.and_(two, low), key)
    odd = builder.mul(builder.lshr(two, shift), key)
    even = builder.and_(builder.xor(even, builder.lshr(even, shift)), low)
    odd = builder.shl(builder.xor(odd, builder.lshr(odd, shift)), shift)
    return builder.bitcast(builder.or_(even, odd), WORDS)


def _bytes(builder: Any, mixed: Any) -> tuple[Any, Any]:
    """Signed bytes 0 and 2 of words, then 1 and 3, as int16."""
    halves = builder.bitcast(mixed, PAIRS)
    eight = PAIRS([8] * PAIRS.count)
    return builder.ashr(builder.shl(halves, eight), eight), builder.ashr(halves, eight)
