"""Falcon (paper, eq. 5 and 6, and "Model Architecture"): the one place where it is written."""

from dataclasses import dataclass, replace

from falcon_snn.errors import FalconError
from falcon_snn.network.description import Network
from falcon_snn.network.operations import Attention, Code, Fire, FireTerm, Readout, Source
from falcon_snn.network.product import Product
from falcon_snn.network.stage import Stage
from falcon_snn.pipeline.schedule import Delays

MODELS = ("tiny", "medium", "large")
DATASETS = ("gsc", "ssc")

# The paper's table of layer-wise firing delays; boundaries that are not listed have delay 1.
PUBLISHED: dict[str, dict[str, Delays]] = {
    "Falcon-Medium GSC": {
        "balanced": {"block0.ffn1": 2, "block2.attn_out": 2, "block2.residual2": 3},
        "accurate": {
            "stem.conv2": 2, "block0.ffn1": 3, "block1.ffn1": 3, "block2.attn_out": 3,
            "block2.residual2": 3,
        },
    },
    "Falcon-Large GSC": {
        "balanced": {"block2.residual1": 2, "block3.ffn1": 2, "block4.residual2": 3},
        "accurate": {
            "block0.ffn1": 2, "block1.ffn1": 2, "block3.ffn1": 2, "block4.ffn1": 2,
            "block2.residual1": 2, "block3.attn_out": 2, "block4.attn_out": 2,
            "stem.conv2": 3, "block2.ffn1": 3, "block4.residual2": 3,
        },
    },
    "Falcon-Medium SSC": {
        "balanced": {"stem.conv1": 3, "stem.conv2": 3, "block2.ffn2": 3},
        "accurate": {
            "block1.residual1": 2, "stem.conv1": 3, "stem.conv2": 3, "block0.ffn1": 3,
            "block2.ffn2": 3, "block2.residual2": 3,
        },
    },
}  # fmt: skip


@dataclass(frozen=True)
class FalconConfig:
    """The sizes of a Falcon network."""

    name: str
    blocks: int
    features: int  # input features per token: 64 mel bands (GSC) or 140 channels (SSC)
    tokens: int  # tokens of a full-length clip: 98 (GSC) or 100 (SSC)
    classes: int = 35
    hidden: int = 160
    heads: int = 5
    ffn: int = 320
    encoder_channels: int = 32
    stem_channels: int = 48
    stem_stride: int = 1  # of the stem along tokens: 2 leaves half of them to the blocks
    slots: int = 7  # T, the spike slots of a stage
    qk_prefix: int | None = None  # p, the slots that Q and K wait for; None means all of them
    weight_bits: int = 8
    input_levels: float = 32.0  # per unit of input: log-mel in 1/32, spike counts as such
    input_zero: float = 0.0
    encoding: str = "first"  # of source spikes: "first" (at once) or "even" (spread)


def falcon_config(
    model: str, dataset: str, *, classes: int = 35, slots: int = 7, qk_prefix: int | None = None
) -> FalconConfig:
    """The configuration by name: `tiny`, `medium` or `large`, for `gsc` or `ssc` input."""
    if model not in MODELS:
        raise FalconError(f"unknown network '{model}'; choose one of {', '.join(MODELS)}")
    if dataset not in DATASETS:
        raise FalconError(f"unknown dataset '{dataset}'; choose one of {', '.join(DATASETS)}")
    features, tokens, levels = {"gsc": (64, 98, 32.0), "ssc": (140, 100, 1.0)}[dataset]
    blocks = {"tiny": 1, "medium": 3, "large": 5}[model]
    config = FalconConfig(
        f"Falcon-{model.capitalize()} {dataset.upper()}", blocks, features, tokens, classes,
        slots=slots, qk_prefix=qk_prefix, input_levels=levels,
        encoding="first" if dataset == "gsc" else "even",  # what won on validation clips
    )  # fmt: skip
    if model != "tiny":
        return config
    return replace(config, hidden=64, heads=2, ffn=128, encoder_channels=8, stem_channels=16)


def falcon(config: FalconConfig) -> Network:
    """Encoder, stem, Transformer blocks, classifier."""
    hidden, wide = Product(config.hidden), config.stem_channels
    if config.features % 4:
        raise FalconError(f"features is {config.features}; it must be a multiple of 4")
    stages: list[Stage] = [
        Source("encoder", (config.tokens, config.features, 1),
               Product(config.encoder_channels, (5, 5), (1, 2), (2, 2)),
               levels=config.input_levels, zero=config.input_zero, encoding=config.encoding),
        _layer("stem.conv1", "encoder", Product(wide, (3, 3), (config.stem_stride, 2), (1, 1))),
        _layer("stem.conv2", "stem.conv1", Product(wide, (3, 3), (1, 1), (1, 1))),
        # All features of a token at once.
        _layer("stem.fc1", "stem.conv2", Product(config.hidden, (1, config.features // 4))),
        _layer("stem.fc2", "stem.fc1", hidden),
    ]  # fmt: skip
    before = "stem.fc2"
    for number in range(config.blocks):
        block, x = f"block{number}", before
        before = f"{block}.residual2"
        stages += [
            Code(f"{block}.q", x, hidden, config.qk_prefix),
            Code(f"{block}.k", x, hidden, config.qk_prefix),
            _layer(f"{block}.v", x, hidden, lookahead=True),
            Attention(f"{block}.context", f"{block}.q", f"{block}.k", f"{block}.v", config.heads),
            _layer(f"{block}.attn_out", f"{block}.context", hidden),
            _residual(f"{block}.residual1", x, f"{block}.attn_out"),
            _layer(f"{block}.ffn1", f"{block}.residual1", Product(config.ffn)),
            _layer(f"{block}.ffn2", f"{block}.ffn1", hidden),
            _residual(before, f"{block}.residual1", f"{block}.ffn2"),
        ]
    stages.append(Readout("classifier", before, config.classes, norm=True))
    return Network(config.name, config.slots, tuple(stages), config.weight_bits)


def _layer(name: str, reads: str, product: Product, *, lookahead: bool = False) -> Fire:
    return Fire(name, (FireTerm(reads, product),), lookahead=lookahead)


def _residual(name: str, one: str, other: str) -> Fire:
    return Fire(name, (FireTerm(one), FireTerm(other)), norm=True)


def architecture(config: FalconConfig) -> dict[str, int]:
    """The rows of the paper's architecture table."""
    network = falcon(config)
    layers = [product for stage in network.stages for _, _, product in stage.products]
    convolutions = sum(product.kernel[0] > 1 for product in layers)
    return {
        "Input-encoder convolutions": 1,
        "Pipelined-stem convolutions": convolutions,
        "Pipelined-stem FC layers": 2,
        "Transformer blocks": config.blocks,
        "Hidden dimension": config.hidden,
        "Attention heads": config.heads,
        "FFN intermediate dimension": config.ffn,
        "Classifier output classes": config.classes,
        "Total convolutional layers": 1 + convolutions,
        "Total FC layers": len(layers) - convolutions + 1,
    }
