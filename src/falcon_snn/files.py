"""Files: written so that a kill, a crash or a full disk never leaves half of one behind, and read
so that whatever a damaged one holds becomes one clear line.
"""

import csv
import hashlib
import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any

from falcon_snn.errors import FalconError


@contextmanager
def replacing(path: Path | str, *library_errors: type[Exception]) -> Iterator[Path]:
    """Give a temporary path beside `path`; move it over `path` if the block ends well.

    The content is on disk before the move, so readers see the old file or the new one, whole.
    `library_errors` are what a library raises, beside OSError, where it cannot write.
    """
    target = Path(path)
    errors: tuple[type[Exception], ...] = (OSError, *library_errors)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(
            prefix=f".{target.name}.", suffix=target.suffix, dir=target.parent
        )
    except OSError as error:
        raise FalconError(f"{target}: cannot write here ({error.strerror or error})") from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    except errors as error:
        raise _failed(target, error) from None
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(folder: Path, *library_errors: type[Exception]) -> Iterator[Path]:
    """Give a temporary folder beside `folder`; rename it to `folder` if the block ends well."""
    if folder.exists():
        raise FalconError(f"{folder}: is there already; delete it or choose another place")
    errors: tuple[type[Exception], ...] = (OSError, *library_errors)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise FalconError(f"{folder}: cannot write here ({error.strerror or error})") from None
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        temporary.rename(folder)
    except errors as error:
        raise _failed(folder, error) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _failed(target: Path, error: Exception) -> FalconError:
    reason = getattr(error, "strerror", None) or error
    return FalconError(f"{target}: writing failed ({reason!s:.200})")


def write_text(path: Path | str, text: str) -> None:
    """Write a text file, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path | str, value: Any) -> None:
    """Write JSON that people can read and diff, whole or not at all."""
    write_text(path, json.dumps(value, indent=1) + "\n")


def read_text(path: Path | str) -> str:
    """Read a text file; one that is missing or no text is one clear line."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FalconError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a path that cannot be one
        raise FalconError(f"{path}: cannot be read ({error})") from None


def read_json(path: Path | str) -> Any:
    """Read JSON; a missing or broken file is one clear line."""
    return parse_json(read_text(path), path)


def read_json_lines(path: Path | str) -> list[Any]:
    """Read a file of JSON lines."""
    return [parse_json(line, path) for line in read_text(path).splitlines()]


def read_toml(path: Path | str) -> dict[str, Any]:
    """Read TOML; a missing or broken file is one clear line."""
    return parse_toml(read_text(path), path)


def read_csv(path: Path | str) -> list[list[str]]:
    """Read the rows of a CSV file; a missing or broken file is one clear line."""
    try:
        return list(csv.reader(read_text(path).splitlines(keepends=True), strict=True))
    except csv.Error as error:  # a field of 131,072 characters or more, a quote left open
        raise FalconError(f"{path}: not valid CSV ({error})") from None


def parse_json(text: str | bytes, where: Path | str) -> Any:
    """Read JSON from a text; `where` is what messages call it. NaN and infinity are refused."""
    try:
        return json.loads(text, parse_float=_finite, parse_constant=_finite)
    except json.JSONDecodeError as error:
        raise FalconError(f"{where}: not valid JSON (line {error.lineno}: {error.msg})") from None
    # Nested too deep, a number of too many digits, no UTF-8.
    except (RecursionError, ValueError) as error:
        raise FalconError(f"{where}: cannot be read ({error})") from None


def parse_toml(text: str, where: Path | str) -> dict[str, Any]:
    """Read TOML from a text; `where` is what messages call it."""
    try:
        return tomllib.loads(text)
    except (RecursionError, ValueError) as error:
        raise FalconError(f"{where}: not valid TOML ({error})") from None


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text[:40]} is no finite number")
    return value


def sha256_of(path: Path | str) -> str:
    """The SHA-256 of a file, as hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
