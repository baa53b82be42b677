"""The fused spiking layer against the ordinary ways, on one GPU, in one run.

For each layer of Falcon: torch eager and torch.compile (matrix product in bf16, then the firing
rule), SpikingJelly's multi-step IF on its own fastest path (matrix product in fp16, then the
node), the neuron alone, and the fused layer. All start from what they would find in a network:
the baselines from unpacked spikes in their own type, the fused layer from packed bytes.

SpikingJelly's fused `if_linear` does not fit: it fires before the product, not after it, and takes
float32 with one threshold for all neurons.

SpikingJelly is left out unless it is there: pip install --no-deps spikingjelly loguru

    python benchmarks/kernel.py [--rows 500000] [--json]
"""

import argparse
import importlib.util
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from falcon_snn import fire
from falcon_snn.neuron import layers
from falcon_snn.neuron.layers import IntegerNeurons, Term
from falcon_snn.neuron.packed import pack, unpack

SLOTS = 7
FACTOR = 512
LINEAR = ((160, 160), (160, 320), (320, 160), (768, 160))
CONVS = ((32, 48, 2), (48, 48, 1))  # inputs, outputs, stride of stem.conv1 and stem.conv2
TOKENS = 98


def milliseconds(work: Callable[[], Any], repeats: int = 20) -> float:
    """Median time of one call on the GPU, by CUDA events.

    The GPU sleeps until the call is queued, so the time that Python takes to launch counts for
    nobody.
    """
    for _ in range(3):
        work()
    times = []
    for _ in range(repeats):
        start, stop = (torch.Event("cuda", enable_timing=True) for _ in range(2))
        torch.cuda._sleep(4_000_000)  # type: ignore[no-untyped-call]  # cycles: two milliseconds
        start.record()
        work()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop))
    return sorted(times)[len(times) // 2]


def matrix_rates() -> dict[str, float]:
    """What this card reaches in plain products of 8192^3, in tera-operations per second."""
    n = 8192
    a = torch.randn(n, n, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(n, n, device="cuda", dtype=torch.bfloat16)
    ai = torch.randint(-127, 128, (n, n), device="cuda", dtype=torch.int8)
    bi = torch.randint(-127, 128, (n, n), device="cuda", dtype=torch.int8).t().contiguous().t()
    operations = 2.0 * n**3
    return {
        "bf16": operations / milliseconds(lambda: a @ b) / 1e9,
        "int8": operations / milliseconds(lambda: torch._int_mm(ai, bi)) / 1e9,
    }


def term_for(packed: Tensor, weight: Tensor, *geometry: tuple[int, int]) -> Term:
    factor = torch.full((weight.shape[0],), FACTOR, device="cuda", dtype=torch.int32)
    return Term(packed, factor, weight, *geometry)


def neurons_for(outputs: int) -> IntegerNeurons:
    def draw(low: int, high: int) -> Tensor:
        return torch.randint(low, high, (outputs,), device="cuda", dtype=torch.int32)

    return IntegerNeurons(
        static=draw(-9_000, 9_000), initial=draw(90_000, 110_000), threshold=draw(180_000, 220_000),
    )  # fmt: skip


class Baseline:
    """The same layer with floats: product in half precision, then the firing rule in float32."""

    def __init__(self, weight: Tensor, neurons: IntegerNeurons, delay: int) -> None:
        self.weight, self.delay = weight, delay
        self.gain = (FACTOR / neurons.threshold).float()
        self.static = (neurons.static / neurons.threshold).float()
        self.initial = (neurons.initial / neurons.threshold).float()

    def product(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.to(x))

    def fire(self, x: Tensor) -> Tensor:
        """Spikes [T, rows, outputs] in bf16 from spikes [T, rows, inputs] in bf16."""
        currents = self.product(x).float() * self.gain + self.static
        membrane = self.initial.expand(currents.shape[1:])
        spikes = []
        taken = 0
        for slot in range(SLOTS):
            while taken <= min(slot + self.delay - 1, SLOTS - 1):
                membrane = membrane + currents[taken]
                taken += 1
            fired = (membrane >= 1).to(x)
            membrane = membrane - fired
            spikes.append(fired)
        return torch.stack(spikes)


class ConvBaseline(Baseline):
    """3x3 convolution, channels last; x is [T, clips, channel, token, feature]."""

    def __init__(self, weight: Tensor, neurons: IntegerNeurons, delay: int, stride: int) -> None:
        super().__init__(weight.permute(0, 3, 1, 2), neurons, delay)
        self.stride = stride

    def product(self, x: Tensor) -> Tensor:
        weight = self.weight.to(x).contiguous(memory_format=torch.channels_last)
        y = F.conv2d(x.flatten(0, 1), weight, stride=(1, self.stride), padding=1)
        return y.permute(0, 2, 3, 1).view(*x.shape[:2], x.shape[3], -1, y.shape[1])


def fire_alone(currents: Tensor, baseline: Baseline) -> Tensor:
    """The Triton neuron alone, on currents that lie in memory already."""
    return fire(currents, baseline.delay, offset=baseline.initial - 0.5, backend="triton")


def spikingjelly_layer(baseline: Baseline) -> Callable[[Tensor], Tensor] | None:
    """SpikingJelly's multi-step IF after an fp16 product, scale and bias folded into it.

    Its node has one threshold and starts at zero, so thresholds are divided out and the initial
    potential joins the first slot's bias.
    """
    if importlib.util.find_spec("spikingjelly") is None:
        return None
    from spikingjelly.activation_based import functional, neuron

    node = neuron.IFNode(v_threshold=1.0, v_reset=None, step_mode="m").cuda().eval()
    shape = (-1, *[1] * (baseline.weight.dim() - 1))
    folded = Baseline.__new__(type(baseline))
    folded.__dict__ |= baseline.__dict__
    folded.weight = (baseline.weight.float() * baseline.gain.view(shape)).half()
    static, initial = baseline.static.half(), baseline.initial.half()

    def run(x: Tensor) -> Tensor:
        functional.reset_net(node)
        currents = folded.product(x) + static
        currents[0] += initial
        return node(currents)

    return run


def measure(name: str, macs: float, ways: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {"layer": name, "macs": macs}
    for way, work in ways.items():
        row[f"{way}_ms"] = milliseconds(work)
    row["fused_tops"] = 2 * macs / row["fused_ms"] / 1e9
    return row


@torch.inference_mode()
def measured_layers(rows: int, delay: int) -> Iterator[dict[str, Any]]:
    """One layer after the other, each told as soon as it is measured."""
    torch.manual_seed(0)
    for inputs, outputs in LINEAR:
        packed = torch.randint(0, 1 << SLOTS, (rows, inputs), device="cuda", dtype=torch.uint8)
        weight = torch.randint(-60, 61, (outputs, inputs), device="cuda", dtype=torch.int8)
        neurons = neurons_for(outputs)
        term = term_for(packed[:, None, None], weight[:, None, None])
        baseline = Baseline(weight, neurons, delay)
        yield compare(
            f"linear {inputs}x{outputs}", rows * inputs * outputs * SLOTS, baseline,
            unpack(packed, SLOTS),
            partial(layers.fire, [term], neurons, SLOTS, delay, "triton"),
        )  # fmt: skip
    for channels, outputs, stride in CONVS:
        clips = max(1, rows // (TOKENS * 16))
        packed = torch.randint(
            0, 1 << SLOTS, (clips, TOKENS, 16 * stride, channels), device="cuda", dtype=torch.uint8
        )
        bordered = F.pad(packed, (0, 0, 1, 1, 1, 1))
        weight = torch.randint(-60, 61, (outputs, 3, 3, channels), device="cuda", dtype=torch.int8)
        neurons = neurons_for(outputs)
        term = term_for(bordered, weight, (1, stride), (1, 1), (1, 1))
        yield compare(
            f"conv {channels}x{outputs}/{stride}",
            clips * TOKENS * 16 * 9 * channels * outputs * SLOTS,
            ConvBaseline(weight, neurons, delay, stride),
            unpack(packed, SLOTS).permute(0, 1, 4, 2, 3),
            partial(layers.fire, [term], neurons, SLOTS, delay, "triton"),
        )  # fmt: skip


def compare(
    name: str, macs: float, baseline: Baseline, spikes: Tensor, fused: Callable[[], Tensor]
) -> dict[str, Any]:
    x = spikes.to(torch.bfloat16)
    compiled = torch.compile(baseline.fire, dynamic=False)
    ways: dict[str, Callable[[], Any]] = {
        "eager": lambda: baseline.fire(x), "compile": lambda: compiled(x), "fused": fused,
    }  # fmt: skip
    jelly = spikingjelly_layer(baseline)
    half = spikes.half()
    if jelly is not None:
        ways["spikingjelly"] = lambda: jelly(half)
    currents = baseline.product(x).float() * baseline.gain + baseline.static
    ways["neuron"] = lambda: fire_alone(currents, baseline)
    row = measure(name, macs, ways)
    # Float rounding may move a spike at a tie; the fused layer is exact, so this says how often.
    ours, theirs = fused(), pack(baseline.fire(x))
    row["different_share"] = float((ours != theirs.view(ours.shape)).float().mean())
    row["times_eager"] = row["eager_ms"] / row["fused_ms"]
    row["times_compile"] = row["compile_ms"] / row["fused_ms"]
    if jelly is not None:
        row["times_spikingjelly"] = row["spikingjelly_ms"] / row["fused_ms"]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--delay", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rates, measured = matrix_rates(), measured_layers(arguments.rows, arguments.delay)
    if arguments.json:
        result = {
            "gpu": torch.cuda.get_device_name(), "rows": arguments.rows, "slots": SLOTS,
            "delay": arguments.delay, "torch": torch.__version__, "matrix_tops": rates,
            "layers": list(measured),
        }  # fmt: skip
        print(json.dumps(result, indent=1))
        return
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}: bf16 {rates['bf16']:.0f} "
        f"TFLOP/s, int8 {rates['int8']:.0f} TOP/s in plain products",
        flush=True,
    )
    for row in measured:
        shares = ", ".join(f"{row['fused_tops'] / rates[kind]:.0%} of {kind}" for kind in rates)
        ratios = ", ".join(
            f"{row[key]:.1f}x {key.removeprefix('times_')}"
            for key in row
            if key.startswith("times_")
        )
        print(f"{row['layer']:>16}: fused {row['fused_ms']:.3f} ms, {row['fused_tops']:.0f} TOP/s,"
              f" {shares},")  # fmt: skip
        print(
            f"{'':>18}{ratios}; neuron alone {row['neuron_ms']:.3f} ms;"
            f" {row['different_share']:.1e} of spikes differ",
            flush=True,
        )


if __name__ == "__main__":
    main()
