"""The commands around training, as a person calls them, on a few clips."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.training_data import WORDS, make_job, write_spikes
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.errors import FalconError
from falcon_snn.network.convert import check, convert
from falcon_snn.network.falcon import falcon, falcon_config
from falcon_snn.network.integer import Snn
from falcon_snn.network.qnn import Qnn
from falcon_snn.training.checkpoint import Metadata, prefixed, save_checkpoint
from falcon_snn.workflow import measuring


def call(*arguments: object) -> Any:
    """Run a command; its JSON if it printed any."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None:
        raise result.exception
    return json.loads(result.stdout) if "--json" in arguments else result.stdout


@pytest.mark.parametrize(
    ("model", "dataset", "millions", "thousands", "linears"),
    [
        ("medium", "gsc", 0.82, 822, 21),
        ("large", "gsc", 1.24, 1243, 33),
        ("medium", "ssc", 0.97, 968, 21),
    ],
)
def test_describe_gives_the_counts_of_the_paper(
    model: str, dataset: str, millions: float, thousands: int, linears: int
) -> None:
    facts = call("describe", "--network", model, "--dataset", dataset, "--classes", 35, "--json")
    assert round(facts["parameters"] / 1e6, 2) == millions
    assert round(facts["parameters"] / 1e3) == thousands
    operations = [stage["operation"] for stage in facts["stages"]]
    assert sum("conv" in operation for operation in operations) == 3
    assert sum("fc " in operation for operation in operations) == linears
    assert sum(stage["parameters"] for stage in facts["stages"]) == facts["parameters"]
    delayed = [stage["name"] for stage in facts["stages"] if stage["firing"] == "delay"]
    assert delayed == facts["searchable"]


@pytest.mark.parametrize(("few_macs", "backend"), [(10**10, "torch"), (0, "auto")])
def test_a_small_check_does_not_wait_for_a_compiler(
    few_macs: int, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def heard(snn: Snn, x: torch.Tensor, lengths: torch.Tensor | None, backend: str) -> Any:
        asked.append(backend)
        return check(snn, x, lengths, "torch")

    monkeypatch.setattr(measuring, "_FEW_MACS", few_macs)
    monkeypatch.setattr(measuring, "check", heard)
    job = make_job(Path("nowhere"))
    assert isinstance(job.model, Qnn)
    found = measuring.check_conversion(job.model, convert(job.model), job.validation)
    assert found["differing_counts"] == 0
    assert asked == [backend]


def test_train_convert_evaluate_adapt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FALCON_CACHE", str(tmp_path / "cache"))
    data, out = write_spikes(tmp_path / "spikes"), tmp_path / "run"
    quick = tmp_path / "quick.toml"
    quick.write_text(
        'forward = "counts"\nepochs = 1\nbatch = 6\nweight_rate = 1e-3\nneuron_rate = 0\n'
    )
    call("train", "--recipe", quick, "--data", data, "--network", "tiny", "--out", out)
    best = out / "best.safetensors"
    qnn = call("evaluate", "--checkpoint", best, "--data", data, "--json")
    assert qnn["schedule"] == "qnn"
    assert qnn["clips"] == 12
    integer = tmp_path / "integer.safetensors"
    report = call(
        "convert", "--checkpoint", best, "--data", data, "--limit", 4, "--out", integer, "--json"
    )
    assert report["check"]["clips"] == 4
    assert report["check"]["differing_counts"] == 0
    assert {"stem.conv1", "block0.q", "block0.residual2"} <= {s["name"] for s in report["stages"]}
    twice = tmp_path / "twice.safetensors"  # nothing to do: the same integers
    report = call(
        "convert", "--checkpoint", integer, "--data", data, "--limit", 4, "--out", twice, "--json"
    )
    assert report["check"]["differing_counts"] == 0
    integers, again = load_file(integer), load_file(twice)
    assert all(torch.equal(again[name], tensor) for name, tensor in integers.items())
    full = call(
        "evaluate", "--checkpoint", integer, "--data", data, "--schedule", "full", "--split",
        "test", "--limit", 5, "--json",
    )  # fmt: skip
    assert (full["clips"], full["split"]) == (5, "test")
    spiking = tmp_path / "spiking.toml"
    spiking.write_text(quick.read_text().replace("counts", "spikes"))
    adapted = tmp_path / "adapted"
    call(  # from integers, as shipped networks are
        "adapt", "--checkpoint", integer, "--schedule", "uniform:2", "--data", data, "--out",
        adapted, "--phases", "qat", "--recipe", f"qat={spiking}", "--qk-prefix", 3,
    )  # fmt: skip
    own = call("evaluate", "--checkpoint", adapted / "best.safetensors", "--data", data, "--json")
    assert set(own["delays"].values()) == {2}
    assert own["qk_prefix"] == 3
    # The recipe that comes along serves spikes, too; fewer slots start from what seven learned.
    call(
        "train", "--data", data, "--network", "tiny", "--epochs", 1, "--slots", 4, "--init", best,
        "--out", tmp_path / "four",
    )  # fmt: skip
    four = call(
        "evaluate", "--checkpoint", tmp_path / "four" / "best.safetensors", "--data", data,
        "--schedule", "fastest", "--json",
    )  # fmt: skip
    assert four["slots"] == 4
    adapt = (
        "adapt", "--checkpoint", best, "--schedule", "fastest", "--data", data, "--phases", "qat",
        "--recipe", f"qat={spiking}", "--out", tmp_path / "again",
    )  # fmt: skip
    with pytest.raises(FalconError, match="PHASE one of qat"):
        call(*adapt, "--recipe", spiking)
    with pytest.raises(FalconError, match="no recipe distils"):
        call(*adapt, "--teacher", best)
    with pytest.raises(FalconError, match="no recipe distils"):
        call(
            "train", "--recipe", quick, "--data", data, "--out", tmp_path / "no", "--teacher", best
        )
    with pytest.raises(FalconError, match=r"choose tiny, medium, large, kestrel-5, .* FILE\.py"):
        call("train", "--network", "giant", "--data", data, "--out", tmp_path / "no")
    with pytest.raises(FalconError, match="'forward' is 'spikes', not 'counts'"):
        call("train", "--recipe", spiking, "--data", data, "--out", tmp_path / "no")
    with pytest.raises(FalconError, match="unknown phase 'tun'"):
        call("adapt", "--checkpoint", best, "--schedule", "full", "--out", out, "--phases", "tun")


def test_classify_says_a_word_and_draws_its_spikes(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    torch.manual_seed(2)
    network = falcon(falcon_config("tiny", "gsc", classes=3, slots=3))
    checkpoint = tmp_path / "gsc.safetensors"
    metadata = Metadata(network, WORDS, {}, 1, 0, {})
    save_checkpoint(checkpoint, metadata, prefixed("model.", Qnn(network).state_dict()))
    wave = np.random.default_rng(1).normal(0, 0.1, (30_000, 2))
    soundfile.write(tmp_path / "word.wav", wave, 44_100)
    picture = tmp_path / "spikes.png"
    said = call(
        "classify", tmp_path / "word.wav", "--checkpoint", checkpoint, "--raster", picture, "--json"
    )
    assert said["word"] in WORDS
    assert [row["confidence"] for row in said["top"]] == sorted(
        (row["confidence"] for row in said["top"]), reverse=True
    )
    assert sum(row["confidence"] for row in said["top"]) == pytest.approx(1.0)
    assert picture.read_bytes().startswith(b"\x89PNG")
