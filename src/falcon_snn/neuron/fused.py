"""Launching the fused Triton kernels; `layers` calls these for backend `triton`."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from falcon_snn.errors import FalconError
from falcon_snn.neuron import fused_kernels as kernels
from falcon_snn.neuron import fused_tiles as tiles
from falcon_snn.neuron.analog import AnalogArray, pass_keys
from falcon_snn.neuron.analog_cells import CHIP_TILE, PIECE
from falcon_snn.neuron.converter import FINEST
from falcon_snn.neuron.counter_noise import key_of
from falcon_snn.neuron.encoding import train_words
from falcon_snn.neuron.fused_attention import attention as attention_kernel
from falcon_snn.neuron.fused_chip import chip_product, group_inputs, row_keys
from falcon_snn.neuron.fused_exact import code_currents, exact_product, fire_currents
from falcon_snn.neuron.fused_product import spiking_matmul
from falcon_snn.neuron.fused_wide import wide_spiking_matmul
from falcon_snn.neuron.layers_torch import LARGEST_INPUT, chip_currents

if TYPE_CHECKING:
    from falcon_snn.neuron.layers import AttentionCurve, IntegerNeurons, Pair, Term


def _require_gpu(tensor: Tensor) -> bool:
    """True on a GPU; False under Triton's interpreter, which stands in for one in tests."""
    if tensor.device.type == "cuda":
        return True
    if os.environ.get("TRITON_INTERPRET") == "1":
        return False
    raise FalconError(
        f"backend 'triton' needs a GPU; the input is on '{tensor.device}' (use backend numba)"
    )


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
    out = torch.empty((clips, lines, pixels, outputs), dtype=torch.uint8, device=device)
    around = lines * pixels - shape[1] * shape[2]
    if around:
        channels = 1 << (outputs - 1).bit_length()
        block = max(1, 4096 // channels)
        kernels.silence_border[(clips, -(-around // block))](
            out, SIZE=(lines, pixels, outputs), BORDER=border, BLOCK_P=block, BLOCK_C=channels
        )
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
    geometry: dict[str, Any] = {"OUT": places, "SLOTS": slots}
    geometry["MAP"] = (1, 1) if flat else shape[1:3]
    first, *others = sorted(terms, key=lambda term: term.weight is None)
    x, patches = first.packed.contiguous(), _patches(first, flat=flat)
    constants = (neurons.static, neurons.initial, neurons.threshold, rows)
    if first.weight is None:
        # A single stream is added twice, the second time with factor 0.
        b = others[0] if others else replace(first, factor=torch.zeros_like(first.factor))
        tile = tiles.residual_tile()
        kernels.residual[tiles.shared(tile, rows, outputs)](
            x, b.packed.contiguous(), out, first.factor, b.factor, *constants, A=patches,
            B=_patches(b, flat=flat), OUTPUTS=outputs, DELAY=delay, ASM=on_gpu, **geometry, **tile,
        )  # fmt: skip
        return out
    extra, extra_weight, extra_factor, extra_patches = None, None, None, Patches(0, 0, 0, 0)
    if others:
        extra, extra_factor = others[0].packed.contiguous(), others[0].factor
        extra_patches = _patches(others[0], flat=flat)
        extra_weight = None if others[0].weight is None else others[0].weight.contiguous()
    tensors = (x, first.weight.contiguous(), extra, extra_weight, out, first.factor, extra_factor)
    geometry |= {
        "IN": patches, "EXTRA_IN": extra_patches, "OUTPUTS": outputs, "DELAY": delay, "ASM": on_gpu,
        "EXTRA": (extra is not None) + (extra_weight is not None),
    }  # fmt: skip
    inputs = patches.inputs + extra_patches.inputs
    wide = tiles.wide_tile(inputs, slots - delay + 1, two=extra_weight is not None)
    if wide:
        grid = tiles.one_each(wide, rows, outputs)
        wide_spiking_matmul[grid](*tensors, *constants, **geometry, **wide)
        return out
    tile = tiles.spiking_tile(inputs, outputs, alone=not others)
    rest = outputs % tile["BLOCK_N"]
    last = tiles.pieces(rest)
    spiking_matmul[tiles.shared(tile, rows, outputs)](
        *tensors, *constants,
        PIECES=tiles.pieces(tile["BLOCK_N"]), LAST=last, WHOLE=sum(last) == rest,
        TAIL_K=tiles.tail(patches.inputs, tile["BLOCK_K"], tiles.CHUNK),
        EXTRA_TAIL_K=tiles.tail(extra_patches.inputs, tile["BLOCK_K"], tiles.CHUNK),
        **geometry, **tile,
    )  # fmt: skip
    return out


def _fire_on_chip(
    terms: Sequence["Term"], neurons: "IntegerNeurons", slots: int, delay: int, border: "Pair"
) -> Tensor:
    currents = [chip_currents_of(term, slots) for term in terms]
    shape = terms[0].shape
    out, places = _output(shape, border, currents[0].device)
    rows, outputs = currents[0].shape[1:]
    tile = tiles.firing_tile(outputs)
    fire_currents[tiles.one_each(tile, rows, outputs)](
        currents[0], currents[1] if len(currents) > 1 else None, out, neurons.static,
        neurons.initial, neurons.threshold, rows, outputs, LARGEST_INPUT, *shape[1:3], *places[:4],
        PASSES=tuple(len(one) for one in currents), SLOTS=slots, DELAY=delay, **tile,
    )  # fmt: skip
    return out


def chip_currents_of(term: "Term", first: int) -> Tensor:
    """What a term adds to the membrane in each pass, int32 [pass, row, output]."""
    if term.chip is None or (term.chip[0].cells is None and term.chip[0].digits is None):
        return chip_currents(term, first)
    array, clips = term.chip
    shape = term.shape
    rows = shape[0] * shape[1] * shape[2]
    passes = array.pass_count(first)
    keys = None if array.noise is None else _row_keys(array.noise.key, clips, rows, passes)
    out = torch.empty((passes, rows, shape[3]), dtype=torch.int32, device=term.packed.device)
    launch = _exact_product if array.converter is None else _chip_product
    launch(term, array, first, keys, out)
    return out


def _row_keys(key: int, clips: Tensor | None, rows: int, passes: int) -> Tensor:
    """The rows' hashes for fresh noise, odd, uint32 [pass, row]."""
    assert clips is not None
    out = torch.empty((passes, rows), dtype=torch.uint32, device=clips.device)
    row_keys[(-(-rows // 1024),)](
        clips.contiguous(), pass_keys(passes, clips.device), out, rows, rows // len(clips), key,
        key_of(key, "again"), passes, BLOCK=1024,
    )  # fmt: skip
    return out


def _chip_product(
    term: "Term", array: AnalogArray, first: int, keys: Tensor | None, out: Tensor
) -> None:
    cells, converter = array.cells, array.converter
    assert cells is not None
    assert converter is not None
    x, patches = term.packed.contiguous(), _patches(term, flat=False)
    passes, rows, outputs = out.shape
    groups, parts, pieces, inputs, _ = cells.high.shape
    places, variance, levels, unit = cells.fresh or (None, None, None, 0.0)
    tile, span = tiles.chip_tile(passes, pieces), converter.high - converter.low
    padded = -(-rows // tiles.GROUPED_ROWS) * tiles.GROUPED_ROWS
    driven = torch.empty((groups, padded, inputs), dtype=torch.int16, device=x.device)
    field, squares = 0, None
    if levels is not None:
        field, words = (8, -(-passes // 4)) if array.small_squares else (32, 2 * passes)
        squares = torch.empty((groups // 2, words, padded), dtype=torch.int32, device=x.device)
    common: dict[str, Any] = {
        "INPUT_BITS": array.input_bits, "PASSES": passes, "BLOCK_K": inputs, "FIELD": field
    }  # fmt: skip
    group_inputs[(padded // tiles.GROUPED_ROWS, -(-groups // tiles.GROUPS_EACH))](
        x, _places_of(array.reads(patches.inputs, inputs), patches), driven, squares, rows, padded,
        groups, first, *term.shape[1:3], *patches[:4],
        sum(1 << (number * max(array.input_bits, 1)) for number in range(passes)),
        ACTIVE=array.weight.shape[1], BLOCK_M=tiles.GROUPED_ROWS, **common,
    )  # fmt: skip
    across, groups = pieces // tile["PIECES"], groups // array.arrays
    # Half of the groups are added up in each half of a register.
    packed = variance is None and converter.bits == FINEST and groups // 2 * span < 1 << 16
    chip_product[(across * array.arrays * (padded // tile["BLOCK_M"]),)](
        driven, cells.high, cells.low, variance, squares, levels, array.dark, keys, places,
        term.factor, array.worths, out, rows, padded, outputs // array.arrays, groups,
        array.arrays, span, converter.low, converter.bits, array.most_squares + 1, unit,
        LARGEST_INPUT, across, PARTS=parts, NOISE=keys is not None, ASM=x.is_cuda,
        PACKED=packed and _adds_halves(x), BLOCK_N=PIECE, enable_fp_fusion=False, **common, **tile,
    )  # fmt: skip


def _exact_product(
    term: "Term", array: AnalogArray, first: int, keys: Tensor | None, out: Tensor
) -> None:
    digits = array.digits
    assert digits is not None
    x, patches = term.packed.contiguous(), _patches(term, flat=False)
    number, _, padded, width = digits.digits.shape
    passes, rows, outputs = out.shape
    places, _, sigma, _ = digits.fresh or (None, None, None, 0.0)
    # Inputs that are none have weights of zero, and read what is there in any case.
    run = 16 if array.channels % 16 == 0 else 1
    reads = array.reads(patches.inputs, padded)
    where = _places_of(reads, patches)
    anything = torch.arange(padded, dtype=torch.int32, device=x.device) % run
    where = torch.where(reads < 0, anything, where)
    # Whole tiles of outputs, then what is left: a narrow tile is better than a wide empty one.
    outputs //= array.arrays
    whole = outputs // CHIP_TILE * CHIP_TILE
    for begin, end in [(0, whole), (whole, outputs)] if 0 < whole < outputs else [(0, outputs)]:
        tile = tiles.exact_tile(end - begin)
        across = -(-(end - begin) // tile["BLOCK_N"])
        exact_product[(across * array.arrays * -(-(rows * passes) // tile["BLOCK_M"]),)](
            x, where, digits.digits, sigma, keys, places, term.factor, array.worths, out, rows,
            outputs, width, array.weight.shape[1], padded, array.arrays, passes, first,
            *term.shape[1:3], *patches[:4], digits.unit, LARGEST_INPUT, begin, across,
            INPUT_BITS=array.input_bits, DIGITS=number, RUN=run, NOISE=keys is not None,
            ASM=x.is_cuda, enable_fp_fusion=False, **tile,
        )  # fmt: skip


def _adds_halves(x: Tensor) -> bool:
    """Whether the GPU adds and compares two 16-bit numbers in one instruction."""
    return x.is_cuda and torch.cuda.get_device_capability(x.device) >= (9, 0)


def _places_of(reads: Tensor, patches: Patches) -> Tensor:
    """Where inputs lie, counted from where their row begins; -1 stays."""
    where = reads // patches.run * patches.jump + reads % patches.run
    return where.masked_fill_(reads < 0, -1)


def codes(term: "Term", bias: Tensor, shift: Tensor, first: int) -> Tensor:
    assert term.weight is not None
    on_gpu, shape = _require_gpu(term.packed), term.shape
    if term.chip is not None:
        currents = chip_currents_of(term, first)
        out = torch.empty(shape, dtype=torch.int8, device=currents.device)
        code_currents[(-(-out.numel() // 1024),)](
            currents, out, bias, shift, out.numel(), shape[3], PASSES=len(currents), BLOCK=1024
        )
        return out
    out = torch.empty(shape, dtype=torch.int8, device=term.packed.device)
    outputs, patches = out.shape[3], _patches(term, flat=True)
    rows = out.numel() // outputs
    tile = tiles.spiking_tile(patches.inputs, outputs)
    del tile["KEPT"]  # each byte is needed once
    kernels.quantised_matmul[tiles.shared(tile, rows, outputs)](
        term.packed.contiguous(), term.weight.contiguous(), out, term.factor, bias, shift, rows,
        IN=patches, OUTPUTS=outputs, FIRST=first, ASM=on_gpu,
        PIECES=tiles.pieces(min(tile["BLOCK_N"], outputs)),
        TAIL=tiles.tail(patches.inputs, tile["BLOCK_K"], tiles.CHUNK), **tile,
    )  # fmt: skip
    return out


def attention(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, heads: int, curve: "AttentionCurve",
    factor: Tensor, neurons: "IntegerNeurons", slots: int,
) -> Tensor:  # fmt: skip
    on_gpu = _require_gpu(v)
    clips, tokens, hidden = v.shape
    out, size = torch.empty_like(v), hidden // heads
    tile = tiles.attention_tile(tokens)
    attention_kernel[(clips * heads, -(-tokens // tile["BLOCK_Q"]))](
        q, k, v, out, lengths, curve.slope, curve.offset, curve.table, factor,
        neurons.static, neurons.initial, neurons.threshold, tokens, HEADS=heads,
        SIZE=size, SLOTS=slots, PADDED=lengths is not None, ASM=on_gpu,
        BLOCK_D=max(32, 1 << (size - 1).bit_length()), **tile,
    )  # fmt: skip
    return out


def encode(
    features: Tensor, weight: Tensor, stride: "Pair", padding: "Pair", lengths: Tensor | None,
    factor: Tensor, neurons: "IntegerNeurons", slots: int, kind: str, border: "Pair",
) -> Tensor:  # fmt: skip
    on_gpu = _require_gpu(features)
    x = _padded(features.contiguous(), lengths, padding)
    clips, *size, channels = x.shape
    outputs, *kernel, _ = weight.shape
    lines, pixels = ((size[axis] - kernel[axis]) // stride[axis] + 1 for axis in (0, 1))
    out, places = _output((clips, lines, pixels, outputs), border, x.device)
    line, taps = size[1] * channels, weight[0].numel()
    patches = Patches(
        size[0] * line, stride[0] * line, stride[1] * channels, 0, taps, kernel[1] * channels, line
    )
    tile, rows = tiles.encode_tile(taps, outputs), clips * lines * pixels
    kernels.encode[tiles.shared(tile, rows, outputs)](
        x, weight.contiguous(), out, factor, neurons.static, neurons.initial, neurons.threshold,
        lengths, rows, MAP=(lines, pixels), IN=patches, OUT=places, OUTPUTS=outputs, SLOTS=slots,
        TRAINS=train_words(slots, kind),
        NEEDS=(stride[0], kernel[0] - 2 * padding[0]), PADDED=lengths is not None, ASM=on_gpu,
        TAIL=tiles.tail(taps, tile["BLOCK_K"], tiles.CHUNK), **tile,
    )  # fmt: skip
    return out


def _padded(features: Tensor, lengths: Tensor | None, padding: "Pair") -> Tensor:
    """As `layers_torch.real_features`, in one pass."""
    if padding == (0, 0) and lengths is None:
        return features
    clips, lines, pixels, channels = features.shape
    shape = (clips, lines + 2 * padding[0], pixels + 2 * padding[1], channels)
    out = torch.empty(shape, dtype=features.dtype, device=features.device)
    kernels.pad_features[(clips, -(-out[0].numel() // 1024))](
        features, out, lengths, SIZE=(lines, pixels * channels),
        PADDING=(padding[0], padding[1] * channels), PADDED=lengths is not None, BLOCK=1024,
    )  # fmt: skip
    return out


def round_inputs(x: Tensor, zero: float, levels: float, largest: float) -> Tensor:
    """Inputs of a source as int8, in one pass."""
    _require_gpu(x)
    x = x.float().contiguous()
    out = torch.empty(x.shape, dtype=torch.int8, device=x.device)
    kernels.round_inputs[(-(-x.numel() // 1024),)](
        x, out, float(zero), float(levels), float(largest), x.numel(), BLOCK=1024,
        enable_fp_fusion=False,
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
