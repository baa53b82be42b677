"""Arrays in .npz files: what is read, what is held out, and every fault as one line."""

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from falcon_snn.data import arrays
from falcon_snn.data.cache import cached_array
from falcon_snn.data.examples import data_key, kind_of, load_examples, load_noise, load_waves
from falcon_snn.errors import FalconError

Arrays = dict[str, NDArray[Any]]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FALCON_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def make() -> Arrays:
    """Forty training and nine test samples of three classes."""
    draw = np.random.default_rng(1)
    return {
        "x_train": draw.integers(0, 256, (40, 4, 6)).astype(np.uint8),
        "y_train": np.arange(40) % 3,
        "x_test": draw.integers(0, 256, (9, 4, 6)).astype(np.uint8),
        "y_test": np.arange(9) % 3,
    }


def save(folder: Path, held: Arrays) -> Path:
    path = folder / "set.npz"
    np.savez_compressed(path, **held)  # type: ignore[arg-type]
    return path


def test_the_last_tenth_is_held_out_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    held = make()
    path = save(tmp_path, held)
    assert kind_of(path) == "arrays"
    training, validation, testing = (
        load_examples(path, split) for split in ("training", "validation", "testing")
    )
    assert np.array_equal(training.x, held["x_train"][:36])
    assert np.array_equal(validation.x, held["x_train"][36:])
    assert np.array_equal(testing.x, held["x_test"])
    assert np.array_equal(validation.labels, held["y_train"][36:])
    assert validation.names[0] == "set.npz:x_train[36]"
    for found in (training, validation, testing):
        assert found.x.dtype == torch.uint8
        assert found.lengths.tolist() == [4] * len(found)
        assert found.words == ("0", "1", "2")
        assert found.kind == "arrays"
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"{path}: no x_validation; the last 4 samples of training are held out"]


def test_a_validation_part_of_its_own(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    held = make()
    held |= {"x_validation": held["x_test"][:2], "y_validation": held["y_test"][:2]}
    path = save(tmp_path, held)
    assert np.array_equal(load_examples(path, "validation").x, held["x_test"][:2])
    assert len(load_examples(path, "training")) == 40
    assert not caplog.records


@pytest.mark.parametrize("key", ["record", "record_train"])
def test_whole_groups_are_held_out(tmp_path: Path, key: str) -> None:
    held = make()
    held[key] = np.repeat(["d", "c", "b", "a"], 10)
    held["y_train"][:30] %= 2
    held["y_train"][25] = held["y_train"][35] = 2
    held["y_train"][30:35] = held["y_train"][36:] = 0
    path = save(tmp_path, held)
    # The last group begins last; class 2 is in the one before it, too.
    assert np.array_equal(load_examples(path, "validation").x, held["x_train"][30:])
    held["y_train"][25] = 0  # now the last group alone holds class 2, and it stays
    path = save(tmp_path, held)
    assert np.array_equal(load_examples(path, "validation").x, held["x_train"][20:30])
    training = load_examples(path, "training")
    assert np.array_equal(training.x, np.delete(held["x_train"], np.s_[20:30], axis=0))
    assert 2 in training.labels


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (np.array([0, 1], np.bool_), torch.uint8),
        (np.array([0, 255], np.uint8), torch.uint8),
        (np.array([-128, 127], np.int8), torch.int16),
        (np.array([-32768, 32767], np.int16), torch.int16),
        (np.array([0, 255], np.int64), torch.uint8),
        (np.array([0, 40_000], np.uint16), torch.float32),
        (np.array([-40_000, 2**24], np.int32), torch.float32),
        (np.array([-0.1, 6e4], np.float16), torch.float32),
        (np.array([-0.1, 1e30], np.float32), torch.float32),
        (np.array([-0.5, 0.25], np.float64), torch.float32),
    ],
)
def test_values_are_kept_exactly(tmp_path: Path, given: NDArray[Any], kept: torch.dtype) -> None:
    held = make()
    held["x_train"] = np.resize(given, (40, 5))
    held["x_test"] = np.resize(given, (9, 5))
    for split in ("training", "testing"):
        found = load_examples(save(tmp_path, held), split)
        assert found.x.dtype == kept
        assert np.array_equal(found.x[0].double(), np.resize(given, 5).astype(np.float64))


