"""A one-axis CNN on heart beats (MIT-BIH, AAMI classes): train, search, adapt, measure, report.

    python examples/heartbeats/heartbeats.py mitbih_beats.npz

Most beats are normal, so the recipes weigh classes by their size, and what counts is the recall of
each class. The file has x_train, y_train, x_test, y_test and `record`: whole patients validate.
"""

import json
import sys
from pathlib import Path

from torch import nn

import falcon_snn as falcon

RECIPES = {phase: Path(__file__).parent / f"{phase}.toml" for phase in ("qnn", "qat")}


def network() -> nn.Module:
    """128 samples about a beat's peak; the first convolution is the source."""
    layers: list[nn.Module] = []
    for inputs, outputs, size, stride in (
        (1, 32, 9, 2),
        (32, 64, 7, 2),
        (64, 64, 5, 1),
        (64, 96, 5, 2),
    ):
        layers += [
            nn.Conv1d(inputs, outputs, size, stride, size // 2, bias=False),
            nn.BatchNorm1d(outputs),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, nn.AvgPool1d(4), nn.Flatten(), nn.Dropout(0.3), nn.Linear(384, 5))


if __name__ == "__main__":
    out = Path("heartbeats-out")
    own = f"{__file__}:network"
    page = falcon.run(sys.argv[1], out, network=own, slots=4, recipes=RECIPES, phases=["qat"])
    tested = json.loads((out / "measure" / "accuracy.json").read_text())["networks"]
    for name in ("QNN", "fastest", "balanced"):
        print(name, {beat: round(percent, 1) for beat, percent in tested[name]["recall"].items()})
    print(f"report: {page}")
