"""From the trained QNN to the integer SNN: batch norm folded, every number on its grid.

x/alpha of a stage is gain_j sum_i code_ij n_i + static_j with
gain_j = bn_gain_j scale_j alpha_in / alpha_out, a positive number once its sign moved into the
codes, and static_j = bn_bias_j / alpha_out.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from falcon_snn.config import FalconConfig
from falcon_snn.errors import FalconError
from falcon_snn.network.fixed_point import grid_exponent, neurons_on_grid, to_int32
from falcon_snn.network.integer import MAX_PADDING, IntegerFalcon
from falcon_snn.network.model import Block, Conv, Falcon, Linear, Normalise
from falcon_snn.network.qnn import qnn_values
from falcon_snn.network.quantise import Counter, SignedCode, weight_scale
from falcon_snn.neuron.layers import IntegerNeurons


def convert(model: Falcon, qk_prefix: int | None = None) -> IntegerFalcon:
    """The integer network of a trained Falcon; `qk_prefix` replaces the configuration's."""
    config = model.config
    config.demand_spikes()
    if qk_prefix is not None:
        config = replace(config, qk_prefix=qk_prefix)
    with torch.no_grad():
        tensors = _Conversion(model, config).tensors
    return IntegerFalcon(config, tensors)


class _Conversion:
    def __init__(self, model: Falcon, config: FalconConfig) -> None:
        self.config = config
        self.slots = config.slots
        self.tensors: dict[str, Tensor] = {}
        source = torch.full((), 1.0 / config.input_levels, device=model.norm.weight.device)
        # The encoder sees 8-bit features once, not T slots of bits.
        self.stage("encoder", model.encoder, source, model.encoder_fire, largest_input=127.0)
        stem = model.stem
        step = model.encoder_fire.step.exact()
        for name in ("conv1", "conv2", "fc1", "fc2"):
            fire: Counter = getattr(stem, f"{name}_fire")
            self.stage(f"stem.{name}", getattr(stem, name), step, fire)
            step = fire.step.exact()
        for block in model.blocks:
            assert isinstance(block, Block)
            step = self.block(block, step)
        self.classifier(model, step)

    def stage(
        self, name: str, layer: Linear | Conv, step: Tensor, fire: Counter,
        largest_input: float | None = None,
    ) -> None:  # fmt: skip
        codes, gain, bias = folded_weight(layer)
        reach = codes.abs().flatten(1).sum(dim=1) * (largest_input or self.slots)
        alpha = fire.step.exact()
        neurons, _ = neurons_on_grid(
            (gain * step / alpha,), (reach,), bias / alpha, 0.5 + fire.offset, fire.threshold,
            self.slots,
        )  # fmt: skip
        if codes.dim() == 4:  # [outputs, inputs, token, feature] to channels last
            codes = codes.permute(0, 2, 3, 1)
        self.tensors[f"{name}.weight"] = codes.to(torch.int8).contiguous()
        self.keep(name, neurons)

    def block(self, block: Block, step: Tensor) -> Tensor:
        name = block.name
        self.codes(f"{name}.q", block.q, step, block.q_code)
        self.codes(f"{name}.k", block.k, step, block.k_code)
        self.stage(f"{name}.v", block.v, step, block.v_fire)
        self.attention(block)
        self.stage(
            f"{name}.attn_out", block.attn_out, block.context_fire.step.exact(), block.attn_out_fire
        )
        middle = block.residual1_fire.step.exact()
        self.residual(
            f"{name}.residual1", block.norm1, step, block.attn_out_fire, block.residual1_fire
        )
        self.stage(f"{name}.ffn1", block.ffn1, middle, block.ffn1_fire)
        self.stage(f"{name}.ffn2", block.ffn2, block.ffn1_fire.step.exact(), block.ffn2_fire)
        self.residual(
            f"{name}.residual2", block.norm2, middle, block.ffn2_fire, block.residual2_fire
        )
        return block.residual2_fire.step.exact()

    def codes(self, name: str, layer: Linear, step: Tensor, code: SignedCode) -> None:
        weight, gain, bias = folded_weight(layer)
        alpha = code.step.exact()
        gain, bias = gain * step / alpha, bias / alpha + 0.5
        reach = weight.abs().sum(dim=1) * self.slots
        exponent = grid_exponent(gain * reach + bias.abs(), 0.5 * reach + 1.0)
        grid = torch.exp2(exponent)
        self.tensors[f"{name}.weight"] = weight.to(torch.int8)
        self.tensors[f"{name}.factor"] = to_int32(gain * self.slots / self.config.prefix * grid)
        self.tensors[f"{name}.bias"] = to_int32(bias * grid)
        self.tensors[f"{name}.shift"] = exponent.int()

    def attention(self, block: Block) -> None:
        name, fire = block.name, block.context_fire
        alpha = fire.step.exact()
        gain = block.consmax.step.exact() * block.v_fire.step.exact() / alpha
        reach = 255.0 * self.slots * MAX_PADDING * self.config.tokens
        zero = torch.zeros_like(fire.offset)
        neurons, _ = neurons_on_grid(
            (gain.expand_as(zero),), (reach,), zero, 0.5 + fire.offset, fire.threshold, self.slots
        )
        self.keep(f"{name}.context", neurons)
        slope = block.q_code.step.exact() * block.k_code.step.exact() / block.head_size**0.5
        offset = block.consmax.log_offset()
        code = torch.arange(1, 256, device=offset.device)
        # exp(slope s - offset) rounds to code c or more from s = (ln(c - 1/2) + offset) / slope on.
        smallest = ((code - 0.5).double().log() + offset.double()[:, None]) / slope.double()
        edge = torch.full((block.heads, 1), 2**31 - 1, device=offset.device, dtype=torch.int64)
        smallest = smallest.ceil().clamp(-(2**31) + 2, 2**31 - 2).long()
        self.tensors[f"{name}.curve.table"] = torch.cat([-edge, smallest, edge], dim=1).int()
        self.tensors[f"{name}.curve.slope"] = slope.float().expand(block.heads).contiguous()
        self.tensors[f"{name}.curve.offset"] = offset.float()

    def residual(
        self, name: str, norm: Normalise, step: Tensor, branch: Counter, fire: Counter
    ) -> None:
        gain, bias = norm_affine(norm)
        alpha = fire.step.exact()
        neurons, factors = neurons_on_grid(
            (gain * step / alpha, gain * branch.step.exact() / alpha), (self.slots, self.slots),
            bias / alpha, 0.5 + fire.offset, fire.threshold, self.slots,
        )  # fmt: skip
        self.keep(name, neurons)
        self.tensors[f"{name}.factor_b"] = factors[1]

    def classifier(self, model: Falcon, step: Tensor) -> None:
        gain, bias = norm_affine(model.norm)
        weight = model.classifier.weight.double()
        scores, base = weight * (gain * step), weight @ bias.double() + model.classifier.bias
        largest = torch.maximum(scores.abs().max(), base.abs().max())
        grid = torch.exp2(grid_exponent(largest, 1.0) - 10)  # sums of counts need ten bits
        self.tensors["classifier.weight"] = to_int32(scores * grid)
        self.tensors["classifier.bias"] = to_int32(base * grid)
        self.tensors["classifier.grid"] = grid

    def keep(self, name: str, neurons: IntegerNeurons) -> None:
        for field in ("factor", "static", "initial", "threshold"):
            self.tensors[f"{name}.{field}"] = getattr(neurons, field)


