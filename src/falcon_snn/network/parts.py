"""The trainable parts of stages: weights with what follows them, and containers of parts."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from falcon_snn.network.product import Pair, Product
from falcon_snn.network.quantise import quantise_weight, weight_scale
from falcon_snn.network.rows import Number, Rows
from falcon_snn.neuron.parameters import Norm

# Mean and inverse deviation of a batch; the running ones follow, with momentum and epsilon.
Statistics = Callable[[Tensor, Tensor, Tensor, float, float], tuple[Tensor, Tensor]]
_Results = dict[str, Tensor]


class Part(nn.Module):
    """What a stage learns, by name; a name without a module is None."""

    def __init__(self, **modules: nn.Module | None) -> None:
        super().__init__()
        for name, module in modules.items():
            self.register_module(name, module)


def convolve(x: Tensor, weight: Tensor, product: Product) -> Tensor:
    """Pooled values times weights [outputs, kernel, kernel, inputs of a group]; channels last."""
    if product.pool != (1, 1):
        x = pool(x, product.pool, average=product.average)
    (lines, pixels), kernel = x.shape[1:3], product.kernel
    if product.padding == (0, 0) and product.groups == 1:
        if kernel == (1, 1) and product.stride == (1, 1):
            return F.linear(x, weight.flatten(1))
        if kernel == (1, pixels) and product.stride[0] == 1:
            return F.linear(x.flatten(2), weight.flatten(1)).unsqueeze(2)
        if kernel == (lines, pixels):
            return F.linear(x.flatten(1), weight.flatten(1))[:, None, None]
    stride, padding = product.stride, product.padding
    if stride[1] > 1 and pixels + 2 * padding[1] < kernel[1] + stride[1]:
        # One pixel comes out, so its stride means nothing; oneDNN (torch 2.13, CPU) computes
        # wrong values for it where one channel goes in.
        x = F.pad(x, (0, 0, padding[1], padding[1]))[:, :, : kernel[1]]
        stride, padding = (stride[0], 1), (padding[0], 0)
    y = F.conv2d(
        x.permute(0, 3, 1, 2), weight.permute(0, 3, 1, 2), stride=stride, padding=padding,
        groups=product.groups,
    )  # fmt: skip
    return y.permute(0, 2, 3, 1).contiguous()


def pool(x: Tensor, window: Pair, *, average: bool) -> Tensor:
    """Windows side by side, added up; what is left at the far ends belongs to none."""
    lines, pixels = x.shape[1] // window[0], x.shape[2] // window[1]
    x = x[:, : lines * window[0], : pixels * window[1]]
    x = x.reshape(len(x), lines, window[0], pixels, window[1], -1)
    return x.mean(dim=(2, 4)) if average else x.sum(dim=(2, 4))


class Normalise(nn.BatchNorm1d):
    """Batch norm over the last axis, whatever comes before it."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.reshape(-1, x.shape[-1])).view(x.shape)

    def fused(self, x: Tensor, batch_statistics: Statistics) -> Norm:
        """What a quantiser needs to do this norm by itself; a batch's statistics are kept."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.momentum is not None
        if self.training:
            mean, rstd = batch_statistics(
                x, self.running_mean, self.running_var, self.momentum, self.eps
            )
        else:
            mean, rstd = self.running_mean, torch.rsqrt(self.running_var + self.eps)
        return Norm(self.bias, mean, rstd, self.weight, self.training)

    def scaling(self) -> tuple[Tensor, Tensor]:
        """Frozen batch norm as y = scale x + shift."""
        assert self.running_mean is not None
        assert self.running_var is not None
        scale = self.weight * torch.rsqrt(self.running_var + self.eps)
        return scale, self.bias - self.running_mean * scale

    def rows(self) -> Rows:
        """The same in double, as conversion needs it: `gain` and `shift`."""
        assert self.running_mean is not None
        assert self.running_var is not None
        columns: dict[str, Number] = {
            "weight": self.weight, "bias": self.bias, "mean": self.running_mean,
            "var": self.running_var,
        }  # fmt: skip
        return Rows(_frozen, len(self.weight), columns, ("gain", "shift"), {"eps": self.eps})

    def restore(self, gain: Tensor, shift: Tensor) -> None:
        """Become y = gain x + shift, with the running statistics of a new one."""
        self.weight.copy_(gain * (1 + self.eps) ** 0.5)
        self.bias.copy_(shift)


class Bias(nn.Module):
    """A bias per output, in the place of batch norm."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias

    def fused(self, x: Tensor, batch_statistics: Statistics) -> Norm:
        return Norm(self.bias)

    def scaling(self) -> tuple[Tensor, Tensor]:
        return torch.ones_like(self.bias), self.bias

    def rows(self) -> Rows:
        return Rows(_unscaled, len(self.bias), {"bias": self.bias}, ("gain", "shift"))


