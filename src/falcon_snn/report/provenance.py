"""Where a figure comes from: versions, machine and commit."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import falcon_snn

_PACKAGES = ("torch", "numpy", "numba", "triton", "safetensors")


def versions() -> dict[str, str]:
    """Versions of Falcon, of Python and of the packages that compute."""
    found = {"falcon-snn": falcon_snn.__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> str:
    """Processor and, where torch can use one, GPU."""
    import torch

    cores = f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}"
    return f"{torch.cuda.get_device_name(0)}, {cores}" if torch.cuda.is_available() else cores


def commit() -> str | None:
    """The commit of the checkout that this code runs from, with '+' if files differ from it."""
    here = Path(__file__).parent
    found = _git(here, "rev-parse", "HEAD")
    if found is None or _git(here, "ls-files", "--error-unmatch", __file__) is None:
        return None
    return found + ("+" if _git(here, "status", "--porcelain", "--untracked-files=no") else "")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
