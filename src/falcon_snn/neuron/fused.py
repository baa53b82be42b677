"""Launching the fused Triton kernels; `layers` calls these for backend `triton`."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from falcon_snn.errors import FalconError
from falcon_snn.neuron import fused_kernels as kernels
from falcon_snn.neuron.fused_chip import chip_product, fire_currents
from falcon_snn.neuron.fused_product import spiking_matmul
from falcon_snn.neuron.layers_torch import LARGEST_INPUT, added, chip_currents, codes_of
from falcon_snn.neuron.packed import encoding_tensor

if TYPE_CHECKING:
    from falcon_snn.neuron.layers import AttentionCurve, IntegerNeurons, Pair, Term

_MOST_INPUTS = 12_000  # of a product: 16 outputs' weights fill the shared memory of a processor
_KEPT_INPUTS = 1024  # packed inputs of a row that fit the registers
_CHUNK = 32  # bytes per step of the int8 product, the smallest that the tensor cores take


def _require_gpu(tensor: Tensor) -> bool:
    """True on a GPU; False under Triton's interpreter, which stands in for one in tests."""
    if tensor.device.type == "cuda":
        return True
    if os.environ.get("TRITON_INTERPRET") == "1":
        return False
    raise FalconError(
        f"backend 'triton' needs a GPU; the input is on '{tensor.device}' (use backend numba)"
    )


def _tile(inputs: int, outputs: int) -> dict[str, int]:
    """Tile sizes of a product and how it is launched; the fastest of those measured on an H200.

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


def _excess(groups: int) -> int:
    """What adding up the bits of floats near 1.5 * 2^23 adds too much, negative, as an int32."""
    wrapped = -groups * 0x4B400000 % (1 << 32)
    return wrapped - (1 << 32) if wrapped >= 1 << 31 else wrapped


def _chip_tile(outputs: int) -> dict[str, int]:
    """Tile sizes of a layer on a chip and how it is launched."""
    wide = 64 if outputs > 32 else 32
    return {"BLOCK_M": 64, "BLOCK_N": wide, "num_warps": 4, "maxnreg": 128}


def _tail(size: int, block: int, smallest: int) -> int:
    """The last tile: a power of two that holds what whole tiles leave."""
    return max(smallest, 1 << (size % block - 1).bit_length()) if size % block else 0


class Patches(NamedTuple):
    """Where the rows of a buffer lie, in bytes, and what a row reads; constants of a kernel."""

    clip: int  # from one clip to the next, likewise lines and pixels of the output
    line: int
    pixel: int
    start: int  # of the first row
    inputs: int = 0  # of a row
    run: int = 1  # inputs side by side
    jump: int = 1  # from one run to the next


def _patches(term: "Term", *, flat: bool) -> Patches:
    """Of a term's input; flat rows follow each other, as if each were a clip."""
    outputs, *kernel, _ = (0, 0, 0, 0) if term.weight is None else term.weight.shape
    lines, pixels, channels = term.packed.shape[1:]
    inputs = kernel[0] * kernel[1] * channels
    if flat:
        return Patches(inputs if outputs else channels, 0, 0, 0, inputs, max(inputs, 1), inputs)
    line = pixels * channels
    skip = [border - pad for border, pad in zip(term.border, term.padding, strict=True)]
    return Patches(
        lines * line, term.stride[0] * line, term.stride[1] * channels,
        skip[0] * line + skip[1] * channels, inputs, max(kernel[1] * channels, 1), line,
    )  # fmt: skip


def _output(
    shape: tuple[int, int, int, int], border: "Pair", device: torch.device, *, flat: bool = False
) -> tuple[Tensor, Patches]:
    """Room for packed spikes, its border silent, and where rows lie in it."""
    clips, lines, pixels, outputs = shape
    lines, pixels = lines + 2 * border[0], pixels + 2 * border[1]
    make = torch.empty if border == (0, 0) else torch.zeros
    out = make((clips, lines, pixels, outputs), dtype=torch.uint8, device=device)
    if flat:
        return out, Patches(outputs, 0, 0, 0)
    line = pixels * outputs
    start = border[0] * line + border[1] * outputs
    return out, Patches(lines * line, line, outputs, start)


