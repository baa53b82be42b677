"""Stop and go: searches that are killed, resumed, or given somebody else's journal."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.search_process import small_search, small_space
from tests.spiking_mlp import SpikingMlp

from falcon_snn.errors import FalconError
from falcon_snn.pipeline.schedule import Delays, read_schedule
from falcon_snn.search.predictor import Correct, local_engine
from falcon_snn.search.result import read_result

ROOT = Path(__file__).parents[1]


def start(out: Path, *arguments: str) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return subprocess.Popen(
        [sys.executable, "-m", "tests.search_process", str(out), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
    )


def lines(out: Path) -> int:
    journal = out / "journal.jsonl"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


class Counting(SpikingMlp):
    def __init__(self) -> None:
        super().__init__(clips=200)
        self.seen: list[Delays] = []

    def correct(self, delays: Delays) -> Correct:
        self.seen.append(delays)
        return super().correct(delays)


def test_a_killed_search_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    whole = Counting()
    small_search(undisturbed, local_engine(whole))

    for stop_at in (4, 17):  # killed twice, once in the first sweep and once later
        process = start(killed, *(["--resume"] if stop_at > 4 else []))
        while lines(killed) < stop_at and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert not (killed / "result.json").exists()
    done = lines(killed) - 1

    rest = Counting()
    small_search(killed, local_engine(rest), resume=True)
    assert len(rest.seen) == len(whole.seen) - done  # nothing is evaluated twice
    for name in ("result.json", "fastest.json", "balanced.json", "accurate.json"):
        assert (killed / name).read_bytes() == (undisturbed / name).read_bytes()


def test_a_line_cut_by_a_kill_is_dropped(tmp_path: Path) -> None:
    small_search(tmp_path / "a", local_engine(SpikingMlp(clips=200)))
    journal = tmp_path / "a" / "journal.jsonl"
    content = journal.read_bytes()
    expected = (tmp_path / "a" / "result.json").read_bytes()
    for cut in (len(content) - 1, len(content) - 30, 10, 0):
        journal.write_bytes(content[:cut])
        (tmp_path / "a" / "result.json").unlink()
        small_search(tmp_path / "a", local_engine(SpikingMlp(clips=200)), resume=True)
        assert (tmp_path / "a" / "result.json").read_bytes() == expected
        assert sorted(journal.read_bytes().splitlines()) == sorted(content.splitlines())


def test_the_journal_of_another_search_is_refused(tmp_path: Path) -> None:
    engine = local_engine(SpikingMlp(clips=200))
    small_search(tmp_path, engine)
    with pytest.raises(FalconError, match="continue with --resume"):
        small_search(tmp_path, engine)
    with pytest.raises(FalconError, match="another model, other data or other settings"):
        small_search(tmp_path, engine, resume=True, tau=1.0)
    journal = tmp_path / "journal.jsonl"
    journal.write_text(journal.read_text().replace('"clips": 200', '"clips": "x"'))
    with pytest.raises(FalconError, match=r"journal\.jsonl, line 2, clips is 'x'"):
        small_search(tmp_path, engine, resume=True)


def test_the_result_says_all(tmp_path: Path) -> None:
    network = SpikingMlp(clips=200)
    small_search(tmp_path, local_engine(network))
    result = read_result(tmp_path / "result.json")
    space = small_space()
    for row in result["evaluated"]:
        schedule = space.schedule(row["delays"])
        assert row["right"] == int(network.correct(space.delays(schedule)).sum())
        assert row["latency_cycles"] == space.cycles([schedule])[0]
        assert row["interval"][0] <= row["accuracy"] <= row["interval"][1]
    paths = {change["path"] for change in result["changes"]}
    assert paths == {"acc", "eff"}
    for change in result["changes"]:
        before, after = (result["evaluated"][change[key]] for key in ("before", "after"))
        assert after["right"] - before["right"] == change["rescued"] - change["harmed"]
        assert {**before["delays"], **change["delays"]} == after["delays"]
    for name, number in result["chosen"].items():
        delays = read_schedule(tmp_path / f"{name}.json", space.boundaries, slots=7)
        assert space.delays(space.schedule(result["evaluated"][number]["delays"])) == delays
        chosen = result["evaluated"][number]
        for row in result["random"][name]["schedules"]:
            other = result["evaluated"][row["schedule"]]
            assert other["latency_cycles"] == chosen["latency_cycles"]
            assert sorted(other["delays"].values()) == sorted(chosen["delays"].values())
            assert 0 < row["p"] <= 1
    assert len(result["uniform"]) == 7
    (tmp_path / "other.json").write_text(json.dumps({"format": "else"}))
    with pytest.raises(FalconError, match="not the result of a search"):
        read_result(tmp_path / "other.json")
