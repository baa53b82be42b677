"""The fused spiking layer for many inputs and few products: one pass over the inputs for all slots.

Weights that do not fit beside each other in shared memory, or packed bytes that do not fit the
registers, are streamed: each chunk of both is loaded once, ahead of its use, and serves one sum per
product. That takes registers for all sums at once, so it suits networks with two or three slots.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call,assignment,misc"
# Triton compiles these functions; their arguments are pointers and tiles, not Python values.

import triton
import triton.language as tl

from falcon_snn.neuron.fused_firing import decide, receive
from falcon_snn.neuron.fused_product import first_counts, place_of, slot_spikes, within


@triton.jit
def _sums(
    x_ptrs, w_ptr, n, in_outputs, IN: tl.constexpr, PRODUCTS: tl.constexpr, DELAY: tl.constexpr,
    ASM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """What each product adds to the running sum, with the wrong sign (see `slot_spikes`)."""
    INPUTS: tl.constexpr = IN[4]
    # Distances that share a factor of 16 let a chunk be copied past the registers.
    ALIGNED: tl.constexpr = 16 if (IN[0] | IN[1] | IN[2] | IN[3] | IN[6]) % 16 == 0 else 1
    totals = ()
    for _ in tl.static_range(PRODUCTS):
        totals = totals + (tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32),)  # noqa: RUF005
    places = tl.arange(0, BLOCK_K)
    for at in tl.range(0, INPUTS, BLOCK_K, num_stages=STAGES):
        inside = within(at + places, INPUTS, INPUTS % BLOCK_K == 0)
        if IN[5] % BLOCK_K == 0:  # a chunk lies within a run
            seen = tl.multiple_of(at // IN[5] * IN[6] + at % IN[5], ALIGNED) + places
        else:
            seen = (at + places) // IN[5] * IN[6] + (at + places) % IN[5]
        x = tl.load(x_ptrs[:, None] + seen[None, :], mask=inside[None, :], other=0)
        w_ptrs = w_ptr + n[None, :] * INPUTS + (at + places)[:, None]
        w = tl.load(w_ptrs, mask=inside[:, None] & in_outputs[None, :], other=0)
        added = ()
        for product in tl.static_range(PRODUCTS):
            if product == 0 and DELAY > 1:
                spiked = -first_counts(x, DELAY, ASM)
            else:
                spiked = slot_spikes(x, product + DELAY - 1, ASM)
            total = tl.dot(spiked, w, totals[product], out_dtype=tl.int32)
            added = added + (total,)  # noqa: RUF005
        totals = added
    return totals


@triton.jit(do_not_specialize=["rows"])
def wide_spiking_matmul(
    x_ptr, w_ptr, extra_ptr, extra_w_ptr, out_ptr, factor_ptr, extra_factor_ptr, static_ptr,
    initial_ptr, threshold_ptr, rows,
    MAP: tl.constexpr, IN: tl.constexpr, EXTRA_IN: tl.constexpr, OUT: tl.constexpr,
    EXTRA: tl.constexpr, OUTPUTS: tl.constexpr, SLOTS: tl.constexpr, DELAY: tl.constexpr,
    ASM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """`fused_product.spiking_matmul` with its arguments, one tile of rows and outputs a program."""
    PRODUCTS: tl.constexpr = SLOTS - DELAY + 1
    ACROSS: tl.constexpr = (OUTPUTS + BLOCK_N - 1) // BLOCK_N
    m = tl.program_id(0) // ACROSS * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) % ACROSS * BLOCK_N + tl.arange(0, BLOCK_N)
    in_rows, in_outputs = m < rows, within(n, OUTPUTS, OUTPUTS % BLOCK_N == 0)
    row = tl.where(in_rows, m, 0)
    totals = _sums(
        x_ptr + place_of(row, MAP, IN), w_ptr, n, in_outputs, IN, PRODUCTS, DELAY, ASM, BLOCK_M,
        BLOCK_N, BLOCK_K, STAGES,
    )  # fmt: skip
    if EXTRA == 2:
        extra_totals = _sums(
            extra_ptr + place_of(row, MAP, EXTRA_IN), extra_w_ptr, n, in_outputs, EXTRA_IN,
            PRODUCTS, DELAY, ASM, BLOCK_M, BLOCK_N, BLOCK_K, STAGES,
        )  # fmt: skip
    factor = tl.load(factor_ptr + n, mask=in_outputs, other=0)[None, :]
    static = tl.load(static_ptr + n, mask=in_outputs, other=0)[None, :]
    threshold = tl.load(threshold_ptr + n, mask=in_outputs, other=1 << 30)[None, :]
    initial = tl.load(initial_ptr + n, mask=in_outputs, other=0)[None, :]
    zero = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    debt, thresholds = zero + (threshold - initial - DELAY * static), zero + threshold
    spikes = zero.to(tl.uint8)
    mask = in_rows[:, None] & in_outputs[None, :]
    if EXTRA > 0:
        extra_factor = tl.load(extra_factor_ptr + n, mask=in_outputs, other=0)[None, :]
    if EXTRA == 1:
        extra_at = place_of(row, MAP, EXTRA_IN)[:, None] + n[None, :]
        extra = tl.load(extra_ptr + extra_at, mask=mask, other=0)
        extra_factor = zero + extra_factor
        for slot in tl.static_range(DELAY):
            debt = receive(debt, extra_factor, extra, slot, ASM)
    for decision in tl.static_range(SLOTS):
        if decision < PRODUCTS:
            debt += totals[decision] * factor
            if EXTRA == 2:
                debt += extra_totals[decision] * extra_factor
            if decision > 0:
                debt -= static
                if EXTRA == 1:
                    debt = receive(debt, extra_factor, extra, decision + DELAY - 1, ASM)
        debt, spikes = decide(debt, debt, thresholds, spikes, decision, ASM)
    out_ptrs = out_ptr + place_of(row, MAP, OUT)[:, None] + n[None, :]
    tl.store(out_ptrs, spikes, mask=mask)
