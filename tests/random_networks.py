"""Random graphs, schedules, hardware and whole networks for property tests."""

from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile, load_profile, with_value
from falcon_snn.network.description import Network
from falcon_snn.network.integer import Snn, Streams
from falcon_snn.network.operations import Attention, Code, Fire, FireTerm, Readout, Source
from falcon_snn.network.product import Product, Shape
from falcon_snn.network.qnn import Qnn
from falcon_snn.network.stage import Stage
from falcon_snn.neuron.packed import unpack
from falcon_snn.pipeline.graph import INPUT, Graph, TimedStage, layer

SIZES = st.integers(1, 80)
SEEDS = st.integers(0, 10_000)
Array = NDArray[Any]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Layers, residuals and attention in any order, reading any earlier stream."""
    slots = draw(st.integers(1, 8))
    stages: list[TimedStage] = []
    streams = [INPUT]
    for number in range(draw(st.integers(1, 6))):
        before = draw(st.sampled_from(streams))
        name = f"s{number}"
        kind = draw(st.sampled_from(("layer", "layer", "residual", "attention")))
        if kind == "layer":
            full = draw(st.booleans())
            stages += layer(name, before, draw(SIZES), draw(SIZES), draw(SIZES), lookahead=full)
        elif kind == "residual":
            stages.append(TimedStage(name, "residual", (before, draw(st.sampled_from(streams)))))
        else:
            stages += attention(draw, name, before, slots)
        streams.append(name)
    return Graph("random", slots, tuple(stages))


def attention(draw: st.DrawFn, name: str, before: str, slots: int) -> list[TimedStage]:
    """Q, K, V, two products with an element-wise stage between them, and neurons called `name`."""
    tokens, size, heads = draw(SIZES), draw(SIZES), draw(st.integers(1, 7))
    stages: list[TimedStage] = []
    for role in ("q", "k"):
        array = TimedStage(
            f"{name}.{role}.array", "analog", (before,), inner=draw(SIZES), columns=size
        )
        prefix = draw(st.integers(1, slots))
        stages += [array, TimedStage(f"{name}.{role}", "quantise", (array.name,), prefix=prefix)]
    return [
        *stages,
        *layer(f"{name}.v", before, draw(SIZES), size, lookahead=draw(st.booleans())),
        TimedStage(f"{name}.qk", "product", (f"{name}.q", f"{name}.k"),
              rows=tokens, inner=size, columns=tokens, copies=heads),
        TimedStage(f"{name}.map", "elementwise", (f"{name}.qk",),
              rows=tokens, columns=tokens, copies=heads),
        TimedStage(f"{name}.av", "product", (f"{name}.map", f"{name}.v"),
              rows=tokens, inner=tokens, columns=size, copies=heads),
        TimedStage(name, "neuron", (f"{name}.av",), full_lookahead=draw(st.booleans())),
    ]  # fmt: skip


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    """The paper's chip with a few values moved."""
    profile = load_profile()
    moves = {
        "tile_rows": st.integers(1, 128),
        "mux": st.integers(1, 8),
        "hand_over_cycles": st.integers(0, 3),
        "neuron_step_cycles": st.integers(0, 40),
        "array_size": st.integers(1, 40),
        "arrays": st.integers(1, 6),
        "engines": st.integers(1, 6),
        "attention": st.sampled_from(("serial", "streamed")),
        "engine_sharing": st.sampled_from(("shared", "per-block")),
        "tokens_per_copy": st.integers(1, 4),
    }
    for key, values in moves.items():
        profile = with_value(profile, key, draw(values))
    return profile


@st.composite
def schedules(draw: st.DrawFn, graph: Graph | Network) -> dict[str, int]:
    return {name: draw(st.integers(1, graph.slots)) for name in graph.boundaries}


@st.composite
def networks(draw: st.DrawFn, *, in_time: bool = False) -> Network:
    """A network of any operations, small enough to be followed neuron by neuron.

    Every stage reads the one before it and often an earlier one beside it. `in_time` leaves out
    what needs all lines at once, so that clips may be shorter than the network.
    """
    slots = draw(st.integers(1, 8))
    stages: list[Stage] = [_source(draw, in_time)]
    shapes = {stages[0].name: stages[0].shape({})}
    for number in range(draw(st.integers(1, 4))):
        name = f"block{number // 2}.s{number}"
        before = stages[-1].name if stages[-1].emits == "spikes" else stages[0].name
        kinds = ["layer", "layer", "layers", "shortcut", "residual"]
        if shapes[before][1] == 1:
            kinds += ["attention", "attention"]
        kind = draw(st.sampled_from(kinds))
        if kind == "attention":
            more = _attention(draw, f"c{number}", before, shapes, slots)
        else:
            more = [_fire(draw, kind, name, before, shapes, in_time)]
        for stage in more:
            stages.append(stage)
            shapes[stage.name] = stage.shape(shapes)
    lines, pixels, _ = shapes[stages[-1].name]
    window = (0 if in_time else draw(st.integers(0, lines)), draw(st.integers(0, pixels)))
    readout = Readout(
        "classes", stages[-1].name, draw(st.integers(2, 4)), window, norm=draw(st.booleans())
    )
    bits = draw(st.sampled_from((8, 8, 4, 2)))
    return Network("random", slots, (*stages, readout), bits)


