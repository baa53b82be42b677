"""A network that is no Falcon: a residual CNN without attention, and its checkpoint."""

from pathlib import Path

import torch

from falcon_snn.network.description import Network
from falcon_snn.network.operations import Fire, FireTerm, Readout, Source
from falcon_snn.network.product import Product
from falcon_snn.network.qnn import Qnn
from falcon_snn.training.checkpoint import Metadata, prefixed, save_checkpoint

CNN = Network(
    "small CNN",
    4,
    (
        Source("pixels", (8, 8, 1)),
        Fire("first", (FireTerm("pixels", Product(4, (3, 3), padding=(1, 1))),)),
        Fire("body", (FireTerm("first", Product(4, (3, 3), padding=(1, 1))),)),
        Fire(
            "sum",
            (FireTerm("body", Product(4, (3, 3), padding=(1, 1))), FireTerm("first", Product(4))),
        ),
        Readout("scores", "sum", 3),
    ),
)
DELAYS = {"first": 1, "body": 2, "sum": 3}


def save_cnn(path: Path, words: tuple[str, ...] = ("a", "b", "c")) -> Path:
    """A checkpoint of it with random weights, as if trained under `DELAYS`."""
    torch.manual_seed(5)
    metadata = Metadata(CNN, words, {}, 1, 0, {"validation_accuracy": 50.0}, DELAYS)
    save_checkpoint(path, metadata, prefixed("model.", Qnn(CNN).state_dict()))
    return path
