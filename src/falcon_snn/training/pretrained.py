"""The networks that come with Falcon: files in `falcon_snn/models`, found by name."""

from dataclasses import dataclass
from importlib.resources import files as package_files
from pathlib import Path

from falcon_snn.errors import FalconError
from falcon_snn.training.checkpoint import Metadata, load_metadata


@dataclass(frozen=True)
class Pretrained:
    """A network that ships with Falcon, and what its file says about it."""

    name: str
    path: Path
    metadata: Metadata


def models_folder() -> Path:
    return Path(str(package_files("falcon_snn") / "models"))


def pretrained_names() -> list[str]:
    """The names of all networks that ship with Falcon."""
    return sorted(path.stem for path in models_folder().glob("*.safetensors"))


def pretrained_path(name: str) -> Path:
    """The file of a network by its name."""
    names = pretrained_names()
    if name not in names:
        raise FalconError(
            f"no pretrained network '{name}'; there are {', '.join(names) or 'none'} "
            "(see `falcon-snn models`)"
        )
    return models_folder() / f"{name}.safetensors"


def trained_file(name: str) -> Path:
    """A file, or that of a network that ships with Falcon, by its name."""
    ships = name in pretrained_names() and not Path(name).exists()
    return pretrained_path(name) if ships else Path(name)


def all_pretrained() -> list[Pretrained]:
    """Every network that ships with Falcon, with its facts; weights are not read."""
    paths = [pretrained_path(name) for name in pretrained_names()]
    return [Pretrained(path.stem, path, load_metadata(path)) for path in paths]
