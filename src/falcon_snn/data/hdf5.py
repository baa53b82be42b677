"""HDF5 files that may be damaged: what would make the library hang, or ask for gigabytes, is
refused before it is read.

Ragged rows and long texts lie in global heaps: `GCOL`, version 1, three bytes, the heap's size in
eight; then objects of two bytes index, two of references, four unused, eight of size, and their
data, padded to eight. Index 0 is the free rest. The library walks the objects by their sizes; at a
size of 0 it does so forever.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from falcon_snn.errors import FalconError
from falcon_snn.files import replacing

if TYPE_CHECKING:
    import h5py

_HEAP, _HEAP_HEADER, _OBJECT_HEADER = b"GCOL\x01", 16, 16
_RATIO = 1032  # how many times its size deflated data can become


@contextmanager
def opened_hdf5(path: Path, layout: str) -> Iterator[h5py.File]:
    """An HDF5 file for reading; whatever is wrong with it becomes one line that names it."""
    import h5py

    try:
        _check_heaps(path)
        with h5py.File(path, "r") as file:
            _check_sizes(path, file)
            yield file
    except FileNotFoundError:
        raise FalconError(f"{path}: no such file") from None
    except KeyError as error:
        raise FalconError(f"{path}: not in {layout}'s layout ({error.args[0]})") from None
    # The library raises all of these on files that are damaged.
    except (OSError, ValueError, RuntimeError, TypeError, AttributeError) as error:
        raise FalconError(f"{path}: not a readable {layout} file ({error!s:.200})") from None


@contextmanager
def hdf5_target(path: Path) -> Iterator[Target]:
    """Something for the library to write a new file to, which appears whole or not at all."""
    with replacing(path) as temporary, temporary.open("w+b", buffering=0) as opened:
        target = Target(temporary, opened)
        try:
            yield target
        finally:
            target.demand_written()


class Target:
    """A file as the library writes it. On a full disk the library crashes the whole process, so it
    is not told: what cannot be written is dropped, and the error is kept for `demand_written`.
    """

    def __init__(self, path: Path, file: FileIO) -> None:
        self.path = path
        self._file = file
        self._error: OSError | None = None
        self.seek, self.tell = file.seek, file.tell
        self.read, self.readinto, self.flush = file.read, file.readinto, file.flush

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            self._error = self._error or error
        return len(data)

    def truncate(self, size: int) -> int:
        try:
            return self._file.truncate(size)
        except OSError as error:
            self._error = self._error or error
            return size

    def demand_written(self) -> None:
        """Raise what went wrong."""
        if self._error is not None:
            raise self._error


def rows(file: h5py.File, key: str, kinds: str) -> Any:
    """A data set of one axis whose numpy kind (or that of its ragged rows) is one of `kinds`."""
    import h5py

    found = file[key]
    if not isinstance(found, h5py.Dataset) or found.ndim != 1:
        raise KeyError(f"'{key}' is not a list")
    ragged = h5py.check_vlen_dtype(found.dtype)
    kind = "O" if ragged in (str, bytes) else (ragged or found.dtype).kind
    if kind not in kinds:
        raise KeyError(f"'{key}' holds {found.dtype}")
    return found


def _check_heaps(path: Path) -> None:
    """Refuse a heap in which the library would never finish."""
    with path.open("rb") as opened:
        if not path.stat().st_size:
            return  # nothing to map; the library says that it is not HDF5
        with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
            start = content.find(_HEAP)
            while start >= 0:
                end = start + int.from_bytes(content[start + 8 : start + 16], "little")
                place = start + _HEAP_HEADER
                while place + _OBJECT_HEADER <= min(end, len(content)):
                    size = int.from_bytes(content[place + 8 : place + 16], "little")
                    free = content[place : place + 2] == b"\0\0"
                    step = size if free else _OBJECT_HEADER + (size + 7) // 8 * 8
                    if step < _OBJECT_HEADER or place + step > end:
                        raise ValueError(f"the heap at byte {start} is damaged")
                    place += step
                start = content.find(_HEAP, start + 1)


def _check_sizes(path: Path, file: h5py.File) -> None:
    """Refuse data sets that are larger than the file can hold, or of an invalid type."""
    import h5py

    most = _RATIO * path.stat().st_size

    def check(name: str, found: object) -> None:
        if isinstance(found, h5py.Dataset):
            chunk = found.dtype.itemsize
            for size in found.chunks or ():
                chunk *= size
            if max(found.nbytes, chunk) > (most if found.chunks else path.stat().st_size):
                raise ValueError(f"'{name:.40}' says that it is larger than the file")
            kind = found.id.get_type()
            ragged = isinstance(kind, h5py.h5t.TypeVlenID)
            # The library takes ragged rows of an unknown sort for known ones, and crashes.
            if ragged and kind.encode() != h5py.h5t.vlen_create(kind.get_super()).encode():
                raise ValueError(f"'{name:.40}' has a damaged type")

    file.visititems(check)
