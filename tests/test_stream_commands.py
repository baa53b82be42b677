"""Words in streams: `detect` and `listen` on recordings, and bad streams."""

import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
from tests.sounds import WORDS, Wave, hear, noise
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.data import live
from falcon_snn.data.examples import load_waves
from falcon_snn.data.features import exact_log_mel
from falcon_snn.errors import FalconError
from falcon_snn.workflow.detecting import Detector, Rule
from falcon_snn.workflow.model import load

# The commands, on recordings of words that come along.


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three words that embedded-tiny-t2 is sure of, with pauses."""
    waves, model = load_waves("embedded", "testing"), load("embedded-tiny-t2")
    x = exact_log_mel(waves.waves[:, :16_000].float() / 32768)
    sure = model.confidences(x).gather(1, waves.labels[:, None])[:, 0].argsort(descending=True)
    rows = sure[:3].tolist()
    parts: list[Wave] = [noise(12_000, level=2e-4)]
    for row in rows:
        clip: Wave = waves.waves[row, :16_000].div(32768).numpy()
        parts += [clip, noise(12_000, level=2e-4)]
    path = tmp_path_factory.mktemp("spoken") / "three.wav"
    soundfile.write(path, np.concatenate(parts), 16_000)
    (path.parent / "words").write_text(" ".join(waves.words[int(waves.labels[r])] for r in rows))
    return path


def run(*words: str, given: bytes | None = None) -> Any:
    return CliRunner().invoke(app, list(words), input=given)


NETWORK = ("--pretrained", "embedded-tiny-t2", "--threshold", "0.5")


def test_detect_finds_the_words_of_a_recording(spoken: Path, tmp_path: Path) -> None:
    picture = tmp_path / "p.png"
    result = run("detect", str(spoken), *NETWORK, "--json", "--plot", str(picture))
    assert result.exit_code == 0, result.output
    *found, summary = map(json.loads, result.stdout.splitlines())
    wanted = (spoken.parent / "words").read_text().split()
    assert [one["word"] for one in found if one["word"] in wanted] == wanted
    assert len(found) <= 5  # a network of 2,600 clips may hear a word too many
    for one in found:
        assert one["file"] == str(spoken)
        assert one["delay_s"] == pytest.approx(one["answer_s"] - one["end_s"], abs=2e-4)
    assert summary["heard_s"] == pytest.approx(soundfile.info(spoken).duration, abs=0.01)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_listen_hears_on_standard_input_what_detect_finds(spoken: Path) -> None:
    samples = soundfile.read(spoken, dtype="int16")[0]
    in_file = run("detect", str(spoken), *NETWORK, "--json").stdout.splitlines()[:-1]
    heard = run("listen", "-", *NETWORK, "--json", given=samples.tobytes()).stdout.splitlines()
    wanted = [{k: v for k, v in json.loads(line).items() if k != "file"} for line in in_file]
    assert [json.loads(line) for line in heard[:-1]] == wanted
    assert json.loads(heard[-1])["words"] == len(wanted)
    # Half a sample at the end is left out, and a word is said about it.
    odd = run("listen", "-", *NETWORK, "--json", given=samples.tobytes() + b"x")
    assert odd.stdout.splitlines()[:-1] == heard[:-1]


def test_ctrl_c_ends_listening_with_a_summary(
    spoken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = soundfile.read(spoken, dtype="float32")[0]

    def interrupted(device: str | None) -> Any:
        assert device == "headset"
        yield samples
        raise KeyboardInterrupt

    monkeypatch.setattr(live, "microphone", interrupted)
    result = run("listen", *NETWORK, "--device", "headset", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout.splitlines()[-1])
    assert summary["stopped"] is True
    assert summary["heard_s"] == pytest.approx(len(samples) / 16_000, abs=1e-3)


def test_python_hears_streams_too(spoken: Path) -> None:
    model = load("embedded-tiny-t2")
    wave, rate_hz = soundfile.read(spoken, dtype="float32")
    found = model.detect(wave, rate_hz, rule=Rule(threshold=0.5))
    lines = run("detect", str(spoken), *NETWORK, "--json").stdout.splitlines()[:-1]
    assert [one.word for one in found] == [json.loads(line)["word"] for line in lines]


# Bad streams.


def test_bad_files_are_one_line(tmp_path: Path, spoken: Path) -> None:
    whole = spoken.read_bytes()
    (tmp_path / "cut.wav").write_bytes(whole[: len(whole) // 2])
    soundfile.write(tmp_path / "nan.wav", np.full(20_000, np.nan, np.float32), 16_000, "FLOAT")
    soundfile.write(tmp_path / "none.wav", np.zeros(0, np.float32), 16_000)
    soundfile.write(tmp_path / "slow.wav", noise(900), 500)
    (tmp_path / "phone.m4a").write_bytes(b"\0\0\0 ftypM4A " + bytes(100))
    (tmp_path / "text.wav").write_text("no sound")
    said = {
        "cut.wav": "cut short", "nan.wav": "not numbers", "none.wav": "no samples",
        "slow.wav": "500 Hz", "phone.m4a": "ffmpeg -i phone.m4a phone.wav",
        "text.wav": "not a readable recording", "gone.wav": "no such file",
    }  # fmt: skip
    for name, words in said.items():
        result = run("detect", str(tmp_path / name), *NETWORK)
        assert isinstance(result.exception, FalconError), name
        assert words in str(result.exception), name
        assert "\n" not in str(result.exception)


def test_a_short_recording_is_heard(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "short.wav", noise(1_000), 16_000)
    result = run("detect", str(tmp_path / "short.wav"), *NETWORK, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout.splitlines()[-1])["heard_s"] == pytest.approx(0.0625, abs=1e-3)


@pytest.mark.parametrize(
    ("words", "given", "said"),
    [
        (("listen", "-", "--rate", "12"), b"ab", "12 Hz"),
        (("listen", "-"), b"", "no samples came"),
        (("listen", "-", "--words", ","), b"ab", "is empty"),
        (("listen", "-", "--words", "xyz"), b"ab", "does not know 'xyz'"),
        (("listen", "song.wav"), b"", "`falcon-snn detect` takes files"),
        (("listen", "--rate", "8000"), b"", "--rate is for raw samples"),
        (("detect", "a.wav", "b.wav", "--plot", "p.png"), b"", "give one file"),
    ],
)
def test_bad_requests_are_one_line(words: tuple[str, ...], given: bytes, said: str) -> None:
    result = run(*words, *NETWORK, given=given)
    assert isinstance(result.exception, FalconError), result.output
    assert said in str(result.exception)


def fake_sounddevice(**changes: Any) -> Any:
    class PortAudioError(Exception):
        pass

    def refuse(**_: Any) -> None:
        raise PortAudioError("Error querying device -1")

    found = {"PortAudioError": PortAudioError, "InputStream": refuse, "query_devices": list}
    return SimpleNamespace(**{**found, **changes})


def test_a_microphone_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(FalconError, match=r"falcon-snn\[listen\]"):
        live.microphone()
    monkeypatch.setitem(sys.modules, "sounddevice", fake_sounddevice())
    with pytest.raises(FalconError, match=r"no microphone .* this machine has none"):
        live.microphone()
    named = fake_sounddevice(query_devices=lambda: [{"name": "usb", "max_input_channels": 1}])
    monkeypatch.setitem(sys.modules, "sounddevice", named)
    with pytest.raises(FalconError, match="--device: usb"):
        live.microphone("radio")


def test_the_microphone_gives_what_its_callback_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream:
        def __init__(self, **settings: Any) -> None:
            assert (settings["samplerate"], settings["channels"]) == (16_000, 1)
            self.heard = settings["callback"]

        def __enter__(self) -> None:
            for number in range(3):
                self.heard(np.full((1280, 1), number, np.float32), 1280, None, None)

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setitem(sys.modules, "sounddevice", fake_sounddevice(InputStream=Stream))
    blocks = live.microphone("2")
    assert [float(next(blocks)[0]) for _ in range(3)] == [0.0, 1.0, 2.0]


def test_raw_samples_cut_anywhere() -> None:
    class Pipe(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            return self.read(min(size or 1, 7))

    samples = np.arange(-500, 500, dtype="<i2")
    found = np.concatenate(list(live.raw_blocks(Pipe(samples.tobytes()))))
    assert np.array_equal(found * 32768, samples)


def test_samples_that_are_no_numbers() -> None:
    with pytest.raises(FalconError, match="not numbers"):
        Detector(hear, WORDS, Rule()).push(np.full(10, np.inf, np.float32))


def test_a_pipe_that_is_closed_ends_without_a_traceback(spoken: Path) -> None:
    command = [sys.executable, "-m", "falcon_snn.cli.main", "listen", "-", *NETWORK, "--rate", "7"]
    found = subprocess.run(command, input=b"\0\0", capture_output=True, check=False)
    assert found.returncode == 1
    assert found.stderr.decode().startswith("error: --rate is 7 Hz")
