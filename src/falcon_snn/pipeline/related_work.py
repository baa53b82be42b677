"""The networks that the paper compares Falcon with, as task graphs on shared digital engines.

The paper publishes six latencies but not every cost behind them. These graphs follow the networks'
descriptions, and one cost table (`engines.VectorCosts`) was fitted to the six figures: good to
1 %, but a fit and not the authors' own model. Embedding, head and classifier are outside the
timed core.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from falcon_snn.pipeline.chrome_trace import TraceSpan
from falcon_snn.pipeline.engines import (
    TILE,
    Machine,
    Placement,
    Pool,
    Task,
    VectorCosts,
    gemm_cycles,
    schedule,
)
from falcon_snn.pipeline.frame_tasks import FrameTasks, Signal, channels, join
from falcon_snn.pipeline.spiking_vgg import spiking_vgg11

FIT_NOTE = (
    "The modeled figures come from a reconstruction with one cost table fitted to the six "
    "published latencies. It is a fit, not the authors' own model."
)
SPREAD_NOTE = (
    "As fitted, one vector engine does all channels of a neuron layer while others stand idle; "
    "'spread' is the same network, engines and costs with the layer shared among them."
)

MACHINE = Machine()
FITTED_COSTS = VectorCosts()
WIDTH = 256
HEADS = 16
HEAD_WIDTH = WIDTH // HEADS
FFN_WIDTH = 1024


@dataclass(frozen=True)
class Modeled:
    """One network on the shared engines, task by task."""

    name: str
    time_steps: int
    tasks: list[Task]
    placements: list[Placement]
    machine: Machine

    @property
    def cycles(self) -> int:
        return max(placement.end for placement in self.placements)

    @property
    def us(self) -> float:
        return self.machine.us(self.cycles)

    def busy(self, pool: Pool) -> float:
        """The share of the time in which an engine of `pool` works, on average."""
        work = sum(task.cycles for task in self.tasks if task.pool == pool)
        return work / (self.cycles * self.machine.engines(pool))

    def spans(self) -> Iterator[TraceSpan]:
        """The bars of its timeline: one process per network, one track per engine."""
        us = self.machine.us
        placed = sorted(
            zip(self.tasks, self.placements, strict=True),
            key=lambda pair: (pair[0].pool, pair[1].engine, pair[1].start),
        )
        for task, (start, end, engine) in placed:
            name = f"{task.layer} group {task.group} tile {task.tile}"
            yield TraceSpan(self.name, f"{task.pool} {engine}", name, us(start), us(end))


def spikcommander(frames: int, blocks: int, costs: VectorCosts, spread_neurons: bool) -> list[Task]:
    """SpikCommander: local and global gates over time instead of an attention map, then an MLP."""
    net = FrameTasks(frames, spread_neurons)
    x = net.source(WIDTH)
    for block in range(blocks):
        x = _spikcommander_mlp(
            net, f"block{block}", _gated_attention(net, f"block{block}", x, costs), costs
        )
    return net.tasks


def _gated_attention(net: FrameTasks, block: str, x: Signal, costs: VectorCosts) -> Signal:
    gate_radius = 20
    q, k, v = (_linear_lif(net, f"{block}.{name}", x, WIDTH, costs) for name in "qkv")

    window_cycles = 2 * (2 * gate_radius + 1) * costs.tap  # of Q and of K
    sums = net.window(f"{block}.local_sum", window_cycles, gate_radius, q, k)
    local_gate = net.neurons(f"{block}.local_gate", sums, costs.scale + costs.lif)
    global_cycles = 2 * net.frames * costs.tap + costs.scale + costs.lif
    global_gate = net.whole_sequence(f"{block}.global_gate", global_cycles, q, k)
    local_v = net.elementwise(f"{block}.local_v", costs.elementwise, local_gate, v)
    global_v = net.elementwise(f"{block}.global_v", costs.elementwise, global_gate, v)
    gated = net.elementwise(f"{block}.gated", costs.elementwise, local_v, global_v)
    gated = _linear_lif(net, f"{block}.gated_linear", gated, WIDTH, costs)

    mixed = net.elementwise(f"{block}.v_mixing", HEAD_WIDTH * costs.tap, v)
    convolved = net.window(f"{block}.v_conv9x3", 9 * 3 * costs.tap, 4, mixed)
    v_branch = net.neurons(f"{block}.v_branch", convolved, costs.lif)

    joined = net.elementwise(f"{block}.joined", costs.elementwise, gated, v_branch)
    projected = _linear_lif(net, f"{block}.projection", joined, WIDTH, costs)
    return net.elementwise(f"{block}.sum1", costs.elementwise, x, projected)


def _spikcommander_mlp(net: FrameTasks, block: str, x: Signal, costs: VectorCosts) -> Signal:
    half = FFN_WIDTH // 2
    hidden = _linear_lif(net, f"{block}.mlp1", x, WIDTH, costs)
    hidden = _linear_lif(net, f"{block}.mlp2", hidden, FFN_WIDTH, costs)
    convolved = _depthwise31_lif(net, f"{block}.mlp_conv31", channels(hidden, 0, half), costs)
    hidden = join(convolved, channels(hidden, half, FFN_WIDTH))
    hidden = _linear_lif(net, f"{block}.mlp3", hidden, WIDTH, costs)
    hidden = _linear_lif(net, f"{block}.mlp4", hidden, WIDTH, costs)
    return net.elementwise(f"{block}.sum2", costs.elementwise, x, hidden)


def spikescr(frames: int, costs: VectorCosts, spread_neurons: bool) -> list[Task]:
    """SpikeSCR with one block: attention with RoPE, a gated convolution module, one FFN.

    The released code has two FFNs; the published figures fit one only (two lie about 30 % above).
    """
    net = FrameTasks(frames, spread_neurons)
    x = _spikescr_attention(net, net.source(WIDTH), costs)
    x = _convolution_module(net, x, costs)
    hidden = _linear_lif(net, "mlp1", x, FFN_WIDTH, costs)
    hidden = _linear_lif(net, "mlp2", hidden, WIDTH, costs)
    net.elementwise("sum3", costs.elementwise, x, hidden)
    return net.tasks


def _spikescr_attention(net: FrameTasks, x: Signal, costs: VectorCosts) -> Signal:
    q, k, v = (_linear_lif(net, name, x, WIDTH, costs) for name in "qkv")
    q, k = (
        net.neurons(f"{name}_rope", y, costs.rope + costs.lif) for name, y in (("q", q), ("k", k))
    )
    # Two heads of 16 share the 32 channels of a tile; each needs K and V of every frame.
    heads_per_tile = TILE // HEAD_WIDTH
    all_k, all_v = ([frozenset().union(*tiles) for tiles in zip(*y, strict=True)] for y in (k, v))

    products = [
        [
            [
                net.add("qk", group, head, "array", gemm_cycles(len(rows), HEAD_WIDTH, TILE),
                        q[group][head // heads_per_tile], all_k[head // heads_per_tile])
                for _ in net.groups  # one task per 32 columns of the map
            ]
            for head in range(HEADS)
        ]
        for group, rows in enumerate(net.groups)
    ]  # fmt: skip
    by_head = [
        [
            net.add("av", group, head, "array", gemm_cycles(len(rows), net.frames, HEAD_WIDTH),
                    *products[group][head], all_v[head // heads_per_tile])
            for head in range(HEADS)
        ]
        for group, rows in enumerate(net.groups)
    ]  # fmt: skip
    context = [
        [frozenset().union(*heads[h : h + heads_per_tile]) for h in range(0, HEADS, heads_per_tile)]
        for heads in by_head
    ]
    context = net.neurons("context", context, costs.scale + costs.lif)
    projected = _linear_lif(net, "projection", context, WIDTH, costs)
    return net.elementwise("sum1", costs.elementwise, x, projected)


def _convolution_module(net: FrameTasks, x: Signal, costs: VectorCosts) -> Signal:
    y = _linear_lif(net, "conv_in", x, WIDTH, costs)
    y = _depthwise31_lif(net, "conv31", y, costs)
    y = net.linear("conv_split", y, 2 * WIDTH)
    y = net.elementwise("conv_split_bn", costs.batch_norm, y)
    gate = net.neurons("gate_in", channels(y, WIDTH, 2 * WIDTH), costs.lif)
    gate = _linear_lif(net, "gate", gate, WIDTH, costs)
    y = net.elementwise("gated", costs.elementwise, channels(y, 0, WIDTH), gate)
    y = net.neurons("conv_out", y, costs.lif)
    return net.elementwise("sum2", costs.elementwise, x, y)


def _linear_lif(net: FrameTasks, layer: str, x: Signal, outputs: int, costs: VectorCosts) -> Signal:
    y = net.linear(layer, x, outputs)
    return net.neurons(f"{layer}.lif", y, costs.batch_norm + costs.lif)


def _depthwise31_lif(net: FrameTasks, layer: str, x: Signal, costs: VectorCosts) -> Signal:
    y = net.window(layer, 31 * costs.tap, 15, x)
    return net.neurons(f"{layer}.lif", y, costs.batch_norm + costs.lif)


# By the names of the paper's table: time steps, and how to build the tasks.
NETWORKS: dict[str, tuple[int, Callable[[VectorCosts, bool], list[Task]]]] = {
    # Its neurons are one task per 32 channels in the published figure already.
    "T-BSO, Spiking VGG-11": (4, lambda costs, _: spiking_vgg11(4, costs)),
    "SpikeSCR, 1L-16-256 (short)": (40, partial(spikescr, 40)),
    "SpikeSCR, 1L-16-256": (100, partial(spikescr, 100)),
    "SpikCommander, 1L-16-256": (100, partial(spikcommander, 100, 1)),
    "SpikCommander, 2L-16-256 (short)": (50, partial(spikcommander, 50, 2)),
    "SpikCommander, 2L-16-256": (100, partial(spikcommander, 100, 2)),
}


def model(
    name: str,
    machine: Machine = MACHINE,
    costs: VectorCosts = FITTED_COSTS,
    *,
    spread_neurons: bool = False,
) -> Modeled:
    """Build one of `NETWORKS` and schedule it on the shared engines.

    `spread_neurons` is the fairer what-if: a neuron layer may use all idle vector engines.
    """
    time_steps, build = NETWORKS[name]
    tasks = build(costs, spread_neurons)
    return Modeled(name, time_steps, tasks, schedule(tasks, machine), machine)
