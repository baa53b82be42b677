"""Downloads against a real local server that cuts, refuses and lies."""

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.data_files import write_folder

from falcon_snn.data import gsc
from falcon_snn.data.download import ATTEMPTS, fetch, unpack
from falcon_snn.data.examples import load_waves
from falcon_snn.errors import FalconError


class Server(ThreadingHTTPServer):
    content = b""
    cut_after: int | None = None  # bytes that an answer gives before the connection is cut
    absent = False
    ranges: list[str | None]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.ranges.append(wanted)
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        body = self.server.content[start:]
        if self.server.absent or (wanted and not body):
            self.send_error(404 if self.server.absent else 416)
            return
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.server.cut_after])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as running:
        running.ranges = []
        thread = threading.Thread(target=running.serve_forever, args=(0.05,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def url_of(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_port}/words.tar.gz"


def get(server: Server, folder: Path, sha256: str | None = None) -> Path:
    digest = sha256 or hashlib.sha256(server.content).hexdigest()
    return fetch(url_of(server), digest, folder, lambda here, total: None)


def archive_of(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        tar.add(folder, arcname=".")
    return buffer.getvalue()


def test_download_check_and_unpack(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FALCON_CACHE", str(tmp_path / "cache"))
    server.content = archive_of(write_folder(tmp_path / "words"))
    digest = hashlib.sha256(server.content).hexdigest()
    release = replace(gsc.RELEASES["gsc-v1"], url=url_of(server), sha256=digest)
    monkeypatch.setitem(gsc.RELEASES, "gsc-v1", release)
    folder = gsc.download("gsc-v1", tmp_path / "home")
    assert folder == tmp_path / "home" / "gsc-v1"
    assert len(load_waves(folder, "training")) == 4
    assert [entry.name for entry in (tmp_path / "home").iterdir()] == ["gsc-v1"]
    with pytest.raises(FalconError, match="already exists"):
        gsc.download("gsc-v1", tmp_path / "home")
    with pytest.raises(FalconError, match="unknown data set"):
        gsc.download("gsc-v3", tmp_path / "home")


def test_a_cut_connection_is_resumed(server: Server, tmp_path: Path) -> None:
    server.content = bytes(range(256)) * 1_000
    server.cut_after = 100_000
    assert get(server, tmp_path).read_bytes() == server.content
    assert server.ranges == [None, "bytes=100000-", "bytes=200000-"]


def test_the_next_command_goes_on_where_the_last_one_ended(server: Server, tmp_path: Path) -> None:
    server.content = bytes(range(256)) * 1_000
    server.cut_after = 1_000
    with pytest.raises(FalconError, match="continues at 5000 bytes"):
        get(server, tmp_path)
    assert len(server.ranges) == ATTEMPTS
    server.cut_after = None
    assert get(server, tmp_path).read_bytes() == server.content
    assert server.ranges[-1] == "bytes=5000-"
    assert [entry.name for entry in tmp_path.iterdir()] == ["words.tar.gz"]


def test_a_server_that_hangs_up_at_once(server: Server, tmp_path: Path) -> None:
    server.content, server.cut_after = b"never seen", 0
    with pytest.raises(FalconError, match="broke 5 times; the same command continues at 0 bytes"):
        get(server, tmp_path)


def test_a_complete_part_is_used(server: Server, tmp_path: Path) -> None:
    server.content = b"all of it"
    (tmp_path / "words.tar.gz.part").write_bytes(server.content)
    assert get(server, tmp_path).read_bytes() == server.content


def test_a_bad_checksum_leaves_nothing(server: Server, tmp_path: Path) -> None:
    server.content = b"something else"
    with pytest.raises(FalconError, match="not the published file"):
        get(server, tmp_path, sha256="0" * 64)
    assert not list(tmp_path.iterdir())


def test_offline_and_absent(server: Server, tmp_path: Path) -> None:
    with pytest.raises(FalconError, match=r"cannot be reached .* --data embedded"):
        fetch("http://127.0.0.1:9/words.tar.gz", "0" * 64, tmp_path, lambda here, total: None)
    server.absent = True
    with pytest.raises(FalconError, match="the server says 404"):
        get(server, tmp_path)
    assert not list(tmp_path.iterdir())


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    "info",
    [
        member("../outside.wav"),
        member("yes/link.wav", tarfile.SYMTYPE, "/etc/passwd"),
        member("yes/link.wav", tarfile.SYMTYPE, "other.wav"),
        member("yes/hard.wav", tarfile.LNKTYPE, "good.wav"),
        member("yes/pipe", tarfile.FIFOTYPE),
    ],
)
def test_archives_with_links_or_ways_out_are_refused(tmp_path: Path, info: tarfile.TarInfo) -> None:
    archive = tmp_path / "bad.tar"
    with tarfile.open(archive, "w") as tar:
        tar.addfile(member("good.wav"))
        tar.addfile(info)
    with pytest.raises(FalconError, match="cannot be unpacked"):
        unpack(archive, tmp_path / "new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["bad.tar"]


def test_a_truncated_archive_leaves_nothing(tmp_path: Path) -> None:
    whole = archive_of(write_folder(tmp_path / "words"))
    (tmp_path / "cut.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FalconError, match="cannot be unpacked"):
        unpack(tmp_path / "cut.tar.gz", tmp_path / "new")
    assert not (tmp_path / "new").exists()
