"""Launching the fused Triton kernels; `layers` calls these for backend `triton`."""

import os
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from falcon_snn.errors import FalconError
from falcon_snn.neuron import fused_kernels as kernels
from falcon_snn.neuron.fused_product import KEPT_INPUTS, spiking_matmul
from falcon_snn.neuron.packed import encoding_tensor

if TYPE_CHECKING:
    from falcon_snn.neuron.layers import AttentionCurve, IntegerNeurons

_MOST_INPUTS = 12_000  # of a product: 16 outputs' weights fill the shared memory of a processor
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
    loads; fewer registers let a third program run beside two.
    """
    tile = {"BLOCK_M": 64, "num_warps": 4}
    if inputs > _MOST_INPUTS:
        raise FalconError(
            f"a layer of {inputs:,} inputs; backend 'triton' takes {_MOST_INPUTS:,} (use torch)"
        )
    if (outputs > 64 and outputs % 64) or inputs > 2048:
        width = 32 if inputs <= _MOST_INPUTS // 2 else 16
        chunk = 128 if inputs < 256 else 256
        stages = 3 if inputs < 512 else 2 if inputs <= KEPT_INPUTS.value else 1
        return tile | {"BLOCK_N": width, "BLOCK_K": chunk, "STAGES": stages, "maxnreg": 255}
    stages, registers = (3, 255) if inputs < 256 else (1, 168 if inputs < 384 else 255)
    return tile | {"BLOCK_N": 64, "BLOCK_K": 128, "STAGES": stages, "maxnreg": registers}


def _tail(size: int, block: int, smallest: int) -> int:
    """The last tile: a power of two that holds what whole tiles leave."""
    return max(smallest, 1 << (size % block - 1).bit_length()) if size % block else 0


def _launch(
    x: Tensor, weight: Tensor, out: Tensor, neurons: "IntegerNeurons", rows: int,
    slots: int, delay: int, geometry: dict[str, int],
) -> Tensor:  # fmt: skip
    on_gpu = _require_gpu(x)
    outputs, inputs = weight.shape
    tile = _tile(inputs, outputs)
    across, row_tiles = -(-outputs // tile["BLOCK_N"]), -(-rows // tile["BLOCK_M"])
    # Programs share the tiles of rows, so that each loads its weights once.
    programs = min(row_tiles, max(512, 1024 // across))
    spiking_matmul[(across * programs,)](
        x, weight.contiguous(), out, neurons.factor, neurons.static, neurons.initial,
        neurons.threshold, rows, **geometry, INPUTS=inputs, OUTPUTS=outputs,
        SLOTS=slots, DELAY=delay, ASM=on_gpu, TAIL_N=_tail(outputs, tile["BLOCK_N"], 16),
        TAIL_K=_tail(inputs, tile["BLOCK_K"], _CHUNK), **tile,
    )  # fmt: skip
    return out


def linear(
    packed: Tensor, weight: Tensor, neurons: "IntegerNeurons", slots: int, delay: int
) -> Tensor:
    rows, inputs = packed.shape
    outputs = weight.shape[0]
    out = torch.empty(rows, outputs, dtype=torch.uint8, device=packed.device)
    geometry = {
        "TOKENS": 1, "FEATURES": 1, "BORDER": 0, "IN_LINE": inputs, "IN_PIXEL": 0, "RUN": inputs,
        "OUT_BORDER": 0, "OUT_LINE": outputs, "OUT_PIXEL": 0,
    }  # fmt: skip
    return _launch(packed.contiguous(), weight, out, neurons, rows, slots, delay, geometry)


def conv(
    bordered: Tensor, weight: Tensor, neurons: "IntegerNeurons", slots: int, delay: int,
    stride: int, *, border: bool,
) -> Tensor:  # fmt: skip
    clips, tokens, bands, channels = bordered.shape
    outputs, tokens, features = weight.shape[0], tokens - 2, (bands - 3) // stride + 1
    edge = int(border)
    shape = (clips, tokens + 2 * edge, features + 2 * edge, outputs)
    make = torch.zeros if border else torch.empty
    out = make(shape, dtype=torch.uint8, device=bordered.device)
    geometry = {
        "TOKENS": tokens, "FEATURES": features,
        "BORDER": 1, "IN_LINE": bands * channels, "IN_PIXEL": stride * channels,
        "RUN": 3 * channels,
        "OUT_BORDER": edge, "OUT_LINE": shape[2] * outputs, "OUT_PIXEL": outputs,
    }  # fmt: skip
    rows = clips * tokens * features
    return _launch(
        bordered.contiguous(), weight.flatten(1), out, neurons, rows, slots, delay, geometry
    )


def residual(
    a: Tensor, b: Tensor, factor_b: Tensor, neurons: "IntegerNeurons", slots: int, delay: int
) -> Tensor:
    _require_gpu(a)
    rows, channels = a.shape
    out = torch.empty_like(a)
    grid = (-(-channels // 32) * -(-rows // 128),)
    kernels.residual[grid](
        a.contiguous(), b.contiguous(), out, neurons.factor, factor_b, neurons.static,
        neurons.initial, neurons.threshold, rows, channels, SLOTS=slots, DELAY=delay,
        BLOCK_M=128, BLOCK_N=32,
    )  # fmt: skip
    return out


def codes(
    packed: Tensor, weight: Tensor, factor: Tensor, bias: Tensor, shift: Tensor, first: int
) -> Tensor:
    _require_gpu(packed)
    rows, inputs = packed.shape
    outputs = weight.shape[0]
    out = torch.empty(rows, outputs, dtype=torch.int8, device=packed.device)
    tile = {"BLOCK_M": 128, "BLOCK_N": 32, "BLOCK_K": _CHUNK, "num_warps": 8}
    grid = (-(-outputs // tile["BLOCK_N"]) * -(-rows // tile["BLOCK_M"]),)
    kernels.quantised_matmul[grid](
        packed.contiguous(), weight.contiguous(), out, factor, bias, shift, rows,
        outputs, WIDTH=inputs, FIRST=first, **tile,
    )  # fmt: skip
    return out


def attention(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, heads: int, curve: "AttentionCurve",
    neurons: "IntegerNeurons", slots: int,
) -> Tensor:  # fmt: skip
    _require_gpu(v)
    clips, tokens, hidden = v.shape
    out = torch.empty_like(v)
    block = max(32, 1 << (tokens - 1).bit_length())
    grid = (clips * heads, -(-tokens // min(block, 64)))
    kernels.attention[grid](
        q, k, v, out, lengths, curve.slope, curve.offset, curve.table, neurons.factor,
        neurons.static, neurons.initial, neurons.threshold, tokens, HEADS=heads,
        SIZE=hidden // heads, SLOTS=slots, PADDED=lengths is not None,
        BLOCK_Q=min(block, 64), BLOCK_T=block,
    )  # fmt: skip
    return out


def encode(
    features: Tensor, weight: Tensor, lengths: Tensor | None, neurons: "IntegerNeurons",
    slots: int, kind: str,
) -> Tensor:  # fmt: skip
    _require_gpu(features)
    clips, tokens, bands = features.shape
    outputs = weight.shape[0]
    shape = (clips, tokens + 2, bands // 2 + 2, outputs)
    out = torch.zeros(shape, dtype=torch.uint8, device=features.device)
    trains = encoding_tensor(slots, kind, features.device)
    rows = clips * tokens * (bands // 2)
    kernels.encode[(-(-rows // 64),)](
        features.contiguous(), weight.contiguous(), out, neurons.factor, neurons.static,
        neurons.initial, neurons.threshold, trains, lengths, rows, outputs, TOKENS=tokens,
        FEATURES=bands, SLOTS=slots, PADDED=lengths is not None, BLOCK_M=64,
        BLOCK_N=max(16, 1 << (outputs - 1).bit_length()),
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
