"""SSC in HDF5: written, read and binned; real faults of such files."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from falcon_snn.data.examples import load_examples, load_waves
from falcon_snn.data.ssc import bin_spikes, lengths_of, write_ssc
from falcon_snn.errors import FalconError

UNITS = [np.array([0, 4, 5, 699]), np.array([], dtype=np.int64), np.array([350])]
TIMES = [np.array([0.0, 0.009, 0.01, 0.2999]), np.array([]), np.array([1.0])]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FALCON_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ssc" / "ssc_valid.h5"
    names = ["no/a.wav", "no/b.wav", "yes/a.wav"]
    write_ssc(path, UNITS, TIMES, [0, 0, 1], ["no", "yes"], names, ["a", "b", "a"])
    return path


def test_counts_lengths_labels_and_words(file: Path) -> None:
    for source in (file, file.parent):
        found = load_examples(source, "validation")
        expected = np.zeros((3, 100, 140), np.uint8)
        expected[0, 0, 0] = 2
        expected[0, 1, 1] = 1
        expected[0, 29, 139] = 1
        expected[2, 99, 70] = 1  # exactly 1.0 s
        assert np.array_equal(found.x.numpy(), expected)
        assert found.lengths.tolist() == [30, 1, 100]
        assert found.labels.tolist() == [0, 0, 1]
        assert found.words == ("no", "yes")
        assert found.names[2] == "yes/a.wav"


def test_layout_is_the_published_one(file: Path) -> None:
    with h5py.File(file) as spikes:
        assert spikes["spikes/units"][0].tolist() == UNITS[0].tolist()
        np.testing.assert_allclose(spikes["spikes/times"][0], TIMES[0])
        assert spikes["labels"][:].tolist() == [0, 0, 1]
        assert [key.decode() for key in spikes["extra/keys"]] == ["no", "yes"]
        assert spikes["extra/speaker"][:].tolist() == [0, 1, 0]


def test_published_half_precision_times_are_read(tmp_path: Path) -> None:
    path = tmp_path / "half.h5"
    with h5py.File(path, "w") as file:
        for key, dtype, value in (("units", np.uint16, [3, 699]), ("times", np.float16, [0.25, 1])):
            rows = file.create_dataset(f"spikes/{key}", (1,), dtype=h5py.vlen_dtype(dtype))
            rows[0] = np.array(value, dtype)
        file["labels"] = np.array([34])
    found = load_examples(path, "testing")
    assert found.x.nonzero().tolist() == [[0, 25, 0], [0, 99, 139]]
    assert len(found.words) == 35


steps = st.lists(st.tuples(st.integers(0, 699), st.integers(0, 8_400)), max_size=40)


@given(st.lists(steps, min_size=1, max_size=4))
def test_binning_equals_a_loop_over_spikes(clips: list[list[tuple[int, int]]]) -> None:
    units = [np.array([unit for unit, _ in clip], dtype=np.uint16) for clip in clips]
    times = [np.array([step for _, step in clip], dtype=np.float32) * 1.25e-4 for clip in clips]
    expected = np.zeros((len(clips), 100, 140), np.uint8)
    for row, clip in enumerate(clips):
        for unit, step in clip:
            if step <= 8_000:  # later than one second is outside the clip
                expected[row, min(step // 80, 99), unit // 5] += 1
    counts = bin_spikes(units, times)
    assert np.array_equal(counts, expected)
    for row, length in enumerate(lengths_of(counts)):
        assert not counts[row, length:].any()
        assert length == 1 or counts[row, length - 1].any()


def test_broken_and_wrong_files(file: Path, tmp_path: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FalconError, match="not a readable SSC file"):
        load_examples(file, "validation")
    file.write_bytes(b"no HDF5")
    with pytest.raises(FalconError, match="not a readable SSC file"):
        load_examples(file, "validation")
    with pytest.raises(FalconError, match=r"ssc_train\.h5: no such file"):
        load_examples(file.parent, "training")
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["labels"] = np.arange(3)
    with pytest.raises(FalconError, match="not in SSC's layout"):
        load_examples(tmp_path / "other.h5", "training")
    with pytest.raises(FalconError, match="holds spikes, not recordings"):
        load_waves(file, "validation")


@pytest.mark.parametrize(
    ("units", "times", "labels", "message"),
    [
        ([[700]], [[0.1]], [0], "outside 0..699"),
        ([[1]], [[-0.1]], [0], "negative time"),
        ([[1]], [[float("nan")]], [0], "negative time"),
        ([[1, 2]], [[0.1]], [0], "differ in length"),
        ([[1]], [[0.1]], [5], "a label lies outside"),
        ([], [], [], "same length, not 0"),
    ],
)
def test_bad_content(
    tmp_path: Path,
    units: list[list[int]],
    times: list[list[float]],
    labels: list[int],
    message: str,
) -> None:
    path = tmp_path / "bad.h5"
    arrays = [np.array(unit) for unit in units], [np.array(time) for time in times]
    write_ssc(path, *arrays, labels, ["no"], ["x"] * len(labels), ["a"] * len(labels))
    with pytest.raises(FalconError, match=message):
        load_examples(path, "training")
