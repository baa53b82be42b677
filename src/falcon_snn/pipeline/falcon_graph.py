"""Falcon as a stage graph (paper, eq. 5 and 6, and "Model Architecture")."""

from dataclasses import replace

from falcon_snn.config import FalconConfig
from falcon_snn.pipeline.graph import INPUT, Graph, Stage, layer


def falcon_graph(config: FalconConfig, tokens: int | None = None) -> Graph:
    """The timed core: from the source spikes to the last block's second residual."""
    config.demand_spikes()
    length = config.tokens if tokens is None else tokens
    hidden, channels, features = config.hidden, config.stem_channels, config.features // 4
    stages = [
        *layer("stem.conv1", INPUT, 9 * config.encoder_channels, channels, features * length),
        *layer("stem.conv2", "stem.conv1", 9 * channels, channels, features * length),
        *layer("stem.fc1", "stem.conv2", config.stem_width, hidden, length),
        *layer("stem.fc2", "stem.fc1", hidden, hidden, length),
    ]
    before = "stem.fc2"
    for block in range(config.blocks):
        stages += _block(f"block{block}", before, config, length)
        before = f"block{block}.residual2"
    return Graph(f"Falcon ({config.blocks} blocks, {length} tokens)", config.slots, tuple(stages))


def _block(name: str, before: str, config: FalconConfig, length: int) -> list[Stage]:
    hidden, heads, head_size = config.hidden, config.heads, config.head_size
    stages: list[Stage] = []
    for role in ("q", "k"):
        array, neuron = layer(f"{name}.{role}", before, hidden, hidden, length)
        quantise = replace(neuron, kind="quantise", prefix=config.qk_prefix)
        stages += [array, quantise]
    return [
        *stages,
        *layer(f"{name}.v", before, hidden, hidden, length, lookahead=True),
        Stage(f"{name}.qk", "product", (f"{name}.q", f"{name}.k"),
              rows=length, inner=head_size, columns=length, copies=heads),
        Stage(f"{name}.consmax", "elementwise", (f"{name}.qk",),
              rows=length, columns=length, copies=heads),
        Stage(f"{name}.av", "product", (f"{name}.consmax", f"{name}.v"),
              rows=length, inner=length, columns=head_size, copies=heads),
        Stage(f"{name}.context", "neuron", (f"{name}.av",), full_lookahead=True),
        *layer(f"{name}.attn_out", f"{name}.context", hidden, hidden, length),
        Stage(f"{name}.residual1", "residual", (before, f"{name}.attn_out")),
        *layer(f"{name}.ffn1", f"{name}.residual1", hidden, config.ffn, length),
        *layer(f"{name}.ffn2", f"{name}.ffn1", config.ffn, hidden, length),
        Stage(f"{name}.residual2", "residual", (f"{name}.residual1", f"{name}.ffn2")),
    ]  # fmt: skip
