"""A teacher: a residual network in float, larger than Falcon and never spiking, to distil from."""

from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

from falcon_snn.network.description import Network
from falcon_snn.network.quantise import mixed_type

STEM = 64
WIDTHS = (96, 192, 384)  # each stage halves tokens and features, but for the first
BANDS = 8  # features that the classifier still tells apart: a word's pitch matters
DROPOUT = 0.3
UNIT = 32.0  # integer steps of the student's inputs that are one for the teacher


class Residual(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = _convolution(inputs, outputs, 3, stride)
        self.second = _convolution(outputs, outputs, 3, 1)
        straight = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if straight else _convolution(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return _relu(self.second, _relu(self.first, x), self.shortcut(x))


class Teacher(nn.Module):
    """The same clips in and the same scores out as the network that it teaches."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self.stem = _convolution(network.source.input[2], STEM, 5, 2)
        stages: list[nn.Module] = []
        before = STEM
        for number, width in enumerate(WIDTHS):
            stages += [Residual(before, width, 2 if number else 1), Residual(width, width, 1)]
            before = width
        self.stages = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d((1, BANDS))
        self.dropout = nn.Dropout(DROPOUT)
        self.classifier = nn.Linear(before * BANDS, network.classes)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Class scores of inputs `x`; padding is zero and needs no mask."""
        source = self.network.source
        maps = (source.fit(x).float() - source.zero) * (source.levels / UNIT)
        maps = maps.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
        maps = self.stages(_relu(self.stem, maps))
        scores: Tensor = self.classifier(self.dropout(self.pool(maps).flatten(1)))
        return scores

    def folded(self) -> "Teacher":
        """The same answers with batch norm inside the convolutions: faster to run."""
        copy = deepcopy(self).eval()
        for module in list(copy.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, nn.Sequential) and isinstance(child[-1], nn.BatchNorm2d):
                    conv, norm = child[0], child[-1]
                    assert isinstance(conv, nn.Conv2d)
                    setattr(module, name, fuse_conv_bn_eval(conv, norm))
        for module in copy.modules():
            if isinstance(module, Residual) and isinstance(module.shortcut, nn.Conv2d):
                # Both biases are added to one sum: as one they need no pass over memory.
                second, shortcut = module.second, module.shortcut
                assert isinstance(second, nn.Conv2d)
                assert second.bias is not None
                assert shortcut.bias is not None
                second.bias.data += shortcut.bias.data
                shortcut.bias = None
        for weight in filter(lambda one: one.dim() == 4, copy.parameters()):
            weight.data = weight.data.contiguous(memory_format=torch.channels_last)
        return copy


def _relu(convolution: nn.Module, x: Tensor, added: Tensor | None = None) -> Tensor:
    """relu(convolution(x) + added), on a GPU in one pass if batch norm is folded in."""
    if not (isinstance(convolution, nn.Conv2d) and x.is_cuda):
        y = convolution(x)
        return torch.relu(y if added is None else y + added)
    dtype = mixed_type(x.dtype)
    assert convolution.bias is not None
    weight, bias, x = (part.to(dtype) for part in (convolution.weight, convolution.bias, x))
    if spare := -x.shape[1] % 8:  # tensor cores take channels by eight
        weight, x = (F.pad(part, (0, 0, 0, 0, 0, spare)) for part in (weight, x))
    weight, x = (part.contiguous(memory_format=torch.channels_last) for part in (weight, x))
    stride, padding = list(convolution.stride), [size // 2 for size in convolution.kernel_size]
    if added is None:
        return torch.cudnn_convolution_relu(x, weight, bias, stride, padding, [1, 1], 1)
    return torch.cudnn_convolution_add_relu(
        x, weight, added.to(dtype), 1.0, bias, stride, padding, [1, 1], 1
    )


def _convolution(inputs: int, outputs: int, size: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs)
    )
