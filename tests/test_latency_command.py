"""The commands of the latency side, as a user runs them."""

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.other_networks import DELAYS, save_cnn

from falcon_snn.cli.main import main
from falcon_snn.training.pretrained import models_folder
from falcon_snn.workflow.networks import built_in

EXAMPLES = Path(__file__).parent.parent / "examples"


class Falcon:
    """Runs `falcon-snn` in this process and keeps what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.capsys, self.monkeypatch = capsys, monkeypatch

    def __call__(self, *words: object) -> tuple[int, str, str]:
        self.monkeypatch.setattr(sys, "argv", ["falcon-snn", *map(str, words)])
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self.capsys.readouterr()
        return int(ended.value.code or 0), out, err

    def json(self, *words: object) -> Any:
        code, out, err = self(*words, "--json")
        assert code == 0, err
        return json.loads(out)


@pytest.fixture
def falcon(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Falcon:
    return Falcon(capsys, monkeypatch)


def test_json_has_what_scripts_rely_on(falcon: Falcon) -> None:
    report = falcon.json(
        "latency", "--network", "medium", "--dataset", "gsc", "--schedule", "balanced"
    )
    assert report["core_latency_us"] == 119.64
    assert report["core_latency_cycles"] == 11964
    assert report["matched_qnn_us"] == 130.86
    stem = next(stage for stage in report["stages"] if stage["name"] == "stem.fc2")
    assert (stem["first_ready_us"], stem["last_ready_us"]) == (7.64, 18.92)
    assert report["critical_path"][-1]["end_us"] == 119.64
    assert sum(report["critical_path_parts_us"].values()) == pytest.approx(119.64)
    assert [row["name"] for row in report["boundaries"]] == list(built_in("medium").boundaries)


def test_flags_change_what_they_say(falcon: Falcon, tmp_path: Path) -> None:
    def us(*words: object) -> float:
        value: float = falcon.json("latency", *words)["core_latency_us"]
        return value

    assert us() == 115.82
    assert us("--dataset", "ssc", "--schedule", "accurate") == 129.70
    assert us("--delay", "block0.ffn1=2", "--delay", "block2.residual2=3") == 117.76
    assert us("--schedule", "balanced", "--qk-prefix", 3) == 97.08
    assert us("--slots", 4, "--qk-prefix", 2, "--attention", "streamed") == 72.95
    assert us("--qnn", "--network", "large") == 202.98
    assert us("--graph", EXAMPLES / "mlp.toml") == 17.19
    file = tmp_path / "mine.json"
    file.write_text('{"name": "mine", "delays": {"block0.ffn1": 2}}')
    assert us("--schedule", file) == 117.70
    hardware = tmp_path / "mine.toml"
    assert falcon("hardware", "new", hardware)[0] == 0
    hardware.write_text(hardware.read_text().replace('"serial"', '"streamed"'))
    assert us("--hardware", hardware) == 106.79


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--delay", "bloc0.ffn1=2"], "unknown boundary 'bloc0.ffn1'; did you mean block0.ffn1"),
        (["--delay", "block0.ffn1=8"], "delay of block0.ffn1 is 8; it must lie in 1..7"),
        (["--delay", "block0.ffn1=0"], "delay of block0.ffn1 is 0; it must lie in 1..7"),
        (["--delay", "block0.ffn1"], "write BOUNDARY=D"),
        (["--delay", "block0.ffn1=" + "9" * 5000], "write BOUNDARY=D"),
        (["--qk-prefix", "0"], "Q/K prefix is 0; it must lie in 1..7"),
        (["--slots", "0"], "slots is 0; it must lie in 1..8"),
        (["--schedule", "uniform:8"], "must lie in 1..7"),
        (["--schedule", "uniform:x"], "write uniform:D with D in 1..7"),
        (["--schedule", "slow"], "unknown schedule 'slow'"),
        (["--schedule", "none.json"], "none.json: no such file"),
        (["--network", "large", "--dataset", "ssc", "--schedule", "balanced"], "no schedule 'bal"),
        (["--network", "huge"], "unknown network 'huge'"),
        (["--attention", "fast"], "--attention is 'fast'; allowed: serial, streamed"),
        (["--hardware", "none.toml"], "none.toml: no such file"),
        (["--graph", "none.toml"], "none.toml: no such file"),
        (["--gantt", "x.gif"], "x.gif: a timeline is written as"),
        (["--schedule", ""], "unknown schedule ''"),
        (["--compare", "slow"], "unknown schedule 'slow'"),
        (["--every", "80"], "--every and --smooth are about the whole delay; add --end-to-end"),
        (["--trace", "word.wav"], "word.wav: a trace is written as .json"),
        (["--dataset", "x"], "unknown dataset 'x'"),
        (["--style", "loud"], "--style is 'loud'; choose one of screen, paper, paper-wide"),
        (["--format", "svg,gif"], "--format 'gif': choose from png, svg, pdf, csv"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(falcon: Falcon, words: list[str], message: str) -> None:
    code, out, err = falcon("latency", *words)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"delays": {"block9.ffn1": 2}}', "unknown boundary 'block9.ffn1'"),
        ('{"delays": {"block0.ffn1": 2.5}}', "delay of block0.ffn1 is 2.5"),
        ('{"delays": {"block0.ffn1": true}}', "delay of block0.ffn1 is True"),
        ('{"delays": [1, 2]}', "not a schedule"),
        ("[]", "not a schedule"),
        ("{", "not valid JSON"),
    ],
)
def test_a_bad_schedule_file_is_one_line(
    falcon: Falcon, tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "bad.json"
    file.write_text(text)
    code, _, err = falcon("latency", "--schedule", file)
    assert code == 1
    assert str(file) in err
    assert message in err


def test_moved_delays_are_in_the_title(falcon: Falcon, tmp_path: Path) -> None:
    trace = tmp_path / "a.json"
    words = ("latency", "--delay", "stem.fc1=2", "--trace", trace)
    assert falcon(*words)[0] == 0
    events = json.loads(trace.read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {"SNN fastest, stem.fc1=2"}


def test_pictures_and_trace(falcon: Falcon, tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="needs falcon-snn[plotly]")
    png, html, trace = (tmp_path / name for name in ("a.png", "a.html", "a.json"))
    words = ("latency", "--schedule", "balanced", "--compare", "qnn", "--trace", trace)
    assert falcon(*words, "--gantt", png)[0] == 0
    assert falcon(*words, "--gantt", html)[0] == 0
    assert png.read_bytes().startswith(b"\x89PNG")
    page = html.read_text()
    assert "SNN balanced: 119.64 µs" in page
    assert "QNN: 130.86 µs" in page
    assert "<script src=" not in page  # opens without a network
    events = json.loads(trace.read_text())["traceEvents"]
    bars = [event for event in events if event["ph"] == "X"]
    assert max(bar["ts"] + bar["dur"] for bar in bars) == pytest.approx(130.86)
    assert min(bar["dur"] for bar in bars) >= 0
    assert {event["args"]["name"] for event in events if event["name"] == "process_name"} == {
        "SNN balanced", "QNN",
    }  # fmt: skip
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for bar in bars:  # viewers cannot draw bars of one track that overlap
        tracks.setdefault((bar["pid"], bar["tid"]), []).append((bar["ts"], bar["ts"] + bar["dur"]))
    for uses in tracks.values():
        uses.sort()
        assert all(two[0] >= one[1] - 1e-6 for one, two in itertools.pairwise(uses))


def test_throughput_resources_and_sweep(falcon: Falcon, tmp_path: Path) -> None:
    rows = falcon.json("throughput", "--gantt", tmp_path / "stream.png")["streams"]
    assert [(row["network"], row["engines"], row["interval_us"]) for row in rows] == [
        ("SNN", "shared", 30.84), ("QNN", "shared", 30.84),
        ("SNN", "per-block", 13.16), ("QNN", "per-block", 10.28),
    ]  # fmt: skip
    found = falcon.json("resources", "--share", "1,98", "--plot", tmp_path / "share.png")
    assert found["tiles"] == sum(layer["tiles"] for layer in found["layers"])
    assert [point["tokens_per_copy"] for point in found["sharing"]] == [1, 98]
    assert found["neuron_area_source"]["tag"] == "inferred"
    assert "yosys, 45 nm library" in found["neuron_area_source"]["text"]
    swept = falcon.json("sweep", "slots", "3:7", "--plot", tmp_path / "sweep.png")
    assert [point["value"] for point in swept["points"]] == [3, 4, 5, 6, 7]
    for name in ("stream.png", "share.png", "sweep.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert len(falcon.json("sweep", "--claims")) == 24
    code, _, err = falcon("sweep")
    assert (code, err.count("\n")) == (1, 1)


def test_tables_are_printed(falcon: Falcon) -> None:
    for words in (
        ["latency"], ["latency", "--qnn"], ["throughput"], ["resources", "--share", "1,98"],
        ["sweep", "delay", "1:3"], ["sweep", "--claims"], ["hardware", "show"], ["graph"],
    ):  # fmt: skip
        code, out, err = falcon(*words)
        assert (code, err) == (0, "")
        assert max(map(len, out.splitlines())) <= 100


def test_a_printed_graph_is_a_start_for_ones_own(falcon: Falcon, tmp_path: Path) -> None:
    own, picture = tmp_path / "own.toml", tmp_path / "own.png"
    assert falcon("graph", "--out", own)[0] == 0
    assert falcon.json("latency", "--graph", own)["core_latency_us"] == 115.82
    stages = falcon.json("graph", "--graph", own, "--qk-prefix", 3, "--out", picture)["stages"]
    assert {stage["prefix"] for stage in stages if stage["kind"] == "quantise"} == {3}
    assert picture.read_bytes().startswith(b"\x89PNG")
    code, _, err = falcon("latency", "--graph", own, "--qk-prefix", 0)
    assert (code, "prefix is 0; it must lie in 1..7" in err) == (1, True)


def test_hardware_new_does_not_overwrite(falcon: Falcon, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    assert falcon("hardware", "new", file)[0] == 0
    code, _, err = falcon("hardware", "new", file)
    assert (code, "already exists" in err) == (1, True)
    shown = falcon.json("hardware", "show", file)
    assert (shown["name"], shown["differs_from_paper"]) == ("mine", {})
    assert {row["tag"] for row in shown["values"] if row["value"] is not None} == {
        "measured", "inferred", "assumed",
    }  # fmt: skip


def test_a_checkpoint_is_timed_under_its_own_delays(falcon: Falcon, tmp_path: Path) -> None:
    file = models_folder() / "gsc1-medium-balanced.safetensors"
    own = falcon.json("latency", "--checkpoint", file)
    assert own == falcon.json("latency", "--pretrained", file.stem, "--schedule", "own")
    assert {row["delay"] for row in own["boundaries"]} == {1, 2, 3}
    assert falcon.json("latency", "--pretrained", file.stem, "--schedule", "fastest")[
        "core_latency_us"
    ] == 115.82  # fmt: skip
    words = ("--pretrained", "embedded-tiny")
    assert falcon.json("throughput", *words)["schedule"] in ("own", "fastest")
    assert falcon.json("resources", *words, "--share", "1")["network"] == "Falcon-Tiny GSC"
    assert len(falcon.json("sweep", "slots", "3:7", *words)["points"]) == 5
    assert len(falcon.json("sweep", "qk_prefix", "3:7", *words)["points"]) == 5
    assert falcon.json("graph", *words)["name"] == "Falcon-Tiny GSC"
    facts = falcon.json("describe", *words)
    assert (facts["name"], facts["slots"]) == ("Falcon-Tiny GSC", 7)
    assert sum(stage["parameters"] for stage in facts["stages"]) == facts["parameters"]
    code, _, err = falcon("latency", *words, "--graph", EXAMPLES / "mlp.toml")
    assert (code, "--graph or a checkpoint, not both" in err) == (1, True)


def test_any_network_is_timed_drawn_and_described(falcon: Falcon, tmp_path: Path) -> None:
    words = ("--checkpoint", save_cnn(tmp_path / "cnn.safetensors"))
    pictures = [tmp_path / f"{name}.png" for name in ("gantt", "stream", "share", "sweep", "graph")]
    report = falcon.json("latency", *words, "--gantt", pictures[0])
    assert {row["name"]: row["delay"] for row in report["boundaries"]} == DELAYS
    assert report["critical_path_parts_us"]["attention"] == 0
    assert falcon.json("throughput", *words, "--gantt", pictures[1])["schedule"] == "own"
    tiles = falcon.json("resources", *words, "--share", "1,8", "--plot", pictures[2])
    assert tiles["systolic_arrays"] == 0
    points = falcon.json("sweep", "slots", "1:4", *words, "--plot", pictures[3])["points"]
    assert points[-1]["snn_us"] == report["core_latency_us"]
    assert falcon.json("graph", *words, "--out", pictures[4])["name"] == "small CNN"
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)
    facts = falcon.json("describe", *words)
    assert facts["macs"] == sum(stage["macs"] for stage in facts["stages"])
    assert "3 searchable boundaries" in falcon("describe", *words)[1]
    for wrong, message in (
        (["--schedule", "balanced"], "no schedule 'balanced' is published for this network"),
        (["--qk-prefix", "2"], "has no Q and K, so no Q/K prefix"),
        (["--delay", "first=5"], "delay of first is 5; it must lie in 1..4"),
    ):
        code, _, err = falcon("latency", *words, *wrong)
        assert (code, message in err) == (1, True)


@pytest.mark.parametrize(
    "words",
    [
        ["latency"], ["latency", "--graph", str(EXAMPLES / "mlp.toml")], ["throughput"],
        ["resources", "--share", "1"], ["sweep", "delay", "1,2"], ["graph"],
    ],
)  # fmt: skip
def test_timing_imports_nothing_heavy(words: list[str]) -> None:
    script = (
        f"import sys; sys.argv = ['falcon-snn', *{words!r}, '--json']\n"
        "from falcon_snn.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'scipy', 'matplotlib', 'plotly', 'numba', 'lightning'}\n"
        "sys.exit(' '.join(sorted(heavy & set(sys.modules))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == ""
    assert json.loads(done.stdout)


def test_the_whole_delay_by_hand(falcon: Falcon) -> None:
    """Kestrel-5, 35 words, on the paper's chip: 5 arrays of 32 x 32, 5 engines of 32 lanes."""
    report = falcon.json("latency", "--network", "kestrel-5", "--end-to-end", "--every", "100",
                         "--smooth", "300")  # fmt: skip
    found = report["end_to_end"]
    us = {row["part"]: row["us"] for row in found["parts"]}
    assert us["next look"] == 200_000  # twice: every other window may be spared
    assert us["averaging"] == 200_000
    assert us["last frame"] == 15_000
    # 98 x 32 places by 5 arrays: 20 groups of 32 rows, kernels of 25, 62 to fill and drain.
    assert us["encoder"] == 5.62
    assert us["core"] == report["core_latency_us"] == 11.43
    assert us["pooling"] == 0.84  # 13 x 4 x 256 on 160 lanes
    assert us["classifier"] == 10.86  # 1024 inputs one after the other, and 62
    # 480 for the window, 15,360 for the transform, 482 for powers, some 480 for 64 filters, 64
    # logarithms; then 3 x 98 x 64 for the mean and the deviation.
    assert us["features"] == pytest.approx((17_000 / 160 + 118) / 100, abs=0.05)
    assert found["computed_us"] == pytest.approx(sum(us.values()) - 415_000)
    assert found["core_percent_of_computed"] == pytest.approx(1143 / found["computed_us"])
    assert {row["tag"] for row in found["parts"]} == {"setting", "inferred", "assumed"}
    code, out, _ = falcon("latency", "--pretrained", "gsc1-medium-t3-prefix1", "--end-to-end")
    assert code == 0
    assert "% of that" in " ".join(out.split())


def test_the_whole_delay_of_what_does_not_hear(falcon: Falcon, tmp_path: Path) -> None:
    code, _, err = falcon("latency", "--dataset", "ssc", "--end-to-end")
    assert code == 1
    assert "not sound" in err
    assert falcon("latency", "--every", "7", "--end-to-end")[2].startswith("error: a window every")
    written = tmp_path / "graph.toml"
    falcon("graph", "--out", written)
    code, _, err = falcon("latency", "--graph", written, "--end-to-end")
    assert code == 1
    assert "says nothing about its input" in err
