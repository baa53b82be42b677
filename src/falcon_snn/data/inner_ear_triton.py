"""Hair cell and bushy cell on the GPU: one thread per channel and clip, its state in registers.

`hair_cell.py` and `bushy_cell.py` state the equations. A program is one warp, so that a draw of
the binomial number lasts as long as the longest of 32, not of a whole grid.
"""

import triton
import triton.language as tl
from torch import Tensor

from falcon_snn.data.bushy_cell import FIBRE_REST_STEPS, FIBRES, HOLD_STEPS, WEIGHT, BushyCell
from falcon_snn.data.hair_cell import FREE_MAXIMUM, PERMEABILITY_A, PERMEABILITY_B, HairCell

LANES = 32
BITS = 6  # a count of at most 40 fibres; the counts of the resting steps share one int64


@triton.jit  # type: ignore[untyped-decorator]
def _hair_kernel(  # type: ignore[no-untyped-def]
    velocity, probability, steps, channels,
    release, refill, leave, reuptake, reprocess, firing, free, cleft, store,
    A: tl.constexpr, B: tl.constexpr, M: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    clip = tl.program_id(1).to(tl.int64)
    channel = tl.program_id(0) * LANES + tl.arange(0, LANES)
    inside = channel < channels
    pair = clip * (channels // 2) + channel // 2
    source = velocity + pair * steps * 2 + channel % 2
    target = probability + clip * steps * channels + channel
    q = tl.zeros([LANES], tl.float32) + free
    c = tl.zeros([LANES], tl.float32) + cleft
    w = tl.zeros([LANES], tl.float32) + store
    for t in range(steps):
        drive = tl.maximum(tl.load(source + 2 * t, mask=inside, other=0.0) + A, 0.0)
        kq = release * drive / (drive + B) * q
        new_q = tl.maximum(q + (refill * tl.maximum(M - q, 0.0) - kq + reprocess * w), 0.0)
        new_c = tl.maximum(c + (kq - leave * c), 0.0)
        w = tl.maximum(w + (reuptake * c - reprocess * w), 0.0)
        q = new_q
        c = new_c
        tl.store(target + t * channels, firing * c, mask=inside)


@triton.jit
def _power(base, exponent):  # type: ignore[no-untyped-def]
    """base^exponent for whole exponents up to 63, by squaring."""
    power = tl.where((exponent & 1) != 0, base, 1.0)
    for bit in tl.static_range(1, 6):
        base = base * base
        power = power * tl.where(((exponent >> bit) & 1) != 0, base, 1.0)
    return power


@triton.jit
def _binomial(uniform, number, p):  # type: ignore[no-untyped-def]
    """The number of j with uniform >= P(k <= j), for k ~ Binomial(number, p)."""
    swap = p > 0.5  # then those that stay silent are drawn
    p = tl.where(swap, 1.0 - p, p)
    odds = p / (1.0 - p)
    chance = _power(1.0 - p, number)
    up_to = chance
    k = tl.zeros_like(number)
    j = 0
    above = (uniform >= up_to) & (j < number)
    while tl.max(above.to(tl.int32), axis=0) > 0:
        k += above.to(tl.int32)
        chance = chance * (odds * ((number - j).to(tl.float32) * (1.0 / (j + 1.0))))
        up_to += chance
        j += 1
        above = (uniform >= up_to) & (j < number)
    return tl.where(swap, number - k, k)


@triton.jit  # type: ignore[untyped-decorator]
def _bushy_step(  # type: ignore[no-untyped-def]
    t, word, free, recent, current, potential, hold, source, target, steps, channels, inside,
    keep_current, keep_potential, dt,
    WEIGHT: tl.constexpr, HOLD: tl.constexpr, REST: tl.constexpr, BITS: tl.constexpr,
):  # fmt: skip
    live = inside & (tl.zeros_like(hold) + t < steps)
    p = tl.minimum(tl.load(source + t * channels, mask=live, other=0.0), 1.0)
    uniform = (word >> 8).to(tl.int32).to(tl.float32) * (2.0**-24)
    k = _binomial(uniform, free, p)
    last: tl.constexpr = BITS * (REST - 1)
    free = free - k + (recent >> last).to(tl.int32)  # those that rested long enough come back
    recent = ((recent & ((1 << last) - 1)) << BITS) | k.to(tl.int64)
    current = current * keep_current + WEIGHT * k.to(tl.float32)
    potential = potential * keep_potential + dt * current
    fires = (potential >= 1.0) & (hold == 0)
    potential = tl.where((hold > 0) | fires, 0.0, potential)
    hold = tl.where(fires, HOLD, tl.maximum(hold - 1, 0))
    tl.store(target + t * channels, fires, mask=live)
    return free, recent, current, potential, hold


@triton.jit  # type: ignore[untyped-decorator]
def _bushy_kernel(  # type: ignore[no-untyped-def]
    probability, counters, spikes, steps, channels, keep_current, keep_potential, dt,
    FIBRES: tl.constexpr, WEIGHT: tl.constexpr, HOLD: tl.constexpr, REST: tl.constexpr,
    BITS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    clip = tl.program_id(1).to(tl.int64)
    channel = tl.program_id(0) * LANES + tl.arange(0, LANES)
    inside = channel < channels
    source = probability + clip * steps * channels + channel
    target = spikes + clip * steps * channels + channel
    key_low = tl.load(counters).to(tl.uint32, bitcast=True)
    key_high = tl.load(counters + 1).to(tl.uint32, bitcast=True)
    id_low = tl.load(counters + 2 + 2 * clip).to(tl.uint32, bitcast=True)
    id_high = tl.load(counters + 3 + 2 * clip).to(tl.uint32, bitcast=True)
    zero = tl.zeros([LANES], tl.uint32)
    free = tl.full([LANES], FIBRES, tl.int32)
    recent = tl.zeros([LANES], tl.int64)
    current = tl.zeros([LANES], tl.float32)
    potential = tl.zeros([LANES], tl.float32)
    hold = tl.zeros([LANES], tl.int32)
    for four in range(tl.cdiv(steps, 4)):
        words = tl.philox_impl(
            zero + four, channel.to(tl.uint32), zero + id_low, zero + id_high, key_low, key_high
        )
        for part in tl.static_range(4):
            free, recent, current, potential, hold = _bushy_step(
                4 * four + part, words[part], free, recent, current, potential, hold,
                source, target, steps, channels, inside, keep_current, keep_potential, dt,
                WEIGHT, HOLD, REST, BITS,
            )  # fmt: skip


def firing_probability(velocity: Tensor, cell: HairCell, out: Tensor) -> None:
    """Velocity [clips, pairs, steps, 2] to probability [clips, steps, channels]."""
    clips, steps, channels = out.shape
    _hair_kernel[(triton.cdiv(channels, LANES), clips)](
        velocity, out, steps, channels, *cell,
        A=PERMEABILITY_A, B=PERMEABILITY_B, M=FREE_MAXIMUM, LANES=LANES, num_warps=1,
    )  # fmt: skip


def bushy_spikes(probability: Tensor, cell: BushyCell, counters: Tensor, out: Tensor) -> None:
    """Probability to spikes, both [clips, steps, channels].

    `counters` int32 [1 + clips, 2]: the two words of the seed, then those of each clip's id.
    """
    clips, steps, channels = out.shape
    _bushy_kernel[(triton.cdiv(channels, LANES), clips)](
        probability, counters, out, steps, channels, *cell,
        FIBRES=FIBRES, WEIGHT=WEIGHT, HOLD=HOLD_STEPS, REST=FIBRE_REST_STEPS,
        BITS=BITS, LANES=LANES, num_warps=1,
    )  # fmt: skip
