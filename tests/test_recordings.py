"""Folders of wavs, packed sets, and what `load_examples` makes of them."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from numpy.typing import NDArray
from tests.data_files import speaker_in, tone, write_folder
from typer.testing import CliRunner

from falcon_snn.cli.data import app
from falcon_snn.data import examples
from falcon_snn.data.audio import read_wave
from falcon_snn.data.clips import hash_split
from falcon_snn.data.examples import (
    load_examples,
    load_noise,
    load_waves,
    open_recordings,
    read_recordings,
)
from falcon_snn.data.features import log_mel
from falcon_snn.data.folder import open_folder
from falcon_snn.data.packed import open_packed
from falcon_snn.errors import FalconError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FALCON_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "words")


def write_lists(folder: Path) -> None:
    clips = open_folder(folder).clips
    for split in ("validation", "testing"):
        files = [clip.file for clip in clips if clip.split == split]
        (folder / f"{split}_list.txt").write_text("\n".join(files) + "\n")


def pack(folder: Path, packed: Path) -> Path:
    result = CliRunner().invoke(app, ["pack", str(folder), str(packed), "--kbps", "64"])
    assert result.exit_code == 0, result.output
    return packed


# folders


def test_published_hash_rule() -> None:
    # SHA-1 of the speaker's name, modulo 2**27, as a percentage: 24.06, 10.09 and 8.32.
    assert hash_split("yes/alice_nohash_0.wav") == "training"
    assert hash_split("no/heidi_nohash_4.wav") == "testing"
    assert hash_split("no/speaker15_nohash_1.wav") == "validation"


def test_folder_gives_features_and_labels(folder: Path) -> None:
    write_lists(folder)
    for split in ("training", "validation", "testing"):
        found = load_examples(folder, split)
        assert found.words == ("no", "yes")
        assert found.x.shape == (4, 98, 64)
        assert found.lengths.tolist() == [98] * 4
        assert [found.words[label] for label in found.labels] == [
            name.split("/")[0] for name in found.names
        ]
        wave = read_wave(folder / found.names[0])
        direct = log_mel(
            torch.nn.functional.pad(torch.from_numpy(wave), (0, 16_000 - len(wave)))[None]
        )
        torch.testing.assert_close(found.x[:1], direct, atol=1e-2, rtol=0)


def test_names_in_lists_may_have_spaces(folder: Path) -> None:
    for number, word in enumerate(("no", "yes")):
        clip = folder / word / f"speaker15_nohash_{number}.wav"
        clip.rename(clip.with_name(f"speaker15_nohash_{number} again.wav"))
    write_lists(folder)
    listed = [clip.file for clip in open_folder(folder).clips if clip.split == "validation"]
    assert sum(file.endswith(" again.wav") for file in listed) == 2


def test_lists_and_rule_must_agree(folder: Path) -> None:
    write_lists(folder)
    listed = (folder / "testing_list.txt").read_text().splitlines()
    (folder / "testing_list.txt").write_text("\n".join(listed[1:]) + "\n")
    with pytest.raises(FalconError, match=r"the lists say training .* rule says testing"):
        load_waves(folder, "testing")


def test_lists_must_be_complete(folder: Path) -> None:
    write_lists(folder)
    (folder / "testing_list.txt").unlink()
    with pytest.raises(FalconError, match="but not the other list"):
        open_folder(folder)
    (folder / "testing_list.txt").write_text("yes/gone_nohash_0.wav\n")
    with pytest.raises(FalconError, match=r"names yes/gone_nohash_0\.wav"):
        open_folder(folder)


def test_empty_folder_and_absent_source(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(FalconError, match="no recordings"):
        load_waves(tmp_path / "empty", "training")
    with pytest.raises(FalconError, match="no data at"):
        load_waves(tmp_path / "absent", "training")
    with pytest.raises(FalconError, match="unknown split 'test'"):
        load_waves(tmp_path / "empty", "test")


def test_source_is_found_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FALCON_DATA", str(folder.parent))
    assert len(load_waves("words", "training")) == 4


def test_a_split_without_clips_is_named(tmp_path: Path) -> None:
    (tmp_path / "own" / "hello").mkdir(parents=True)
    name = f"{speaker_in('training', 0)}_nohash_0.wav"
    soundfile.write(tmp_path / "own" / "hello" / name, tone(300), 16_000)
    with pytest.raises(FalconError, match="no validation clips"):
        load_examples(tmp_path / "own", "validation")


# recordings of other kinds


def test_other_rate_and_stereo_are_changed_with_one_notice(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = folder / "yes" / f"{speaker_in('training', 7)}_nohash_0.wav"
    stereo = np.stack([tone(440, 44_100, 44_100), tone(440, 44_100, 44_100)], axis=1)
    soundfile.write(path, stereo, 44_100)
    wave = read_wave(path)
    assert len(wave) == 16_000
    np.testing.assert_allclose(wave, tone(440), atol=0.01)
    notices = [record.getMessage() for record in caplog.records]
    assert len(notices) == 1
    assert "2 channels mixed to one, resampled from 44100 Hz to 16000 Hz" in notices[0]
    caplog.clear()
    load_waves(folder, "training")
    notices = [
        record.getMessage() for record in caplog.records if "resampled" in record.msg % record.args
    ]
    assert len(notices) == 1
    assert "1 of 5 recordings" in notices[0]


def test_a_split_reads_its_own_clips_only(folder: Path, own_cache: Path, tmp_path: Path) -> None:
    packed = pack(folder, tmp_path / "packed")
    for source in (folder, packed):
        found = load_waves(source, "validation")
        recordings = open_recordings(source)
        every, _ = read_recordings(recordings)
        rows = [row for row, clip in enumerate(recordings.clips) if clip.split == "validation"]
        assert len(found) == len(rows) < len(every)
        assert np.array_equal(found.waves.numpy(), every[rows])
        assert found.names == [recordings.clips[row].file for row in rows]
    assert not list(own_cache.glob("*waves-training*"))


def test_truncated_wav_is_one_clear_line(folder: Path, own_cache: Path) -> None:
    path = folder / open_folder(folder).clips[0].file  # of the training split
    path.write_bytes(path.read_bytes()[:9_001])
    with pytest.raises(FalconError, match=r"cut short, .* bytes are missing"):
        load_waves(folder, "training")
    assert not list(own_cache.glob("*waves*"))
    path.write_bytes(b"RIFF")
    with pytest.raises(FalconError, match="not a readable recording"):
        load_waves(folder, "training")


def test_long_clips_keep_their_samples(folder: Path) -> None:
    path = folder / "yes" / f"{speaker_in('training', 8)}_nohash_0.wav"
    soundfile.write(path, tone(500, 24_000), 16_000)
    found = load_waves(folder, "training")
    assert found.waves.shape[1] == 24_000
    assert found.lengths.max() == 24_000
    soundfile.write(path, np.zeros(16_000 * 11), 16_000)
    with pytest.raises(FalconError, match="longer than 10 s"):
        load_waves(folder, "training")


# the packed form


def wave_of(source: Path, split: str, name: str) -> NDArray[np.int16]:
    found = load_waves(source, split)
    row = found.names.index(name)
    wave: NDArray[np.int16] = found.waves[row].numpy()
    return wave


def test_packing_keeps_clips_splits_and_sound(folder: Path, tmp_path: Path) -> None:
    packed = pack(folder, tmp_path / "packed")
    assert sorted(open_packed(packed).clips) == sorted(open_folder(folder).clips)
    for split in ("training", "validation", "testing"):
        before, after = load_waves(folder, split), load_waves(packed, split)
        assert sorted(before.names) == sorted(after.names)
        for name in before.names:
            first = wave_of(folder, split, name).astype(np.float64)
            second = wave_of(packed, split, name).astype(np.float64)
            assert np.corrcoef(first, second)[0, 1] > 0.99
            length = before.lengths[before.names.index(name)]
            assert not second[length:].any()
    assert load_noise(packed).shape == load_noise(folder).shape == (40_000,)


def test_a_packed_clip_equals_a_plain_decode(folder: Path, tmp_path: Path) -> None:
    packed = open_packed(pack(folder, tmp_path / "packed"))
    whole, _ = soundfile.read(packed.folder / "clips-00.opus", dtype="float32")
    for clip, place in zip(packed.clips, packed.places, strict=True):
        expected = np.rint(whole[place.start : place.start + place.length] * 32768)
        found = wave_of(packed.folder, clip.split, clip.file)
        assert np.array_equal(found[: place.length], expected.astype(np.int16))


def test_index_that_names_a_missing_chunk(folder: Path, tmp_path: Path) -> None:
    packed = pack(folder, tmp_path / "packed")
    (packed / "clips-00.opus").unlink()
    with pytest.raises(FalconError, match=r"names the chunk clips-00\.opus, which is not"):
        load_waves(packed, "training")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("file,word", "name,word", "the first line must be"),
        (",training,", ",trainings,", "does not describe a clip"),
        (",0,16000", ",-1,16000", "does not describe a clip"),
        (",0,16000", ",9999999,16000", "ends before sample"),
        ("clips-00.opus", "../clips-00.opus", "which is not in the folder"),
    ],
)
def test_bad_index(folder: Path, tmp_path: Path, before: str, after: str, message: str) -> None:
    packed = pack(folder, tmp_path / "packed")
    text = (packed / "index.csv").read_text()
    (packed / "index.csv").write_text(text.replace(before, after, 1))
    with pytest.raises(FalconError, match=message):
        load_waves(packed, "training")


def test_broken_chunk(folder: Path, tmp_path: Path, own_cache: Path) -> None:
    packed = pack(folder, tmp_path / "packed")
    kept = set(own_cache.iterdir())
    (packed / "clips-00.opus").write_bytes(b"not Opus at all")
    with pytest.raises(FalconError, match="not a readable Ogg Opus file"):
        load_waves(packed, "training")
    assert not [path for path in set(own_cache.iterdir()) - kept if "lengths" not in path.name]


def test_packing_never_overwrites(folder: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["pack", str(folder), str(folder)])
    assert isinstance(result.exception, FalconError)
    assert "already exists" in str(result.exception)


# the cache


def test_second_start_reads_no_recording(
    folder: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    first = load_examples(folder, "training")

    def refuse(*_: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr("falcon_snn.data.folder.read_and_change", refuse)
    monkeypatch.setattr(examples, "exact_log_mel", refuse)
    assert torch.equal(load_examples(folder, "training").x, first.x)
    assert not [path for path in own_cache.iterdir() if path.name.startswith(".")]


def test_changed_recordings_are_read_again(folder: Path) -> None:
    before = load_waves(folder, "training")
    path = folder / before.names[0]
    soundfile.write(path, tone(2_000, 12_000), 16_000)
    after = load_waves(folder, "training")
    assert not torch.equal(before.waves[0], after.waves[0])


def test_a_damaged_cache_is_made_again(folder: Path, own_cache: Path) -> None:
    first = load_examples(folder, "training").x.clone()
    for path in own_cache.iterdir():
        path.write_bytes(path.read_bytes()[:100])
    assert torch.equal(load_examples(folder, "training").x, first)


# real speech


def test_splits_of_gsc_v1(gsc_v1: Path) -> None:
    clips = open_packed(gsc_v1).clips
    splits = [clip.split for clip in clips]
    counts = [splits.count(split) for split in ("training", "validation", "testing")]
    assert counts == [51_088, 6_798, 6_835]
    assert len({clip.word for clip in clips}) == 30
    listed = {
        file: split
        for split in ("validation", "testing")
        for file in (gsc_v1 / f"{split}_list.txt").read_text().split()
    }
    for clip in clips:
        assert clip.split == hash_split(clip.file) == listed.get(clip.file, "training")


def test_decoding_a_few_clips_of_gsc_v1(gsc_v1: Path) -> None:
    packed = open_packed(gsc_v1)
    rows = [row for row, place in enumerate(packed.places) if place.start < 16 * 16_320][:40]
    few = type(packed)(gsc_v1, [packed.clips[r] for r in rows], [packed.places[r] for r in rows])
    waves = np.zeros((len(rows), 16_000), np.int16)
    few.read_into(waves, lambda clips: None)
    features = log_mel(torch.from_numpy(waves).float() / 32768)
    assert (np.abs(waves).max(axis=1) > 100).all()
    assert features.shape == (len(rows), 98, 64)
    assert features.isfinite().all()
