"""Arrays that are computed once: kept as .npy files, written whole or not at all, memory-mapped.

The folder is $FALCON_CACHE, or ~/.cache/falcon-snn. It may be deleted at any time.
"""

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from falcon_snn.errors import FalconError
from falcon_snn.files import replacing


def cache_folder() -> Path:
    """Where computed arrays are kept."""
    try:
        return Path(os.environ.get("FALCON_CACHE") or Path.home() / ".cache" / "falcon-snn")
    except RuntimeError:  # the user has no home
        raise FalconError(
            "no home to keep computed arrays in; set FALCON_CACHE to a folder"
        ) from None


def cached_array(
    name: str,
    shape: tuple[int, ...],
    dtype: DTypeLike,
    fill: Callable[[NDArray[Any]], None],
) -> NDArray[Any]:
    """The array kept under `name`; on the first call, `fill` writes into an array of zeros."""
    path = cache_folder() / f"{name}.npy"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FalconError(
            f"{path.parent}: cannot write here ({error.strerror or error}); set FALCON_CACHE to "
            "another folder"
        ) from None
    kept = _open(path)
    if kept is None or kept.shape != shape or kept.dtype != np.dtype(dtype):
        with replacing(path) as temporary:
            array = np.lib.format.open_memmap(temporary, mode="w+", dtype=dtype, shape=shape)
            _reserve(temporary)
            fill(array)
            array.flush()
        kept = np.load(path, mmap_mode="c")
    return kept


def _reserve(path: Path) -> None:
    """Take the disk space now: a mapped file that meets a full disk kills the process."""
    with path.open("r+b") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
            return
        # Not every system has it: there the zeros are written, and a full disk is found now.
        while chunk := file.read(1 << 20):
            file.seek(-len(chunk), os.SEEK_CUR)
            file.write(chunk)
            file.seek(0, os.SEEK_CUR)  # between writing and reading


def _open(path: Path) -> NDArray[Any] | None:
    """A kept array, copy-on-write so that torch may wrap it; None if there is no usable one."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError, TokenError):  # what numpy raises
        return None
    return array


def key_of(parts: Iterable[str | bytes]) -> str:
    """A short name for content: 20 hexadecimal digits of the SHA-256 of all parts."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:20]
