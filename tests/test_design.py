"""`design` as a whole, on small pictures: its result, and what happens when something fails."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.errors import FalconError, Stopped
from falcon_snn.hardware.profile import load_profile
from falcon_snn.report.design_page import front
from falcon_snn.search.designs import Limits
from falcon_snn.training.checkpoint import load_metadata
from falcon_snn.workflow.design import design
from falcon_snn.workflow.model import load
from falcon_snn.workflow.training import run_phase
from falcon_snn.workflow.watch import Watch
from falcon_snn.workflow.workers import Workers

SPACE = """
slots = [1, 2]
[kestrel]
stem_channels = [4]
blocks = [1]
widths = [4, 8]
long_blocks = [0, 1]
"""
RECIPES = {
    "qnn": 'forward = "counts"\nepochs = 4\nbatch = 32\nweight_rate = 5e-3\nneuron_rate = 0.0\n',
    "qat": 'forward = "spikes"\nepochs = 1\nbatch = 32\nweight_rate = 1e-3\nneuron_rate = 0.0\n',
}


def test_of_designs_that_are_as_fast_the_front_has_the_better_one() -> None:
    designs = [
        {"name": name, "breaks": breaks, "networks": {"SNN": {"latency_us": us, "score": score}}}
        for name, us, score, breaks in (
            ("worse", 5.0, 80.0, []), ("better", 5.0, 90.0, []), ("slower", 6.0, 85.0, []),
            ("best", 9.0, 95.0, []), ("too large", 1.0, 99.0, ["tiles"]),
        )
    ]  # fmt: skip
    assert [row["name"] for row in front(designs)] == ["better", "best"]


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Three classes of 8 x 8 pictures: a bright corner each; test pictures must not be read."""
    chance = np.random.default_rng(0)
    y = np.arange(180) % 3
    x = chance.normal(100, 25, (180, 8, 8))
    for label, (row, column) in enumerate(((0, 0), (0, 4), (4, 0))):
        x[y == label, row : row + 4, column : column + 4] += 60
    x = x.clip(0, 255).astype(np.uint8)
    path = tmp_path / "pictures.npz"
    np.savez(path, x_train=x, y_train=y, x_test=x[:9], y_test=y[:9])
    (tmp_path / "space.toml").write_text(SPACE)
    for name, text in RECIPES.items():
        (tmp_path / f"{name}.toml").write_text(text)
    return path


def run_design(pictures: Path, out: Path, **changes: Any) -> dict[str, Any]:
    folder = pictures.parent
    settings: dict[str, Any] = {
        "limits": Limits(us=10.0), "space": folder / "space.toml", "band_count": 2, "trials": 6,
        "epochs": 9, "adapt_epochs": 1, "recipes": {n: folder / f"{n}.toml" for n in RECIPES},
    }  # fmt: skip
    return design(pictures, out, **{**settings, **changes})


def outcome(out: Path) -> tuple[Any, Any]:
    """What the trials and the designs came to."""
    trials = json.loads((out / "contest" / "trials.json").read_text())
    designs = json.loads((out / "designs" / "designs.json").read_text())
    return sorted(trials, key=lambda row: row["candidate"]), designs


