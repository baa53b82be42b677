"""Spiking layers in integers: packed spikes in, packed spikes out, one function per kind of stage.

A layer's numbers are rounded once, at conversion, onto an int32 grid that cannot overflow; after
that every backend adds and compares integers, so all of them give the same spikes bit for bit.

Backends: `triton` (fused kernels for GPUs), `numba` (event-driven kernels for CPUs) and `torch`
(matrix products in float32, whose sums of integers below 2^24 are exact in any order, or in float64
where sums could be larger). All of them run a layer on a sampled chip (`analog`), too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from falcon_snn.errors import FalconError
from falcon_snn.neuron.integer import check_parameters
from falcon_snn.neuron.parameters import check_delay

if TYPE_CHECKING:
    from falcon_snn.neuron.analog import AnalogArray

BACKENDS = ("torch", "numba", "triton")

Pair = tuple[int, int]  # along the lines, along the pixels


@dataclass(frozen=True)
class IntegerNeurons:
    """V starts at `initial`; each slot adds `static` and the terms' input; fires at `threshold`."""

    static: Tensor  # int32 [outputs], like the others
    initial: Tensor
    threshold: Tensor


@dataclass(frozen=True)
class Term:
    """One input of a firing stage: packed spikes through weights, or the spikes themselves.

    A linear layer has a 1x1 kernel; a kernel may also be as large as a line or the whole map.
    """

    packed: Tensor  # uint8 [clip, lines + 2 b0, pixels + 2 b1, channels], the border is silent
    factor: Tensor  # int32 [outputs], may be negative
    weight: Tensor | None = None  # int8 [outputs, kh, kw, channels]; None: spike c to output c
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)  # no wider than the border
    border: Pair = (0, 0)  # the silent border that `packed` has
    # The weights on a sampled chip, and the keys by which its noise knows the clips.
    chip: "tuple[AnalogArray, Tensor | None] | None" = field(default=None, kw_only=True)

    @cached_property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape of its output: clips, lines, pixels, outputs."""
        outputs, *kernel, _ = (0, 1, 1, 0) if self.weight is None else self.weight.shape
        clips, *size, channels = self.packed.shape
        lines, pixels = (
            (size[axis] + 2 * (self.padding[axis] - self.border[axis]) - kernel[axis])
            // self.stride[axis]
            + 1
            for axis in (0, 1)
        )
        return clips, lines, pixels, channels if self.weight is None else outputs

    @cached_property
    def flat(self) -> bool:
        """Whether the bytes that each output reads follow those of the output before.

        This holds for a 1x1 kernel, a whole line and the whole map; the term is then a plain matrix
        product of rows, which every backend does fastest.
        """
        if self.border != (0, 0):
            return False
        if self.weight is None:
            return True
        kernel, size = self.weight.shape[1:3], self.packed.shape[1:3]
        by_line = kernel == (1, size[1]) and self.stride[0] == 1
        return by_line or kernel == size or (kernel == (1, 1) and self.stride == (1, 1))

    def window(self) -> Tensor:
        """The spikes with no more border than the padding."""
        cut = [border - pad for border, pad in zip(self.border, self.padding, strict=True)]
        lines, pixels = self.packed.shape[1:3]
        return self.packed[:, cut[0] : lines - cut[0], cut[1] : pixels - cut[1]]


@dataclass(frozen=True)
class AttentionCurve:
    """The map's code as a function of the integer score, per head.

    `table[h, c]` is the smallest score with code c or more (c = 0..255; entry 256 is out of
    reach). `slope` and `offset` give a float guess, exp(slope score - offset), of the code.
    """

    table: Tensor  # int32 [heads, 257], rises with c
    slope: Tensor  # float32 [heads]
    offset: Tensor  # float32 [heads]


def choose_layer_backend(backend: str, device: torch.device) -> str:
    """The layer backend by name; `auto` is triton on a GPU and numba on a CPU."""
    if backend == "auto":
        backend = "triton" if device.type == "cuda" else "numba"
    if backend not in BACKENDS:
        raise FalconError(f"unknown backend '{backend}'; choose auto or {', '.join(BACKENDS)}")
    if backend == "numba" and device.type != "cpu":
        raise FalconError(f"backend 'numba' runs on the CPU; these spikes are on {device.type}")
    if backend == "triton" and find_spec("triton") is None:
        raise FalconError(
            "backend 'triton' cannot run: triton is not installed (pip install 'falcon-snn[gpu]'); "
            "choose --backend torch or numba"
        )
    return backend


def fire(
    terms: Sequence[Term], neurons: IntegerNeurons, slots: int, delay: int, backend: str, *,
    border: Pair = (0, 0),
) -> Tensor:  # fmt: skip
    """SN_delta on the sum of one or two terms: slot t adds static + sum_k factor_k S_k(t).

    Packed spikes [clip, lines + 2 border0, pixels + 2 border1, outputs], the border silent.
    """
    if len(terms) not in (1, 2):
        raise FalconError(f"a firing stage of {len(terms)} terms; give one or two")
    for term in terms:
        _check_term(term)
    shape = terms[0].shape
    if terms[-1].shape != shape:
        raise FalconError(f"terms give {shape} and {terms[-1].shape}; they must give one shape")
    factors = [term.factor for term in terms]
    check_parameters(
        shape[3], slots, *factors, neurons.static, neurons.initial, neurons.threshold
    )  # fmt: skip
    if min(border) < 0:
        raise FalconError(f"a border of {border}; it cannot be negative")
    return _layers(backend).fire(terms, neurons, slots, check_delay(delay, slots), border)


def codes(term: Term, bias: Tensor, shift: Tensor, first: int, backend: str) -> Tensor:
    """Q and K: int8 codes clip((factor S + bias) >> shift) of the first slots' sums S.

    The term is a linear layer, a 1x1 kernel without stride or border.
    """
    _check_term(term)
    if term.weight is None or term.weight.shape[1:3] != (1, 1) or not term.flat:
        raise FalconError("codes take a 1x1 kernel with stride 1 on spikes without a border")
    check_parameters(term.shape[3], first, term.factor, bias, shift)
    return _layers(backend).codes(term, bias, shift, first)


def attention(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, heads: int, curve: AttentionCurve,
    factor: Tensor, neurons: IntegerNeurons, slots: int, backend: str,
) -> Tensor:  # fmt: skip
    """Context spikes SN_T(A V) for codes q, k and packed values v, each [clip, token, channel]."""
    return _layers(backend).attention(q, k, v, lengths, heads, curve, factor, neurons, slots)


def encode(
    features: Tensor, weight: Tensor, stride: Pair, padding: Pair, lengths: Tensor | None,
    factor: Tensor, neurons: IntegerNeurons, slots: int, kind: str, backend: str, *,
    border: Pair = (0, 0),
) -> Tensor:  # fmt: skip
    """Source spikes of int8 features [clip, line, pixel, channel]: convolution, count, train.

    The count has full lookahead; its train is `packed.encoding_table`'s. Lines of a clip from its
    length on read as zero, and output lines that would need them are silent: of n lines there
    are (n + 2 padding - kernel) // stride + 1.
    """
    if features.ndim != 4 or features.dtype != torch.int8:
        raise FalconError(
            f"features are {features.dtype} {tuple(features.shape)}; give int8 "
            "[clip, line, pixel, channel]"
        )
    # As a term whose border is already there, the features are held to the same rules.
    size = (features.shape[1] + 2 * padding[0], features.shape[2] + 2 * padding[1])
    packed = torch.empty(
        (len(features), *size, features.shape[3]), dtype=torch.uint8, device="meta"
    )
    term = Term(packed, factor, weight, stride, padding, padding)
    _check_term(term)
    check_parameters(
        term.shape[3], slots, factor, neurons.static, neurons.initial, neurons.threshold
    )  # fmt: skip
    return _layers(backend).encode(
        features, weight, stride, padding, lengths, factor, neurons, slots, kind, border
    )


def pool(packed: Tensor, lengths: Tensor | None, backend: str) -> Tensor:
    """Spikes per channel over the real tokens: [clip, token, channel] to int32 [clip, channel]."""
    return _layers(backend).pool(packed, lengths)


def token_mask(lengths: Tensor, tokens: int) -> Tensor:
    """True where a token is real: [clip, token]."""
    return torch.arange(tokens, device=lengths.device) < lengths[:, None]


def _layers(backend: str) -> Any:
    """The module of a backend; imported when asked for, since compilers take long to load."""
    modules = {"torch": "layers_torch", "numba": "layers_numba", "triton": "fused"}
    if backend not in modules:
        raise FalconError(f"unknown backend '{backend}'; choose {', '.join(BACKENDS)}")
    return import_module(f"falcon_snn.neuron.{modules[backend]}")


def _check_term(term: Term) -> None:
    packed, weight = term.packed, term.weight
    if packed.ndim != 4 or packed.dtype != torch.uint8:
        raise FalconError(
            f"spikes are {packed.dtype} {tuple(packed.shape)}; give packed uint8 "
            "[clip, line, pixel, channel]"
        )
    if any(not 0 <= pad <= edge for pad, edge in zip(term.padding, term.border, strict=True)):
        raise FalconError(
            f"padding {term.padding} of spikes with border {term.border}; it must lie within"
        )
    if weight is None:
        if term.stride != (1, 1) or term.padding != (0, 0):
            raise FalconError("spikes without weights have no stride and no padding")
    elif weight.ndim != 4 or weight.dtype != torch.int8 or weight.shape[3] != packed.shape[3]:
        raise FalconError(
            f"weights are {weight.dtype} {tuple(weight.shape)}; give int8 [outputs, lines, "
            f"pixels, channels] for {packed.shape[3]} channels"
        )
    if min(term.stride) < 1:
        raise FalconError(f"a stride of {term.stride}; both numbers must be 1 or more")
    if min(term.shape[1:3]) < 1:
        kernel = (1, 1) if weight is None else tuple(weight.shape[1:3])
        raise FalconError(
            f"a kernel of {kernel} does not fit spikes {tuple(packed.shape)} with border "
            f"{term.border} and padding {term.padding}"
        )
