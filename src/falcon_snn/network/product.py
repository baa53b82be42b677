"""A layer of static weights, as data: its geometry.

One record serves all of them. A linear map per position has the kernel (1, 1); one over all pixels
of a line, or over the whole map, has a kernel of that size; a convolution over one axis has one
pixel. Pooling comes before the kernel: it has no weights and joins the array rows of the product
after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from falcon_snn.errors import FalconError

if TYPE_CHECKING:
    from torch import Tensor

Shape = tuple[int, int, int]  # lines, pixels, channels
Pair = tuple[int, int]  # along lines, along pixels
NORMS = ("batch", "bias")
SUFFIXES = ("", "2")  # of the tensors and numbers of the first and the second product of a stage


@dataclass(frozen=True)
class Product:
    """The geometry of a layer of weights."""

    outputs: int
    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    groups: int = 1
    pool: Pair = (1, 1)  # windows, side by side, that are added up before the kernel
    average: bool = True  # whether pooling divides by the size of its window
    norm: str = "batch"  # what follows the weights: batch norm, or a bias
    dropout: float = 0.0  # of its inputs, in training

    def window(self) -> tuple[Pair, Pair, Pair]:
        """Kernel, stride and padding on the map before pooling."""
        kernel, stride, padding = (
            (pair[0] * self.pool[0], pair[1] * self.pool[1])
            for pair in (self.kernel, self.stride, self.padding)
        )
        return kernel, stride, padding

    def shape(self, before: Shape, where: str) -> Shape:
        """What comes out of a map; what does not fit is an error that names the stage."""
        self._check(before, where)
        sides = [
            (size // pool + 2 * padding - kernel) // stride + 1
            for size, pool, kernel, stride, padding in zip(
                before[:2], self.pool, self.kernel, self.stride, self.padding, strict=True
            )
        ]
        if min(sides) < 1:
            raise FalconError(
                f"{where}: a kernel of {self.kernel[0]} x {self.kernel[1]} does not fit into a map "
                f"of {before[0]} x {before[1]}"
            )
        return sides[0], sides[1], self.outputs

    def _check(self, before: Shape, where: str) -> None:
        pairs = {"kernel": self.kernel, "stride": self.stride, "pool": self.pool}
        for key, pair in pairs.items():
            if min(pair) < 1:
                raise FalconError(f"{where}: {key} is {pair}; it must be 1 or more")
        if self.outputs < 1 or self.groups < 1 or min(self.padding) < 0:
            raise FalconError(f"{where}: outputs and groups must be 1 or more, padding 0 or more")
        if before[2] % self.groups or self.outputs % self.groups:
            raise FalconError(
                f"{where}: {before[2]} inputs and {self.outputs} outputs cannot be cut into "
                f"{self.groups} groups"
            )
        if any(k <= p for k, p in zip(self.kernel, self.padding, strict=True)):
            raise FalconError(f"{where}: padding {self.padding} is not below kernel {self.kernel}")
        if self.norm not in NORMS or not 0 <= self.dropout < 1:
            raise FalconError(f"{where}: norm is batch or bias, dropout lies in 0..1")
        for size, pool, padding in zip(before[:2], self.pool, self.padding, strict=True):
            if size < pool or (size % pool and padding):
                raise FalconError(
                    f"{where}: windows of {pool} do not divide the {size} places that a padded "
                    "kernel reads; choose another size"
                )

    def lines(self, lines: Tensor) -> Tensor:
        """Output lines that are real, from the input lines that are."""
        kernel, stride, padding = self.kernel[0], self.stride[0], self.padding[0]
        return ((lines // self.pool[0] + 2 * padding - kernel) // stride + 1).clamp_min(0)

    def rows(self, channels: int) -> int:
        """Input rows of one array: inputs of one output of one group."""
        kernel, _, _ = self.window()
        return kernel[0] * kernel[1] * channels // self.groups

    def macs(self, before: Shape) -> int:
        """Multiply-accumulates of one slot; pooled inputs are added first."""
        lines, pixels, outputs = self.shape(before, "")
        return lines * pixels * outputs * self.kernel[0] * self.kernel[1] * before[2] // self.groups

    def words(self, before: Shape) -> str:
        """The layer in a few words."""
        _, pixels, _ = self.shape(before, "")
        pooled = ""
        if self.pool != (1, 1):
            kind = "mean" if self.average else "sum"
            pooled = f"{kind} {self.pool[0]}x{self.pool[1]}, "
        if self.kernel == (1, 1) and self.stride == (1, 1):
            return f"{pooled}fc {before[2]} -> {self.outputs}"
        whole = (before[0] // self.pool[0], before[1] // self.pool[1])
        if self.padding == (0, 0) and pixels == 1 and self.kernel in ((1, whole[1]), whole):
            return f"{pooled}fc {self.kernel[0] * self.kernel[1] * before[2]} -> {self.outputs}"
        text = f"{pooled}conv {self.kernel[0]}x{self.kernel[1]}, {before[2]} -> {self.outputs}"
        if self.stride != (1, 1):
            text += f", stride ({self.stride[0]},{self.stride[1]})"
        return text + (f", {self.groups} groups" if self.groups > 1 else "")
