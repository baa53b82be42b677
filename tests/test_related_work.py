"""The six related-work latencies: golden figures of the fit, and their distance to the paper."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.pipeline.engines import VectorCosts
from falcon_snn.pipeline.frame_tasks import FrameTasks
from falcon_snn.pipeline.related_work import NETWORKS, model
from falcon_snn.pipeline.spiking_vgg import row_blocks
from falcon_snn.report.published import GSC_LATENCY_COMPARISON

GOLDEN_CYCLES = {
    "T-BSO, Spiking VGG-11": 171_440,
    "SpikeSCR, 1L-16-256 (short)": 27_988,
    "SpikeSCR, 1L-16-256": 46_862,
    "SpikCommander, 1L-16-256": 48_582,
    "SpikCommander, 2L-16-256 (short)": 65_036,
    "SpikCommander, 2L-16-256": 93_132,
}
VGG = "T-BSO, Spiking VGG-11"


@pytest.mark.parametrize("name", NETWORKS)
def test_the_fit_stays_where_it_was_and_near_the_paper(name: str) -> None:
    modeled = model(name)
    (published_us,) = (row.latency_us for row in GSC_LATENCY_COMPARISON if row.method == name)
    assert modeled.cycles == GOLDEN_CYCLES[name]
    assert modeled.us == pytest.approx(published_us, rel=0.0101)


def test_vgg_keeps_all_arrays_busy_and_is_exact_with_a_slower_neuron() -> None:
    modeled = model(VGG)
    array_cycles = sum(task.cycles for task in modeled.tasks if task.pool == "array")
    assert array_cycles == 16 * 171_344
    assert modeled.cycles == 171_344 + 16 * (5 + 1)  # LIF and scale of the last 16 pixels
    assert model(VGG, costs=VectorCosts(lif=8)).us == 1714.88


def test_frames_and_pixels_are_grouped_as_the_arrays_are_high() -> None:
    sizes = {n: [len(g) for g in FrameTasks(n, spread_neurons=False).groups] for n in (40, 50, 100)}
    assert sizes == {40: [32, 8], 50: [32, 18], 100: [32, 32, 32, 4]}
    assert [len(row_blocks(size)) for size in (32, 16, 8, 4)] == [32, 8, 2, 1]


def test_a_window_waits_for_the_groups_it_touches_only() -> None:
    net = FrameTasks(100, spread_neurons=False)
    x = net.elementwise("x", 1, net.source(32))
    net.window("narrow", 1, 4, x)
    net.window("wide", 1, 40, x)
    waits = {(t.layer, t.group): sorted(t.after) for t in net.tasks}
    assert [waits["narrow", g] for g in range(4)] == [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3]]
    assert [waits["wide", g] for g in range(4)] == [
        [0, 1, 2],
        [0, 1, 2, 3],
        [0, 1, 2, 3],
        [1, 2, 3],
    ]


@pytest.mark.parametrize("name", NETWORKS)
def test_spreading_the_neurons_keeps_the_work_and_is_never_slower(name: str) -> None:
    fitted, spread = model(name), model(name, spread_neurons=True)
    assert sum(t.cycles for t in spread.tasks) == sum(t.cycles for t in fitted.tasks)
    assert spread.cycles <= fitted.cycles


def test_the_command_compares_and_says_that_it_is_a_fit(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    result = CliRunner().invoke(app, ["related-work", "--json", "--trace", str(trace)])
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert "a fit, not the authors' own model" in answer["note"]
    assert {row["name"]: row["modeled_cycles"] for row in answer["networks"]} == GOLDEN_CYCLES
    assert all(abs(row["error_percent"]) <= 2 for row in answer["networks"])

    events = json.loads(trace.read_text())["traceEvents"]
    bars = [event for event in events if event["ph"] == "X"]
    assert len(bars) == sum(len(model(name).tasks) for name in NETWORKS)
    assert max(bar["ts"] + bar["dur"] for bar in bars) == pytest.approx(1714.40)
    assert {e["args"]["name"] for e in events if e["name"] == "process_name"} == set(NETWORKS)

    shown = CliRunner().invoke(app, ["related-work"]).stdout
    assert "+0.73" in shown
    assert "931.32" in shown
