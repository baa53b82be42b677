"""TimedStage graphs: Falcon's, the shipped examples, and graphs that must be refused."""

from pathlib import Path

import pytest
from hypothesis import given
from tests.random_networks import graphs

from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import load_profile
from falcon_snn.pipeline.graph import Graph, TimedStage, graph_toml, layer, read_graph
from falcon_snn.pipeline.timing import qnn_cycles, time_snn
from falcon_snn.workflow.networks import built_in

EXAMPLES = Path(__file__).parent.parent / "examples"
PAPER = load_profile()


@pytest.mark.parametrize(("model", "blocks"), [("tiny", 1), ("medium", 3), ("large", 5)])
def test_falcon_has_the_boundaries_of_the_paper(model: str, blocks: int) -> None:
    network = built_in(model, "gsc")
    graph = network.graph
    inside = ("attn_out", "residual1", "ffn1", "ffn2", "residual2")
    assert graph.boundaries == network.boundaries == (
        "stem.conv1", "stem.conv2", "stem.fc1", "stem.fc2",
        *(f"block{number}.{name}" for number in range(blocks) for name in inside),
    )  # fmt: skip
    assert graph.outputs == (f"block{blocks - 1}.residual2",)


def test_mlp_example() -> None:
    graph = read_graph(EXAMPLES / "mlp.toml")
    assert graph.boundaries == ("hidden1", "hidden2")  # the output layer looks at all slots
    # Two layers of a pass and a step, then seven passes and seven decisions of the last.
    delays = {"hidden1": 1, "hidden2": 1}
    assert time_snn(graph, delays, PAPER).core_cycles == 2 * 191 + 7 * 188 + 7 * 3
    assert qnn_cycles(graph, PAPER) == 3 * 567


def test_vgg_example() -> None:
    graph = read_graph(EXAMPLES / "spiking_vgg.toml")
    assert len(graph.boundaries) == 10
    # conv1 has only 27 inputs: three row groups, 142 cycles; then nine layers and the shortcut.
    fastest = dict.fromkeys(graph.boundaries, 1)
    first_slot = 145 + 8 * 191 + 3
    assert time_snn(graph, fastest, PAPER).core_cycles == first_slot + 3 * 188
    assert qnn_cycles(graph, PAPER) == 3 * 142 + 3 + 8 * 567 + 3


@given(graphs())
def test_written_graphs_are_read_back(graph: Graph) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "graph.toml"
        file.write_text(graph_toml(graph))
        assert read_graph(file) == graph


def test_a_graph_of_any_name_is_read_back(tmp_path: Path) -> None:
    graph = Graph('the "fast" one, a\\b, 速い', 7, layer("a", "input", 10, 10))
    file = tmp_path / "graph.toml"
    file.write_text(graph_toml(graph), encoding="utf-8")
    assert read_graph(file) == graph


def test_stages_may_be_given_in_any_order() -> None:
    first, second = layer("a", "input", 10, 10), layer("b", "a", 10, 10)
    shuffled = Graph("g", 7, (*second, *first))
    assert shuffled.boundaries == ("a", "b")


STAGE = '[[stage]]\nname = "a"\nkind = "neuron"\nafter = "input"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[stage]]\nname = "a"\nkind = "layer"\nafter = "b"\ninner = 9\ncolumns = 9\n'
         '[[stage]]\nname = "b"\nkind = "layer"\nafter = "a"\ninner = 9\ncolumns = 9\n',
         "the graph has a cycle through a, a.array, b, b.array"),
        (STAGE + STAGE, "two stages have the name 'a'"),
        (STAGE.replace('"input"', '"nowhere"'), "stage 'a' follows 'nowhere', which is not"),
        (STAGE.replace('"neuron"', '"magic"'), "unknown kind 'magic'; allowed: analog"),
        (STAGE.replace('"a"', '"input"'), "stage name 'input' is not allowed"),
        (STAGE.replace('"neuron"', '"residual"'), "stage takes 2 or more in after, not 1"),
        (STAGE + "inner = 4", "inner means nothing for a neuron stage"),
        (STAGE + "inner = -4", "inner = -4; allowed: a whole number, 1 or more"),
        (STAGE + "weight = 4", "unknown key 'weight'; allowed"),
        (STAGE.replace('"neuron"', '"quantise"') + "prefix = 0", "prefix is 0; it must lie in"),
        (STAGE.replace('"neuron"', '"quantise"') + "prefix = 8", "prefix is 8; it must lie in"),
        (STAGE + "full_lookahead = 3", "full_lookahead is true or false"),
        (STAGE.replace('"input"', "3"), "after = 3; allowed: a list of names"),
        ("slots = 0\n" + STAGE, "slots = 0; allowed"),
        ("slots = 65\n" + STAGE, "slots is 65; allowed: 1..64"),
        ("layers = 3\n" + STAGE, "unknown key 'layers'"),
        ("", "has no stages"),
        ("stage = 4", "stages are written as"),
        ("[[stage]]\nkind = 3", "has no name"),
        ("[[stage", "not valid TOML"),
    ],
)  # fmt: skip
def test_a_bad_graph_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(FalconError) as caught:
        read_graph(file)
    line = str(caught.value)
    assert line.startswith(f"{file}: ")
    assert message in line
    assert "\n" not in line


def test_sums_must_become_spikes_before_the_next_array() -> None:
    one = TimedStage("a", "analog", ("input",), inner=9)
    two = TimedStage("b", "analog", ("a",), inner=9)
    with pytest.raises(FalconError, match="put a neuron or quantise stage between"):
        Graph("g", 7, (one, two))