def _source(draw: st.DrawFn, in_time: bool) -> Source:
    axes = 1 if in_time and draw(st.booleans()) else draw(st.integers(1 if in_time else 0, 2))
    shape = (
        draw(st.integers(3, 7)) if axes else 1,
        draw(st.integers(2, 6)) if axes == 2 else 1,
        draw(st.integers(1, 3 if axes else 9)),
    )
    kind = draw(st.sampled_from(("convolution", "scaling", "given")))
    encoding = draw(st.sampled_from(("first", "even")))
    if kind == "given":
        return Source("source", shape, given=True, encoding=encoding)
    product = None
    if kind == "convolution":
        product = replace(_convolution(draw, shape, (1, 1)), outputs=draw(st.integers(1, 5)))
    levels, zero = draw(st.sampled_from(((1.0, 0.0), (32.0, 0.0), (3.7, -1.25), (16.0, 0.5))))
    return Source("source", shape, product, levels, zero, encoding=encoding)


def _convolution(draw: st.DrawFn, before: Shape, pool: tuple[int, int]) -> Product:
    """A kernel of up to 4 x 4 with stride and padding that fits; one output, one group."""
    kernel, stride, padding = [], [], []
    for size, window in zip(before[:2], pool, strict=True):
        padded = draw(st.integers(0, 2)) if size % window == 0 and size > 1 else 0
        kernel.append(draw(st.integers(padded + 1, max(padded + 1, min(4, size // window)))))
        padding.append(padded)
        stride.append(draw(st.integers(1, 3)))
    norm = draw(st.sampled_from(("batch", "batch", "bias")))
    return Product(
        1, (kernel[0], kernel[1]), (stride[0], stride[1]), (padding[0], padding[1]),
        pool=pool, average=draw(st.booleans()), norm=norm,
    )  # fmt: skip


def _product(draw: st.DrawFn, before: Shape, in_time: bool) -> Product:
    """Per position, per line, of the whole map, or a convolution; pooled or not, in groups."""
    lines, pixels, channels = before
    pool = (1, 1)
    if draw(st.booleans()):
        pool = (draw(st.integers(1, min(3, lines))), draw(st.integers(1, min(3, pixels))))
    kinds = ["position", "line", "convolution", "convolution"]
    kind = draw(st.sampled_from(kinds if in_time else [*kinds, "map"]))
    product = _convolution(draw, before, pool)
    if kind != "convolution":
        kernel = {
            "position": (1, 1),
            "line": (1, pixels // pool[1]),
            "map": (lines // pool[0], pixels // pool[1]),
        }[kind]
        product = replace(product, kernel=kernel, stride=(1, 1), padding=(0, 0))
    groups = draw(st.sampled_from([n for n in range(1, channels + 1) if channels % n == 0]))
    return replace(
        product, outputs=groups * draw(st.integers(1, max(1, 7 // groups))), groups=groups
    )


def _fire(
    draw: st.DrawFn, kind: str, name: str, before: str, shapes: dict[str, Shape], in_time: bool
) -> Fire:
    """A layer, two layers, a layer and spikes, or two streams of spikes."""
    lookahead, norm = draw(st.integers(0, 3)) == 0, draw(st.booleans())
    streams = [stream for stream in shapes if not stream.endswith((".q", ".k"))]
    product = _product(draw, shapes[before], in_time)
    first = FireTerm(before, product)
    if kind == "layers":
        wanted = product.shape(shapes[before], name)
        others = [(s, p) for s in streams if (p := _matching(draw, shapes[s], wanted))]
        terms = (first, FireTerm(*draw(st.sampled_from([(before, product), *others]))))
        return Fire(name, terms, lookahead, norm)
    if kind in ("shortcut", "residual"):
        alike = [s for s in streams if shapes[s][:2] == shapes[before][:2]]
        other = draw(st.sampled_from(alike))
        side = draw(st.sampled_from((1, 3)))
        kernel = (min(side, shapes[before][0]), min(side, shapes[before][1]))
        kernel = (kernel[0] - 1 + kernel[0] % 2, kernel[1] - 1 + kernel[1] % 2)
        padding = (kernel[0] // 2, kernel[1] // 2)
        if kind == "residual" and shapes[other] == shapes[before]:
            return Fire(name, (FireTerm(before), FireTerm(other)), lookahead, norm)
        terms = (
            FireTerm(before, Product(shapes[other][2], kernel, padding=padding)),
            FireTerm(other),
        )
        return Fire(name, terms if draw(st.booleans()) else terms[::-1], lookahead, norm)
    return Fire(name, (first,), lookahead, norm)


def _matching(draw: st.DrawFn, before: Shape, wanted: Shape) -> Product | None:
    """Weights per position whose stride gives a map of the wanted size, if there are some."""
    strides = []
    for size, target in zip(before[:2], wanted[:2], strict=True):
        fitting = [s for s in range(1, size + 1) if (size - 1) // s + 1 == target]
        if not fitting:
            return None
        strides.append(fitting[0])
    norm = draw(st.sampled_from(("batch", "bias")))
    return Product(wanted[2], stride=(strides[0], strides[1]), norm=norm)


def _attention(
    draw: st.DrawFn, name: str, before: str, shapes: dict[str, Shape], slots: int
) -> list[Stage]:
    heads = draw(st.integers(1, 3))
    channels = heads * draw(st.integers(1, 3))
    norm = draw(st.sampled_from(("batch", "bias")))
    prefix = draw(st.one_of(st.none(), st.integers(1, slots)))
    # The values may be what is there already, the source's spikes among them.
    values = before if shapes[before][2] == channels and draw(st.booleans()) else f"{name}.v"
    made = Fire(values, (FireTerm(before, Product(channels)),), lookahead=draw(st.booleans()))
    return [
        Code(f"{name}.q", before, Product(channels, norm=norm), prefix),
        Code(f"{name}.k", before, Product(channels), draw(st.sampled_from((prefix, None)))),
        *([] if values == before else [made]),
        Attention(name, f"{name}.q", f"{name}.k", values, heads),
    ]


def random_inputs(network: Network, clips: int, seed: int) -> Tensor:
    """Inputs that stay away from the middle between two integers, [clip, line, pixel, channel]."""
    draw = torch.Generator().manual_seed(seed)
    source, shape = network.source, (clips, *network.source.input)
    if source.given:
        return torch.randint(0, network.slots + 2, shape, generator=draw).float()
    integers = (40 * torch.randn(shape, generator=draw)).round()
    beside = 0.6 * torch.rand(shape, generator=draw) - 0.3
    return (integers + beside) / source.levels + source.zero


def trained_like(network: Network, seed: int) -> Qnn:
    """Batch norms with statistics and gains of both signs, odd neurons, steps of all sizes."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qnn(network)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.endswith("fire.threshold") and parameter.requires_grad:
                    parameter.uniform_(0.5, 2.0)
                elif name.endswith("fire.offset") and parameter.requires_grad:
                    parameter.uniform_(-0.5, 0.5)
                elif name.endswith("step.log") and parameter.requires_grad:
                    parameter.add_(torch.empty(()).uniform_(-0.7, 0.7))
                elif name.endswith("consmax.beta"):
                    parameter.normal_(0.0, 1.0)
                elif name.endswith("bias"):
                    parameter.normal_(0.0, 0.5)
            norms = [part for part in model.modules() if isinstance(part, nn.BatchNorm1d)]
            for norm in norms:
                norm.weight.copy_(torch.empty_like(norm.weight).uniform_(-2.0, 2.0))
                norm.momentum = 0.5
            for number in range(6):
                model(random_inputs(network, 8, seed + number))
            for norm in norms:
                assert norm.running_mean is not None
                assert norm.running_var is not None
                spread = norm.running_var.sqrt()
                norm.running_mean.add_(0.3 * spread * torch.randn_like(spread))
                norm.running_var.mul_(torch.empty_like(spread).uniform_(0.5, 2.0)).add_(1e-3)
                if draw_one(4):
                    norm.weight[0] = 0.0  # an output that says nothing
    return model.eval()


def draw_one(of: int) -> bool:
    return int(torch.randint(of, ())) == 0


@st.composite
def scheduled(draw: st.DrawFn) -> tuple[Network, dict[str, int]]:
    network = draw(networks())
    return network, draw(schedules(network))


@st.composite
def padded(draw: st.DrawFn) -> tuple[Network, dict[str, int], list[Network]]:
    """A network whose clips may be short, and the networks that those clips alone would have."""
    network = draw(networks(in_time=True))
    lines, pixels, channels = network.source.input
    short = []
    for length in range(1, lines + 1):
        try:
            one = network.with_source(input=(length, pixels, channels))
        except FalconError:
            continue
        real = network.lines(torch.tensor([length]))
        if all(int(real[s.name]) == one.shapes[s.name][0] for s in network.inner_stages):
            short.append(one)
    chosen = draw(st.lists(st.sampled_from(short), min_size=1, max_size=3))
    return network, draw(schedules(network)), chosen


def full(network: Network) -> dict[str, int]:
    return dict.fromkeys(network.boundaries, network.slots)


def floats(tensor: Tensor) -> Array:
    return tensor.detach().double().numpy()


def trains(snn: Snn, streams: Streams) -> dict[str, Array]:
    """Spikes [slot, clip, line, pixel, channel]; codes without slots."""
    return {
        stage.name: floats(
            streams[stage.name]
            if stage.emits == "codes"
            else unpack(snn.network.inner(stage.name, streams[stage.name]), snn.network.slots)
        )
        for stage in snn.network.inner_stages
    }
