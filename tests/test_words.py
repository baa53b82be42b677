"""Words that are none of ours: unknown and silence in training, thresholds, streams with times."""

import json
from collections import Counter
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from tests.data_files import speaker_in, tone
from tools.told_where import misses
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.data.augment import Augmentation
from falcon_snn.data.clips import SPLITS
from falcon_snn.data.examples import load_examples, load_noise, load_waves
from falcon_snn.data.features import exact_log_mel
from falcon_snn.data.scene import SCENE_S, WORD_LEVEL, Spoken, scenes
from falcon_snn.data.task import examples_for, silence, task_classes, waves_for
from falcon_snn.errors import FalconError
from falcon_snn.training.batches import Clips
from falcon_snn.training.recipe import load_recipe
from falcon_snn.workflow.calibrating import best_offsets, best_threshold, right_answers
from falcon_snn.workflow.detecting import Rule
from falcon_snn.workflow.model import load
from falcon_snn.workflow.streaming import evaluate_stream, matched, report_of

TONES = {"go": 500.0, "no": 1_000.0, "bed": 2_000.0, "cat": 3_000.0, "dog": 4_500.0}
CLASSES = ("go", "no", "silence", "unknown")
CLIPS = {"training": 12, "validation": 6, "testing": 6}


@pytest.fixture(scope="module")
def five_words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five words that are tones, and two recordings of noise."""
    folder, draw = tmp_path_factory.mktemp("words"), np.random.default_rng(0)
    for word, hertz in TONES.items():
        (folder / word).mkdir()
        for split in SPLITS:
            for number in range(CLIPS[split]):
                wave = np.zeros(16_000, np.float32)
                wave[4_000:12_000] = tone(hertz * draw.uniform(0.93, 1.07), 8_000)
                wave += 0.002 * draw.standard_normal(16_000).astype(np.float32)
                name = f"{speaker_in(split, number)}_nohash_0.wav"
                soundfile.write(folder / word / name, wave, 16_000)
    (folder / "_background_noise_").mkdir()
    for number, samples in enumerate((400_000, 60_000)):  # a part of the second is below a clip
        noise = 0.05 * draw.standard_normal(samples)
        soundfile.write(folder / "_background_noise_" / f"{number}.wav", noise, 16_000)
    return folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FALCON_CACHE", str(tmp_path_factory.getbasetemp() / "word-cache"))


def falcon(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


# The task.


@pytest.mark.parametrize("split", SPLITS)
def test_proportions_and_origin_of_every_class(five_words: Path, split: str) -> None:
    found = examples_for(str(five_words), split, CLASSES)
    words = 2 * CLIPS[split]
    counts = Counter(found.words[label] for label in found.labels.tolist())
    counts["unknown"] -= found.spare
    tenth = ceil(0.1 * words)
    assert counts == {"go": words // 2, "no": words // 2, "unknown": tenth, "silence": tenth}
    assert found.spare == (3 * CLIPS[split] - tenth if split == "training" else 0)
    whole = load_examples(str(five_words), split)
    for row, (name, label) in enumerate(zip(found.names, found.labels.tolist(), strict=True)):
        said, meant = name.split("/")[0], found.words[label]
        assert (said == meant) if meant != "unknown" else said in ("bed", "cat", "dog")
        if said != "silence":
            assert torch.equal(found.x[row], whole.x[whole.names.index(name)])
    waves = waves_for(str(five_words), split, CLASSES)
    assert waves.names == found.names
    assert torch.equal(waves.labels, found.labels)
    features = exact_log_mel(waves.waves[:, :16_000].float() / 32768)
    assert torch.equal(features, found.x)


def test_silence_of_a_split_has_its_own_noise(five_words: Path) -> None:
    """Noise is different at every sample, so equal samples would be the same piece."""
    held = {}
    for split in SPLITS:
        pieces = silence(str(five_words), split, 30)
        assert not pieces[::10].any()  # digital silence
        assert pieces[1::10].any(axis=1).all()
        noise = np.rint(load_noise(str(five_words)).numpy()[:400_000] * 32768)
        # Long recording: pieces 2, 4, ... as levels differ, find each by its zero crossings.
        signs = np.sign(noise) >= 0
        places = []
        for piece in pieces[2:20:2]:
            loud = np.flatnonzero(np.abs(piece) > 40)[:60]
            if len(loud) < 60:
                continue
            pattern = piece[loud] > 0
            starts = np.arange(400_000 - 16_000)
            for place in loud:
                starts = starts[signs[starts + place] == pattern[list(loud).index(place)]]
            places += starts.tolist()
        held[split] = places
        assert len(places) >= 2
    assert max(held["training"]) + 16_000 <= 320_000
    assert min(held["validation"]) >= 320_000
    assert max(held["validation"]) + 16_000 <= 360_000
    assert min(held["testing"]) >= 360_000


def test_epochs_draw_other_unknown_words_as_many_each(five_words: Path) -> None:
    data = waves_for(str(five_words), "training", CLASSES)
    recipe = replace(load_recipe("small"), unknown=0.1, augment=Augmentation())
    clips = Clips(data, recipe, torch.device("cpu"), torch.zeros(16_000) + 0.01)
    assert len(clips) == len(data) - data.spare
    drawn = []
    for epoch in (1, 2, 1):
        labels = torch.cat([batch.labels for batch in clips.epoch(3, epoch)])[: len(clips)]
        assert torch.bincount(labels, minlength=4).tolist() == [12, 12, 3, 3]
        drawn.append(labels.tolist())
    assert drawn[0] == drawn[2] != drawn[1]
    assert torch.bincount(clips.epoch_labels).tolist() == [12, 12, 3, 3]
    torch.manual_seed(0)
    kept = {row for _ in range(300) for row in clips._drawn(torch.randperm(len(data))).tolist()}
    assert len(kept) == len(data)  # every clip comes in the end


def test_the_official_numbers_of_twelve_classes(gsc_v1: Path) -> None:
    words = ["yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go"]
    classes = task_classes(words, unknown=True, silence=True)
    found = examples_for(str(gsc_v1), "testing", classes)
    counts = Counter(found.words[label] for label in found.labels.tolist())
    assert len(found) == 3_081
    assert counts["unknown"] == counts["silence"] == 257


def test_tasks_that_cannot_be(five_words: Path, tmp_path: Path) -> None:
    with pytest.raises(FalconError, match="add --silence"):
        task_classes(["go", "silence"], unknown=True, silence=False)
    with pytest.raises(FalconError, match="twice"):
        task_classes(["go", "go"], unknown=True, silence=False)
    everything = task_classes(list(TONES), unknown=True, silence=False)
    with pytest.raises(FalconError, match="no clips of other words"):
        examples_for(str(five_words), "validation", everything)
    for words, said in (
        (["--unknown"], "go with --words"),
        (["--words", "go,up", "--unknown"], "no recordings of up"),
        (["--words", ","], "is empty"),
    ):
        result = falcon("train", "--data", str(five_words), "--out", str(tmp_path / "x"),
                        "--network", "tiny", *words)  # fmt: skip
        assert isinstance(result.exception, FalconError), result.output
        assert said in str(result.exception)


# From training to a stream.


def test_train_calibrate_classify_detect(five_words: Path, tmp_path: Path) -> None:
    result = falcon(
        "train", "--data", str(five_words), "--out", str(tmp_path / "qnn"), "--network", "tiny",
        "--slots", "2", "--recipe", "small", "--epochs", "6", "--words", "no,go", "--unknown",
        "--silence",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    best = str(tmp_path / "qnn" / "best.safetensors")
    assert load(Path(best)).classes == CLASSES
    adapted = falcon("adapt", "--data", str(five_words), "--checkpoint", best, "--schedule",
                     "fastest", "--phases", "qat", "--epochs", "1", "--out",
                     str(tmp_path / "snn"))  # fmt: skip
    assert adapted.exit_code == 0, adapted.output
    snn, ready = str(tmp_path / "snn" / "best.safetensors"), tmp_path / "ready.safetensors"
    chosen = falcon("calibrate", "--data", str(five_words), "--checkpoint", snn, "--hours", "0.02",
                    "--false-per-hour", "1000", "--out", str(ready), "--json")  # fmt: skip
    assert chosen.exit_code == 0, chosen.output
    facts = json.loads(chosen.stdout)
    model = load(ready)
    # The offsets are part of the network, of its integers and of its floats.
    assert tuple(facts["offsets"]) == CLASSES
    offsets = torch.tensor([*facts["offsets"].values()], dtype=torch.float64)
    x = load_examples(str(five_words), "testing").x
    before, after = (load(Path(file)).scores(x) for file in (snn, ready))
    assert torch.allclose(after, before + offsets, atol=1e-3)
    floats = [load(Path(file)).qnn.eval()(x)[0] for file in (snn, ready)]
    assert torch.allclose(floats[1], floats[0] + offsets.float(), atol=1e-3)
    integers = tmp_path / "integers.safetensors"
    assert falcon("convert", "--checkpoint", snn, "--out", str(integers)).exit_code == 0
    again = falcon("calibrate", "--data", str(five_words), "--checkpoint", str(integers), "--hours",
                   "0.02", "--false-per-hour", "1000", "--out", str(tmp_path / "other.safetensors"),
                   "--json")  # fmt: skip
    assert json.loads(again.stdout)["offsets"] == pytest.approx(facts["offsets"], abs=1e-3)
    other = load(tmp_path / "other.safetensors").scores(x)
    assert torch.allclose(other, after, atol=1e-3)
    assert model.threshold("clip", -1.0) == facts["clip_threshold"]
    assert model.rule().threshold == facts["stream"]["threshold"]
    assert model.rule(0.3).threshold == 0.3
    assert (model.rule().averaged, load("embedded-tiny-t2").rule().averaged) == (1, 3)
    again = falcon("evaluate", "--data", str(five_words), "--checkpoint", str(ready), "--split",
                   "test", "--noise", "10", "--json", "--plot",
                   str(tmp_path / "c.png"))  # fmt: skip
    assert again.exit_code == 0, again.output
    measured = json.loads(again.stdout)
    assert measured["clips"] == 12 + 2 + 2
    assert sum(map(sum, measured["confusion"])) == 16
    assert sum(row[at] for at, row in enumerate(measured["confusion"])) == measured["right"]
    assert measured["clips_per_s"] > 0
    # A folder, a file and a threshold that nothing reaches.
    said = falcon("classify", str(five_words / "go"), str(five_words / "no"), "--checkpoint",
                  str(ready), "--threshold", "1", "--json")  # fmt: skip
    assert {row["word"] for row in json.loads(said.stdout)} <= {"unknown", "silence"}
    assert len(json.loads(said.stdout)) == 2 * sum(CLIPS.values())
    # The same network in a stream: its two words are the keywords, others are none.
    stream = falcon("evaluate", "--stream", "--data", str(five_words), "--checkpoint", str(ready),
                    "--split", "test", "--hours", "0.02", "--plot", str(tmp_path / "d.png"),
                    "--json")  # fmt: skip
    found = json.loads(stream.stdout)
    assert found["keywords"] == ["go", "no"]
    assert found["other_words"] > 0
    assert found["default"]["threshold"] == facts["stream"]["threshold"]
    assert (tmp_path / "d.png").exists()
    assert (tmp_path / "c.png").exists()


def test_a_long_recording_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    soundfile.write(tmp_path / "long.wav", tone(700, 48_000), 16_000)
    result = falcon("classify", str(tmp_path / "long.wav"), "--pretrained", "embedded-tiny-t2")
    assert result.exit_code == 0
    assert "3.0 s long" in caplog.text
    assert "detect" in caplog.text
    empty = falcon("classify", str(tmp_path / "x"), "--pretrained", "embedded-tiny-t2")
    assert "no such file" in str(empty.exception)
    (tmp_path / "none").mkdir()
    empty = falcon("classify", str(tmp_path / "none"), "--pretrained", "embedded-tiny-t2")
    assert "no recordings in it" in str(empty.exception)


def test_the_best_threshold_by_hand() -> None:
    """Two words and unknown: a wrong word at 0.6, right ones at 0.7 and 0.9."""
    confidences = torch.tensor([[0.7, 0.2, 0.1], [0.05, 0.9, 0.05], [0.6, 0.3, 0.1], [0, 0.1, 0.9]])
    scores, labels, classes = confidences.log(), torch.tensor([0, 1, 2, 2]), ("a", "b", "unknown")
    threshold = best_threshold(scores, labels, classes)
    assert 0.6 < threshold <= 0.7
    assert right_answers(scores, labels, classes) == 3
    assert right_answers(scores, labels, classes, threshold) == 4
    assert best_threshold(scores[:2], labels[:2], classes) == 0.0


def test_offsets_undo_what_was_added() -> None:
    """Labels drawn as likely as the scores say, then scores that favour one class by 2."""
    draw = torch.Generator().manual_seed(5)
    scores = 2 * torch.randn(20_000, 4, generator=draw, dtype=torch.float64)
    labels = torch.multinomial(scores.softmax(dim=1), 1, generator=draw)[:, 0]
    assert best_offsets(scores, labels).abs().max() < 0.1
    favoured = scores + torch.tensor([0.0, 0.0, 0.0, 2.0])
    offsets = best_offsets(favoured, labels)
    assert torch.allclose(offsets - offsets[:3].mean(), torch.tensor([0, 0, 0, -2.0]).double(),
                          atol=0.1)  # fmt: skip
    assert abs(float(offsets.sum())) < 1e-3  # what all share means nothing
    # What is no word has no say, and few clips move little.
    none = torch.where(torch.arange(20_000) % 2 == 0, labels, -1)
    assert torch.allclose(best_offsets(favoured, none), offsets, atol=0.15)
    assert best_offsets(favoured[:4], labels[:4]).abs().max() < 0.3


# Scenes.


def test_scenes_have_words_where_they_say(five_words: Path) -> None:
    waves = load_waves(str(five_words), "testing")
    noise = load_noise(str(five_words)).numpy()
    clean = list(scenes(waves, noise, ("go", "no"), count=3, snr_db=None, seed=4))
    noisy = list(scenes(waves, noise, ("go", "no"), count=3, snr_db=10.0, seed=4))
    again = list(scenes(waves, noise, ("go", "no"), count=3, snr_db=10.0, seed=4))
    other = list(scenes(waves, noise, ("go", "no"), count=3, snr_db=10.0, seed=5))
    words: Counter[str] = Counter()
    for one, two, three, four in zip(clean, noisy, again, other, strict=True):
        assert np.array_equal(two.wave, three.wave)
        assert not np.array_equal(two.wave, four.wave)
        assert one.spoken == two.spoken == three.spoken
        assert len(one.wave) == SCENE_S * 16_000
        added = (two.wave - one.wave).astype(np.float64)
        assert 20 * np.log10(WORD_LEVEL / added.std()) == pytest.approx(10.0, abs=0.05)
        quiet = np.ones(len(one.wave), bool)
        for word in one.spoken:
            words[word.word] += 1
            assert word.clip_start_s < word.start_s < word.end_s < word.clip_end_s
            part = slice(int(word.start_s * 16_000), int(word.end_s * 16_000))
            # The tone of that word is heard there, at the level of all words, and not beside it.
            level = float(np.sqrt(np.square(one.wave[part].astype(np.float64)).mean()))
            assert level == pytest.approx(WORD_LEVEL, rel=0.05)
            hertz = np.abs(np.fft.rfft(one.wave[part])).argmax() / (word.end_s - word.start_s)
            assert hertz == pytest.approx(TONES[word.word], rel=0.08)
            quiet[part.start - 1_600 : part.stop + 1_600] = False
        assert np.abs(one.wave[quiet]).max() < WORD_LEVEL
    assert {*words} == {*TONES}
    assert 0.25 < (words["go"] + words["no"]) / words.total() < 0.75


def said(word: str, clip_start_s: float, end_s: float) -> Spoken:
    """A word that ends 0.25 s before its clip does."""
    return Spoken(word, clip_start_s + 0.1, end_s, clip_start_s, end_s + 0.25)


def test_reports_beside_what_was_said() -> None:
    spoken = [said("go", 1.0, 1.5), said("no", 3.0, 3.4), said("go", 5.0, 5.4)]
    reported = [(0.5, "go"), (1.4, "go"), (1.6, "go"), (3.5, "go"), (4.2, "no"), (6.0, "go")]
    # Too early, found, twice, wrong word, too late, found.
    delays, false_accepts = matched(reported, spoken)
    assert delays == pytest.approx([-0.1, 0.6])
    assert false_accepts == 4
    assert matched([], spoken) == ([], 0)
    assert matched([(9.0, "go")], []) == ([], 1)


def test_the_curve_by_hand() -> None:
    end_s = np.arange(1.0, 11.0)
    confidences = np.zeros((10, 1))
    confidences[[1, 4, 7], 0] = 0.95, 0.7, 0.8  # at 2 s, 5 s and 8 s
    spoken = [said("go", 1.2, 1.8), said("cat", 4.0, 4.5), said("go", 7.3, 7.6)]
    lately, rule = np.ones(10, bool), Rule(threshold=0.75)
    report = report_of(confidences, lately, end_s, spoken, ("go",), rule, 0.5, 20.0)
    assert (report.spoken, report.others) == (2, 1)
    assert (report.default.missed, report.default.false_accepts) == (0, 0)
    low = next(point for point in report.points if point.threshold > 0.6)
    assert (low.missed, low.false_accepts) == (0, 1)
    high = next(point for point in report.points if point.threshold > 0.9)
    assert (high.missed, high.false_accepts) == (1, 0)
    best = report.at_most(0.0)
    assert best is not None
    assert 0.7 < best.threshold < 0.8
    assert report.per_hour(low) == 2.0


def test_misses_of_a_listener_who_is_told_where_words_are() -> None:
    keywords, labels = [0, 1], torch.tensor([0] * 20 + [2] * 20)
    sure = torch.cat([torch.linspace(0.05, 1.0, 20), torch.linspace(0.02, 0.97, 20)])
    confidences = torch.stack([sure, 0 * sure, 1 - sure], dim=1)
    # One false accept allows 0.92 and more, three 0.82, six 0.67, fifteen 0.22.
    assert misses(confidences, labels, keywords) == pytest.approx([90.0, 80.0, 65.0, 20.0])


def test_streams_that_cannot_be(five_words: Path) -> None:
    network = load("embedded-tiny-t2").path
    with pytest.raises(FalconError, match="has no clips of"):
        evaluate_stream(network, five_words, hours=0.01)
    for bad in ({"hours": 0.0}, {"snr_db": 1e9}, {"split": "all"}, {"words": ["xyz"]}):
        with pytest.raises(FalconError):
            evaluate_stream(network, "embedded", **bad)
    for words, said in (
        (["--stream", "--limit", "4"], "does not go with"),
        (["--words", "go"], "add --stream"),
        (["--plot", "x.txt"], ".png"),
    ):
        result = falcon("evaluate", "--pretrained", "embedded-tiny-t2", *words)
        assert said in str(result.exception)