def test_classes_as_texts(tmp_path: Path) -> None:
    held = make()
    held["y_train"] = np.array(["b", "a", "c"])[held["y_train"]]
    held["y_test"] = np.array([b"b", b"a", b"c"])[held["y_test"]]
    found = load_examples(save(tmp_path, held), "testing")
    assert found.words == ("a", "b", "c")
    assert found.labels[:3].tolist() == [1, 0, 2]
    held["class_names"] = np.array(["c", "b", "a", "never seen"])
    found = load_examples(save(tmp_path, held), "testing")
    assert found.words == ("c", "b", "a", "never seen")
    assert found.labels[:3].tolist() == [1, 2, 0]


def change(key: str, value: Any) -> Any:
    """A fault: the array is another one, or (None) is not there."""

    def apply(held: Arrays) -> None:
        if value is None:
            del held[key]
        else:
            held[key] = value(held[key]) if callable(value) else value

    return apply


def sorted_by_class(held: Arrays) -> None:
    held["y_train"] = np.sort(held["y_train"])
    held["y_train"][36:] = 3


FAULTS = {
    "missing": (change("y_test", None), "no array 'y_test'"),
    "half a validation part": (change("x_validation", np.zeros((2, 4, 6))), "go together"),
    "lengths": (change("y_train", lambda y: y[:-1]), r"y_train is \(39,\) and x_train has 40"),
    "labels of two axes": (change("y_train", lambda y: y[:, None]), "one label per sample"),
    "no axis": (change("x_train", np.zeros(40)), r"x_train is \(40,\); it must be \[samples"),
    "empty test": (change("x_test", lambda x: x[:0]), r"x_test is \(0, 4, 6\)"),
    "empty samples": (change("x_test", np.zeros((9, 0))), "not empty"),
    "shapes": (change("x_test", np.zeros((9, 4, 5))), r"samples of x_test are \(4, 5\)"),
    "nan": (change("x_test", np.full((9, 4, 6), np.nan)), "x_test holds a NaN or an infinite"),
    "infinite": (change("x_train", np.full((40, 4, 6), np.inf)), "x_train holds a NaN"),
    "too large for float32": (change("x_train", np.full((40, 4, 6), 1e300)), "infinite value"),
    "too large to be exact": (change("x_test", np.full((9, 4, 6), -(2**24) - 1)), "-16777217, too"),
    "complex": (change("x_train", np.zeros((40, 4, 6), complex)), "it must hold numbers"),
    "texts as samples": (change("x_train", np.full((40, 4, 6), "a")), "it must hold numbers"),
    "objects": (change("x_train", np.full((40, 4), None)), "'x_train' holds Python objects"),
    "fractions as labels": (change("y_train", np.zeros(40)), "labels are integers or strings"),
    "labels with a gap": (change("y_train", lambda y: 2 * y), r"y_train are not 0\.\.2"),
    "negative labels": (change("y_train", lambda y: y - 1), "not 0..2"),
    "huge label": (change("y_test", np.full(9, 2**64 - 1, np.uint64)), "y_test holds '184467440"),
    "outside class_names": (change("class_names", np.array(["a", "b"])), "y_train holds '2', wh"),
    "same names": (change("class_names", np.array(["a", "b", "a"])), "list of distinct strings"),
    "numbers as names": (change("class_names", np.arange(3)), "list of distinct strings"),
    "another kind of label": (change("y_test", np.full(9, "a")), "y_test holds 'a', which is not"),
    "never trained": (change("y_test", lambda y: y + 1), "y_test holds '3'"),
    "named but never trained": (
        lambda held: held.update(y_test=held["y_test"] + 1, class_names=np.array(list("abcd"))),
        "class 'd' of the test part is never trained",
    ),
    "sorted by class": (sorted_by_class, "class '3' of the validation part is never trained"),
    "one group": (change("record", np.zeros(40)), "no group in record can be held out"),
    "groups of another length": (change("record", np.zeros(39)), "one group per sample"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_one_line(tmp_path: Path, fault: str, own_cache: Path) -> None:
    apply, message = FAULTS[fault]
    held = make()
    apply(held)
    path = save(tmp_path, held)
    with pytest.raises(FalconError, match=message) as told:
        load_examples(path, "training")
    assert str(told.value).startswith(f"{path}: ")
    assert "\n" not in str(told.value)
    assert not list(own_cache.glob("*.npy"))


def header(shape: tuple[int, ...]) -> bytes:
    file = io.BytesIO()
    facts = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, facts)
    return file.getvalue()


@pytest.mark.parametrize(
    "shape", [(2**40, 4, 6), (40, 4, 2**62), (2**80, 1), (-40, -4, 6), (40, 4, 7)]
)
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_huge_headers_allocate_nothing(
    tmp_path: Path, shape: tuple[int, ...], method: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path, make())
    with zipfile.ZipFile(path, "a", method) as archive, pytest.warns(UserWarning, match="Dupl"):
        archive.writestr("x_train.npy", header(shape) + bytes(40 * 4 * 6))
    monkeypatch.setattr(arrays, "_read", lambda *_: pytest.fail("read"))
    with pytest.raises(FalconError, match="does not fit the size of the file"):
        load_examples(path, "training")


def test_a_directory_that_lies_about_sizes(tmp_path: Path) -> None:
    """Header and directory agree on 2 GB, but so few bytes cannot become so many."""
    path = save(tmp_path, make())
    content = header((2**28, 1)) + bytes(100)
    with zipfile.ZipFile(path, "a") as archive:
        with pytest.warns(UserWarning, match="Dupl"):
            archive.writestr("x_train.npy", content)
        archive.filelist[-1].file_size = len(content) - 100 + 8 * 2**28
    with pytest.raises(FalconError, match="does not fit the size of the file"):
        load_examples(path, "training")


def test_damaged_files(tmp_path: Path) -> None:
    path = save(tmp_path, make())
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        inside = archive.getinfo("x_train.npy").header_offset + 200
    flipped = whole[:inside] + bytes([whole[inside] ^ 255]) + whole[inside + 1 :]
    for damaged in (whole[:500], b"", b"not a zip", flipped):
        path.write_bytes(damaged)
        with pytest.raises(FalconError, match=r"set\.npz: .*(not a readable|does not fit)"):
            load_examples(path, "training")


def test_neither_pickles_nor_other_files(tmp_path: Path) -> None:
    (tmp_path / "set.npy").write_bytes(b"")
    with pytest.raises(FalconError, match=r"not a data set; accepted: .*\(\.npz\)"):
        load_examples(tmp_path / "set.npy", "training")
    path = save(tmp_path, make())
    for load in (lambda: load_waves(path, "training"), lambda: load_noise(path)):
        with pytest.raises(FalconError, match="holds arrays, not recordings"):
            load()


def test_second_start_and_changed_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = make()
    path = save(tmp_path, held)
    first, key = load_examples(path, "training"), data_key(path)
    before = first.x.clone()
    with monkeypatch.context() as patch:
        patch.setattr(arrays.ArraySet, "read_into", lambda *_: pytest.fail("read again"))
        patch.setattr(arrays.ArraySet, "smallest_kept", lambda *_: pytest.fail("read again"))
        assert torch.equal(load_examples(path, "training").x, before)
    held["x_train"] = 255 - held["x_train"]
    save(tmp_path, held)
    assert data_key(path) != key
    assert torch.equal(load_examples(path, "training").x, 255 - before)


def real(file: str) -> Path:
    path = Path(os.environ.get("FALCON_DATA", "")) / file
    if "FALCON_DATA" not in os.environ or not path.is_file():
        pytest.skip(f"needs real data: set FALCON_DATA to a folder that holds {file}")
    return path


def test_fashion_mnist() -> None:
    path = real("fashion-mnist/fashion_mnist.npz")
    sizes = {"training": 54_000, "validation": 6_000, "testing": 10_000}
    for split, size in sizes.items():
        found = load_examples(path, split)
        assert found.x.shape == (size, 28, 28)
        assert found.x.dtype == torch.uint8
    assert found.words[9] == "Ankle boot"
    assert found.labels.bincount().tolist() == [1_000] * 10


def test_mit_bih() -> None:
    path = real("mit-bih/mitbih_beats.npz")
    training, validation = (load_examples(path, split) for split in ("training", "validation"))
    assert training.x.dtype == torch.int16
    assert training.x.shape[1:] == (128,)
    assert len(training) + len(validation) == 51_021
    with np.load(path) as file:
        record = file["record_train"]
    rows = [
        [int(name.split("[")[1][:-1]) for name in part.names] for part in (training, validation)
    ]
    assert not set(record[rows[0]]) & set(record[rows[1]])
    assert set(record[rows[1]]) == {220, 223, 230}
    assert load_examples(path, "testing").words[2] == "V (VE)"


def test_the_cache_does_without_fallocate(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fallocate", raising=False)

    def fill(array: NDArray[Any]) -> None:
        array[1] = 7

    kept = cached_array("some", (3, 1 << 20), np.int8, fill)
    assert kept.sum(axis=1, dtype=np.int64).tolist() == [0, 7 << 20, 0]
    blocks = (own_cache / "some.npy").stat()
    assert blocks.st_blocks * 512 >= blocks.st_size  # no holes
