"""The nir package and its files, with clear words where one of them is missing or broken."""

from importlib import import_module
from pathlib import Path
from typing import Any

from falcon_snn.errors import FalconError


def optional_package(name: str) -> Any:
    """A package of the extra `interchange`."""
    try:
        return import_module(name)
    except ImportError:
        raise FalconError(
            f"this needs the package {name}; install it with: pip install 'falcon-snn[interchange]'"
        ) from None


def nir_package() -> Any:
    return optional_package("nir")


def read_nir_file(path: Path | str) -> Any:
    """A `nir.NIRGraph`; whatever is wrong with the file is one line."""
    nir = nir_package()
    if not Path(path).is_file():
        raise FalconError(f"{path}: no such file")
    try:
        graph = nir.read(path)
    # The package raises whatever it stumbles over: OSError, KeyError, AssertionError, TypeError.
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise FalconError(f"{path}: not a NIR file that can be read ({reason})") from None
    if not isinstance(graph, nir.NIRGraph):
        raise FalconError(f"{path}: holds a single {type(graph).__name__}, not a graph")
    return graph
