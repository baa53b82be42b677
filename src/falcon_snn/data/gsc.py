"""Google Speech Commands (Warden, 2018): one-second recordings of single words, 16 kHz mono.

v1    64,721 clips of 30 words (2017), 51,088 / 6,798 / 6,835
v2   105,829 clips of 35 words (2018), 84,843 / 9,981 / 11,005
licence CC BY 4.0
layout  see `folder.py`
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from falcon_snn.data.download import fetch, unpack
from falcon_snn.data.examples import data_home
from falcon_snn.errors import FalconError

LICENCE = "Speech Commands, Pete Warden, Google; licence CC BY 4.0"


@dataclass(frozen=True)
class Release:
    """A published archive."""

    url: str
    sha256: str
    clips: int
    words: int


RELEASES = {
    "gsc-v1": Release(
        "http://download.tensorflow.org/data/speech_commands_v0.01.tar.gz",
        "743935421bb51cccdb6bdd152e04c5c70274e935c82119ad7faeec31780d811d",
        clips=64_721,
        words=30,
    ),
    "gsc-v2": Release(
        "http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz",
        "af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
        clips=105_829,
        words=35,
    ),
}


def download(
    name: str, home: Path | None = None, *, advance: Callable[[int, int], None] = lambda *_: None
) -> Path:
    """Fetch, check and unpack a release as a folder under `home`; returns the folder."""
    if name not in RELEASES:
        raise FalconError(f"unknown data set '{name}'; choose one of {', '.join(RELEASES)}")
    home = home or data_home()
    folder = home / name
    if folder.exists():
        raise FalconError(f"{folder}: already exists; delete it to download again")
    release = RELEASES[name]
    archive = fetch(release.url, release.sha256, home, advance)
    unpack(archive, folder)
    archive.unlink()
    return folder
