"""The QNN in the integer network's own arithmetic, computed from counts: the converter's witness.

n = clip(floor((initial + T static + factor S) / threshold), 0, T) per stage, with S the product of
integer weights and counts. No slots, no packed spikes, no kernel of the spiking execution: float64
products of small integers are exact, so any difference from full lookahead is a fault.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from falcon_snn.network.integer import IntegerFalcon


def qnn_values(
    network: IntegerFalcon, x: Tensor, lengths: Tensor | None
) -> tuple[dict[str, Tensor], Tensor]:
    """The integers of every stage and the predictions, for features [clip, token, feature]."""
    config, tensors = network.config, network.tensors
    clips, tokens = x.shape[:2]
    values: dict[str, Tensor] = {}
    real = torch.full((clips,), tokens, device=x.device) if lengths is None else lengths
    mask = (torch.arange(tokens, device=x.device) < real[:, None]).double()

    def fire(name: str, total: Tensor) -> Tensor:
        n = network.neurons(name)
        level = n.initial.double() + config.slots * n.static.double() + n.factor.double() * total
        values[name] = (level / n.threshold.double()).floor().clamp(0, config.slots)
        return values[name]

    def convolve(name: str, value: Tensor, stride: int) -> Tensor:
        weight = tensors[f"{name}.weight"].double().permute(0, 3, 1, 2)
        padding = weight.shape[2] // 2
        y = F.conv2d(value.permute(0, 3, 1, 2), weight, stride=(1, stride), padding=padding)
        return fire(name, y.round().permute(0, 2, 3, 1))

    def product(name: str, value: Tensor) -> Tensor:
        return value @ tensors[f"{name}.weight"].double().t()

    def code(name: str, value: Tensor) -> Tensor:
        level = tensors[f"{name}.factor"] * product(name, value) + tensors[f"{name}.bias"]
        grid = torch.exp2(tensors[f"{name}.shift"].double())
        values[name] = (level / grid).floor().clamp(-127, 127)
        return values[name]

    def heads(value: Tensor) -> Tensor:
        return value.view(clips, tokens, config.heads, -1).transpose(1, 2)

    source = (x.double() * config.input_levels).round().clamp(-127, 127) * mask[:, :, None]
    silent = mask[:, :, None, None]
    value = values["encoder"] = convolve("encoder", source[..., None], 2) * silent
    value = values["stem.conv1"] = convolve("stem.conv1", value, 2) * silent
    value = convolve("stem.conv2", value, 1).flatten(2)
    for name in ("stem.fc1", "stem.fc2"):
        value = fire(name, product(name, value))
    for number in range(config.blocks):
        block = f"block{number}"
        scores = heads(code(f"{block}.q", value)) @ heads(code(f"{block}.k", value)).mT
        v = fire(f"{block}.v", product(f"{block}.v", value))
        levels = torch.stack(
            [
                torch.bucketize(
                    scores[:, h].contiguous(), tensors[f"{block}.curve.table"][h, 1:256].double(),
                    right=True,
                )
                for h in range(config.heads)
            ], dim=1,
        ).double() * mask[:, None, None, :]  # fmt: skip
        context = fire(f"{block}.context", (levels @ heads(v)).transpose(1, 2).flatten(2))
        branch = fire(f"{block}.attn_out", product(f"{block}.attn_out", context))
        value = _residual(network, f"{block}.residual1", value, branch, values)
        hidden = fire(f"{block}.ffn1", product(f"{block}.ffn1", value))
        branch = fire(f"{block}.ffn2", product(f"{block}.ffn2", hidden))
        value = _residual(network, f"{block}.residual2", value, branch, values)
    pooled = (value * mask[:, :, None]).sum(dim=1)
    scores = pooled @ tensors["classifier.weight"].double().t()
    scores = scores + tensors["classifier.bias"].double() * real[:, None]
    return values, scores.argmax(dim=1)


def _residual(
    network: IntegerFalcon, name: str, a: Tensor, b: Tensor, values: dict[str, Tensor]
) -> Tensor:
    n, slots = network.neurons(name), network.config.slots
    level = n.initial.double() + slots * n.static.double() + n.factor.double() * a
    level = level + network.tensors[f"{name}.factor_b"].double() * b
    values[name] = (level / n.threshold.double()).floor().clamp(0, slots)
    return values[name]
