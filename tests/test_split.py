"""A folder of few speakers still has clips for validation and for testing."""

import logging
from collections import Counter
from pathlib import Path

import pytest
import soundfile
from tests.data_files import speaker_in, tone
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.data.clips import hash_split, speaker_of
from falcon_snn.data.folder import open_folder
from falcon_snn.data.split import choose_split, shared_speakers, split_by
from falcon_snn.errors import FalconError


def files_of(speakers: int, clips: int = 10, names: str = "training") -> list[str]:
    """Clips of two words by speakers whom the published rule puts all into one part."""
    who = [speaker_in(names, number) for number in range(speakers)]
    return [
        f"{word}/{name}_nohash_{n}.wav"
        for word in ("no", "yes")
        for name in who
        for n in range(clips)
    ]


def shares(split: dict[str, str]) -> dict[str, float]:
    return {part: n / len(split) for part, n in Counter(split.values()).items()}


def test_the_published_rule_stays_where_it_leaves_enough() -> None:
    files = [f"no/speaker{number}_nohash_0.wav" for number in range(300)]
    assert choose_split(files) == ("published", {file: hash_split(file) for file in files})


@pytest.mark.parametrize("speakers", [4, 5, 8, 20])
def test_whole_speakers_are_set_aside_where_the_rule_leaves_none(speakers: int) -> None:
    files = files_of(speakers)
    assert {hash_split(file) for file in files} == {"training"}
    rule, split = choose_split(files)
    assert rule == "speaker"
    assert shared_speakers(split) == 0
    found = shares(split)
    assert found["training"] >= 0.5
    assert 0.05 <= found["validation"] <= 0.25
    assert 0.05 <= found["testing"] <= 0.25
    assert choose_split(files[::-1]) == (rule, split)


@pytest.mark.parametrize("speakers", [1, 2, 3])
def test_clips_are_set_aside_where_speakers_are_too_few(speakers: int) -> None:
    files = files_of(speakers)
    rule, split = choose_split(files)
    assert rule == "clip"
    for word in ("no", "yes"):
        of_word = {file: part for file, part in split.items() if file.startswith(word)}
        assert {"training", "validation", "testing"} == set(of_word.values())
        assert shares(of_word)["validation"] == pytest.approx(0.1, abs=0.05)


def test_one_speaker_who_has_most_clips_stays_in_training() -> None:
    main = speaker_in("training", 0)
    files = [f"no/{main}_nohash_{n}.wav" for n in range(80)]
    files += [f"no/{speaker_in('training', 1 + n)}_nohash_0.wav" for n in range(40)]
    rule, split = choose_split(files)
    assert rule == "speaker"
    assert {part for file, part in split.items() if speaker_of(file) == main} == {"training"}


def test_two_clips_of_each_word_cannot_be_split() -> None:
    with pytest.raises(FalconError, match="three recordings"):
        split_by("clip", ["no/a_nohash_0.wav", "no/a_nohash_1.wav", "yes/a_nohash_0.wav"])
    assert choose_split(["no/a_nohash_0.wav", "no/a_nohash_1.wav"])[0] == "published"
    with pytest.raises(FalconError, match="unknown rule 'luck'"):
        split_by("luck", ["no/a.wav"])


@pytest.fixture
def one_speaker(tmp_path: Path) -> Path:
    for label, word in enumerate(("no", "yes")):
        (tmp_path / word).mkdir()
        for n in range(6):
            name = f"{speaker_in('training', 0)}_nohash_{n}.wav"
            soundfile.write(tmp_path / word / name, tone(400 + 300 * label), 16_000)
    return tmp_path


def test_one_line_says_what_was_done(one_speaker: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "falcon_snn"):
        counts = Counter(clip.split for clip in open_folder(one_speaker).clips)
        open_folder(one_speaker)
    assert counts == {"training": 8, "validation": 2, "testing": 2}
    assert len(caplog.records) == 1
    assert "too few speakers" in caplog.text
    assert "speakers who are in more than one part: 1" in caplog.text


def test_a_split_of_ones_own_decides(one_speaker: Path) -> None:
    before = open_folder(one_speaker)
    result = CliRunner().invoke(app, ["data", "split", str(one_speaker), "--by", "clip"])
    assert "8 training, 2 validation, 2 testing; speakers in more than one" in result.output
    path = one_speaker / "split.csv"
    assert open_folder(one_speaker) == before
    text = path.read_text()
    moved = min(clip.file for clip in before.clips if clip.split == "validation")
    path.write_text(text.replace(f"{moved},validation", f"{moved},testing"))
    after = open_folder(one_speaker)
    assert {clip.file: clip.split for clip in after.clips}[moved] == "testing"
    assert after.key != before.key
    for bad, message in (
        (text.replace("file,split", "a,b"), "first line"),
        (text.replace("training", "practice"), "unknown split 'practice'"),
        ("\n".join(text.splitlines()[:-1]), "does not name"),
        (text + "no/gone.wav,training\n", r"names no/gone\.wav"),
    ):
        path.write_text(bad)
        with pytest.raises(FalconError, match=message):
            open_folder(one_speaker)
