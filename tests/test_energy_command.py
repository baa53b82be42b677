"""`falcon-snn energy` as a person calls it, and the fit on Medium."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.run_folder import write_search
from tests.training_data import WORDS, write_spikes
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.errors import FalconError
from falcon_snn.files import read_json, write_json
from falcon_snn.hardware.profile import load_profile, parse_profile, profile_toml
from falcon_snn.network.activity import measure, network_energy
from falcon_snn.network.convert import convert
from falcon_snn.network.description import Network
from falcon_snn.network.falcon import falcon, falcon_config
from falcon_snn.network.qnn import Qnn
from falcon_snn.pipeline.energy import Activity
from falcon_snn.report.energy import Configuration, fitted_profile, front_of, published
from falcon_snn.training.checkpoint import Metadata, prefixed, save_checkpoint


def call(*arguments: object) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None:
        raise result.exception
    return json.loads(result.stdout) if "--json" in arguments else result.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A checkpoint and the clips that it knows the words of."""
    folder = tmp_path_factory.mktemp("energy")
    network = falcon(falcon_config("tiny", "ssc", classes=3, slots=3))
    torch.manual_seed(1)
    metadata = Metadata(network, WORDS, {}, 1, 0, {},
                        dict.fromkeys(network.boundaries, 2))  # fmt: skip
    checkpoint = folder / "tiny.safetensors"
    save_checkpoint(checkpoint, metadata, prefixed("model.", Qnn(network).state_dict()))
    return checkpoint, write_spikes(folder / "spikes", clips=6)


