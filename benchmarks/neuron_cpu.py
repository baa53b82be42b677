"""The neuron on the CPU against eager torch, SpikingJelly and snnTorch, all in one run.

SN_delta equals an ordinary soft-reset IF neuron on remapped currents (slot 0: the sum of the first
`delay` currents; slot t: current t + delay - 1; then zeros). That is how a user of SpikingJelly or
snnTorch gets it, so their time includes the remapping. Each competitor's spikes are checked first.
Backward is timed up to the currents' gradient, as inside a network; the rate gradient is one value
per neuron there, seen T times without a copy. The last column divides by the slower one of ours.
It needs the packages spikingjelly (with loguru) and snntorch.

    python benchmarks/neuron_cpu.py            # 1 million neurons, T = 7
    python benchmarks/neuron_cpu.py --json
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from falcon_snn import fire, fire_train

Layer = Callable[[Tensor], Tensor]


def remap(currents: Tensor, delay: int) -> Tensor:
    """Currents on which a plain IF neuron with potential 0 does what SN_delay does from 1/2."""
    first = 0.5 + currents[:delay].sum(0, keepdim=True)
    zeros = currents.new_zeros(delay - 1, *currents.shape[1:])
    return torch.cat([first, currents[delay:], zeros])


def eager_torch(delay: int) -> Layer:
    """What one writes by hand: a loop over slots with a triangle surrogate."""

    class Spike(torch.autograd.Function):
        @staticmethod
        def forward(ctx, u: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
            ctx.save_for_backward(u)
            return (u >= 0).to(u.dtype)

        @staticmethod
        def backward(ctx, grad: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
            (u,) = ctx.saved_tensors
            return grad * torch.relu(1 - u.abs())

    def layer(currents: Tensor) -> Tensor:
        potential = torch.zeros_like(currents[0])
        spikes = []
        for current in remap(currents, delay).unbind(0):
            potential = potential + current
            spike: Tensor = Spike.apply(potential - 1.0)  # type: ignore[no-untyped-call]
            potential = potential - spike.detach()
            spikes.append(spike)
        return torch.stack(spikes)

    return layer


def spikingjelly(delay: int) -> Layer:
    from spikingjelly.activation_based import functional, neuron

    node = neuron.IFNode(v_threshold=1.0, v_reset=None, detach_reset=True, step_mode="m")

    def layer(currents: Tensor) -> Tensor:
        functional.reset_net(node)
        spikes: Tensor = node(remap(currents, delay))
        return spikes

    return layer


def snntorch(delay: int) -> Layer:
    """It subtracts the threshold when the next slot comes in, which gives the same spikes."""
    import snntorch as snn

    node = snn.Leaky(beta=1.0, threshold=1.0, reset_mechanism="subtract")

    def layer(currents: Tensor) -> Tensor:
        potential = node.init_leaky()
        spikes = []
        for current in remap(currents, delay).unbind(0):
            spike, potential = node(current, potential)
            spikes.append(spike)
        return torch.stack(spikes)

    return layer


def forward_ms(layer: Layer, currents: Tensor) -> float:
    with torch.no_grad():
        start = time.perf_counter()
        layer(currents)
        return 1e3 * (time.perf_counter() - start)


def training_ms(layer: Layer, currents: Tensor, upstream: Tensor) -> float:
    leaf = currents.clone().requires_grad_()
    start = time.perf_counter()
    torch.autograd.grad(layer(leaf), leaf, upstream)
    return 1e3 * (time.perf_counter() - start)


def measure(neurons: int, slots: int, delay: int, repeats: int) -> list[dict[str, object]]:
    generator = torch.Generator().manual_seed(0)
    # On a grid every sum is exact, and the odd 1/1024 per slot keeps sums off the threshold
    # (snnTorch fires above it, the others at it too): equal spikes are a fair demand.
    currents = torch.randint(-48, 90, (slots, neurons), generator=generator) / 64 + 1 / 1024
    upstream = torch.randn(currents.shape, generator=generator)
    peers = {
        "torch eager": eager_torch(delay),
        "SpikingJelly IFNode": spikingjelly(delay),
        "snnTorch Leaky": snntorch(delay),
    }
    forward: dict[str, Layer] = {"falcon fire": lambda x: fire(x, delay, backend="numba"), **peers}
    training: dict[str, Layer] = {
        "falcon rate": lambda x: fire_train(x, delay, backend="numba"),
        "falcon temporal": lambda x: fire_train(x, delay, backend="numba", gradient="temporal"),
        **peers,
    }
    expected = fire(currents, delay, backend="reference")
    for name, layer in (forward | training).items():
        with torch.no_grad():
            if not torch.equal(layer(currents).to(torch.uint8), expected):
                raise SystemExit(f"{name}: its spikes differ from the reference")
    # Round robin, so that a busy moment of the machine falls on all of them alike.
    times: dict[tuple[str, str], list[float]] = {}
    for _ in range(repeats):
        for name, layer in forward.items():
            times.setdefault(("forward", name), []).append(forward_ms(layer, currents))
        for name, layer in training.items():
            taken = training_ms(layer, currents, upstream)
            times.setdefault(("forward+backward", name), []).append(taken)
    return summarise({key: times[key][1:] for key in times})  # the first round warmed up


def summarise(times: dict[tuple[str, str], list[float]]) -> list[dict[str, object]]:
    """Medians, and the ratio to the slower one of ours in the same task."""
    medians = {key: statistics.median(taken) for key, taken in times.items()}
    ours: dict[str, float] = {}
    for (task, name), median in medians.items():
        if name.startswith("falcon"):
            ours[task] = max(median, ours.get(task, 0.0))
    return [
        {
            "task": task,
            "layer": name,
            "median_ms": round(median, 2),
            "min_ms": round(min(times[task, name]), 2),
            "over_falcon": round(median / ours[task], 1),
        }
        for (task, name), median in medians.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--neurons", type=int, default=1_000_000)
    parser.add_argument("--slots", type=int, default=7)
    parser.add_argument("--delay", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    rows = measure(options.neurons, options.slots, options.delay, options.repeats)
    facts = {
        "neurons": options.neurons,
        "slots": options.slots,
        "delay": options.delay,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "processor": platform.processor() or platform.machine(),
    }
    if options.json:
        print(json.dumps({**facts, "rows": rows}, indent=1))
        return
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    print("equal spikes: checked")
    print(f"{'task':18}{'layer':22}{'median ms':>10}{'min ms':>10}{'x falcon':>10}")
    for row in rows:
        print(
            f"{row['task']:18}{row['layer']:22}{row['median_ms']:>10}{row['min_ms']:>10}"
            f"{row['over_falcon']:>10}"
        )


if __name__ == "__main__":
    main()