def test_a_front_whose_designs_all_commands_take(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from falcon_snn.data import examples

    read = examples.load_examples

    def no_test_clips(source: Any, split: str, **more: Any) -> Any:
        assert split != "testing"
        return read(source, split, **more)

    monkeypatch.setattr(examples, "load_examples", no_test_clips)
    out = tmp_path / "out"
    result = run_design(pictures, out)
    assert result["space"]["designs"] == 8
    assert len(result["trials"]) == 6
    states = [row["state"] for row in result["trials"]]
    assert states.count("pruned") >= 1
    assert states.count("complete") >= 2
    assert [row for row in result["designs"] if row["on_front"]]
    for row in result["designs"]:
        folder = out / "designs" / row["folder"]
        own = row["networks"]["SNN"]
        model = load(folder / "best.safetensors")
        assert model.latency("own").core_us == pytest.approx(own["latency_us"])
        assert model.latency("qnn").core_us == pytest.approx(
            row["networks"]["bit-serial QNN"]["latency_us"]
        )
        right = model.evaluate(pictures)
        assert right.accuracy == pytest.approx(own["clean"])
        assert own["score"] == pytest.approx((own["clean"] + own["noisy"]) / 2)
        assert own["clean"] > 60  # chance is 33
        assert load_metadata(folder / "network.safetensors").network == model.network
        one = row["networks"]["one slot"]
        assert one["latency_us"] <= own["latency_us"]
    page = (out / "report" / "design.html").read_text()
    assert "mean of the accuracy on clean" in page
    assert result["designs"][0]["name"] in page
    # The trials' optimisers are not kept.
    assert not list((out / "contest").rglob("last.safetensors"))


class StopAt(Watch):
    """Ctrl-C at the given notice."""

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        self.wanted = wanted

    def notice(self, text: str) -> None:
        if self.wanted(text):
            raise KeyboardInterrupt


def test_stopped_anywhere_it_goes_on_to_the_same_result(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_design(pictures, tmp_path / "whole")
    out, stops = tmp_path / "cut", 0
    calls = 0

    def cut(*given: Any, after_epoch: Any, **more: Any) -> Any:
        def sometimes(epoch: int) -> None:
            nonlocal calls
            calls += 1
            if calls in (2, 7, 11):  # before this epoch is judged
                raise KeyboardInterrupt
            after_epoch(epoch)

        return run_phase(*given, after_epoch=sometimes, **more)

    monkeypatch.setattr("falcon_snn.workflow.contest.run_phase", cut)
    while True:
        try:
            run_design(pictures, out, resume=stops > 0)
            break
        except Stopped:
            stops += 1
    assert stops == 3
    assert outcome(out) == outcome(tmp_path / "whole")


def test_a_trial_that_fails_is_told_and_the_rest_goes_on(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def fails_first(*given: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise FalconError("the loss is no longer finite in epoch 1; lower the recipe's rates")
        return run_phase(*given, **more)

    monkeypatch.setattr("falcon_snn.workflow.contest.run_phase", fails_first)
    result = run_design(pictures, tmp_path / "out", trials=3, band_count=1, epochs=3)
    failed = [row for row in result["trials"] if row["state"] == "fail"]
    assert [row["error"][:27] for row in failed] == ["the loss is no longer finite"[:27]]
    assert result["designs"]


def test_winners_are_made_for_chips_where_asked(pictures: Path, tmp_path: Path) -> None:
    profile = replace(load_profile("noisy"), programming="proportional", programming_sigma=0.3)
    changes: Any = {"trials": 1, "band_count": 1, "epochs": 3, "profile": profile}
    found = {
        chips: run_design(pictures, tmp_path / str(chips), chips=chips, **changes)["designs"][0]
        for chips in (0, 2)
    }
    bits = {
        chips: json.loads(
            next((tmp_path / str(chips)).glob("designs/*/network.json")).read_text()
        )["weight_bits"]
        for chips in found
    }  # fmt: skip
    assert bits == {0: 8, 2: 3}
    ideal, on_chips = (found[chips]["networks"]["bit-serial QNN"] for chips in (0, 2))
    assert ideal["latency_us"] == on_chips["latency_us"]
    assert ideal["clean"] != on_chips["clean"]


def test_a_loss_that_is_not_finite_in_every_trial(pictures: Path, tmp_path: Path) -> None:
    wild = tmp_path / "wild.toml"
    wild.write_text(RECIPES["qnn"].replace("5e-3", "1e30"))
    with pytest.raises(FalconError, match="no trial finished: the loss is no longer finite"):
        run_design(pictures, tmp_path / "out", recipes={"qnn": wild}, trials=2, noise_db=None)


def test_energy_is_checked_once_there_are_spikes(pictures: Path, tmp_path: Path) -> None:
    free = run_design(pictures, tmp_path / "free", trials=2, band_count=1)
    row = free["designs"][0]
    between = (row["networks"]["SNN"]["core_mj"] + min(r["least_mj"] for r in free["trials"])) / 2
    with pytest.raises(FalconError, match="above --within-mj"):
        run_design(pictures, tmp_path / "out", trials=1, band_count=1, limits=Limits(mj=between))


def test_refusals(pictures: Path, tmp_path: Path) -> None:
    with pytest.raises(FalconError, match="--within-us 1 excludes 8"):
        run_design(pictures, tmp_path / "a", limits=Limits(us=1.0))
    with pytest.raises(FalconError, match="--trials is 0"):
        run_design(pictures, tmp_path / "a", trials=0)
    assert not (tmp_path / "a").exists()
    with pytest.raises(FalconError, match="--workers is 0"):
        Workers(0)
    with pytest.raises(FalconError, match="--engine is 'cloud'"):
        Workers(1, "cloud")
    x = np.zeros((30, 8, 8), dtype=np.uint8)
    one = tmp_path / "one.npz"
    np.savez(one, x_train=x, y_train=np.zeros(30, dtype=int), x_test=x, y_test=x[:, 0, 0])
    with pytest.raises(FalconError, match="class"):
        run_design(one, tmp_path / "a")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("all of it")
    with pytest.raises(FalconError, match="is not the folder of a run"):
        run_design(pictures, mine)
    found = CliRunner().invoke(
        app, ["design", "--data", str(pictures), "--out", str(tmp_path / "b"), "--within-us", "0"]
    )
    assert found.exit_code == 1
    assert "--within-us is 0" in str(found.exception)


def test_a_killed_worker_is_one_clear_line() -> None:
    with pytest.raises(FalconError, match="a worker was killed"):
        Workers(2).map(os._exit, [(1,), (1,)])


def test_two_workers_share_the_trials(pictures: Path, tmp_path: Path) -> None:
    settings = {"trials": 3, "band_count": 1, "epochs": 3}
    alone = run_design(pictures, tmp_path / "one", **settings)
    result = run_design(pictures, tmp_path / "two", **settings, workers=Workers(2))
    tried = [{row["candidate"] for row in found["trials"]} for found in (alone, result)]
    assert tried[0] == tried[1]
    assert all(row["state"] in ("complete", "pruned") for row in result["trials"])
    assert len(result["designs"]) == 1
