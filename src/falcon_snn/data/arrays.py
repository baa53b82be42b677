"""Samples of any kind as arrays in one .npz file, as `numpy.savez` writes it.

x_train, x_test              samples [N, ...] of one shape: truth values, integers or floats
y_train, y_test              a class per sample: integers 0..classes-1, or strings
x_validation, y_validation   optional; without them a part of training is held out: its last
                             tenth, or with `record_train` whole groups
record_train                 optional: the group of each training sample (a patient, a recording);
                             `record` is another name for it
class_names                  optional: the classes in the order of their numbers

Samples are kept as uint8, int16 or float32, the smallest of them that holds all values; only
64-bit floats are rounded. Nothing is allocated before the file's own figures are found to agree.
"""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from falcon_snn.data.audio import log
from falcon_snn.errors import FalconError

PARTS = {"training": "train", "validation": "validation", "testing": "test"}
KEPT = (np.dtype(np.uint8), np.dtype(np.int16), np.dtype(np.float32))
_REQUIRED = ("x_train", "y_train", "x_test", "y_test")
_OPTIONAL = ("x_validation", "y_validation", "record_train", "record", "class_names")
_LARGEST_EXACT = 2**24  # float32 holds every integer up to this one
# How many times its stored size data can grow to; deflated data can grow no more.
_RATIO = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1032}
_Labels = NDArray[np.int64]


