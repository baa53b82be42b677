"""Inner hair cell (Meddis 1986, 1988): from membrane velocity to firing probability.

Transmitter moves between the cell's free pool q, the cleft c and the reprocessing store w.
Each step of dt, all from the old values and none falling below 0:

    k = g dt (v + a) / (v + a + b)   where v + a > 0, else 0
    q += y dt max(m - q, 0) - k q + x dt w
    c += k q - (l + r) dt c
    w += r dt c - x dt w
    probability = h dt c             with the new c
"""

from typing import NamedTuple

REPLENISHMENT = 5.05  # y
RELEASE = 2000.0  # g
LOSS = 2500.0  # l
REUPTAKE = 6580.0  # r
REPROCESSING = 66.3  # x
PERMEABILITY_A = 5.0  # a
PERMEABILITY_B = 300.0  # b
FIRING = 50000.0  # h
FREE_MAXIMUM = 1.0  # m


class HairCell(NamedTuple):
    """The constants of one step, and the pools at rest."""

    release: float  # g dt
    refill: float  # y dt
    leave: float  # (l + r) dt
    reuptake: float  # r dt
    reprocess: float  # x dt
    firing: float  # h dt
    free: float  # q at rest
    cleft: float  # c at rest
    store: float  # w at rest


def hair_cell(dt_s: float) -> HairCell:
    """The hair cell for steps of `dt_s` seconds."""
    k0 = RELEASE * PERMEABILITY_A / (PERMEABILITY_A + PERMEABILITY_B)
    cleft = FREE_MAXIMUM * REPLENISHMENT * k0 / (LOSS * k0 + REPLENISHMENT * (LOSS + REUPTAKE))
    return HairCell(
        release=RELEASE * dt_s,
        refill=REPLENISHMENT * dt_s,
        leave=(LOSS + REUPTAKE) * dt_s,
        reuptake=REUPTAKE * dt_s,
        reprocess=REPROCESSING * dt_s,
        firing=FIRING * dt_s,
        free=cleft * (LOSS + REUPTAKE) / k0,
        cleft=cleft,
        store=cleft * REUPTAKE / REPROCESSING,
    )
