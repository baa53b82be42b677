"""The QNN in the integer network's own arithmetic, computed from counts: the converter's witness.

n = clip(floor((initial + T static + factor S) / threshold), 0, T) per stage, with S the product of
integer weights and counts. No slots, no packed spikes, no kernel of the spiking execution. Sums of
integers below 2^24 are exact in float32 in any order, potentials below 2^53 in float64, so any
difference from full lookahead is a fault. Only operations that ONNX has are used: this is what
`falcon-snn export --format onnx` writes.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from falcon_snn.network.integer import IntegerFalcon


def qnn_values(
    network: IntegerFalcon, x: Tensor, lengths: Tensor | None
) -> tuple[dict[str, Tensor], Tensor]:
    """The integers of every stage, and class scores times the number of tokens.

    Features are [clip, token, feature]; the scores are exact integers, as `IntegerFalcon.scores`.
    """
    config, tensors = network.config, network.tensors
    clips, tokens = x.shape[:2]
    values: dict[str, Tensor] = {}
    real = torch.full((clips,), tokens, device=x.device) if lengths is None else lengths
    mask = (torch.arange(tokens, device=x.device) < real[:, None]).float()

    def fire(name: str, total: Tensor, other: Tensor | None = None) -> Tensor:
        n = network.neurons(name)
        level = n.initial.double() + config.slots * n.static.double()
        level = level + n.factor.double() * total.double()
        if other is not None:
            level = level + tensors[f"{name}.factor_b"].double() * other.double()
        values[name] = (level / n.threshold.double()).floor().clamp(0, config.slots).float()
        return values[name]

    def convolve(name: str, value: Tensor, stride: int) -> Tensor:
        weight = tensors[f"{name}.weight"].float().permute(0, 3, 1, 2)
        padding = weight.shape[2] // 2
        y = F.conv2d(value.permute(0, 3, 1, 2), weight, stride=(1, stride), padding=padding)
        return fire(name, y.round().permute(0, 2, 3, 1))

    def product(name: str, value: Tensor) -> Tensor:
        return (value @ tensors[f"{name}.weight"].float().t()).round()

    def code(name: str, value: Tensor) -> Tensor:
        factor, bias = (tensors[f"{name}.{part}"].double() for part in ("factor", "bias"))
        grid = torch.exp2(tensors[f"{name}.shift"].double())
        level = factor * product(name, value).double() + bias
        values[name] = (level / grid).floor().clamp(-127, 127).float()
        return values[name]

    def heads(value: Tensor) -> Tensor:
        return value.view(clips, tokens, config.heads, -1).transpose(1, 2)

    source = (x.float() * config.input_levels).round().clamp(-127, 127) * mask[:, :, None]
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
        levels = _curve(scores, tensors[f"{block}.curve.table"]) * mask[:, None, None, :]
        context = fire(f"{block}.context", (levels @ heads(v)).transpose(1, 2).flatten(2))
        branch = fire(f"{block}.attn_out", product(f"{block}.attn_out", context))
        value = fire(f"{block}.residual1", value, branch)
        hidden = fire(f"{block}.ffn1", product(f"{block}.ffn1", value))
        branch = fire(f"{block}.ffn2", product(f"{block}.ffn2", hidden))
        value = fire(f"{block}.residual2", value, branch)
    pooled = (value * mask[:, :, None]).sum(dim=1).double()
    scores = pooled @ tensors["classifier.weight"].double().t()
    scores = scores + tensors["classifier.bias"].double() * real[:, None]
    return values, scores


def _curve(scores: Tensor, table: Tensor) -> Tensor:
    """Codes of the attention map: how many of a head's 255 rising bounds a score has reached.

    Eight halvings, [clip, head, query, key]; entry c of the table is the least score of code c.
    """
    bounds = table.float()[:, :256]
    head = torch.arange(len(bounds), device=scores.device).view(1, -1, 1, 1) * 256
    code = torch.zeros_like(scores, dtype=torch.int64)
    for step in (128, 64, 32, 16, 8, 4, 2, 1):
        reached = scores >= bounds.flatten()[head + code + step]
        code = code + step * reached.long()
    return code.float()
