"""`falcon-snn search` on the smallest Falcon shape, with a network that is quick to ask."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

from falcon_snn.cli.main import app
from falcon_snn.data.examples import load_examples
from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import load_profile
from falcon_snn.network.falcon import falcon, falcon_config
from falcon_snn.network.qnn import Qnn
from falcon_snn.pipeline.batch import core_cycles_many
from falcon_snn.pipeline.schedule import Delays, read_schedule
from falcon_snn.report.search_figures import representatives
from falcon_snn.search.predictor import Correct
from falcon_snn.search.result import read_result
from falcon_snn.training.checkpoint import Metadata, prefixed, save_checkpoint
from falcon_snn.workflow import searching

TINY = falcon(falcon_config("tiny", "gsc"))


class MoreWaitingHelps:
    """Clip i is right where the delays, each with its own worth, add up to more than i."""

    def __init__(self, limit: int | None, half: int | None) -> None:
        clips = np.random.default_rng(3).normal(12, 6, 1200)[:limit]
        self.needed = clips if half is None else clips[half::2]

    def start_from(self, delays: Delays) -> None:
        assert tuple(delays) == TINY.boundaries

    def correct(self, delays: Delays) -> Correct:
        worth = sum(place % 4 * (delay - 1) for place, delay in enumerate(delays.values()))
        right: Correct = self.needed < 8 + worth
        return right


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained network for the words of the embedded set."""
    words = load_examples("embedded", "validation").words
    torch.manual_seed(1)
    network = falcon(falcon_config("tiny", "gsc", classes=len(words)))
    model = Qnn(network)
    with torch.no_grad():
        model(torch.randn(8, 98, 64))
    path = tmp_path_factory.mktemp("network") / "model.safetensors"
    metadata = Metadata(network, words, recipe={}, epoch=0, seed=1, metrics={})
    save_checkpoint(path, metadata, prefixed("model.", model.state_dict()))
    return path


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clips' answers from a rule instead of the network."""

    def predictor(
        checkpoint: Path,
        data: str,
        *,
        longest: int,
        limit: int | None,
        half: int | None,
        device: str,
    ) -> MoreWaitingHelps:
        return MoreWaitingHelps(limit, half)

    monkeypatch.setattr(searching, "predictor_of", predictor)


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["search", *map(str, arguments)])


def test_a_real_network_is_searched_and_evaluated_alike(checkpoint: Path, tmp_path: Path) -> None:
    options = ("--checkpoint", checkpoint, "--data", "embedded", "--limit", 16)
    ran = invoke(*options, "--out", tmp_path, "--method", "frontier", "--evaluations", 25,
                 "--random", 1)  # fmt: skip
    assert ran.exit_code == 0, ran.output
    result = read_result(tmp_path / "result.json")
    assert result["schedules_searched"] == 25
    accurate = result["evaluated"][result["chosen"]["accurate"]]
    evaluate = CliRunner().invoke(
        app,
        ["evaluate", *map(str, options), "--schedule", str(tmp_path / "accurate.json"), "--json"],
    )
    assert json.loads(evaluate.stdout)["accuracy"] == pytest.approx(accurate["accuracy"])


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("method", ["pds", "frontier"])
def test_a_search_from_command_to_figures(method: str, checkpoint: Path, tmp_path: Path) -> None:
    out = tmp_path / method
    search = partial(
        invoke, "--checkpoint", checkpoint, "--data", "embedded", "--method", method, "--out", out,
        "--random", 3, *(["--evaluations", 60] if method == "frontier" else []), "--split-half",
        "--json",
    )  # fmt: skip
    ran = search()
    assert ran.exit_code == 0, ran.output
    told = json.loads(ran.stdout)
    result = read_result(out / "result.json")
    graph = TINY.graph
    assert result["clips"] == result["held_out"]["clips"] == 600
    for name in ("fastest", "balanced", "accurate"):
        delays = read_schedule(out / f"{name}.json", TINY.boundaries, TINY.slots)
        row = told["chosen"][name]
        assert {name: delay for name, delay in delays.items() if delay > 1} == row["delays"]
        rows = np.array([list(delays.values())])
        assert core_cycles_many(graph, rows, load_profile())[0] == row["latency_cycles"]
        assert row["latency_cycles"] < result["budget_cycles"]
    assert told["chosen"]["accurate"]["accuracy"] > told["chosen"]["fastest"]["accuracy"]
    assert result["schedules_searched"] <= 60 or method == "pds"

    again = search()
    assert again.exit_code == 1
    assert "continue with --resume" in str(again.exception)
    content = (out / "result.json").read_bytes()
    (out / "result.json").unlink()
    assert search("--resume").exit_code == 0
    assert (out / "result.json").read_bytes() == content

    drawn = invoke("plot", out / "result.json")
    assert drawn.exit_code == 0, drawn.output
    for figure in ("delay-effects.png", "chosen-schedules.png"):
        assert (out / figure).read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("quick")
