"""Kestrel, a small residual CNN: few stages and few slots, which is what an analog chip wants.

On the paper's chip width costs tiles, while stages, slots and attention cost time.
"""

from dataclasses import dataclass

from falcon_snn.errors import FalconError
from falcon_snn.network.description import Network
from falcon_snn.network.operations import Fire, Readout, Source, Term
from falcon_snn.network.product import Product
from falcon_snn.network.stage import Stage

# Widths of the blocks by name; the number counts the analog stages, the stem's among them.
SIZES = {
    "kestrel-5": (128, 256),
    "kestrel-7": (64, 128, 256),
    "kestrel-9": (64, 128, 128, 320),
}


@dataclass(frozen=True)
class KestrelConfig:
    """The sizes of a Kestrel network."""

    name: str
    widths: tuple[int, ...]  # of the blocks; one that is wider than the one before halves the map
    lines: int = 98
    pixels: int = 64
    classes: int = 35
    encoder_channels: int = 32
    stem_channels: int = 64
    slots: int = 2
    weight_bits: int = 8
    input_levels: float = 32.0
    encoding: str = "first"
    dropout: float = 0.2


def kestrel_config(
    name: str, *, lines: int = 98, pixels: int = 64, classes: int = 35, slots: int = 2,
    input_levels: float = 32.0,
) -> KestrelConfig:  # fmt: skip
    """The configuration with a name, for inputs of so many lines and pixels."""
    if name not in SIZES:
        raise FalconError(f"unknown network '{name[:40]}'; choose one of {', '.join(SIZES)}")
    return KestrelConfig(
        name.capitalize(), SIZES[name], lines, pixels, classes, slots=slots,
        input_levels=input_levels,
    )  # fmt: skip


def kestrel(config: KestrelConfig) -> Network:
    """Encoder, stem, residual blocks fire(conv(fire(conv(x))) + shortcut(x)), classifier."""
    encoder = Product(config.encoder_channels, (5, 5), (1, 2), (2, 2))
    stages: list[Stage] = [
        Source("encoder", (config.lines, config.pixels, 1), encoder, levels=config.input_levels,
               encoding=config.encoding),
        Fire("stem", (Term("encoder", _conv(config.stem_channels, 2)),)),
    ]  # fmt: skip
    before, width = "stem", config.stem_channels
    for number, wide in enumerate(config.widths):
        stride, block = (1 if wide == width else 2), f"block{number}"
        shortcut = None if wide == width else Product(wide, stride=(stride, stride))
        stages += [
            Fire(f"{block}.first", (Term(before, _conv(wide, stride)),)),
            Fire(block, (Term(f"{block}.first", _conv(wide, 1)), Term(before, shortcut))),
        ]
        before, width = block, wide
    # The mean over time; what is left of the bands stays apart.
    stages.append(Readout("classifier", before, config.classes, (0, 1), dropout=config.dropout))
    return Network(config.name, config.slots, tuple(stages), config.weight_bits)


def _conv(outputs: int, stride: int) -> Product:
    return Product(outputs, (3, 3), (stride, stride), (1, 1))
