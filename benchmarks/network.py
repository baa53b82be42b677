"""A whole Falcon network at delay 1: integer spikes against the ordinary way with SpikingJelly.

The ordinary network has the same parameters in fp16: float currents by torch's products, batch norm
folded, SpikingJelly's multi-step IF on its own fastest path, attention by torch. Same clips, same
batch, same run; predictions agree up to rounding.

    python benchmarks/network.py [--checkpoint C] [--model medium] [--batch 2048] [--json]
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from falcon_snn.config import falcon_config
from falcon_snn.network.convert import convert, folded_weight, norm_affine
from falcon_snn.network.model import Block, Conv, Falcon, Linear, Normalise
from falcon_snn.network.quantise import Counter, SignedCode, quantise_input
from falcon_snn.neuron.packed import encoding_table
from falcon_snn.training.checkpoint import load_model


class Ordinary:
    """Falcon at delay 1 as people write spiking networks today; tensors are [T, clip, ...]."""

    def __init__(self, model: Falcon) -> None:
        from spikingjelly.activation_based import functional, neuron

        self.model, self.slots = model, model.config.slots
        self.node = neuron.IFNode(v_threshold=1.0, v_reset=None, step_mode="m").cuda().eval()
        self.reset: Callable[[], None] = lambda: functional.reset_net(self.node)
        table = encoding_table(self.slots, "even")
        bits = [[(byte >> slot) & 1 for byte in table] for slot in range(self.slots)]
        self.trains = torch.tensor(bits, device="cuda").half()
        stem = model.stem
        self.stem = {
            name: self.folded(getattr(stem, name), getattr(stem, f"{name}_fire"))
            for name in ("conv1", "conv2", "fc1", "fc2")
        }
        outputs = {kind: f"{kind}_fire" for kind in ("v", "attn_out", "ffn1", "ffn2")}
        outputs |= {"q": "q_code", "k": "k_code"}
        self.blocks = [
            {
                kind: self.folded(getattr(block, kind), getattr(block, out))
                for kind, out in outputs.items()
            }
            for block in model.blocks
        ]  # fmt: skip

    def folded(self, layer: Linear | Conv, out: Counter | SignedCode) -> tuple[Tensor, Tensor]:
        """Weights and bias of x / alpha_out for inputs in units of their own step."""
        codes, gain, bias = folded_weight(layer)
        shape = (-1, *[1] * (codes.dim() - 1))
        alpha = out.step().double()
        return (codes * (gain / alpha).view(shape)).half(), (bias / alpha).half()

    def fire(self, currents: Tensor) -> Tensor:
        currents[0] += 0.5
        self.reset()
        return self.node(currents)

    def linear(self, x: Tensor, step: Tensor, part: tuple[Tensor, Tensor]) -> Tensor:
        return F.linear(x, part[0] * step.half(), part[1] / self.slots)

    def conv(self, x: Tensor, step: Tensor, part: tuple[Tensor, Tensor], stride: int) -> Tensor:
        weight = (part[0] * step.half()).contiguous(memory_format=torch.channels_last)
        y = F.conv2d(
            x.flatten(0, 1).permute(0, 3, 1, 2), weight, part[1] / self.slots, (1, stride), 1
        )
        return y.permute(0, 2, 3, 1).reshape(*x.shape[:3], -1, weight.shape[0])

    def complete(self, currents: Tensor) -> Tensor:
        """Full lookahead: all current in the first slot."""
        remapped = torch.zeros_like(currents)
        remapped[0] = currents.sum(dim=0)
        return self.fire(remapped)

    def predict(self, x: Tensor) -> Tensor:
        model, stem = self.model, self.model.stem
        features = quantise_input(x, model.config.input_levels)
        count = model.encoder_fire(model.encoder(features.unsqueeze(3)))
        spikes = self.trains[:, count.long()]
        step = model.encoder_fire.step()
        spikes = self.fire(self.conv(spikes, step, self.stem["conv1"], 2))
        spikes = self.fire(self.conv(spikes, stem.conv1_fire.step(), self.stem["conv2"], 1))
        spikes = self.fire(self.linear(spikes.flatten(3), stem.conv2_fire.step(), self.stem["fc1"]))
        spikes = self.fire(self.linear(spikes, stem.fc1_fire.step(), self.stem["fc2"]))
        step = stem.fc2_fire.step()
        for block, parts in zip(model.blocks, self.blocks, strict=True):
            assert isinstance(block, Block)
            spikes = self.block(block, parts, spikes, step)
            step = block.residual2_fire.step()
        decoded = model.norm(step * spikes.float().sum(dim=0))
        return model.classifier(decoded.mean(dim=1)).argmax(dim=1)

    def block(
        self, block: Block, parts: dict[str, tuple[Tensor, Tensor]], x: Tensor, step: Tensor
    ) -> Tensor:
        total = x.sum(dim=0)
        q, k = (
            F.linear(total, parts[n][0] * step.half(), parts[n][1]).round().clamp(-127, 127)
            for n in "qk"
        )
        v = self.complete(self.linear(x, step, parts["v"])).sum(dim=0)

        def heads(y: Tensor) -> Tensor:
            return y.view(*y.shape[:2], block.heads, block.head_size).transpose(1, 2)

        scale = block.q_code.step() * block.k_code.step() / block.head_size**0.5
        scores = (heads(q).float() @ heads(k).float().mT) * scale
        codes = block.consmax(scores) * (block.consmax.step() * block.v_fire.step())
        mixed = (codes @ heads(v).float()).transpose(1, 2).flatten(2) / block.context_fire.step()
        currents = torch.zeros_like(x)
        currents[0] = mixed.half()
        context = self.fire(currents)
        branch = self.fire(self.linear(context, block.context_fire.step(), parts["attn_out"]))
        middle = self.join(block.norm1, x, step, branch, block.attn_out_fire, block.residual1_fire)
        hidden = self.fire(self.linear(middle, block.residual1_fire.step(), parts["ffn1"]))
        branch = self.fire(self.linear(hidden, block.ffn1_fire.step(), parts["ffn2"]))
        step = block.residual1_fire.step()
        return self.join(block.norm2, middle, step, branch, block.ffn2_fire, block.residual2_fire)

    def join(
        self, norm: Normalise, a: Tensor, step: Tensor, b: Tensor, branch: Counter, out: Counter
    ) -> Tensor:
        gain, bias = norm_affine(norm)
        alpha = out.step()
        left, right = (gain * step / alpha).half(), (gain * branch.step() / alpha).half()
        return self.fire(a * left + b * right + (bias / alpha / self.slots).half())


def clips_per_second(work: Callable[[], Any], clips: int, repeats: int = 5) -> float:
    work()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(repeats):
        work()
    torch.cuda.synchronize()
    return clips * repeats / (time.perf_counter() - begin)


@torch.inference_mode()
def compare(model: Falcon, batch: int) -> dict[str, Any]:
    torch.manual_seed(1)
    x = torch.randn(batch, model.config.tokens, model.config.features, device="cuda")
    network = convert(model)
    delays = dict.fromkeys(model.config.boundaries, 1)
    ordinary = Ordinary(model)
    agreeing = (ordinary.predict(x) == network.predict(x, None, delays)).double().mean()
    ours = clips_per_second(lambda: network.predict(x, None, delays), batch)
    theirs = clips_per_second(lambda: ordinary.predict(x), batch)
    return {
        "gpu": torch.cuda.get_device_name(), "batch": batch, "falcon_clips_per_second": ours,
        "spikingjelly_clips_per_second": theirs, "ratio": ours / theirs,
        "equal_predictions": float(agreeing),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--model", default="medium")
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.checkpoint is None:
        model = Falcon(falcon_config(arguments.model, "gsc")).cuda()
        with torch.no_grad():
            for _ in range(5):  # batch norm needs statistics
                model(torch.randn(256, 98, 64, device="cuda"))
    else:
        model = load_model(arguments.checkpoint)[0].cuda()
    result = compare(model.eval(), arguments.batch)
    if arguments.json:
        print(json.dumps(result, indent=1))
        return
    ours, theirs = result["falcon_clips_per_second"], result["spikingjelly_clips_per_second"]
    print(
        f"{result['gpu']}, batch {result['batch']}: {ours:,.0f} clips/s, SpikingJelly {theirs:,.0f}"
    )
    print(f"{result['ratio']:.1f}x; {result['equal_predictions']:.2%} of the predictions are equal")


if __name__ == "__main__":
    main()
