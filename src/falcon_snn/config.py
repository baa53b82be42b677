"""What a Falcon network is made of: the numbers that graph, network, search and report share."""

from dataclasses import dataclass

from falcon_snn.errors import FalconError

MODELS = ("tiny", "medium", "large")
DATASETS = ("gsc", "ssc")


@dataclass(frozen=True)
class FalconConfig:
    """The shape of a Falcon network (paper, appendix "Model Architecture")."""

    blocks: int
    features: int  # input features per token: 64 mel bands (GSC) or 140 channels (SSC)
    tokens: int  # tokens of a full-length clip: 98 (GSC) or 100 (SSC)
    classes: int = 35
    hidden: int = 160
    heads: int = 5
    ffn: int = 320
    encoder_channels: int = 32
    stem_channels: int = 48
    slots: int = 7  # T, the spike slots of a stage
    qk_prefix: int | None = None  # p, the slots that Q and K wait for; None means all of them
    weight_bits: int = 8
    input_levels: int = (
        32  # integer levels per unit of input: log-mel in 1/32, spike counts as such
    )

    def __post_init__(self) -> None:
        if not 1 <= self.slots <= 255:
            raise FalconError(f"slots is {self.slots}; it must lie in 1..8 (a QNN: 1..255)")
        if self.qk_prefix is not None and not 1 <= self.qk_prefix <= self.slots:
            raise FalconError(f"Q/K prefix is {self.qk_prefix}; it must lie in 1..{self.slots}")
        if self.hidden % self.heads:
            raise FalconError(f"hidden size {self.hidden} is not a multiple of {self.heads} heads")
        if self.features % 4:
            raise FalconError(f"features is {self.features}; it must be a multiple of 4")
        if not 2 <= self.weight_bits <= 8:
            raise FalconError(f"weight bits is {self.weight_bits}; it must lie in 2..8")

    def demand_spikes(self) -> None:
        """Spikes are packed into bytes: an SNN has up to 8 slots; a QNN may have more levels."""
        if self.slots > 8:
            raise FalconError(
                f"slots is {self.slots}; a spiking network has 1..8 (`falcon-snn train --slots T "
                "--init CHECKPOINT` makes one from a QNN of more levels)"
            )

    @property
    def prefix(self) -> int:
        """The Q/K prefix p in slots."""
        return self.slots if self.qk_prefix is None else self.qk_prefix

    @property
    def head_size(self) -> int:
        return self.hidden // self.heads

    @property
    def stem_width(self) -> int:
        """Inputs of `stem.fc1`: the feature axis is halved by the encoder and by `stem.conv1`."""
        return self.stem_channels * self.features // 4

    @property
    def boundaries(self) -> tuple[str, ...]:
        """The searchable boundaries, in network order."""
        return boundaries(self.blocks)


def boundaries(blocks: int) -> tuple[str, ...]:
    """Names of the searchable IF stages: four in the stem, five in each block."""
    stem = ("stem.conv1", "stem.conv2", "stem.fc1", "stem.fc2")
    kinds = ("attn_out", "residual1", "ffn1", "ffn2", "residual2")
    return stem + tuple(f"block{block}.{kind}" for block in range(blocks) for kind in kinds)


def falcon_config(
    model: str, dataset: str, *, classes: int = 35, slots: int = 7, qk_prefix: int | None = None
) -> FalconConfig:
    """The configuration with a name: `tiny`, `medium` or `large`, for `gsc` or `ssc` input."""
    if model not in MODELS:
        raise FalconError(f"unknown model '{model}'; choose one of {', '.join(MODELS)}")
    if dataset not in DATASETS:
        raise FalconError(f"unknown dataset '{dataset}'; choose one of {', '.join(DATASETS)}")
    features, tokens, input_levels = {"gsc": (64, 98, 32), "ssc": (140, 100, 1)}[dataset]
    if model == "tiny":
        return FalconConfig(
            blocks=1, features=features, tokens=tokens, classes=classes, hidden=64, heads=2,
            ffn=128, encoder_channels=8, stem_channels=16, slots=slots, qk_prefix=qk_prefix,
            input_levels=input_levels,
        )  # fmt: skip
    blocks = {"medium": 3, "large": 5}[model]
    return FalconConfig(
        blocks=blocks, features=features, tokens=tokens, classes=classes, slots=slots,
        qk_prefix=qk_prefix, input_levels=input_levels,
    )  # fmt: skip


def names_of(config: FalconConfig) -> tuple[str, str]:
    """The names of a configuration: model ('custom' if it has none) and kind of input."""
    dataset = "ssc" if config.features == 140 else "gsc"
    return {1: "tiny", 3: "medium", 5: "large"}.get(config.blocks, "custom"), dataset
