"""Products of 8-bit integers, exact on every machine."""

from functools import cache

import torch
from torch import Tensor

from falcon_snn.neuron.encoding import MAX_SLOTS


def int8_product(x: Tensor, weight: Tensor, largest: int = MAX_SLOTS) -> Tensor:
    """x [..., inputs] times int8 weights [outputs, ...inputs] transposed; |x| is at most `largest`.

    int32, or float32 that holds exact integers.
    """
    rows = x.flatten(0, -2)
    # torch's own product of a single input is wrong (2.13).
    if not multiplies_bytes() or rows.shape[1] == 1:
        return float_product(x, weight, largest)
    product = torch._int_mm(rows, weight.flatten(1).t())
    return product.view(*x.shape[:-1], len(weight))


def float_product(x: Tensor, weight: Tensor, largest: int = MAX_SLOTS) -> Tensor:
    """The same on any device: float32 where it holds every sum, else int32 by way of float64."""
    flat = weight.flatten(1).t()
    if len(flat) * largest * 128 < 1 << 24:
        return x.float() @ flat.float()
    return (x.double() @ flat.double()).int()


@cache
def multiplies_bytes() -> bool:
    """Whether this processor multiplies 8-bit integers quickly and without saturating.

    Those without VNNI add pairs of products in 16 bits, which the largest values overflow, or have
    no 8-bit products at all: torch's own loop then takes twenty times as long as floats.
    """
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not torch.cpu._is_vnni_supported():
        return False
    x, weight = torch.full((64, 64), 127), torch.full((64, 64), 127)
    weight[::2] = -128
    wanted = x.double() @ weight.double().t()
    x8, weight8 = x.to(torch.int8), weight.to(torch.int8)
    return torch.equal(torch._int_mm(x8, weight8.t()).double(), wanted)
