"""Words in streams: features frame by frame, the rule, `detect` and `listen`, and bad streams."""

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
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.data_files import tone
from torch import Tensor
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.data import live
from falcon_snn.data.audio import read_in_blocks, read_wave, resampled, to_int16
from falcon_snn.data.examples import load_waves
from falcon_snn.data.features import exact_log_mel
from falcon_snn.data.stream import StreamFeatures, word_span
from falcon_snn.errors import FalconError
from falcon_snn.workflow.detecting import Decider, Detector, Rule, detect, keywords_of
from falcon_snn.workflow.model import load

Wave = NDArray[np.float32]
WORDS = ("high", "low", "silence", "unknown")


def noise(samples: int, seed: int = 0, level: float = 0.01) -> Wave:
    wave = level * np.random.default_rng(seed).standard_normal(samples)
    return wave.astype(np.float32)


def pieces(wave: Wave, seed: int, number: int = 20) -> list[Wave]:
    """A wave in pieces of random sizes, some empty."""
    cuts = np.random.default_rng(seed).integers(0, len(wave) + 1, number)
    return np.split(wave, np.sort(cuts))


def beeps(word: str) -> Wave:
    """Half a second of a tone that stands for a word."""
    return tone({"high": 3000.0, "low": 300.0}[word], 8_000)


def hear(x: Tensor) -> Tensor:
    """A network that tells high tones from low ones, and both from noise."""
    bands = (x - 2.5).clamp_min(0).sum(dim=1)  # what stands out of the noise
    scores = torch.stack([bands[:, 40:].sum(1), bands[:, :20].sum(1)], dim=1)
    rest = torch.full((len(x), 2), 20.0)
    return torch.cat([scores, rest], dim=1).double().softmax(dim=1)


def recording(*words: str, gap: int = 16_000) -> Wave:
    parts = [np.zeros(gap, np.float32)]
    for word in words:
        parts += [beeps(word), np.zeros(gap, np.float32)]
    wave = np.concatenate(parts)
    return wave + noise(len(wave))


# Features as sound comes.


@given(st.integers(0, 9), st.integers(1, 40))
def test_windows_equal_the_features_of_the_same_second(seed: int, every: int) -> None:
    samples_heard = 24_000 + 777 * seed
    swell = np.linspace(1, 20, samples_heard, dtype=np.float32)
    wave: Wave = noise(samples_heard, seed) * swell
    stream = StreamFeatures(every)
    found = [stream.push(piece) for piece in pieces(wave, seed)]
    samples = torch.from_numpy(to_int16(wave)).float() / 32768
    starts = range(0, len(wave) - 16_000 + 1, 160 * every)
    wanted = exact_log_mel(torch.stack([samples[at : at + 16_000] for at in starts]))
    features = torch.cat([part.features() for part in found])
    assert torch.equal((32 * features).round(), (32 * wanted).round())
    ends = np.concatenate([part.end_s for part in found])
    assert ends.tolist() == [(at + 16_000) / 16_000 for at in starts]


