"""Basilar membrane of the inner-ear model behind SSC: from sound to velocity along the cochlea.

A hydrodynamic model (Sieroka, Dosch, Rupp 2006) with the constants of Cramer et al. 2020. The
transfer function depends on the clip length and the rate alone, so it is computed once in
complex128 and kept in memory and on disk.
"""

import logging
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from falcon_snn.data.cache import cache_folder
from falcon_snn.files import replacing

log = logging.getLogger("falcon_snn")

CHANNELS = 700
LENGTH_CM = 3.5
ALPHA = 3.0  # 1/cm: stiffness falls as e^(-alpha c), damping as its square root
STIFFNESS = 1e9  # C0 at the base
STIFFNESS_LOSS = 3500.0  # a
DENSITY = 1.0  # rho
HEIGHT = 0.1  # h
MASS = 0.05  # m
DAMPING = 0.15 * float(np.sqrt(STIFFNESS * MASS))  # R0 = de sqrt(C0 m)
RMS = 0.3

Complex = NDArray[np.complex128]


class PairTransfer(NamedTuple):
    """The transfer of neighbouring channels 2i and 2i+1, made ready for one complex FFT.

    Only the real part of the inverse FFT of v X counts, and that is the inverse FFT of the
    Hermitian part of v X. Two Hermitian spectra ride in one complex transform, which halves the
    work: P[k] = direct[k] X[k] + mirrored[k] conj(X[-k]), and ifft(P) = velocity_2i + i
    velocity_2i+1.
    """

    direct: Tensor  # complex64 [channels / 2, bins]
    mirrored: Tensor


def bins_of(samples: int) -> int:
    """Bins of the transfer, and also steps of the velocity, whose rate is half the clip's."""
    return samples // 2 + 1


def transfer_function(samples: int, rate_hz: int) -> Complex:
    """v(c) = 2 omega / xi(c) p(c) z / p(0) as complex128 [channels, bins]."""
    from scipy.special import hankel1, jv, yv

    omega = 2 * np.pi * np.linspace(1, rate_hz / 2, bins_of(samples))
    inertia = MASS * omega**2 + STIFFNESS_LOSS  # m omega^2 + a, the part of xi without position

    def impedance(c: float) -> Complex:  # xi(c)
        xi: Complex = (
            STIFFNESS * np.exp(-ALPHA * c) - inertia - 1j * omega * DAMPING * np.exp(-ALPHA * c / 2)
        )
        return xi

    def wavenumber(xi: Complex) -> Complex:  # g(c)
        root: Complex = np.sqrt(DENSITY / (HEIGHT * xi))
        return omega * root

    def loss(c: float) -> Complex:  # 2a + omega (2 m omega + i e^(-alpha c / 2) R0)
        damping: Complex = 1j * omega * DAMPING * np.exp(-ALPHA * c / 2)
        return 2 * inertia + damping

    xi_base = impedance(0.0)
    numerator = ALPHA * (-np.sqrt(xi_base) + 1j * loss(0.0) / (2 * np.sqrt(inertia)))

    def pressure(c: float, xi: Complex) -> Complex:  # p(c)
        denominator = (ALPHA / 2) * np.exp(ALPHA * c / 2)
        denominator = denominator * (-2 * np.sqrt(xi) + 1j * loss(c) / np.sqrt(inertia))
        phase = 2 * wavenumber(xi_base) / ALPHA - 2j * np.sqrt(2) * omega * np.log(
            numerator / denominator
        ) / (ALPHA * np.sqrt(2 * HEIGHT * inertia))  # G(c), the integral of g from the base
        p: Complex = np.sqrt(phase / wavenumber(xi)) * hankel1(0, phase)
        return p

    k = 2 * omega * np.sqrt(2 / (HEIGHT * STIFFNESS)) / ALPHA
    z = np.sqrt(2 * STIFFNESS / HEIGHT) * (1j * jv(0, k) + yv(0, k)) / (jv(1, k) - 1j * yv(1, k))
    at_base = z / pressure(0.0, xi_base)

    transfer = np.empty((CHANNELS, len(omega)), np.complex128)
    for row, c in enumerate(np.linspace(0, LENGTH_CM, CHANNELS)):
        xi = impedance(c)
        transfer[row] = 2 * omega / xi * pressure(c, xi) * at_base
    return transfer


def pair_channels(transfer: Complex) -> PairTransfer:
    """Put two channels into each complex transform (see `PairTransfer`)."""
    mirror = np.conj(np.roll(transfer[:, ::-1], 1, axis=1))  # conj(v[-k]), bin 0 stays bin 0
    direct, mirrored = (0.5 * (v[0::2] + 1j * v[1::2]) for v in (transfer, mirror))
    return PairTransfer(
        torch.from_numpy(direct.astype(np.complex64)),
        torch.from_numpy(mirrored.astype(np.complex64)),
    )


@lru_cache(maxsize=8)
def pair_transfer(samples: int, rate_hz: int, device: torch.device) -> PairTransfer:
    """The transfer of a clip length on a device, computed at most once per machine."""
    path = cache_folder() / f"inner-ear-{samples}-at-{rate_hz}-hz.safetensors"
    try:
        transfer = _from_file(path)
    except (OSError, SafetensorError, KeyError):  # absent or broken: it can always be made again
        log.warning("computing the inner ear's transfer, once; it is kept in %s", path.parent)
        transfer = pair_channels(transfer_function(samples, rate_hz))
        tables = {name: torch.view_as_real(table) for name, table in transfer._asdict().items()}
        with replacing(path) as temporary:
            save_file(tables, temporary)
    return PairTransfer(*(table.to(device) for table in transfer))


def _from_file(path: Path) -> PairTransfer:
    tables = load_file(path)
    return PairTransfer(*(torch.view_as_complex(tables[name]) for name in PairTransfer._fields))


def scale_and_window(waves: Tensor) -> Tensor:
    """Scale clips [clips, samples] to RMS 0.3 and apply the Hann window, in float64.

    A silent clip stays silent. In a clip of odd length the middle sample is not windowed.
    """
    waves = waves.double()
    rms = waves.square().mean(dim=1, keepdim=True).sqrt()
    half = waves.shape[1] // 2
    hann = torch.hann_window(2 * half, periodic=False, dtype=torch.float64, device=waves.device)
    middle = hann.new_ones(waves.shape[1] - 2 * half)
    window = torch.cat((hann[:half], middle, hann[half:]))
    windowed: Tensor = waves * torch.where(rms > 0, RMS / rms, 0.0) * window
    return windowed


def spectra(waves: Tensor) -> Tensor:
    """The first n/2 + 1 bins of each clip's FFT, complex64 [clips, bins].

    In float64 up to here: a weak band beside a strong one must keep its own precision.
    """
    spectrum: Tensor = torch.fft.rfft(scale_and_window(waves))
    return spectrum.to(torch.complex64)


def pair_velocity(spectrum: Tensor, transfer: PairTransfer) -> Tensor:
    """Velocity of the membrane from spectra [clips, bins]: float32 [clips, pairs, steps, 2]."""
    mirror = spectrum.conj().flip(-1).roll(1, -1)
    packed = transfer.direct * spectrum[:, None]
    packed += transfer.mirrored * mirror[:, None]
    return torch.view_as_real(torch.fft.ifft(packed))