def test_the_report_adds_up(
    trained: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FALCON_CACHE", str(tmp_path / "cache"))
    checkpoint, data = trained
    found = tmp_path / "result.json"
    write_search(tmp_path)
    result = read_json(found)
    result["front"], result["evaluated"][1]["delays"] = [1], {"stem.conv1": 3}
    write_json(found, result)
    picture = tmp_path / "parts.png"
    report = call("energy", "--checkpoint", checkpoint, "--data", data, "--schedule", "own",
                  "--schedule", "fastest", "--search", found, "--plot", picture,
                  "--json")  # fmt: skip
    assert picture.read_bytes().startswith(b"\x89PNG")
    rows = {row["name"]: row for row in report["configurations"]}
    assert list(rows) == ["QNN", "full", "own", "fastest", "found 1"]
    assert rows["found 1"]["delays"]["stem.conv1"] == 3
    assert rows["QNN"]["accuracy"] == rows["full"]["accuracy"]
    for row in rows.values():
        core = row["analog_mj"] + row["digital_mj"]
        assert sum(stage["share"] for stage in row["stages"]) == pytest.approx(1)
        assert sum(stage["core_mj"] for stage in row["stages"]) == pytest.approx(core)
        assert sum(row["analog_parts_mj"].values()) == pytest.approx(row["analog_mj"])
        arithmetic = sum(stage["arithmetic_mj"] for stage in row["stages"])
        assert arithmetic == pytest.approx(row["arithmetic_mj"])
        assert row["edp_nj_s"] == pytest.approx(core * row["latency_us"])
    assert [row["weight_slices"] for row in report["weight_slices"]] == [1, 2, 4]
    assert report["weight_slices"][0]["analog_mj"] == pytest.approx(rows["own"]["analog_mj"])
    assert report["published"] is None
    assert {"measured", "assumed"} <= {value["tag"] for value in report["profile"]}
    text = call("energy", "--checkpoint", checkpoint, "--data", data, "--limit", 2)
    assert "% of core energy" in text
    with pytest.raises(FalconError, match="only a gsc-medium network can be fitted"):
        call("energy", "--checkpoint", checkpoint, "--data", data, "--fit", tmp_path / "no.toml")
    with pytest.raises(FalconError, match=r"\.png, \.svg or \.pdf"):
        call("energy", "--checkpoint", checkpoint, "--data", data, "--plot", tmp_path / "a.gif")


def measured(blocks: int) -> tuple[Network, Activity]:
    """A Falcon with random weights, and what it does on noise."""
    torch.manual_seed(blocks)
    network = falcon(falcon_config({3: "medium", 5: "large"}[blocks], "gsc"))
    model = Qnn(network).train()
    x = torch.randn(2, 98, 64)
    with torch.no_grad():
        for _ in range(5):
            model(x)
    delays = dict.fromkeys(network.boundaries, 1)
    return network, measure(convert(model.eval()), [(x, None)], delays)[0]


def test_fit_on_medium_predict_large() -> None:
    profile = load_profile()
    network, activity = measured(3)
    delays = dict.fromkeys(network.boundaries, 1)

    def configuration(chip: Any) -> Configuration:
        return Configuration(
            "fastest", delays, network_energy(network, activity, delays, chip), 90.0
        )

    before = published("gsc-medium", configuration(profile))
    assert before is not None
    assert before["figures"]["analog"]["kind"] == "predicted, no fit"
    for name in ("analog", "arithmetic"):
        total = sum(before[f"{name}_inputs_mj"].values())
        assert total == pytest.approx(before["figures"][name]["ours_mj"])
    for row in before["split"]:
        whole = before["figures"][row["figure"]]
        for side in ("ours_mj", "paper_mj"):
            assert row["outside_blocks"][side] + 3 * row["per_block"][side] == pytest.approx(
                whole[side]
            )
    fitted = fitted_profile("gsc-medium", configuration(profile))
    fitted = parse_profile(profile_toml(fitted), "fitted.toml")
    after = published("gsc-medium", configuration(fitted))
    assert after is not None
    for name in ("analog", "arithmetic"):
        assert after["figures"][name]["kind"] == "fitted"
        assert after["figures"][name]["error_percent"] == pytest.approx(0, abs=1e-3)
    for row in after["would_close_alone"]:  # there is no gap left to close
        assert row["needed"] == pytest.approx(row["ours"], rel=1e-3)
    network, activity = measured(5)
    delays = dict.fromkeys(network.boundaries, 1)
    large = published("gsc-large", configuration(fitted))
    assert large is not None
    assert large["figures"]["analog"]["kind"] == "predicted, fitted on gsc-medium"
    assert -12 < large["figures"]["analog"]["error_percent"] < 0
    with pytest.raises(FalconError, match="this one is gsc-large"):
        fitted_profile("gsc-large", configuration(profile))
    network, activity = measured(3)
    delays = dict.fromkeys(network.boundaries, 1)
    with pytest.raises(FalconError, match="tile_static_uw cannot be fitted: without static power"):
        fitted_profile("gsc-medium", configuration(replace(profile, access_pj=40.0)))


def test_each_closing_value_closes_the_gap() -> None:
    profile = load_profile()
    network, activity = measured(3)
    delays = dict.fromkeys(network.boundaries, 1)

    def compared(chip: Any, rows: float = 1.0) -> dict[str, Any]:
        changed = replace(activity, rows={name: n * rows for name, n in activity.rows.items()})
        energy = network_energy(network, changed, delays, chip)
        found = published("gsc-medium", Configuration("fastest", delays, energy, 90.0))
        assert found is not None
        return found

    closing = {row["input"]: row for row in compared(profile)["would_close_alone"]}

    def analog_error(chip: Any, rows: float = 1.0) -> float:
        return float(compared(chip, rows)["figures"]["analog"]["error_percent"])

    static = closing["static power per tile (uW)"]["needed"]
    assert analog_error(replace(profile, tile_static_uw=static)) == pytest.approx(0, abs=1e-9)
    access = closing["energy per access (pJ)"]["needed"]
    assert analog_error(replace(profile, access_pj=access)) == pytest.approx(0, abs=1e-9)
    row = closing["rows on per access"]
    assert analog_error(profile, row["needed"] / row["ours"]) == pytest.approx(0, abs=1e-9)


def test_the_front_has_three_axes() -> None:
    network, activity = measured(3)
    slow = dict.fromkeys(network.boundaries, 7)
    fast = dict.fromkeys(network.boundaries, 1)
    chip = load_profile()

    def row(name: str, delays: dict[str, int], rows: float, accuracy: float) -> Configuration:
        changed = replace(activity, rows={key: n * rows for key, n in activity.rows.items()})
        return Configuration(name, delays, network_energy(network, changed, delays, chip), accuracy)

    rows = [row("fast", fast, 1.0, 90.0), row("frugal", slow, 0.5, 90.0),
            row("accurate", slow, 1.0, 91.0), row("worst", slow, 1.0, 90.0),
            row("twin", fast, 1.0, 90.0)]  # fmt: skip
    assert front_of(rows) == ["fast", "frugal", "accurate", "twin"]