def fire(
    terms: Sequence["Term"], neurons: "IntegerNeurons", slots: int, delay: int, border: "Pair"
) -> Tensor:
    on_gpu = _require_gpu(terms[0].packed)
    if any(term.chip for term in terms):
        return _fire_on_chip(terms, neurons, slots, delay, border)
    shape = terms[0].shape
    rows, outputs = shape[0] * shape[1] * shape[2], shape[3]
    flat = border == (0, 0) and all(term.flat for term in terms)
    out, places = _output(shape, border, terms[0].packed.device, flat=flat)
    geometry = {"MAP": (1, 1) if flat else shape[1:3], "OUT": places, "SLOTS": slots}
    first, *others = sorted(terms, key=lambda term: term.weight is None)
    x, patches = first.packed.contiguous(), _patches(first, flat=flat)
    constants = (neurons.static, neurons.initial, neurons.threshold, rows)
    if first.weight is None:
        # A single stream is added twice, the second time with factor 0.
        b = others[0] if others else replace(first, factor=torch.zeros_like(first.factor))
        kernels.residual[(-(-outputs // 32) * -(-rows // 128),)](
            x, b.packed.contiguous(), out, first.factor, b.factor, *constants, outputs,
            A=patches, B=_patches(b, flat=flat), DELAY=delay, BLOCK_M=128, BLOCK_N=32, **geometry,
        )  # fmt: skip
        return out
    extra, extra_weight, extra_factor, extra_patches = None, None, None, Patches(0, 0, 0, 0)
    if others:
        extra, extra_factor = others[0].packed.contiguous(), others[0].factor
        extra_patches = _patches(others[0], flat=flat)
        extra_weight = None if others[0].weight is None else others[0].weight.contiguous()
    tile = _tile(patches.inputs + extra_patches.inputs, outputs)
    across, row_tiles = -(-outputs // tile["BLOCK_N"]), -(-rows // tile["BLOCK_M"])
    # Programs share the tiles of rows, so that each loads its weights once.
    programs = min(row_tiles, max(512, 1024 // across))
    spiking_matmul[(across * programs,)](
        x, first.weight.contiguous(), extra, extra_weight, out, first.factor, extra_factor,
        *constants, IN=patches, EXTRA_IN=extra_patches,
        EXTRA=(extra is not None) + (extra_weight is not None), OUTPUTS=outputs, DELAY=delay,
        ASM=on_gpu, TAIL_N=_tail(outputs, tile["BLOCK_N"], 16),
        TAIL_K=_tail(patches.inputs, tile["BLOCK_K"], _CHUNK),
        EXTRA_TAIL_K=_tail(extra_patches.inputs, tile["BLOCK_K"], _CHUNK), **geometry, **tile,
    )  # fmt: skip
    return out


def _fire_on_chip(
    terms: Sequence["Term"], neurons: "IntegerNeurons", slots: int, delay: int, border: "Pair"
) -> Tensor:
    currents = added([_chip_currents(term, slots) for term in terms], full=delay == slots)
    shape = terms[0].shape
    out, places = _output(shape, border, currents.device)
    rows, outputs = currents.shape[1:]
    fire_currents[(-(-outputs // 32) * -(-rows // 64),)](
        currents, out, neurons.static, neurons.initial, neurons.threshold, rows, outputs,
        LARGEST_INPUT if delay == slots else LARGEST_INPUT // slots,
        *shape[1:3], *places[:4], SLOTS=slots, DELAY=delay, BLOCK_M=64, BLOCK_N=32,
    )  # fmt: skip
    return out


def _chip_currents(term: "Term", first: int) -> Tensor:
    """What a term adds to the membrane in each pass, int32 [pass, row, output]."""
    cells = None if term.chip is None else term.chip[0].cells
    if term.chip is None or cells is None:
        return chip_currents(term, first)
    array, clips = term.chip
    assert array.converter is not None
    shape, patches = term.shape, _patches(term, flat=False)
    rows, passes = shape[0] * shape[1] * shape[2], array.pass_count(first)
    outputs = shape[3] // array.arrays
    x, converter = term.packed.contiguous(), array.converter
    keys = array.read_keys(clips, rows, first)
    out = torch.empty((passes, rows, shape[3]), dtype=torch.int32, device=x.device)
    reads = array.reads(patches.inputs)
    where = reads // patches.run * patches.jump + reads % patches.run
    where.masked_fill_(reads < 0, -1)
    tile = _chip_tile(outputs)
    across = -(-outputs // tile["BLOCK_N"]) * array.arrays
    groups = len(array.weight) // array.arrays
    chip_product[(across * -(-(rows * passes) // tile["BLOCK_M"]),)](
        x, where, cells.high, cells.low, cells.variance, array.dark,
        None if keys is None else (keys | 1).view(torch.uint32),
        None if keys is None else (array.place_keys | 1).view(torch.uint32),
        term.factor, array.worths, out, rows, outputs, groups, array.arrays, passes, first,
        *shape[1:3], *patches[:4], _excess(groups), cells.inverse, float(converter.low),
        float(converter.high), cells.unit, float(LARGEST_INPUT), INPUT_BITS=array.input_bits,
        PARTS=len(array.parts), ACTIVE=array.weight.shape[1], NOISE=keys is not None,
        ASM=x.device.type == "cuda", BLOCK_K=cells.high.shape[1], enable_fp_fusion=False, **tile,
    )  # fmt: skip
    return out


def codes(term: "Term", bias: Tensor, shift: Tensor, first: int) -> Tensor:
    assert term.weight is not None
    _require_gpu(term.packed)
    if term.chip is not None:
        return codes_of(_chip_currents(term, first), bias, shift).view(term.shape)
    out = torch.empty(term.shape, dtype=torch.int8, device=term.packed.device)
    outputs, inputs = out.shape[3], term.packed.shape[3]
    rows = term.packed.numel() // inputs
    tile = {"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 128, "num_warps": 4}
    grid = (-(-outputs // tile["BLOCK_N"]) * -(-rows // tile["BLOCK_M"]),)
    kernels.quantised_matmul[grid](
        term.packed.contiguous(), term.weight.contiguous(), out, term.factor, bias, shift, rows,
        outputs, WIDTH=inputs, FIRST=first, TAIL=_tail(inputs, tile["BLOCK_K"], _CHUNK), **tile,
    )  # fmt: skip
    return out


def attention(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, heads: int, curve: "AttentionCurve",
    factor: Tensor, neurons: "IntegerNeurons", slots: int,
) -> Tensor:  # fmt: skip
    _require_gpu(v)
    clips, tokens, hidden = v.shape
    out, size = torch.empty_like(v), hidden // heads
    block = max(32, 1 << (tokens - 1).bit_length())
    grid = (clips * heads, -(-tokens // min(block, 64)))
    kernels.attention[grid](
        q, k, v, out, lengths, curve.slope, curve.offset, curve.table, factor,
        neurons.static, neurons.initial, neurons.threshold, tokens, HEADS=heads,
        SIZE=size, SLOTS=slots, PADDED=lengths is not None,
        BLOCK_Q=min(block, 64), BLOCK_T=block, BLOCK_D=max(32, 1 << (size - 1).bit_length()),
    )  # fmt: skip
    return out


def encode(
    features: Tensor, weight: Tensor, stride: "Pair", padding: "Pair", lengths: Tensor | None,
    factor: Tensor, neurons: "IntegerNeurons", slots: int, kind: str, border: "Pair",
) -> Tensor:  # fmt: skip
    _require_gpu(features)
    clips, *size = features.shape
    outputs, *kernel, _ = weight.shape
    lines, pixels = (
        (size[axis] + 2 * padding[axis] - kernel[axis]) // stride[axis] + 1 for axis in (0, 1)
    )
    out, places = _output((clips, lines, pixels, outputs), border, features.device)
    tile = {"BLOCK_M": 64, "BLOCK_N": min(128, max(16, 1 << (outputs - 1).bit_length()))}
    tile["BLOCK_K"] = min(128, max(_CHUNK, 1 << (weight[0].numel() - 1).bit_length()))
    rows = clips * lines * pixels
    kernels.encode[(-(-rows // tile["BLOCK_M"]) * -(-outputs // tile["BLOCK_N"]),)](
        features.contiguous(), weight.contiguous(), out, factor, neurons.static, neurons.initial,
        neurons.threshold, encoding_tensor(slots, kind, features.device), lengths, rows, outputs,
        SIZE=tuple(size), KERNEL=tuple(kernel), STRIDE=stride, PADDING=padding,
        MAP=(lines, pixels), OUT=places, SLOTS=slots, PADDED=lengths is not None, **tile,
    )  # fmt: skip
    return out


def pool(packed: Tensor, lengths: Tensor | None) -> Tensor:
    _require_gpu(packed)
    clips, tokens, channels = packed.shape
    out = torch.empty(clips, channels, dtype=torch.int32, device=packed.device)
    kernels.pool_counts[(clips, -(-channels // 32))](
        packed, out, lengths, tokens, channels, PADDED=lengths is not None,
        BLOCK_T=1 << (tokens - 1).bit_length(), BLOCK_N=32,
    )  # fmt: skip
    return out
