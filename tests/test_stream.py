"""Words in streams: features frame by frame, and the rule."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.data_files import tone
from tests.sounds import WORDS, Wave, beeps, hear, noise, pieces, recording
from torch import Tensor

from falcon_snn.data.audio import read_in_blocks, read_wave, resampled, to_int16
from falcon_snn.data.features import exact_log_mel
from falcon_snn.data.stream import StreamFeatures, word_span
from falcon_snn.errors import FalconError
from falcon_snn.workflow.detecting import Decider, Detector, Rule, detect, keywords_of

# Features as sound comes.


@given(st.integers(0, 9), st.one_of(st.integers(1, 40), st.integers(97, 100)))
def test_windows_equal_the_features_of_the_same_second(seed: int, every: int) -> None:
    samples_heard = 50_000 + 777 * seed
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


def test_windows_without_a_trace_of_a_word_are_heard_every_other_time() -> None:
    wave, heard = recording("high", "low", gap=40_000), 0

    def count(x: Tensor) -> Tensor:
        nonlocal heard
        heard += len(x)
        return hear(x)

    rule = Rule(threshold=0.6)
    detector = Detector(count, WORDS, rule)
    pieces_of = detector.follow(wave)
    windows = len(pieces_of.windows)
    assert [one.word for one in pieces_of.detections] == ["high", "low"]
    # By hand: which windows have a trace, and what each counts as.
    wanted = hear(pieces_of.windows.features()).numpy()[:, :2]
    lately, asked = pieces_of.windows.lately, 0
    for at in range(windows):
        turn = at % 2 == 0 or not lately[at - 1]
        if lately[at] and (turn or wanted[at - 1].max() >= 0.1):
            asked += 1
        else:
            wanted[at] = wanted[at - 1] if at else 0.0
    assert heard == asked < 0.8 * windows
    means = [wanted[max(0, at - 2) : at + 1].mean(axis=0) for at in range(windows)]
    assert np.allclose(pieces_of.confidences, means, atol=1e-12)


def test_a_word_is_reported_up_to_half_a_second_after_its_end() -> None:
    """A network that knows the word from some time on."""
    wave = np.zeros(64_000, np.float32)
    wave[16_000:24_000] = beeps("high")
    wave += noise(len(wave))

    def sure_from(sample: int) -> list[float]:
        detector = Detector(hear, WORDS, Rule(every_ms=20, smooth_ms=0, threshold=0.6))
        network = detector.confidences.hear
        detector.confidences.hear = lambda x: network(x) * float(detector.heard_s > sample / 16_000)
        return [one.answer_s for piece in np.split(wave, 400) for one in detector.push(piece)]

    for sample in (24_000, 27_000, 29_600):  # the word ends at 24,000
        answers = sure_from(sample)
        assert len(answers) == 1
        assert sample / 16_000 <= answers[0] <= sample / 16_000 + 0.05
    assert sure_from(33_000) == []


def test_what_was_loud_lately() -> None:
    wave = noise(80_000, level=1e-3)
    wave[20_000:28_000] += tone(500, 8_000)
    found = StreamFeatures(2).push(wave)
    ends = found.end_s[found.lately]
    inside = ends[(ends > 1.26) & (ends < 2.74)]  # the tone lies in the window
    assert inside.min() < 1.30
    assert inside.max() == pytest.approx(28_000 / 16_000 + 0.5, abs=0.1)
    quiet = found.end_s[~found.lately]
    assert quiet.min() > 2.15
    assert quiet.max() < 2.8


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
    end_s, lately = np.arange(6) / 10 + 1, np.ones(6, bool)
    # Word 0 stays held until it falls below 0.25, at 1.3 s.
    assert Decider(0.5, 0.0).of(confidences, lately, end_s) == [(0, 0), (3, 1), (4, 0), (5, 1)]
    assert Decider(0.5, 0.35).of(confidences, lately, end_s) == [(0, 0), (4, 0)]
    one_by_one = Decider(0.5, 0.0)
    single = [slice(at, at + 1) for at in range(6)]
    found = [one_by_one.of(confidences[at], lately[at], end_s[at]) for at in single]
    assert [bool(part) for part in found] == [True, False, False, True, True, True]
    # Where nothing was loud lately, nothing is reported; a word that falls there is free again.
    lately[[0, 3]] = False
    assert Decider(0.5, 0.0).of(confidences, lately, end_s) == [(2, 0), (4, 0), (5, 1)]


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
    assert heard == 3600  # every other window


@pytest.mark.parametrize(
    "bad", [{"every_ms": 5}, {"every_ms": 25}, {"smooth_ms": -1}, {"threshold": 1.5},
            {"threshold": float("nan")}, {"refractory_ms": 99_999}],
)  # fmt: skip
def test_a_rule_that_cannot_be(bad: dict[str, Any]) -> None:
    with pytest.raises(FalconError):
        Rule(**bad)
