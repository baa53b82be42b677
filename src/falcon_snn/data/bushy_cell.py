"""Bushy cell: 40 auditory-nerve fibres drive one leaky integrate-and-fire cell per channel.

Each fibre fires with the hair cell's probability and then rests for 7 steps. The fibres are
alike, so only their number counts: with `free` of them not resting, the step's input is
k ~ Binomial(free, probability). Then, with the new I in the second line,

    I = I e^(-dt / tau_syn) + (13000 / 40) k
    V = V e^(-dt / tau_mem) + dt I

and where V >= 1 the cell spikes, after which V is held at 0 for 8 steps.

k comes from one uniform number u by inversion: the number of j with u >= P(k <= j); where the
probability exceeds 1/2 the silent fibres are drawn instead, as P(k = 0) might underflow. The
numbers are Philox 4x32-10 words, keyed by the seed and counted by (step / 4, channel, clip), so
a clip's spikes depend neither on its batch nor on the order of the work, and CPU and GPU draw
the same.
"""

import math
from typing import NamedTuple

FIBRES = 40
FIBRE_REST_STEPS = 7
HOLD_STEPS = 8
WEIGHT = 13000.0 / FIBRES
TAU_SYNAPSE_S = 0.5e-3
TAU_MEMBRANE_S = 1e-3


class BushyCell(NamedTuple):
    """The constants of one step."""

    keep_current: float  # e^(-dt / tau_syn)
    keep_potential: float  # e^(-dt / tau_mem)
    dt_s: float


def bushy_cell(dt_s: float) -> BushyCell:
    """The bushy cell for steps of `dt_s` seconds."""
    return BushyCell(math.exp(-dt_s / TAU_SYNAPSE_S), math.exp(-dt_s / TAU_MEMBRANE_S), dt_s)
