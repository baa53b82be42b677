"""Hair cell and bushy cell on the CPU: blocks of channels side by side, so that they vectorise.

`hair_cell.py` and `bushy_cell.py` state the equations. A block keeps all its state in one small
array: the compiler then sees that rows cannot overlap, and uses vector instructions.
"""

import numpy as np
from numba import njit, prange

from falcon_snn.data.bushy_cell import FIBRE_REST_STEPS, FIBRES, HOLD_STEPS, WEIGHT
from falcon_snn.data.hair_cell import FREE_MAXIMUM, PERMEABILITY_A, PERMEABILITY_B
from falcon_snn.neuron.compiling import watch_numba

watch_numba()

LANES = 88  # 700 channels are 8 blocks: even work for 2, 4 or 8 cores
TILE_STEPS = 64
RING = FIBRE_REST_STEPS + 1
# Rows of the bushy cell's state: free fibres, steps to hold, I, V, u, k, P(k = j), P(k <= j),
# p / (1 - p), whether p > 1/2; after them the uniforms of four steps and the k of the last RING.
FREE, HOLD, CURRENT, POTENTIAL, DRAW, K, CHANCE, UP_TO, ODDS, SWAP, FIRST_DRAW = range(11)

_A, _B, _M = np.float32(PERMEABILITY_A), np.float32(PERMEABILITY_B), np.float32(FREE_MAXIMUM)
_ZERO, _HALF, _ONE = np.float32(0), np.float32(0.5), np.float32(1)


