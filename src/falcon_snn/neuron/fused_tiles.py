"""Tile sizes of the fused kernels and how they are launched, by a layer's geometry.

Those of products that keep their weights are the fastest of many measured on an H200; the others
have been measured in one shape.
"""

from falcon_snn.errors import FalconError
from falcon_snn.neuron.analog_cells import CHIP_TILE

_MOST_INPUTS = 12_000  # of a product: 16 outputs' weights fill the shared memory of a processor
_KEPT_INPUTS = 1024  # packed inputs of a row that fit the registers
GROUPED_ROWS = 128  # of a program that lays out the inputs of row groups, a multiple of a tile's
GROUPS_EACH = 8  # row groups of such a program
CHUNK = 32  # bytes per step of the int8 product, the smallest that the tensor cores take


def product_tile(inputs: int, outputs: int) -> dict[str, int]:
    """Of a product that keeps its weights.

    64 outputs at once feed the tensor cores best, but not where the last tile would be half
    empty; then 32 leave room for more programs. STAGES is how many tiles of rows ahead a program
    loads; fewer registers let a third program run beside two. Rows of very many inputs are read
    again for every slot, by twice as many warps.
    """
    if inputs > _MOST_INPUTS:
        raise FalconError(
            f"a layer of {inputs:,} inputs; 'triton' takes up to {_MOST_INPUTS:,} (use torch)"
        )
    tile = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 128, "num_warps": 4, "maxnreg": 255}
    tile |= {"KEPT": inputs <= _KEPT_INPUTS, "STAGES": 1}
    if (outputs > 64 and outputs % 64) or inputs > _MOST_INPUTS // 4:
        tile["BLOCK_N"] = 32 if inputs <= _MOST_INPUTS // 2 else 16
        tile["BLOCK_K"] = 128 if inputs < 256 else 256
        tile["STAGES"] = 3 if inputs < 512 else 2 if inputs <= _KEPT_INPUTS else 1
        return tile
    if inputs < 256:
        return tile | {"STAGES": 3}
    if inputs < 384:
        return tile | {"maxnreg": 168}
    if outputs % 64:
        return tile
    if inputs <= _KEPT_INPUTS:
        return tile | {"STAGES": 2}
    if inputs <= 2 * _KEPT_INPUTS:
        return tile | {"BLOCK_K": 256, "KEPT": inputs <= 1280}
    return tile | {"BLOCK_M": 128, "BLOCK_K": 256, "num_warps": 8}


def spiking_tile(inputs: int, outputs: int, *, alone: bool = True) -> dict[str, int]:
    """The same for a product of spikes, whose programs take their outputs in pieces.

    More outputs at once unpack the spikes less often: 64, since a last tile of fewer pieces is not
    half empty, and 80 where few packed inputs, and no second stream, leave the registers for them.
    """
    tile = product_tile(inputs, outputs)
    if tile["BLOCK_N"] < 64 and inputs <= _KEPT_INPUTS:
        few = inputs < 256
        width = 80 if few and alone and outputs % 80 == 0 else 64
        tile |= {"BLOCK_N": width, "BLOCK_K": 128, "STAGES": 3 if few else 2}
    return tile


def pieces(outputs: int) -> tuple[int, ...]:
    """64s and a last power of two that hold these outputs; only the last has room.

    48 are 64, too: 32 and 16 take less of the tensor cores and more time.
    """
    last = tail(outputs, 64, 16)
    return (64,) * (outputs // 64) + ((last,) if last else ())


def wide_tile(inputs: int, products: int, *, two: bool) -> dict[str, int] | None:
    """Tile sizes of a product that streams its inputs; None: keeping the weights is faster.

    It has a sum per product, and a second one where two products meet, all in registers.
    """
    sums = products * (1 + two)
    if inputs <= _KEPT_INPUTS or sums > 4:
        return None
    if sums > 2:  # few rows, so that three programs share a processor
        tile = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 128, "STAGES": 4}
        return tile | {"num_warps": 4, "maxnreg": 168}
    tile = {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 128, "STAGES": 4}
    return tile | {"num_warps": 8, "maxnreg": 128}


def residual_tile() -> dict[str, int]:
    """Rows and channels of a program that adds two streams: 16 neurons a thread."""
    return {"BLOCK_M": 64, "BLOCK_N": 32, "num_warps": 4}


def encode_tile(taps: int, outputs: int) -> dict[str, int]:
    """Tile sizes of the encoder, whose kernel often has fewer taps than a chunk."""
    tile = product_tile(taps, outputs)
    tile["BLOCK_N"] = min(tile["BLOCK_N"], max(16, 1 << (outputs - 1).bit_length()))
    tile["BLOCK_K"] = min(tile["BLOCK_K"], max(CHUNK, 1 << (taps - 1).bit_length()))
    return {name: tile[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps")}


def attention_tile(tokens: int) -> dict[str, int]:
    """Queries of a program of attention, and keys at a time: few, for they take registers."""
    queries = 64 if tokens > 32 else 32
    return {"BLOCK_Q": queries, "BLOCK_T": 64 if tokens > 32 else 32, "num_warps": 4}


def chip_tile(passes: int, pieces: int) -> dict[str, int]:
    """Rows and pieces of outputs of a program of a layer on a chip, and how it is launched.

    It has a code for each of them in every pass, all in registers. Two warps: four would have to
    wait for each other at every product. With three stages the next row groups are on their way
    while two are converted.
    """
    most = max(1, 8 // passes)
    wide = max(size for size in range(1, most + 1) if pieces % size == 0)
    return {"BLOCK_M": 32, "PIECES": wide, "STAGES": 3, "num_warps": 2, "maxnreg": 168}


def firing_tile(outputs: int) -> dict[str, int]:
    """Neurons of a program that fires on currents: few a thread, so that many loads are under way.

    None is masked where 16 divides the outputs.
    """
    width = 16 if outputs % 32 else 32
    return {"BLOCK_M": 512 // width, "BLOCK_N": width, "num_warps": 4}


def exact_tile(outputs: int) -> dict[str, int]:
    """The same without converters."""
    narrow = {"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 32, "num_warps": 4}
    return narrow if outputs <= 32 else narrow | {"BLOCK_N": CHIP_TILE}


def one_each(tile: dict[str, int], rows: int, outputs: int) -> tuple[int]:
    """The grid of a program for each tile of rows and outputs."""
    return (-(-outputs // tile["BLOCK_N"]) * -(-rows // tile["BLOCK_M"]),)


def shared(tile: dict[str, int], rows: int, outputs: int) -> tuple[int]:
    """The grid of programs that share the tiles of rows, so that each loads its weights once."""
    across, row_tiles = -(-outputs // tile["BLOCK_N"]), -(-rows // tile["BLOCK_M"])
    return (across * min(row_tiles, max(512, 1024 // across)),)


def tail(size: int, block: int, smallest: int) -> int:
    """The last tile: a power of two that holds what whole tiles leave."""
    return max(smallest, 1 << (size % block - 1).bit_length()) if size % block else 0
