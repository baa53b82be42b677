"""The QNN as an ONNX file: the integer network from counts (`network/witness.py`), nothing else.

Inputs are `features` [clip, ...], shaped as the network's source with channels last and without
axes of size one, and, where the lines of a clip may vary, `lengths` [clip]; the output is `scores`
[clip, class]. The sums are exact integers, so any runtime gives the predictions of full lookahead
bit for bit.

With features inside the input is `samples` [clip, 16000] in -1..1 instead: log-mel in double, the
transform as a matrix product, which every runtime has.
"""

import json
import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from falcon_snn.data.audio import pink_noise
from falcon_snn.data.features import (
    BANDS,
    CLIP_SAMPLES,
    FFT_SAMPLES,
    FRAMES,
    HOP_SAMPLES,
    LOG_FLOOR,
    exact_log_mel,
    mel_filters,
    normalised,
)
from falcon_snn.errors import FalconError
from falcon_snn.files import replacing
from falcon_snn.interchange.nir_files import optional_package
from falcon_snn.network.description import Network
from falcon_snn.network.integer import Snn
from falcon_snn.network.witness import Witness, witness

BINS = FFT_SAMPLES // 2 + 1


class _Hearing(nn.Module):
    """Features and QNN of networks that hear, from samples."""

    place: Tensor  # [frame, sample]: where a frame's samples are
    waves: Tensor  # [sample, 2 bins]: windowed cosines, then sines
    filters: Tensor  # [2 bins, band]

    def __init__(self, snn: Snn) -> None:
        super().__init__()
        self.qnn = _Qnn(snn)
        place = torch.arange(FRAMES)[:, None] * HOP_SAMPLES + torch.arange(FFT_SAMPLES)
        turns = torch.arange(FFT_SAMPLES, dtype=torch.float64)[:, None] * torch.arange(BINS)
        angle = turns % FFT_SAMPLES * (2 * torch.pi / FFT_SAMPLES)
        window = torch.hann_window(FFT_SAMPLES, dtype=torch.float64)[:, None]
        self.register_buffer("place", place)
        self.register_buffer(
            "waves", torch.cat([window * angle.cos(), window * angle.sin()], dim=1)
        )
        self.register_buffer("filters", torch.from_numpy(mel_filters()).repeat(2, 1))

    def forward(self, samples: Tensor) -> Tensor:
        frames = samples.double()[:, self.place]
        parts = frames @ self.waves
        logs = torch.log((parts * parts) @ self.filters + LOG_FLOOR)
        return self.qnn(normalised(logs).float())


class _Qnn(nn.Module):
    def __init__(self, snn: Snn) -> None:
        super().__init__()
        self.snn = snn

    def forward(self, features: Tensor, lengths: Tensor | None = None) -> Tensor:
        readout, x = self.snn.network.readout, _with_all_axes(self.snn.network, features)
        values, scores = witness(self.snn, x, lengths)
        lines = values[readout.source].shape[1]
        places = readout.places(Witness(self.snn, x, lengths), lines)
        return (scores / (self.snn.tensors[f"{readout.name}.grid"] * places)).float()


def _with_all_axes(network: Network, features: Tensor) -> Tensor:
    lines, pixels, channels = network.source.input
    if varies(network):
        lines = features.shape[1]
    return features.reshape(features.shape[0], lines, pixels, channels)


def varies(network: Network) -> bool:
    """Whether clips may have fewer lines than the network was made for: scores are then means."""
    return network.readout.window[0] == 0 and network.shapes[network.readout.source][0] > 1


def write_onnx(
    path: Path, snn: Snn, words: tuple[str, ...], *, with_features: bool = False
) -> None:
    """Write the QNN; onnxruntime must agree with the spiking network before the file counts."""
    onnx = optional_package("onnx")
    optional_package("onnxscript")  # torch's exporter needs it
    snn = snn.to("cpu")
    network: nn.Module
    if with_features:
        if snn.network.source.input != (FRAMES, BANDS, 1):
            raise FalconError(
                f"network '{snn.network.name}' takes no sound; leave out --with-features"
            )
        network, lengths = _Hearing(snn), None
        fed = sample_waves()
        features = exact_log_mel(fed)
        axes: dict[str, Any] = {"samples": {0: "clips"}}
    else:
        network = _Qnn(snn)
        features, lengths = sample_clips(snn.network)
        fed = features
        axes = {"features": {0: "clips"}}
    sample: tuple[Tensor, ...] = (fed,)
    if lengths is not None:
        sample = (features, lengths)
        axes = {"features": {0: "clips", 1: "lines"}, "lengths": {0: "clips"}}
    # torch's exporter warns about packages that this network does not use.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            program = torch.onnx.export(
                network, sample, dynamo=True, dynamic_shapes=axes, verbose=False,
                input_names=list(axes), output_names=["scores"],
            )  # fmt: skip
        except RuntimeError as error:  # of Ctrl-C, too, while torch loads its parts
            raise FalconError(
                f"ONNX: torch's exporter failed ({error!s:.100}); try again"
            ) from None
    assert program is not None
    model = program.model_proto
    facts = {"words": list(words), "network": snn.network.as_json()}
    onnx.helper.set_model_props(model, {key: json.dumps(value) for key, value in facts.items()})
    with replacing(path) as temporary:
        onnx.save(model, temporary)
        check_onnx(temporary, snn, features, lengths, fed)


def run_onnx(path: Path, features: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Class scores of an exported file, from onnxruntime; of features or of samples."""
    runtime = optional_package("onnxruntime")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    fed = {session.get_inputs()[0].name: features.float().numpy()}
    if lengths is not None:
        fed["lengths"] = lengths.numpy()
    return torch.from_numpy(session.run(None, fed)[0])


def check_onnx(
    path: Path, snn: Snn, features: Tensor, lengths: Tensor | None, fed: Tensor | None = None
) -> None:
    """Compare onnxruntime with full lookahead on some clips; `fed` is their sound, if heard."""
    full = dict.fromkeys(snn.network.boundaries, snn.network.slots)
    streams = snn.streams(_with_all_axes(snn.network, features), lengths, full)
    expected = snn.logits(streams, lengths).float()
    found = run_onnx(path, features if fed is None else fed, lengths)
    if not torch.equal(found, expected):
        clips = int((found != expected).any(dim=1).sum())
        raise FalconError(
            f"ONNX: {clips} of {len(found)} clips get different scores in onnxruntime and in full "
            "lookahead; please report this as a bug"
        )


def sample_waves() -> Tensor:
    """Noise that swells and falls, float32 [clip, 16000], to compare programs."""
    noise = torch.from_numpy(pink_noise(8 * CLIP_SAMPLES)).view(8, CLIP_SAMPLES)
    return noise * torch.hann_window(CLIP_SAMPLES) ** 2


def sample_clips(network: Network, clips: int = 8) -> tuple[Tensor, Tensor | None]:
    """Noise of the network's input size, and lengths where they may vary, to compare programs."""
    draw, source = torch.Generator().manual_seed(0), network.source
    lines, *rest = source.input
    shape = [lines] if varies(network) or lines > 1 else []
    shape += [size for size in rest if size > 1]
    noise = torch.randn(clips, *(shape or [1]), generator=draw)
    x = noise.abs() * network.slots if source.given else noise * 40 / source.levels + source.zero
    if not varies(network):
        return x, None
    return x, torch.randint(max(lines // 2, 1), lines + 1, (clips,), generator=draw)
