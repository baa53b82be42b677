"""A residual CNN on Fashion-MNIST: train, convert, search, adapt, measure and report.

    python examples/fashion/fashion.py fashion_mnist.npz

The file has x_train, y_train, x_test, y_test; the last tenth of the training pictures validates.
The same from the shell:

    falcon-snn run --network examples/fashion/fashion.py:network --slots 4 --data FILE.npz ...
"""

import sys
from pathlib import Path

from torch import Tensor, nn

import falcon_snn as falcon

RECIPES = {phase: Path(__file__).parent / f"{phase}.toml" for phase in ("qnn", "qat")}


class Residual(nn.Module):
    """relu(conv(relu(conv(x))) + shortcut(x)): both paths meet in one firing."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = layer(inputs, outputs, 3, stride)
        self.second = layer(outputs, outputs, 3, 1)
        straight = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if straight else layer(inputs, outputs, 1, stride)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.second(self.relu(self.first(x))) + self.shortcut(x))


def layer(inputs: int, outputs: int, size: int, stride: int) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


def network() -> nn.Module:
    """Nine layers on the chip; the first convolution is the source."""
    blocks = [
        Residual(64, 64, 1),
        Residual(64, 128, 2),
        Residual(128, 128, 1),
        Residual(128, 256, 2),
    ]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(256, 10)]
    return nn.Sequential(layer(1, 64, 3, 1), nn.ReLU(), *blocks, *head)


if __name__ == "__main__":
    own = f"{__file__}:network"
    page = falcon.run(
        sys.argv[1], "fashion-out", network=own, slots=4, recipes=RECIPES, phases=["qat"]
    )
    print(f"report: {page}")