class Weights(nn.Module):
    """The trainable weights of a product, quantised per output, and what follows them."""

    def __init__(self, product: Product, channels: int, bits: int) -> None:
        super().__init__()
        self.product, self.bits = product, bits
        self.noise = 0.0  # of training: sigma of every weight, as part of its output's largest
        shape = (product.outputs, *product.kernel, channels // product.groups)
        self.weight = nn.Parameter(torch.empty(shape))
        nn.init.kaiming_normal_(self.weight, nonlinearity="linear")
        self.norm = (Normalise if product.norm == "batch" else Bias)(product.outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.currents(x, torch.ones((), device=x.device)))

    def currents(self, count: Tensor, step: Tensor) -> Tensor:
        """The product of counts of this step alone, without batch norm or bias."""
        count = F.dropout(count, self.product.dropout, self.training)
        weight = quantise_weight(self.weight, self.bits, step)
        if self.training and self.noise:
            largest = self.weight.detach().abs().amax(dim=(1, 2, 3), keepdim=True) * step.detach()
            weight = weight + (self.noise * largest).to(weight) * torch.randn_like(weight)
        return convolve(count, weight, self.product)

    def rows(self, norm: Mapping[str, Tensor]) -> Rows:
        """For conversion: `codes`, which take the sign of the norm's gain, `gain` and `reach`.

        `reach` is the largest sum that inputs of up to one can give an output.
        """
        pool = self.product.pool[0] * self.product.pool[1]
        mean_of = pool if self.product.average else 1
        columns: dict[str, Number] = {"weight": self.weight.flatten(1), "gain": norm["gain"]}
        settings = {"bits": self.bits, "pool": pool, "mean_of": mean_of}
        gives = ("codes", "gain", "reach")
        return Rows(_folded, len(self.weight), columns, gives, settings)

    def restore(self, codes: Tensor, gain: Tensor, shift: Tensor) -> None:
        """Become y = gain (codes * x) + shift for the mean or the sum of a pooled x."""
        codes = codes.double()
        if self.product.average:
            gain = gain * self.product.pool[0] * self.product.pool[1]
        if isinstance(self.norm, Bias):
            self.weight.copy_(codes * gain[:, None, None, None])
            self.norm.bias.copy_(shift)
            return
        spread = codes.square().mean().clamp_min(1e-30).sqrt() * codes[0].numel() ** 0.5
        self.weight.copy_(codes / spread)
        self.norm.restore(gain * spread, shift)


def _frozen(weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor, eps: float) -> _Results:
    gain = weight.double() / (var.double() + eps).sqrt()
    return {"gain": gain, "shift": bias.double() - gain * mean.double()}


def _unscaled(bias: Tensor) -> _Results:
    shift = bias.double()
    return {"gain": torch.ones_like(shift), "shift": shift}


def _folded(weight: Tensor, gain: Tensor, bits: int, pool: int, mean_of: int) -> _Results:
    scale = weight_scale(weight, bits)
    codes = (weight / scale[:, None]).round() * gain.sign().to(scale)[:, None]
    reach = codes.abs().sum(dim=1, dtype=torch.float64) * pool
    gain = gain.abs() * scale.double()
    return {"codes": codes.to(torch.int8), "gain": gain / mean_of, "reach": reach}


def array_weights(codes: Tensor, product: Product, channels: int) -> Tensor:
    """Codes as an array holds them: repeated for pooled inputs, zero between groups."""
    for axis, size in ((1, product.pool[0]), (2, product.pool[1])):
        if size > 1:
            codes = codes.repeat_interleave(size, dim=axis)
    if product.groups == 1:
        return codes
    width, outputs = channels // product.groups, product.outputs // product.groups
    dense = codes.new_zeros(*codes.shape[:3], channels)
    for group in range(product.groups):
        rows = slice(group * outputs, (group + 1) * outputs)
        dense[rows, ..., group * width : (group + 1) * width] = codes[rows]
    return dense
