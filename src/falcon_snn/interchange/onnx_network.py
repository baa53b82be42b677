"""The QNN as an ONNX file: the integer network from counts (`network/qnn.py`), nothing else.

Inputs `features` [clip, token, feature] and `lengths` [clip], output `scores` [clip, class]. The
sums are exact integers, so any runtime gives the predictions of full lookahead bit for bit.
"""

import json
import logging
import warnings
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from falcon_snn.errors import FalconError
from falcon_snn.files import replacing
from falcon_snn.interchange.nir_files import optional_package
from falcon_snn.network.integer import IntegerFalcon
from falcon_snn.network.qnn import qnn_values


class _Qnn(nn.Module):
    def __init__(self, network: IntegerFalcon) -> None:
        super().__init__()
        self.network = network

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        scores = qnn_values(self.network, features, lengths)[1]
        return (scores / (self.network.tensors["classifier.grid"] * lengths[:, None])).float()


def write_onnx(path: Path, network: IntegerFalcon, words: tuple[str, ...]) -> None:
    """Write the QNN; onnxruntime must agree with the spiking network before the file counts."""
    onnx = optional_package("onnx")
    optional_package("onnxscript")  # torch's exporter needs it
    network = network.to("cpu")
    sample = sample_clips(network)
    axes = {"features": {0: "clips", 1: "tokens"}, "lengths": {0: "clips"}}
    # torch's exporter warns about packages that this network does not use.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            _Qnn(network), sample, dynamo=True, dynamic_shapes=axes, verbose=False,
            input_names=list(axes), output_names=["scores"],
        )  # fmt: skip
    assert program is not None
    model = program.model_proto
    facts = {"words": list(words), "config": asdict(network.config)}
    onnx.helper.set_model_props(model, {key: json.dumps(value) for key, value in facts.items()})
    with replacing(path) as temporary:
        onnx.save(model, temporary)
        check_onnx(temporary, network, *sample)


def run_onnx(path: Path, features: Tensor, lengths: Tensor) -> Tensor:
    """Class scores of an exported file, from onnxruntime."""
    runtime = optional_package("onnxruntime")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    fed = {"features": features.float().numpy(), "lengths": lengths.numpy()}
    return torch.from_numpy(session.run(None, fed)[0])


def check_onnx(path: Path, network: IntegerFalcon, features: Tensor, lengths: Tensor) -> None:
    """Compare onnxruntime with full lookahead on some clips."""
    full = dict.fromkeys(network.config.boundaries, network.config.slots)
    expected = network.logits(network.streams(features, lengths, full), lengths).float()
    found = run_onnx(path, features, lengths)
    if not torch.equal(found, expected):
        clips = int((found != expected).any(dim=1).sum())
        raise FalconError(
            f"ONNX: {clips} of {len(found)} clips get other scores in onnxruntime than in full "
            "lookahead; please report this as a bug"
        )


def sample_clips(network: IntegerFalcon, clips: int = 8) -> tuple[Tensor, Tensor]:
    """Noise of the network's input size, of several lengths: enough to compare two programs."""
    config, draw = network.config, torch.Generator().manual_seed(0)
    x = torch.randn(clips, config.tokens, config.features, generator=draw) * 2
    lengths = torch.randint(max(config.tokens // 2, 1), config.tokens + 1, (clips,), generator=draw)
    return x, lengths