@pytest.mark.parametrize("rate_hz", [1_000, 8_000, 11_025, 44_100, 48_000, 384_000])
def test_resampling_in_pieces_is_resampling_at_once(rate_hz: int) -> None:
    wave = noise(rate_hz // 2 + 13)
    whole = np.concatenate(list(resampled([wave], rate_hz)))
    found = np.concatenate(list(resampled(pieces(wave, 1), rate_hz)))
    assert np.array_equal(found, whole)
    assert len(found) == -(-len(wave) * 16_000 // rate_hz)


def test_a_file_in_blocks_is_the_file(tmp_path: Path) -> None:
    wave = np.stack([noise(70_000), noise(70_000, 1)], axis=1)
    soundfile.write(tmp_path / "a.wav", wave, 44_100)
    blocks = list(read_in_blocks(tmp_path / "a.wav", 0.3))
    assert len(blocks) > 4
    assert np.allclose(np.concatenate(blocks), read_wave(tmp_path / "a.wav"), atol=1e-6)


def test_a_span_is_where_the_tone_is() -> None:
    wave = noise(16_000, level=1e-3)
    wave[5_000:11_000] += tone(500, 6_000)
    stream = StreamFeatures(10)
    start_s, end_s = word_span(stream.push(wave).logs[0])
    assert start_s == pytest.approx(5_000 / 16_000, abs=0.08)
    assert end_s == pytest.approx(11_000 / 16_000, abs=0.08)


# The rule.


def test_words_come_out_once_each_with_their_times() -> None:
    wave = recording("high", "low", "low", "high", gap=24_000)
    detector = Detector(hear, WORDS, Rule(threshold=0.6))
    found = list(detect(detector, pieces(wave, 3)))
    assert [one.word for one in found] == ["high", "low", "low", "high"]
    for number, one in enumerate(found):
        begins = 1.5 + 2.0 * number
        assert begins - 0.05 <= one.start_s <= begins + 0.3
        assert one.end_s <= begins + 0.55
        assert 0 <= one.delay_s <= 0.5
        assert one.answer_s <= begins + 1.0
    assert detector.heard_s == len(wave) / 16_000


def test_pieces_of_any_size_give_the_same_words() -> None:
    wave = recording("low", "high", "low", gap=9_000)
    rule = Rule(every_ms=50, smooth_ms=150, threshold=0.6)
    runs = [
        list(detect(Detector(hear, WORDS, rule), pieces(wave, seed, number)))
        for seed, number in ((0, 1), (1, 40), (2, 400))
    ]
    assert runs[0] == runs[1] == runs[2]
    assert len(runs[0]) == 3


def test_only_the_words_asked_for() -> None:
    detector = Detector(hear, WORDS, Rule(threshold=0.6), ["low"])
    found = list(detect(detector, [recording("high", "low")]))
    assert [one.word for one in found] == ["low"]
    assert keywords_of(WORDS) == ("high", "low")  # the others are no words
    for word in ("middle", "unknown"):
        with pytest.raises(FalconError, match="does not know"):
            keywords_of(WORDS, [word])


def test_refractory_time_and_rearming() -> None:
    """By hand: windows 0.1 s apart, threshold 0.5."""
    confidences = np.array([[0.6, 0], [0.4, 0], [0.6, 0], [0.2, 0.7], [0.6, 0.2], [0, 0.9]])
    end_s = np.arange(6) / 10 + 1
    # Word 0 stays held until it falls below 0.25, at 1.3 s.
    assert Decider(0.5, 0.0).of(confidences, end_s) == [(0, 0), (3, 1), (4, 0), (5, 1)]
    assert Decider(0.5, 0.35).of(confidences, end_s) == [(0, 0), (4, 0)]
    one_by_one = Decider(0.5, 0.0)
    found = [one_by_one.of(confidences[at : at + 1], end_s[at : at + 1]) for at in range(6)]
    assert [bool(part) for part in found] == [True, False, False, True, True, True]


def test_an_hour_of_silence_has_no_words_and_takes_no_memory() -> None:
    heard = 0

    def count(x: Tensor) -> Tensor:
        nonlocal heard
        heard += len(x)
        assert len(x) <= 64
        return hear(x)

    detector = Detector(count, WORDS, Rule(every_ms=500))
    block = np.zeros(60 * 16_000, np.float32)
    for _ in range(60):
        assert detector.push(block) == []
        held = detector.features
        assert held._wave.nbytes + held._logs.nbytes < 200_000
    assert heard == 2 * 3600 - 1


@pytest.mark.parametrize(
    "bad", [{"every_ms": 5}, {"every_ms": 25}, {"smooth_ms": -1}, {"threshold": 1.5},
            {"threshold": float("nan")}, {"refractory_ms": 99_999}],
)  # fmt: skip
def test_a_rule_that_cannot_be(bad: dict[str, Any]) -> None:
    with pytest.raises(FalconError):
        Rule(**bad)


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