@njit(parallel=True, cache=True, error_model="numpy", boundscheck=False)
def firing_probability(velocity, cell, out):  # type: ignore[no-untyped-def]
    """Velocity [clips, pairs, steps, 2] to probability [clips, steps, channels]."""
    clips, pairs, steps, _ = velocity.shape
    channels = 2 * pairs
    blocks = (channels + LANES - 1) // LANES
    g, y, lr = np.float32(cell.release), np.float32(cell.refill), np.float32(cell.leave)
    r, x, h = np.float32(cell.reuptake), np.float32(cell.reprocess), np.float32(cell.firing)
    for job in prange(clips * blocks):
        clip, first = job // blocks, job % blocks * LANES
        width = min(LANES, channels - first)
        state = np.zeros((3, LANES), np.float32)
        state[0], state[1], state[2] = cell.free, cell.cleft, cell.store
        tile = np.zeros((TILE_STEPS, LANES), np.float32)
        for start in range(0, steps, TILE_STEPS):
            size = min(TILE_STEPS, steps - start)
            for pair in range(width // 2):
                for t in range(size):
                    tile[t, 2 * pair] = velocity[clip, first // 2 + pair, start + t, 0]
                    tile[t, 2 * pair + 1] = velocity[clip, first // 2 + pair, start + t, 1]
            for t in range(size):
                for i in range(LANES):
                    q, c, w = state[0, i], state[1, i], state[2, i]
                    drive = max(tile[t, i] + _A, _ZERO)
                    kq = g * drive / (drive + _B) * q
                    state[0, i] = max(q + (y * max(_M - q, _ZERO) - kq + x * w), _ZERO)
                    state[1, i] = max(c + (kq - lr * c), _ZERO)
                    state[2, i] = max(w + (r * c - x * w), _ZERO)
                    tile[t, i] = h * state[1, i]
            for t in range(size):
                for i in range(width):
                    out[clip, start + t, first + i] = tile[t, i]


@njit(inline="always")
def _philox(c0, c1, c2, c3, key0, key1):  # type: ignore[no-untyped-def]
    """Philox 4x32-10 (Salmon et al. 2011): four random words of a counter under a key."""
    low = np.uint64(0xFFFFFFFF)
    c0, c1, c2, c3 = np.uint64(c0), np.uint64(c1), np.uint64(c2), np.uint64(c3)
    key0, key1 = np.uint64(key0), np.uint64(key1)
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0 = (second >> np.uint64(32)) ^ c1 ^ key0
        c2 = (first >> np.uint64(32)) ^ c3 ^ key1
        c1, c3 = second & low, first & low
        key0 = (key0 + np.uint64(0x9E3779B9)) & low
        key1 = (key1 + np.uint64(0xBB67AE85)) & low
    return c0, c1, c2, c3


@njit(inline="always")
def _uniform(word):  # type: ignore[no-untyped-def]
    return np.float32(np.int32(word >> np.uint64(8))) * np.float32(2.0**-24)


@njit(inline="always")
def _power(base, exponent):  # type: ignore[no-untyped-def]
    """base^exponent for whole exponents up to 63, by squaring."""
    power = base if exponent & 1 else _ONE
    base *= base
    power *= base if exponent & 2 else _ONE
    base *= base
    power *= base if exponent & 4 else _ONE
    base *= base
    power *= base if exponent & 8 else _ONE
    base *= base
    power *= base if exponent & 16 else _ONE
    base *= base
    power *= base if exponent & 32 else _ONE
    return power


@njit(parallel=True, cache=True, error_model="numpy", boundscheck=False)
def bushy_spikes(probability, cell, counters, out):  # type: ignore[no-untyped-def]
    """Probability to spikes, both [clips, steps, channels].

    `counters` uint32 [1 + clips, 2]: the two words of the seed, then those of each clip's id.
    """
    clips, steps, channels = probability.shape
    blocks = (channels + LANES - 1) // LANES
    keep_current, keep_potential = np.float32(cell.keep_current), np.float32(cell.keep_potential)
    dt, weight = np.float32(cell.dt_s), np.float32(WEIGHT)
    hold_steps = np.float32(HOLD_STEPS)
    for job in prange(clips * blocks):
        clip, first = job // blocks, job % blocks * LANES
        width = min(LANES, channels - first)
        low_id, high_id = counters[1 + clip, 0], counters[1 + clip, 1]
        # Whole numbers are kept as float32 too: one array, one type, and all of it vectorises.
        state = np.zeros((FIRST_DRAW + 4 + RING, LANES), np.float32)
        state[FREE] = FIBRES
        for t in range(steps):
            if t % 4 == 0:
                for i in range(LANES):
                    a, b, c, d = _philox(
                        t // 4, first + i, low_id, high_id, counters[0, 0], counters[0, 1]
                    )
                    state[FIRST_DRAW, i] = _uniform(a)
                    state[FIRST_DRAW + 1, i] = _uniform(b)
                    state[FIRST_DRAW + 2, i] = _uniform(c)
                    state[FIRST_DRAW + 3, i] = _uniform(d)
            # Rows that change with t are copied to fixed rows, or nothing below would vectorise.
            draw, oldest = FIRST_DRAW + t % 4, FIRST_DRAW + 4 + t % RING
            for i in range(LANES):
                state[DRAW, i] = state[draw, i]
            for i in range(LANES):
                state[K, i] = state[oldest, i]
            for i in range(width):
                state[ODDS, i] = probability[clip, t, first + i]
            for i in range(LANES):
                likely = min(state[ODDS, i], _ONE)
                swap = likely > _HALF  # then those that stay silent are drawn
                p = _ONE - likely if swap else likely
                free = state[FREE, i] + state[K, i]
                none = _power(_ONE - p, np.int32(free))
                state[SWAP, i] = _ONE if swap else _ZERO
                state[CHANCE, i] = none
                state[UP_TO, i] = none
                state[ODDS, i] = p / (_ONE - p)
                state[FREE, i] = free
                state[K, i] = _ZERO
            j = _ZERO
            more = True
            while more:
                scale = _ONE / (j + _ONE)
                for i in range(LANES):
                    free = state[FREE, i]
                    above = (state[DRAW, i] >= state[UP_TO, i]) & (j < free)
                    chance = state[CHANCE, i] * (state[ODDS, i] * ((free - j) * scale))
                    state[K, i] += _ONE if above else _ZERO
                    state[UP_TO, i] += chance
                    state[CHANCE, i] = chance
                j += _ONE
                more = False
                for i in range(LANES):
                    more |= (state[DRAW, i] >= state[UP_TO, i]) & (j < state[FREE, i])
            for i in range(LANES):
                k = state[FREE, i] - state[K, i] if state[SWAP, i] > _ZERO else state[K, i]
                hold = state[HOLD, i]
                current = state[CURRENT, i] * keep_current + weight * k
                potential = state[POTENTIAL, i] * keep_potential + dt * current
                fires = (potential >= _ONE) & (hold == _ZERO)
                state[CURRENT, i] = current
                state[POTENTIAL, i] = _ZERO if (hold > _ZERO) | fires else potential
                state[FREE, i] -= k
                state[K, i] = k
                state[HOLD, i] = hold_steps if fires else max(hold - _ONE, _ZERO)
            for i in range(LANES):
                state[oldest, i] = state[K, i]
            for i in range(width):
                out[clip, t, first + i] = state[HOLD, i] == hold_steps
