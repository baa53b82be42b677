"""The paper's experiments done again on a few clips: every step, a kill, the results."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.data_files import write_folder
from tests.heard import Heard
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.data.gsc import Release
from falcon_snn.errors import FalconError
from falcon_snn.report.published import SETTINGS
from falcon_snn.report.reproduce import EXHIBITS
from falcon_snn.report.results import load_results, load_search
from falcon_snn.workflow import experiments
from falcon_snn.workflow.experiments import (
    NEEDED,
    Experiment,
    ExperimentPlan,
    longest_first,
    needed,
    plan_steps,
    reproduce_training,
)
from falcon_snn.workflow.searching import SearchSettings

TINY = ExperimentPlan(
    (Experiment("gsc-medium", "tiny", seeds=(0, 1)), Experiment("ssc-medium", "tiny", spikes=True)),
    teacher_epochs=1, qnn_epochs=2, encoding_epochs=1, adapt_epochs=(1, 1, 1), short_epochs=1,
    search=SearchSettings(delta_max=2, tau=0.0, eps=0.0),
)  # fmt: skip
ONE = replace(TINY, experiments=TINY.experiments[:1], adapt_epochs=(1, 0, 0))
ONE = replace(ONE, experiments=(replace(ONE.experiments[0], seeds=(0,)),))
SMALL = {"small": Release("", "", clips=12, words=2)}  # as if the clips of these tests were all
_RUN = """
import sys
from pathlib import Path
from tests.test_experiments import ONE, SMALL
from falcon_snn.workflow import experiments
experiments.RELEASES = SMALL
experiments.reproduce_training(sys.argv[1], Path(sys.argv[2]), only="main-results", plan=ONE)
"""


@pytest.fixture
def clips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("FALCON_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(experiments, "RELEASES", SMALL)
    return str(write_folder(tmp_path / "clips"))


def test_a_killed_run_goes_on_and_leaves_results(
    clips: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    job = subprocess.Popen([sys.executable, "-c", _RUN, clips, str(out)])
    teacher = out / "steps" / "teacher.json"
    while job.poll() is None and not (teacher.exists() and "files" in teacher.read_text()):
        time.sleep(0.05)
    job.send_signal(signal.SIGKILL)
    job.wait()
    assert job.returncode == -signal.SIGKILL
    trained = teacher.stat().st_mtime_ns

    heard = Heard()
    place = reproduce_training(clips, out, only="main-results", plan=ONE, workers=2, watch=heard)
    assert teacher.stat().st_mtime_ns == trained
    assert heard.said[0].startswith("6 of 7 steps are left: about ")
    found = {result.configuration: result for result in load_results(place)}
    assert found.keys() == {"qnn", "full", "fastest", "balanced", "accurate"}
    fastest = found["fastest"]
    assert (fastest.setting, fastest.seed, fastest.epochs) == ("gsc-medium", 0, 1)
    assert fastest.teachers == ["best.safetensors"]
    assert fastest.data_key == found["qnn"].data_key
    assert fastest.test_wrong is not None
    assert fastest.test_percent == pytest.approx(100 * (1 - len(fastest.test_wrong) / 4))
    assert fastest.validation_before_percent is not None
    assert found["qnn"].epochs == 2
    assert load_search("gsc-medium", place) is not None
    chosen = json.loads((out / "gsc-medium-start-seed0" / "encoding.json").read_text())
    assert chosen["validation_percent"].keys() == {"even", "first"}
    assert fastest.network.source.encoding == chosen["chosen"]

    monkeypatch.setattr(experiments, "ExperimentPlan", lambda: ONE)
    command = ["reproduce", "--train", "--data", clips, "--only", "main-results", "--json"]
    told = CliRunner().invoke(app, [*command, "--out", str(out)])
    assert "0 of 7 steps are left: about 0 minutes" in told.stderr
    (main,) = json.loads(told.stdout)
    rows = [row["ours"] for row in main["lines"] if row["what"].startswith("gsc-medium PDS–Fast")]
    assert rows[0] == fastest.test_percent
    assert (out / "page" / "reproduce.html").is_file()
    with pytest.raises(FalconError, match="'theory' needs nothing that is trained"):
        reproduce_training(clips, out, only="theory", plan=ONE)
    with pytest.raises(FalconError, match="--setting is 'gsc-huge'; choose one of gsc-medium"):
        reproduce_training(clips, out, setting="gsc-huge", plan=ONE)
    # Another network in the plan leaves what is done as it is.
    two, again = replace(ONE, experiments=(*ONE.experiments, TINY.experiments[1])), Heard()
    reproduce_training(clips, out, only="main-results", setting="gsc-medium", plan=two, watch=again)
    assert again.said[0].startswith("0 of 7 steps are left")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--train"], "--train needs --out"),
        (["--train", "--out", "new"], "--train needs --data, Speech Commands: gsc-v1 or gsc-v2"),
        (["--train", "--out", "new", "--data", "embedded"],
         "embedded: 2,730 clips of 35 words; the paper's tables are about all of Speech Commands"),
        (["--data", "gsc-v1"], "--data is what --train trains on"),
        (["--workers", "2"], "--workers is of --train"),
        (["--setting", "gsc-large"], "--setting is of --train"),
    ],
)  # fmt: skip
def test_training_starts_on_the_data_of_the_paper_only(
    given: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FalconError, match=message):
        raise CliRunner().invoke(app, ["reproduce", *given]).exception or AssertionError
    assert list(tmp_path.iterdir()) == []


def test_what_each_table_and_figure_needs() -> None:
    plan, main = ExperimentPlan(), ["qnn", "full", "fastest", "balanced", "accurate"]
    assert needed("main-results", "ssc-medium", plan) == main
    assert needed("random-curves-gsc-large", "gsc-medium", plan) == []
    curves = needed("random-curves-gsc-large", "gsc-large", plan)
    assert curves[:2] == ["balanced-10", "random-1-10"]
    assert needed("qk-prefix", "gsc-large", plan) == needed("theory", "gsc-medium", plan) == []
    assert needed("claims", "gsc-medium", plan) == [*main, "prefix-3"]
    assert needed("claims", "gsc-large", plan) == main
    asked = {name.removesuffix(f"-{each}") for name in EXHIBITS for each in ("", *SETTINGS)}
    assert asked >= NEEDED.keys()  # every name is an exhibit's

    def steps(only: str | None) -> dict[str, float]:
        return {one.step.name: one.seconds for one in plan_steps("gsc-v1", plan, only, 51_088)}

    everything, few = steps(None), steps("main-results")
    assert few.items() < everything.items()
    assert {"spikes", "teacher", "teacher-spikes", "gsc-medium-qnn-seed2"} < few.keys()
    assert "gsc-medium-prefix-3-seed0" in everything.keys() - few.keys()
    assert "gsc-large-prefix-3-seed0" not in everything
    # 80 epochs of 1.4 s, and 44 of 1.9 s; each step loads and measures for 10 s.
    assert few["gsc-medium-qnn-seed0"] == pytest.approx(122)
    assert few["gsc-large-fastest-seed0"] == pytest.approx(93.6)
    assert "gsc-medium-qnn-seed1" not in steps("qat-curves")  # seeds are the main table's
    # Random schedules are fully adapted in Medium on GSC; elsewhere ten epochs, and a curve of 30.
    for setting in SETTINGS:
        epochs = {name: how.epochs for name, how in plan.adaptations(setting).items()}
        random = {name: one for name, one in epochs.items() if name.startswith("random-")}
        assert {f"random-{n}-10": (10, 0, 0) for n in range(1, 6)}.items() < random.items()
        medium = setting == "gsc-medium"
        rest = {f"random-{n}": (30, 8, 6) for n in range(1, 6)}
        expected = rest if medium else {"random-1-30": (30, 0, 0)}
        assert {name: one for name, one in random.items() if one[0] == 30} == expected
        shown = needed("random-adaptation", setting, plan)
        assert len({epochs[name] for name in shown}) == 1  # an equal budget
        assert all(plan.adaptations(setting)[name].tested for name in shown)
        long = [epochs[name][0] for name in needed("qat-curves", setting, plan)]
        assert long == [30, 30, 30]
    planned = plan_steps("gsc-v1", plan, None, 51_088)
    for order in (planned, longest_first(planned)):  # nothing comes before what it reads
        before: set[str] = set()
        for one in order:
            assert set(one.step.after) <= before
            before.add(one.step.name)
    assert before == everything.keys()
    last = [one.step.name for one in longest_first(planned)][-1]
    assert last not in few  # what nothing waits for comes last