def norm_affine(norm: Normalise) -> tuple[Tensor, Tensor]:
    """Batch norm as y = gain x + bias."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    gain = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
    return gain, norm.bias.double() - gain * norm.running_mean.double()


def folded_weight(layer: Linear | Conv) -> tuple[Tensor, Tensor, Tensor]:
    """Integer codes with the gain's sign, the positive gain per output, the bias."""
    gain, bias = norm_affine(layer.norm)
    scale = weight_scale(layer.weight, layer.bits)
    shape = (-1, *[1] * (layer.weight.dim() - 1))
    codes = (layer.weight / scale.view(shape)).round() * gain.sign().to(scale).view(shape)
    return codes.double(), gain.abs() * scale.double(), bias


@dataclass(frozen=True)
class StageReport:
    """What conversion made of a stage: ranges over its neurons, in units of the step alpha."""

    name: str
    kind: str
    neurons: int
    scale: tuple[float, float]  # gain per integer input
    static: tuple[float, float]  # input-independent current over all T slots
    threshold: tuple[float, float]


def conversion_report(network: IntegerFalcon) -> list[StageReport]:
    """One row per converted stage."""
    rows = []
    for name in network.stages:
        if name.endswith((".q", ".k")):
            grid = torch.exp2(network.tensors[f"{name}.shift"].double())
            scale, static = network.tensors[f"{name}.factor"], network.tensors[f"{name}.bias"]
            kind, threshold = "code", grid
        else:
            neurons = network.neurons(name)
            # The initial potential is 1/2 + offset thresholds; the grid shows in the threshold.
            grid = neurons.threshold.double()
            scale, static = neurons.factor, neurons.static.double() * network.config.slots
            kind, threshold = network.kind(name), neurons.threshold
        rows.append(
            StageReport(
                name,
                kind,
                int(grid.numel()),
                _range(scale / grid),
                _range(static / grid),
                _range(threshold / grid),
            )
        )
    return rows


def _range(x: Tensor) -> tuple[float, float]:
    return float(x.min()), float(x.max())


def check(
    network: IntegerFalcon, x: Tensor, lengths: Tensor | None, backend: str = "auto"
) -> Tensor:
    """Predictions on `x`, after checking that full lookahead equals the QNN at every stage.

    Both are computed in the same integer arithmetic by different code; the first stage whose
    integers differ is an error.
    """
    full = dict.fromkeys(network.config.boundaries, network.config.slots)
    spiking, predictions = network.counts_and_predictions(x, lengths, full, backend)
    with torch.backends.cudnn.flags(enabled=False):  # its Winograd transforms are not exact
        counted, scores = qnn_values(network, x, lengths)
    for name, values in counted.items():
        differing = int((spiking[name].long() != values.long()).sum())
        if differing:
            raise FalconError(
                f"conversion check failed at stage {name}: {differing} of {values.numel()} counts "
                "differ between QNN and full-lookahead SNN; please report this as a bug"
            )
    if not torch.equal(predictions, scores.argmax(dim=1)):
        raise FalconError("conversion check failed: predictions differ at equal counts")
    return predictions
