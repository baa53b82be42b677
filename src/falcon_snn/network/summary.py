"""What a Falcon network is made of, as data: parameters, shapes, stages, the paper's counts."""

from dataclasses import asdict, dataclass
from typing import Any

from torch import nn

from falcon_snn.config import FalconConfig
from falcon_snn.network.model import Block, Conv, Falcon, Linear, parameter_count


@dataclass(frozen=True)
class Stage:
    """One stage: what it computes, what comes out, how it fires."""

    name: str
    operation: str
    shape: tuple[int, ...]  # of a clip of full length, without slots
    firing: str  # "source", "delay" (searchable), "full lookahead", "8-bit code", "scores"
    parameters: int


def summary(config: FalconConfig) -> dict[str, Any]:
    """Parameters, stages and the rows of the paper's architecture table."""
    model = Falcon(config)
    convolutions = sum(isinstance(module, Conv) for module in model.modules())
    linears = sum(isinstance(module, Linear | nn.Linear) for module in model.modules())
    return {
        "parameters": parameter_count(model),
        "config": asdict(config),
        "architecture": {
            "Input-encoder convolutions": 1,
            "Pipelined-stem convolutions": convolutions - 1,
            "Pipelined-stem FC layers": 2,
            "Transformer blocks": config.blocks,
            "Hidden dimension": config.hidden,
            "Attention heads": config.heads,
            "FFN intermediate dimension": config.ffn,
            "Classifier output classes": config.classes,
            "Total convolutional layers": convolutions,
            "Total FC layers": linears,
        },
        "stages": [asdict(stage) for stage in stages(model)],
        "searchable": list(config.boundaries),
    }


def stages(model: Falcon) -> list[Stage]:
    """All stages in network order; their parameters add up to the network's."""
    config = model.config
    tokens, half, quarter = config.tokens, config.features // 2, config.features // 4
    wide, stem = config.stem_channels, model.stem
    rows = [
        _stage("encoder", (tokens, half, config.encoder_channels), "source",
               model.encoder, model.encoder_fire),
        _stage("stem.conv1", (tokens, quarter, wide), "delay", stem.conv1, stem.conv1_fire),
        _stage("stem.conv2", (tokens, quarter, wide), "delay", stem.conv2, stem.conv2_fire),
        _stage("stem.fc1", (tokens, config.hidden), "delay", stem.fc1, stem.fc1_fire),
        _stage("stem.fc2", (tokens, config.hidden), "delay", stem.fc2, stem.fc2_fire),
    ]  # fmt: skip
    for block in model.blocks:
        assert isinstance(block, Block)
        rows += _block_stages(block, tokens)
    classes = config.classes
    classifier = _parameters(model.norm, model.classifier)
    operation = f"batch norm, mean over tokens, fc {config.hidden} -> {classes}"
    return [*rows, Stage("classifier", operation, (classes,), "scores", classifier)]


def _block_stages(block: Block, tokens: int) -> list[Stage]:
    hidden, name = block.attn_out.weight.shape[0], block.name
    ffn = block.ffn1.weight.shape[0]
    attention = f"{block.heads} heads, ConSmax(Q K^T) V"
    context = _parameters(block.consmax, block.context_fire)
    return [
        _stage(f"{name}.q", (tokens, hidden), "8-bit code", block.q, block.q_code),
        _stage(f"{name}.k", (tokens, hidden), "8-bit code", block.k, block.k_code),
        _stage(f"{name}.v", (tokens, hidden), "full lookahead", block.v, block.v_fire),
        Stage(f"{name}.context", attention, (tokens, hidden), "full lookahead", context),
        _stage(f"{name}.attn_out", (tokens, hidden), "delay", block.attn_out, block.attn_out_fire),
        Stage(f"{name}.residual1", "add, batch norm", (tokens, hidden), "delay",
              _parameters(block.norm1, block.residual1_fire)),
        _stage(f"{name}.ffn1", (tokens, ffn), "delay", block.ffn1, block.ffn1_fire),
        _stage(f"{name}.ffn2", (tokens, hidden), "delay", block.ffn2, block.ffn2_fire),
        Stage(f"{name}.residual2", "add, batch norm", (tokens, hidden), "delay",
              _parameters(block.norm2, block.residual2_fire)),
    ]  # fmt: skip


def _stage(
    name: str, shape: tuple[int, ...], firing: str, layer: Linear | Conv, fire: nn.Module
) -> Stage:
    outputs, inputs, *kernel = layer.weight.shape
    if isinstance(layer, Conv):
        stride = f", stride ({layer.stride},1)" if layer.stride > 1 else ""
        operation = f"conv {kernel[0]}x{kernel[1]}, {inputs} -> {outputs}{stride}"
    else:
        operation = f"fc {inputs} -> {outputs}"
    return Stage(name, operation, shape, firing, _parameters(layer, fire))


def _parameters(*modules: nn.Module) -> int:
    return sum(parameter_count(module) for module in modules)
