"""The nir package and its files, with a clear message where one of them is missing or broken."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from falcon_snn.data.hdf5 import opened_hdf5
from falcon_snn.errors import FalconError
from falcon_snn.files import parse_json
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


def read_nir_file(path: Path | str) -> Any:
    """A `nir.NIRGraph`; whatever is wrong with the file gives one line."""
    nir = optional_package("nir")
    with opened_hdf5(Path(path), "NIR"):
        pass  # what the package would hang on is found here
    with understood(path):
        graph = nir.read(path, type_check=False)
        if not isinstance(graph, nir.NIRGraph):
            raise FalconError(f"holds a single {type(graph).__name__}, not a graph")
        if not isinstance(graph.metadata, dict):
            raise FalconError("the metadata of its graph are not a table")
        if not _ours(graph):
            graph.infer_types()
            graph.check_types()
    return graph


@contextmanager
def understood(path: Path | str) -> Iterator[None]:
    """Whatever a file's nodes make the package or us stumble over becomes one line."""
    try:
        yield
    except FalconError as error:
        raise FalconError(str(error) if str(path) in str(error) else f"{path}: {error}") from None
    except (
        ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RuntimeError,
        TypeError, ValueError,
    ) as error:  # fmt: skip
        reason = str(error) or type(error).__name__
        raise FalconError(f"{path}: not a NIR file that can be read ({reason:.120})") from None


def _ours(graph: Any) -> bool:
    return str(graph.metadata.get("format")).startswith("falcon-snn ")


def described(graph: Any, path: Path | str) -> Network | None:
    """The network that a file of ours describes; None for the files of others."""
    if not _ours(graph):
        return None
    found = graph.metadata["format"]
    if found != FORMAT:
        raise FalconError(f"{path}: written as {found!s:.30}, this version reads {FORMAT}")
    with understood(path):
        return network_from_json(parse_json(graph.metadata["network"], path))
