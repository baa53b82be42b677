"""Reports of a network that is no Falcon: pictures, energy, results."""

from pathlib import Path

import torch
from tests.other_networks import CNN, DELAYS, save_cnn

from falcon_snn.cli.energy_tables import print_tables
from falcon_snn.hardware.profile import load_profile
from falcon_snn.network.activity import schedule_energy
from falcon_snn.pipeline.timing import time_snn
from falcon_snn.report.energy import Configuration, energy_report
from falcon_snn.report.energy_figure import draw_breakdown
from falcon_snn.report.graph_picture import boxes
from falcon_snn.report.raster import draw_raster, spike_image
from falcon_snn.report.results import Result, read_result, write_result
from falcon_snn.report.timeline import bars
from falcon_snn.training.export import load_network


def test_two_arrays_stand_with_the_neurons_that_add_them_up() -> None:
    assert {box.name: box.after for box in boxes(CNN.graph)} == {
        "first": ("input",), "body": ("first",), "sum": ("body", "first"),
    }  # fmt: skip
    drawn = bars(time_snn(CNN.graph, DELAYS, load_profile()))
    assert {bar.row for bar in drawn} == {"first", "body", "sum"}


def test_energy_without_attention(tmp_path: Path) -> None:
    snn, _ = load_network(save_cnn(tmp_path / "cnn.safetensors"))
    x = torch.rand(2, 8, 8, generator=torch.Generator().manual_seed(1)) * 9
    rows = [
        Configuration(name, delays, schedule_energy(snn, [(x, None)], delays, load_profile())[0], 1)
        for name, delays in {"QNN": None, "own": DELAYS}.items()
    ]
    report = energy_report("", rows, rows[1])
    assert report["published"] is None
    assert report["configurations"][1]["digital_mj"] == 0
    more = [each["analog_mj"] for each in report["weight_slices"]]
    assert more == sorted(more)
    assert more[0] == rows[1].energy.analog_mj
    draw_breakdown(tmp_path / "parts.png", "CNN", report["configurations"])
    assert (tmp_path / "parts.png").read_bytes().startswith(b"\x89PNG")
    facts = {"network": CNN.name, "clips": 2, "split": "test", "data": "noise"}
    print_tables(facts | report)


def test_spikes_of_a_picture(tmp_path: Path) -> None:
    snn, _ = load_network(save_cnn(tmp_path / "cnn.safetensors"))
    x = torch.rand(1, 8, 8, generator=torch.Generator().manual_seed(2)) * 9
    streams = snn.streams(x, None, DELAYS)
    image = spike_image(snn, "body", streams)
    assert image.shape == (8 * 4, 8 * 4)  # pixels x channels, lines x slots
    assert int(image.sum()) == int(snn.decode("body", streams["body"]).sum())
    draw_raster(tmp_path / "spikes.png", snn, streams, DELAYS, x[0].numpy(), "CNN", frame_ms=None)
    assert (tmp_path / "spikes.png").read_bytes().startswith(b"\x89PNG")


def test_a_result_holds_the_network(tmp_path: Path) -> None:
    result = Result(
        "images", "own", "noise", 3, CNN, DELAYS, "serial", 0, None, {}, "", [], 50.0, 50.0, 2
    )
    write_result(tmp_path / "a.json", result)
    assert read_result(tmp_path / "a.json") == result
    assert result.latency_us == time_snn(CNN.graph, DELAYS, load_profile()).core_us
