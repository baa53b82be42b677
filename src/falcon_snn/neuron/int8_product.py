"""Products of 8-bit integers on the CPU, exact on every machine."""

from functools import cache

import torch
from torch import Tensor


def int8_product(x: Tensor, weight: Tensor) -> Tensor:
    """x [..., inputs] times int8 weights [outputs, ...inputs] transposed; |x| is at most 127.

    int32, or float32 that holds exact integers: sums of fewer than 2^24 / 127^2 products, or of
    spike counts up to 8, are the same in any order (`network/fixed_point.py` bounds them).
    """
    flat = weight.flatten(1).t()
    rows = x.flatten(0, -2)
    # torch's own product of a single input is wrong (2.13).
    whole = _is_exact() and rows.shape[1] > 1
    product = torch._int_mm(rows, flat) if whole else rows.float() @ flat.float()
    return product.view(*x.shape[:-1], len(weight))


@cache
def _is_exact() -> bool:
    """Whether this processor multiplies 8-bit integers quickly and without saturating.

    Those without VNNI add pairs of products in 16 bits, which the largest values overflow; some
    have no 8-bit products at all, and torch's own loop is slower than floats.
    """
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    x, weight = torch.full((64, 64), 127), torch.full((64, 64), 127)
    weight[::2] = -128
    wanted = x.double() @ weight.double().t()
    x8, weight8 = x.to(torch.int8), weight.to(torch.int8)
    return torch.equal(torch._int_mm(x8, weight8.t()).double(), wanted)
