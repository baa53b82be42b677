"""Fetching an archive: resumed when interrupted, checked before use, unpacked without surprises."""

import http.client
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from falcon_snn.errors import FalconError
from falcon_snn.files import new_folder

ATTEMPTS = 5
_BLOCK_BYTES = 1 << 18
_TIMEOUT_S = 30


def fetch(url: str, sha256: str, folder: Path, advance: Callable[[int, int], None]) -> Path:
    """The archive at `url` as a checked file in `folder`; a partial transfer is kept.

    `advance` is given the bytes received so far and the bytes in all.
    """
    import pooch

    name = url.rsplit("/", 1)[-1]
    part = folder / f"{name}.part"

    def resuming(url: str, output_file: str, pooch_object: Any) -> None:
        for _ in range(ATTEMPTS):
            if _transfer(url, part, advance):
                part.replace(output_file)
                return
        raise FalconError(
            f"{url}: the connection broke {ATTEMPTS} times; the same command continues at "
            f"{_bytes_of(part)} bytes"
        )

    pooch.get_logger().setLevel("ERROR")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Path(
            pooch.retrieve(url, f"sha256:{sha256}", fname=name, path=folder, downloader=resuming)
        )
    except ValueError:
        raise FalconError(
            f"{url}: what arrived is not the published file (its SHA-256 differs) and was deleted; "
            "try again, or check the network for a proxy that answers in its place"
        ) from None
    except urllib.error.HTTPError as error:
        raise FalconError(f"{url}: the server says {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise FalconError(
            f"{url}: cannot be reached ({error.reason}); go online, or put {name} into {folder}, "
            "or use --data embedded, which needs no download"
        ) from None
    except OSError as error:
        raise FalconError(f"{folder}: cannot write here ({error.strerror or error})") from None


def _transfer(url: str, part: Path, advance: Callable[[int, int], None]) -> bool:
    """Append to `part` what it lacks; False if the connection broke."""
    have = _bytes_of(part)
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as reply:
            if reply.status != http.HTTPStatus.PARTIAL_CONTENT:
                have = 0  # the server starts again from the beginning
            total = have + int(reply.headers.get("Content-Length", 0))
            with part.open("r+b" if have else "wb") as file:
                file.seek(have)
                while block := reply.read(_BLOCK_BYTES):
                    file.write(block)
                    have += len(block)
                    advance(have, total)
            return have >= total
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        return True  # all of it is there; the checksum decides
    except (http.client.HTTPException, ConnectionError, TimeoutError):
        return False


def _bytes_of(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar archive as a new folder, whole or not at all; refuse links and outside paths."""
    try:
        with tarfile.open(archive) as tar, new_folder(folder) as temporary:
            tar.extractall(temporary, filter=_plain_files_only)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise FalconError(f"{archive}: cannot be unpacked ({error})") from None


def _plain_files_only(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    if not (member.isreg() or member.isdir()):
        raise tarfile.SpecialFileError(member)
    return tarfile.data_filter(member, folder)
