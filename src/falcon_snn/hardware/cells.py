"""Errors of a cell as data: the sigma of each model, a polynomial of the cell's conductance.

Conductances are shares of the low-resistance state (LRS): u = g / g_LRS lies in [1/ratio, 1].
"""

_WAN_US = 40.0  # conductance that the measured sigmas (uS) refer to

# Coefficients of 1, u, u^2, ... in units of g_LRS. Independent and proportional errors are scaled
# by the sigma of the profile, measured ones are as they are: Wan et al., Nature 2022, fitted by
# AIHWKit (noise model ReRamWan2022), after a second, a day and two days.
SIGMAS: dict[str, tuple[float, ...]] = {
    "none": (),
    "independent": (1.0,),
    "proportional": (0.0, 1.0),
    "wan2022-1s": tuple(c / _WAN_US for c in (0.348, 16.030, -43.853, 45.393, -16.815)),
    "wan2022-1d": tuple(c / _WAN_US for c in (0.701, 22.086, -50.773, 47.095, -16.458)),
    "wan2022-2d": tuple(c / _WAN_US for c in (0.782, 20.274, -43.507, 37.062, -11.934)),
}


def coefficients(model: str, sigma: float) -> tuple[float, ...]:
    """The polynomial of a model; `sigma` scales those that are not measured."""
    scale = 1.0 if model.startswith("wan2022") else sigma
    return tuple(scale * c for c in SIGMAS[model])
