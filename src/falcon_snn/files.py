"""Files: written so that a kill, a crash or a full disk never leaves half of one behind, and read
so that whatever a damaged one holds becomes one clear line.
"""

import csv
import hashlib
import json
import os
import platform
import re
import shutil
import stat
import tempfile
import time
import tomllib
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from math import isfinite
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from falcon_snn.errors import FalconError

IN_USE = ".falcon-in-use"  # the note in a folder that a job works in


@contextmanager
def replacing(path: Path | str, *library_errors: type[Exception]) -> Iterator[Path]:
    """Give a temporary path beside `path`; move it over `path` if the block succeeds.

    The content is on disk before the move, so readers see the old file or the new one, whole.
    A link stays: what it points to is written. `library_errors` are what a library raises, besides
    OSError, when it cannot write.
    """
    demand_file_target(Path(path))
    target = Path(os.path.realpath(path))
    errors: tuple[type[Exception], ...] = (OSError, *library_errors)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_left(target)
        handle, name = tempfile.mkstemp(
            prefix=_temporary_prefix(target), suffix=target.suffix, dir=target.parent
        )
    except OSError as error:
        raise FalconError(f"{path}: cannot write here ({error.strerror or error})") from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    except errors as error:
        raise _failed(path, error) from None
    finally:
        temporary.unlink(missing_ok=True)


def demand_file_target(path: Path, *inputs: Path, mark: bytes = b"") -> None:
    """Refuse what no file may be written over: long jobs ask before they begin.

    That is what the job reads, a folder, a device, which a file would replace (/dev/null), and a
    file of another kind than is to be written: every file of that kind holds `mark`.
    """
    try:
        mode = path.stat().st_mode
    except OSError:  # not there yet, which is well; or `replacing` says why it cannot be
        return
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise FalconError(f"{path}: is {kind}; name a file")
    if any(given.exists() and path.samefile(given) for given in inputs):
        raise FalconError(f"{path}: is the input itself; write to another file")
    if not _holds(path, mark):
        raise FalconError(
            f"{path}: exists and was not written by Falcon; choose another name or remove it"
        )


def _holds(path: Path, mark: bytes) -> bool:
    """Whether a file holds these bytes; an empty one is nobody's."""
    try:
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            return content.find(mark) >= 0
    except ValueError:  # empty
        return True
    except OSError as error:
        raise FalconError(f"{path}: cannot be read ({error.strerror or error})") from None


def demand_new(path: Path) -> None:
    """Refuse to write a file to be edited over any that exists: it may have been edited."""
    if path.exists():
        raise FalconError(f"{path}: already exists; choose another name or remove it")


def demand_utf8(path: Path) -> None:
    """Refuse a name that cannot be written as text: no library could read the file again."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise FalconError(f"{path}: this name is not UTF-8; choose another") from None


def demand_unused(folder: Path, names: Iterable[str]) -> None:
    """Refuse to begin a job over files of the names that it writes: somebody wants them."""
    for name in names:
        if (folder / name).exists():
            raise FalconError(f"{folder}: already holds {name}; choose another --out")


@contextmanager
def new_folder(folder: Path, *library_errors: type[Exception]) -> Iterator[Path]:
    """Give a temporary folder beside `folder`; rename it to `folder` if the block succeeds."""
    if folder.exists():
        raise FalconError(f"{folder}: already exists; delete it or choose another place")
    errors: tuple[type[Exception], ...] = (OSError, *library_errors)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _remove_left(folder)
        temporary = Path(tempfile.mkdtemp(prefix=_temporary_prefix(folder), dir=folder.parent))
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


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a second job out of a folder. The lock of a killed job ends with it.

    The system locks the folder itself; a note in it says who holds it. Where a system has no such
    locks, nobody is kept out. A folder that a job makes and leaves empty goes with it.
    """
    demand_utf8(folder)
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise FalconError(f"{folder}: cannot write here ({error.strerror or error})") from None
    note = folder / IN_USE
    try:
        _take(handle, folder, note)
        write_text(note, f"process {os.getpid()} on {platform.node()}, {time.ctime()}\n")
        try:
            yield
        finally:
            note.unlink(missing_ok=True)
    finally:
        if made:
            with suppress(OSError):  # it holds something
                folder.rmdir()
        os.close(handle)


def _take(handle: int, folder: Path, note: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not POSIX
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = read_text(note).strip() if note.is_file() else "another process"
        raise FalconError(
            f"{folder}: in use by {holder}; wait until it ends, or choose another --out"
        ) from None
    except OSError:  # a file system without locks
        return


def is_temporary(name: str) -> bool:
    """Whether a name is one that `replacing` and `new_folder` give until all is written."""
    return bool(re.fullmatch(r"\..+\.[0-9a-f]{8}-\d+-[a-z0-9_]{8}(\.\w+)?", name))


def _temporary_prefix(target: Path) -> str:
    machine = zlib.crc32(platform.node().encode())
    return f".{target.name}.{machine:08x}-{os.getpid()}-"


def _remove_left(target: Path) -> None:
    """Remove what killed processes on this machine left of the same file or folder."""
    start = _temporary_prefix(target).removesuffix(f"{os.getpid()}-")
    for path in target.parent.iterdir():
        if path.name.startswith(start) and is_temporary(path.name):
            process = int(path.name.removeprefix(start).partition("-")[0])
            if not _is_alive(process):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # somebody else's
        return True
    return True


def _failed(target: Path | str, error: Exception) -> FalconError:
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
    """Read a text file; one that is missing or is not text gives one clear line."""
    if Path(path).is_char_device():  # some never end
        raise FalconError(f"{path}: is a device, not a file")
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FalconError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or not a possible path
        raise FalconError(f"{path}: cannot be read ({error})") from None


def read_json(path: Path | str) -> Any:
    """Read JSON; a missing or broken file gives one clear line."""
    return parse_json(read_text(path), path)


def read_json_lines(path: Path | str) -> list[Any]:
    """Read a file of JSON lines."""
    return [parse_json(line, path) for line in read_text(path).splitlines()]


def read_toml(path: Path | str) -> dict[str, Any]:
    """Read TOML; a missing or broken file gives one clear line."""
    return parse_toml(read_text(path), path)


def read_csv(path: Path | str) -> list[list[str]]:
    """Read the rows of a CSV file; a missing or broken file gives one clear line."""
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
    # Nested too deeply, a number with too many digits, not UTF-8.
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
        raise ValueError(f"{text[:40]} is not a finite number")
    return value


def sha256_of(path: Path | str) -> str:
    """The SHA-256 of a file, as hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
