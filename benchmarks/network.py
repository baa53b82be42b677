"""Whole networks at delay 1: integer spikes against the ordinary way with SpikingJelly.

The ordinary network has the same parameters in fp16: float currents by torch's products, batch norm
folded, SpikingJelly's multi-step IF on its own fastest path, attention by torch. Same clips, same
batch, same run; predictions agree up to rounding.

    python benchmarks/network.py [--checkpoint C] [--networks medium,kestrel-7] [--json]
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

from falcon_snn.network.convert import Conversion, convert
from falcon_snn.network.fixed_point import Folded
from falcon_snn.network.operations import Attention, Code, Fire, Readout, Source
from falcon_snn.network.product import SUFFIXES
from falcon_snn.network.qnn import Counting, Qnn
from falcon_snn.neuron.encoding import encoding_table
from falcon_snn.training.checkpoint import load_model
from falcon_snn.workflow.networks import built_in


class Ordinary:
    """A network at delay 1 as people write spiking networks today; tensors are [T, clip, ...]."""

    def __init__(self, model: Qnn) -> None:
        from spikingjelly.activation_based import functional, neuron

        self.model, self.network, self.slots = model, model.network, model.network.slots
        self.node = neuron.IFNode(v_threshold=1.0, v_reset=None, step_mode="m").cuda().eval()
        self.reset: Callable[[], None] = lambda: functional.reset_net(self.node)
        table = encoding_table(self.slots, self.network.source.encoding)
        bits = [[(byte >> slot) & 1 for byte in table] for slot in range(self.slots)]
        self.trains = torch.tensor(bits, device="cuda").half()
        self.folded: dict[str, tuple[Tensor, Tensor]] = {}
        conversion = Conversion(model)
        for stage in self.network.stages:
            part = model.part(stage.name)
            for suffix, read, _ in stage.products:
                alpha = part.code.step() if isinstance(stage, Code) else part.fire.step()
                weights = conversion.folded(getattr(part, f"weights{suffix}"))
                self.folded[stage.name + suffix] = self.fold(weights, read, alpha)

    def step(self, name: str) -> Tensor:
        step: Tensor = self.model.part(name).fire.step()
        return step

    def fold(self, weights: Folded, read: str, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """Weights and bias of x / alpha for inputs in spikes, [outputs, inputs, kernel, kernel]."""
        gain = weights.gain * self.step(read) / alpha
        scaled = weights.codes * gain.view(-1, 1, 1, 1)
        last = scaled.permute(0, 3, 1, 2).half().contiguous(memory_format=torch.channels_last)
        return last, (weights.bias / alpha).half()

    def product(self, name: str, x: Tensor, product: Any, share: int) -> Tensor:
        """Currents of spikes [..., line, pixel, channel]; a slot adds its share of the bias."""
        weight, bias = self.folded[name]
        if product.kernel == (1, x.shape[-2]) and product.stride[0] == 1:
            flat = F.linear(x.flatten(-2), weight.permute(0, 2, 3, 1).flatten(1), bias / share)
            return flat.unsqueeze(-2)
        image = x.flatten(0, -4).permute(0, 3, 1, 2)
        y = F.conv2d(image, weight, bias / share, product.stride, product.padding)
        y = y.permute(0, 2, 3, 1)
        return y.reshape(*x.shape[:-3], *y.shape[1:])

    def fire(self, currents: Tensor, *, lookahead: bool = False) -> Tensor:
        if lookahead:  # all current in the first slot
            remapped = torch.zeros_like(currents)
            remapped[0] = currents.sum(dim=0)
            currents = remapped
        currents[0] += 0.5
        self.reset()
        return self.node(currents)

    def predict(self, x: Tensor) -> Tensor:
        spikes: dict[str, Tensor] = {}
        for stage in self.network.stages:
            part = self.model.part(stage.name)
            if isinstance(stage, Source):
                count = stage.count(part, Counting(self.model, x, None))
                spikes[stage.name] = self.trains[:, count.long()]
            elif isinstance(stage, Fire):
                spikes[stage.name] = self.sum(stage, part, spikes)
            elif isinstance(stage, Code):
                total = spikes[stage.source].sum(dim=0)
                code = self.product(stage.name, total[None], stage.product, 1)[0]
                spikes[stage.name] = code.round().clamp(-127, 127)
            elif isinstance(stage, Attention):
                spikes[stage.name] = self.attend(stage, part, spikes)
        readout = self.network.readout
        assert isinstance(readout, Readout)
        decoded = self.step(readout.source) * spikes[readout.source].float().sum(dim=0)
        run = Counting(self.model, x, None)
        return readout._scores(self.model.part(readout.name), decoded, run).argmax(dim=1)

    def sum(self, stage: Fire, part: Any, spikes: dict[str, Tensor]) -> Tensor:
        current: Any = 0
        for suffix, term in zip(SUFFIXES, stage.terms, strict=False):
            x = spikes[term.reads]
            if term.product is not None:
                current = current + self.product(stage.name + suffix, x, term.product, self.slots)
            else:
                current = current + x * (self.step(term.reads) / part.fire.step()).half()
        if part.norm is not None:
            scale, shift = part.norm.scaling()
            current = current * scale.half() + (shift / part.fire.step() / self.slots).half()
        return self.fire(current, lookahead=stage.lookahead)

    def attend(self, stage: Attention, part: Any, spikes: dict[str, Tensor]) -> Tensor:
        q, k = spikes[stage.q].float(), spikes[stage.k].float()
        v = spikes[stage.v].float().sum(dim=0) * self.step(stage.v)

        def heads(y: Tensor) -> Tensor:
            return y.view(*y.shape[:2], stage.heads, -1).transpose(1, 2)

        size = q.shape[-1] // stage.heads
        steps = [self.model.part(name).code.step() for name in (stage.q, stage.k)]
        scores = (heads(q) @ heads(k).mT) * (steps[0] * steps[1] / size**0.5)
        codes = part.consmax(scores, torch.ones((), device=scores.device)) * part.consmax.step()
        mixed = (codes @ heads(v)).transpose(1, 2).flatten(2) / part.fire.step()
        currents = torch.zeros_like(spikes[stage.v])
        currents[0] = mixed.unsqueeze(2).half()
        return self.fire(currents)


def clips_per_second(work: Callable[[], Any], clips: int, repeats: int = 5) -> float:
    def wait() -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    work()
    wait()
    begin = time.perf_counter()
    for _ in range(repeats):
        work()
    wait()
    return clips * repeats / (time.perf_counter() - begin)


@torch.inference_mode()
def compare(model: Qnn, batch: int) -> dict[str, Any]:
    torch.manual_seed(1)
    network = model.network
    x = torch.randn(batch, *network.source.input, device="cuda")
    snn, delays, ordinary = convert(model), dict.fromkeys(network.boundaries, 1), Ordinary(model)
    agreeing = (ordinary.predict(x) == snn.predict(x, None, delays)).double().mean()
    ours = clips_per_second(lambda: snn.predict(x, None, delays), batch)
    theirs = clips_per_second(lambda: ordinary.predict(x), batch)
    return {
        "network": network.name, "slots": network.slots, "gpu": torch.cuda.get_device_name(),
        "batch": batch, "falcon_clips_per_second": ours, "spikingjelly_clips_per_second": theirs,
        "ratio": ours / theirs, "equal_predictions": float(agreeing),
    }  # fmt: skip


def untrained(name: str) -> Qnn:
    model = Qnn(built_in(name)).cuda()
    with torch.no_grad():
        for _ in range(5):  # batch norm needs statistics
            model(torch.randn(256, 98, 64, device="cuda"))
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--networks", default="medium,kestrel-7")
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.checkpoint is None:
        models = [untrained(name) for name in arguments.networks.split(",")]
    else:
        models = [load_model(arguments.checkpoint)[0].cuda()]
    for model in models:
        result = compare(model.eval(), arguments.batch)
        if arguments.json:
            print(json.dumps(result))
            continue
        ours, theirs = result["falcon_clips_per_second"], result["spikingjelly_clips_per_second"]
        print(
            f"{result['network']}, T = {result['slots']}, {result['gpu']}, batch {arguments.batch}"
        )
        print(f"  {ours:,.0f} clips/s, SpikingJelly {theirs:,.0f}: {result['ratio']:.1f}x; "
              f"{result['equal_predictions']:.2%} of the predictions are equal")  # fmt: skip


if __name__ == "__main__":
    main()