def test_the_table_fits_and_names_what_matters(checkpoint: Path, tmp_path: Path) -> None:
    ran = invoke("--checkpoint", checkpoint, "--data", "embedded", "--out", tmp_path / "out",
                 "--limit", 800, "--split-half", "--budget-us", 75.0)  # fmt: skip
    assert ran.exit_code == 0, ran.output
    *lines, files = ran.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert files.endswith("accurate.json")
    for word in ("95 % interval", "McNemar p", "flatters itself"):
        assert word in " ".join(ran.stdout.split())
    assert read_result(tmp_path / "out" / "result.json")["budget_cycles"] == 7500


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "search needs --data NAME"),
        (("--method", "guess"), "--method is 'guess'"),
        (("--engine", "steam"), "--engine is 'steam'"),
        (("--delta-max", 9), "--delta-max is 9"),
    ],
)
def test_bad_options_are_one_line(
    arguments: tuple[object, ...], message: str, checkpoint: Path, tmp_path: Path
) -> None:
    named = ("--checkpoint", checkpoint, "--data", "embedded", "--out", tmp_path / "out")
    ran = invoke(*(named if arguments else ()), *arguments)
    assert ran.exit_code == 1
    assert message in str(ran.exception)
    assert "\n" not in str(ran.exception)


def test_random_schedules_as_files(tmp_path: Path) -> None:
    out = tmp_path / "random"
    ran = invoke("random", "--like", "balanced", "-n", 10, "--out", out, "--json")
    assert ran.exit_code == 0, ran.output
    told = json.loads(ran.stdout)
    config = falcon(falcon_config("medium", "gsc"))
    found = [read_schedule(file, config.boundaries, config.slots) for file in told["files"]]
    rows = np.array([list(delays.values()) for delays in found])
    assert len(np.unique(rows, axis=0)) == 10
    assert set(core_cycles_many(config.graph, rows, load_profile())) == {11964}
    assert {tuple(sorted(row)) for row in rows.tolist()} == {(1,) * 16 + (2, 2, 3)}

    none = invoke("random", "--like", "fastest", "-n", 2, "--out", tmp_path / "none")
    assert none.exit_code == 1
    assert "no other schedule has these delays and this latency" in str(none.exception)
    assert not (tmp_path / "none").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="here is a GPU")
def test_a_gpu_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    ran = invoke("--pretrained", "embedded-tiny-t2", "--data", "embedded", "--limit", 2,
                 "--device", "cuda", "--out", tmp_path)  # fmt: skip
    assert isinstance(ran.exception, FalconError)
    assert "torch sees no GPU here; choose cpu" in str(ran.exception)


def test_with_two_slots_the_figures_show_the_delay_that_there_is() -> None:
    rows = [{"delays": delays, "accuracy": accuracy} for delays, accuracy in (
        ({}, 0.5), ({"a": 2}, 0.4), ({"b": 2}, 0.6), ({"c": 2}, 0.5))]  # fmt: skip
    result = {"evaluated": rows, "boundaries": ["a", "b", "c"]}
    assert representatives(result) == {"b": "gains most", "a": "loses most"}
    assert representatives({**result, "evaluated": rows[:1]}) == {}