class Header(NamedTuple):
    """What an array says about itself before it is read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class SplitPart(NamedTuple):
    """The samples of one split: rows of an array, and their classes."""

    array: str
    rows: NDArray[np.int64]
    labels: _Labels


@dataclass(frozen=True)
class ArraySet:
    """An .npz file whose keys, shapes and labels were checked."""

    path: Path
    words: tuple[str, ...]
    parts: dict[str, SplitPart]
    headers: dict[str, Header]

    def shape(self, split: str) -> tuple[int, ...]:
        part = self.parts[split]
        return (len(part.rows), *self.headers[part.array].shape[1:])

    def smallest_kept(self) -> int:
        """The place in `KEPT` of the type that holds all samples; refuses what is not a number."""
        arrays = sorted({part.array for part in self.parts.values()})
        return max(_smallest_kept(self.path, name, _read(self.path, name)) for name in arrays)

    def read_into(self, out: NDArray[Any], split: str) -> None:
        """Read the samples of a split."""
        part = self.parts[split]
        out[:] = _read(self.path, part.array)[part.rows]


def open_arrays(path: Path) -> ArraySet:
    """Check an .npz file and read its labels; the samples are left for later."""
    headers = _headers(path)
    for key in _REQUIRED:
        if key not in headers:
            raise FalconError(
                f"{path}: no array '{key}'; it must hold {', '.join(_REQUIRED)}, and may hold "
                f"{', '.join(_OPTIONAL)}"
            )
    if ("x_validation" in headers) != ("y_validation" in headers):
        raise FalconError(f"{path}: x_validation and y_validation go together; add the other one")
    names = [part for part in PARTS.values() if f"x_{part}" in headers]
    for name in names:
        _check_shapes(path, headers, name)
    given = {name: _read(path, f"y_{name}") for name in names}
    words = _class_names(path, headers, given["train"])
    labels = {name: _labels(path, name, values, words) for name, values in given.items()}
    rows = {name: np.arange(len(labels[name])) for name in names}
    if "validation" not in names:
        rows["train"], rows["validation"] = _hold_out(path, headers, labels["train"])
        labels["validation"] = labels["train"][rows["validation"]]
        labels["train"] = labels["train"][rows["train"]]
    _check_trained(path, labels, words)
    parts = {
        split: SplitPart(f"x_{name if name in names else 'train'}", rows[name], labels[name])
        for split, name in PARTS.items()
    }
    return ArraySet(path, words, parts, headers)


def _headers(path: Path) -> dict[str, Header]:
    """Shape and type of every array that is used; sizes that cannot be true are refused."""
    found = {}
    with _opened(path) as archive:
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if name not in (*_REQUIRED, *_OPTIONAL):
                continue
            with archive.open(info) as file:
                version = np.lib.format.read_magic(file)
                read = {
                    (1, 0): np.lib.format.read_array_header_1_0,
                    (2, 0): np.lib.format.read_array_header_2_0,
                }.get(version)
                if read is None:
                    raise FalconError(
                        f"{path}: '{name}' is not a plain array of numbers or strings"
                    )
                shape, _, dtype = read(file)
                if dtype.hasobject:
                    raise FalconError(
                        f"{path}: '{name}' holds Python objects, which are not read; save it as "
                        "numbers or strings"
                    )
                claimed_size = file.tell() + prod(shape) * dtype.itemsize
            if (
                min(shape, default=0) < 0
                or claimed_size != info.file_size
                or info.file_size > _RATIO.get(info.compress_type, 0) * info.compress_size
                or info.compress_size > path.stat().st_size
            ):
                raise FalconError(
                    f"{path}: '{name}' says that it is {dtype} {shape}, which does not fit the "
                    "size of the file; fetch or save it again"
                )
            found[name] = Header(shape, dtype)
    return found


def _check_shapes(path: Path, headers: dict[str, Header], part: str) -> None:
    x, y = headers[f"x_{part}"], headers[f"y_{part}"]
    if len(x.shape) < 2 or not prod(x.shape):
        raise FalconError(f"{path}: x_{part} is {x.shape}; it must be [samples, ...], not empty")
    if x.dtype.kind not in "biuf":
        raise FalconError(f"{path}: x_{part} holds {x.dtype}; it must hold numbers")
    if y.shape != x.shape[:1]:
        raise FalconError(
            f"{path}: y_{part} is {y.shape} and x_{part} has {x.shape[0]} samples; "
            "give one label per sample"
        )
    if y.dtype.kind not in "biuUS":
        raise FalconError(f"{path}: y_{part} holds {y.dtype}; labels are integers or strings")
    if x.shape[1:] != headers["x_train"].shape[1:]:
        raise FalconError(
            f"{path}: samples of x_{part} are {x.shape[1:]}, those of x_train "
            f"{headers['x_train'].shape[1:]}; make them one shape"
        )


def _class_names(path: Path, headers: dict[str, Header], trained: NDArray[Any]) -> tuple[str, ...]:
    """The classes in the order of their numbers."""
    if "class_names" in headers:
        header = headers["class_names"]
        names = _texts(_read(path, "class_names")) if header.dtype.kind in "US" else []
        if len(header.shape) != 1 or not names or len(set(names)) < len(names):
            raise FalconError(f"{path}: class_names must be a list of distinct strings")
        return tuple(names)
    if trained.dtype.kind in "US":
        return tuple(sorted(set(_texts(trained))))
    labels = np.unique(trained)
    if not np.array_equal(labels, np.arange(len(labels))):
        raise FalconError(
            f"{path}: the labels in y_train are not 0..{len(labels) - 1}; number the "
            f"{len(labels)} classes that way, or name all classes in class_names"
        )
    return tuple(str(label) for label in range(len(labels)))


def _labels(path: Path, part: str, given: NDArray[Any], words: tuple[str, ...]) -> _Labels:
    """Labels as numbers; one that is not a class is named."""
    if given.dtype.kind in "US":
        number = {word: label for label, word in enumerate(words)}
        values, place = np.unique(given, return_inverse=True)
        found = np.array([number.get(word, -1) for word in _texts(values)], np.int64)[place]
    else:
        found = given.astype(np.int64)
        found[found >= len(words)] = -1
    if (found < 0).any():
        wrong = str(_texts(given[found < 0][:1])[0])
        raise FalconError(
            f"{path}: y_{part} holds '{wrong}', which is not one of the {len(words)} classes "
            f"({', '.join(words[:3])}, ...)"
        )
    return found


def _hold_out(
    path: Path, headers: dict[str, Header], labels: _Labels
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of training and of validation; a group is never in both."""
    rows = np.arange(len(labels))
    key = next((key for key in ("record_train", "record") if key in headers), None)
    wanted = max(1, len(rows) // 10)
    if key is None:
        _say_once(f"{path}: no x_validation; the last {wanted:,} samples of training are held out")
        if wanted == len(rows):
            raise FalconError(f"{path}: only one sample to train on; add more, or x_validation")
        return rows[:-wanted], rows[-wanted:]
    if headers[key].shape != rows.shape:
        raise FalconError(f"{path}: {key} is {headers[key].shape}; give one group per sample")
    _, first, group = np.unique(_read(path, key), return_index=True, return_inverse=True)
    held_out = np.zeros(len(rows), bool)
    classes = len(np.unique(labels))
    for number in np.argsort(-first):  # from the group that begins last
        more = held_out | (group == number)
        # A group that alone holds a class stays in training.
        if len(np.unique(labels[~more])) == classes:
            held_out = more
        if held_out.sum() >= wanted:
            break
    if not held_out.any():
        raise FalconError(f"{path}: no group in {key} can be held out; add x_validation")
    groups = len(np.unique(group[held_out]))
    _say_once(
        f"{path}: no x_validation; the {held_out.sum():,} training samples of {groups} of the "
        f"{len(first)} groups in {key} are held out"
    )
    return rows[~held_out], rows[held_out]


def _check_trained(path: Path, labels: dict[str, _Labels], words: tuple[str, ...]) -> None:
    """Refuse classes that are asked for without ever being trained."""
    for part in ("validation", "test"):
        never = np.setdiff1d(labels[part], labels["train"])
        if len(never):
            raise FalconError(
                f"{path}: class '{words[never[0]]}' of the {part} part is never trained; shuffle "
                "the samples, or add some of it to x_train"
            )


def _smallest_kept(path: Path, name: str, x: NDArray[Any]) -> int:
    if x.dtype.kind == "f":
        with np.errstate(over="ignore"):
            if not np.isfinite(x.astype(np.float32)).all():
                raise FalconError(f"{path}: {name} holds a NaN or an infinite value; remove it")
        return 2
    low, high = int(x.min()), int(x.max())
    for place, (least, most) in enumerate([(0, 255), (-32768, 32767)]):
        if least <= low and high <= most:
            return place
    if max(-low, high) > _LARGEST_EXACT:
        raise FalconError(
            f"{path}: {name} holds {high if high > -low else low}, too large for float32; scale it"
        )
    return 2


def _read(path: Path, name: str) -> NDArray[Any]:
    """A whole array; its header was checked before."""
    with _opened(path) as archive, archive.open(f"{name}.npy") as file:
        array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        while file.read(2**16):  # to the end, where the checksum is compared
            pass
    return array


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """An .npz file for reading; whatever is wrong with it becomes one line that names it."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except FileNotFoundError:
        raise FalconError(f"{path}: no such file") from None
    except (
        zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError, SyntaxError,
        TokenError,
    ) as error:  # fmt: skip
        raise FalconError(f"{path}: not a readable .npz file ({_one_line(error)})") from None


def _one_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _texts(values: NDArray[Any]) -> list[str]:
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8", "backslashreplace")
    return [str(value) for value in values.tolist()]


@cache
def _say_once(message: str) -> None:
    log.warning("%s", message)
