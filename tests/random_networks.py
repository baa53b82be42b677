"""Random graphs and schedules for property tests."""

from hypothesis import strategies as st

from falcon_snn.hardware.profile import Profile, load_profile, with_value
from falcon_snn.pipeline.graph import INPUT, Graph, Stage, layer

SIZES = st.integers(1, 80)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Layers, residuals and attention in any order, reading any earlier stream."""
    slots = draw(st.integers(1, 8))
    stages: list[Stage] = []
    streams = [INPUT]
    for number in range(draw(st.integers(1, 6))):
        before = draw(st.sampled_from(streams))
        name = f"s{number}"
        kind = draw(st.sampled_from(("layer", "layer", "residual", "attention")))
        if kind == "layer":
            full = draw(st.booleans())
            stages += layer(name, before, draw(SIZES), draw(SIZES), draw(SIZES), lookahead=full)
        elif kind == "residual":
            stages.append(Stage(name, "residual", (before, draw(st.sampled_from(streams)))))
        else:
            stages += attention(draw, name, before, slots)
        streams.append(name)
    return Graph("random", slots, tuple(stages))


def attention(draw: st.DrawFn, name: str, before: str, slots: int) -> list[Stage]:
    """Q, K, V, two products with an element-wise stage between them, and neurons called `name`."""
    tokens, size, heads = draw(SIZES), draw(SIZES), draw(st.integers(1, 7))
    stages: list[Stage] = []
    for role in ("q", "k"):
        array = Stage(f"{name}.{role}.array", "analog", (before,), inner=draw(SIZES), columns=size)
        prefix = draw(st.integers(1, slots))
        stages += [array, Stage(f"{name}.{role}", "quantise", (array.name,), prefix=prefix)]
    return [
        *stages,
        *layer(f"{name}.v", before, draw(SIZES), size, lookahead=draw(st.booleans())),
        Stage(f"{name}.qk", "product", (f"{name}.q", f"{name}.k"),
              rows=tokens, inner=size, columns=tokens, copies=heads),
        Stage(f"{name}.map", "elementwise", (f"{name}.qk",),
              rows=tokens, columns=tokens, copies=heads),
        Stage(f"{name}.av", "product", (f"{name}.map", f"{name}.v"),
              rows=tokens, inner=tokens, columns=size, copies=heads),
        Stage(name, "neuron", (f"{name}.av",), full_lookahead=draw(st.booleans())),
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
def schedules(draw: st.DrawFn, graph: Graph) -> dict[str, int]:
    return {name: draw(st.integers(1, graph.slots)) for name in graph.boundaries}
