"""The nir package and its files, with clear words where one of them is missing or broken."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from falcon_snn.errors import FalconError
from falcon_snn.network.description import Network, network_from_json

FORMAT = "falcon-snn 2"


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
        graph = nir.read(path, type_check=False)
        if isinstance(graph, nir.NIRGraph) and not _ours(graph):
            graph.infer_types()
            graph.check_types()
    # The package raises whatever it stumbles over: OSError, KeyError, AssertionError, TypeError.
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise FalconError(f"{path}: not a NIR file that can be read ({reason})") from None
    if not isinstance(graph, nir.NIRGraph):
        raise FalconError(f"{path}: holds a single {type(graph).__name__}, not a graph")
    return graph


def _ours(graph: Any) -> bool:
    return str(graph.metadata.get("format")).startswith("falcon-snn ")


def described(graph: Any, path: Path | str) -> Network | None:
    """The network that a file of ours describes; None for the files of others."""
    if not _ours(graph):
        return None
    found = graph.metadata["format"]
    if found != FORMAT:
        raise FalconError(f"{path}: written as {found:.30}, this version reads {FORMAT}")
    try:
        return network_from_json(json.loads(graph.metadata["network"]))
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise FalconError(f"{path}: its description cannot be read ({error!s:.80})") from None
    except FalconError as error:
        raise FalconError(f"{path}: {error}") from None
