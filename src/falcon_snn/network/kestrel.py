"""Kestrel, a small residual CNN: few stages and few slots, which is what an analog chip wants.

On the paper's chip width costs tiles, while stages, slots and attention cost time.
"""

from dataclasses import dataclass

from falcon_snn.errors import FalconError
from falcon_snn.network.description import Network
from falcon_snn.network.operations import Fire, FireTerm, Readout, Source
from falcon_snn.network.product import Product, Shape
from falcon_snn.network.samples import Samples
from falcon_snn.network.stage import Stage

SPEECH: Shape = (98, 64, 1)
LONG = 5  # lines of a long kernel; the others have 3
# By name: widths of the blocks, how many of the last have long kernels, channels of encoder and
# stem, slots. The number in a name counts the analog stages, the stem's among them.
SIZES: dict[str, tuple[tuple[int, ...], int, int, int, int]] = {
    "kestrel-5": ((128, 256), 2, 32, 64, 2),
    "kestrel-7": ((128, 256, 256), 1, 32, 64, 2),
    "kestrel-9": ((128, 256, 256, 512), 0, 32, 64, 4),  # the most accurate
    "kestrel-5-small": ((64, 128), 1, 16, 32, 2),  # fits 512 KiB of flash
}


@dataclass(frozen=True)
class KestrelConfig:
    """The sizes of a Kestrel network."""

    name: str
    widths: tuple[int, ...]  # of the blocks; one that is wider than the one before halves the map
    long_blocks: int = 0  # of the last ones, with kernels of 5 lines: they hear more, for tiles
    input: Shape = SPEECH  # lines, pixels, channels; a signal has one pixel a line
    classes: int = 35
    encoder_channels: int = 32
    stem_channels: int = 64
    slots: int = 2
    weight_bits: int = 8
    input_levels: float = 32.0
    input_zero: float = 0.0
    encoding: str = "first"
    dropout: float = 0.2


def kestrel_config(name: str, samples: Samples, *, slots: int | None = None) -> KestrelConfig:
    """The configuration by name, for the samples of a data set; with its own slots unless given."""
    if name not in SIZES:
        raise FalconError(f"unknown network '{name[:40]}'; choose one of {', '.join(SIZES)}")
    widths, long_blocks, encoder, stem, own_slots = SIZES[name]
    return KestrelConfig(
        name.capitalize(), widths, long_blocks, samples.shape, samples.classes, encoder, stem,
        slots=own_slots if slots is None else slots, input_levels=samples.levels,
        input_zero=samples.zero,
    )  # fmt: skip


def kestrel(config: KestrelConfig) -> Network:
    """Encoder, stem, residual blocks fire(conv(fire(conv(x))) + shortcut(x)), classifier."""
    flat = config.input[1] == 1  # one axis: kernels and strides along it alone

    def conv(outputs: int, lines: int, stride: int) -> Product:
        if flat:
            return Product(outputs, (lines, 1), (stride, 1), (lines // 2, 0))
        return Product(outputs, (lines, 3), (stride, stride), (lines // 2, 1))

    encoder = Product(config.encoder_channels, (5, 5), (1, 2), (2, 2))
    if flat:
        encoder = conv(config.encoder_channels, 5, 1)
    stages: list[Stage] = [
        Source("encoder", config.input, encoder, levels=config.input_levels,
               zero=config.input_zero, encoding=config.encoding),
        Fire("stem", (FireTerm("encoder", conv(config.stem_channels, 3, 2)),)),
    ]  # fmt: skip
    before, width = "stem", config.stem_channels
    for number, wide in enumerate(config.widths):
        lines = LONG if number >= len(config.widths) - config.long_blocks else 3
        stride, block = (1 if wide == width else 2), f"block{number}"
        strides = (stride, 1) if flat else (stride, stride)
        shortcut = None if wide == width else Product(wide, stride=strides)
        stages += [
            Fire(f"{block}.first", (FireTerm(before, conv(wide, lines, stride)),)),
            Fire(
                block,
                (FireTerm(f"{block}.first", conv(wide, lines, 1)), FireTerm(before, shortcut)),
            ),
        ]
        before, width = block, wide
    # The mean over time; what is left of the bands stays apart.
    stages.append(Readout("classifier", before, config.classes, (0, 1), dropout=config.dropout))
    return Network(config.name, config.slots, tuple(stages), config.weight_bits)
