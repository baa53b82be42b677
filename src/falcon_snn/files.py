"""Writing files so that a kill, a crash or a full disk never leaves half of one behind."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from falcon_snn.errors import FalconError


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Give a temporary path beside `path`; move it over `path` if the block ends well.

    The content is on disk before the move, so readers see the old file or the new one, whole.
    """
    target = Path(path)
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
    except OSError as error:
        raise FalconError(f"{target}: writing failed ({error.strerror or error})") from None
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Give a temporary folder beside `folder`; rename it to `folder` if the block ends well."""
    if folder.exists():
        raise FalconError(f"{folder}: is there already; delete it or choose another place")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise FalconError(f"{folder}: cannot write here ({error.strerror or error})") from None
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: Path | str, text: str) -> None:
    """Write a text file, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path | str, value: Any) -> None:
    """Write JSON that people can read and diff, whole or not at all."""
    write_text(path, json.dumps(value, indent=1) + "\n")


def read_json(path: Path | str) -> Any:
    """Read JSON; a missing or broken file is one clear line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FalconError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FalconError(f"{path}: cannot be read ({error})") from None
    return parse_json(text, path)


def parse_json(text: str, where: Path | str) -> Any:
    """Read JSON from a text; `where` is what messages call it."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise FalconError(f"{where}: not valid JSON (line {error.lineno}: {error.msg})") from None
    except (RecursionError, ValueError) as error:  # nested too deep, a number of too many digits
        raise FalconError(f"{where}: cannot be read ({error})") from None


def sha256_of(path: Path | str) -> str:
    """The SHA-256 of a file, as hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
