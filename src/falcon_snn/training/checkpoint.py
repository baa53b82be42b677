"""Checkpoints: safetensors whose header carries JSON; whole or not at all, no pickle.

Tensors are named by what they are for:

    model.*    the network as it was validated (the moving average where there is one)
    raw.*      the network as it is being trained, only beside a moving average
    first.*, second.*   the optimiser's moments, in `last.safetensors` only
    integer.*  the converted network (`export.py`), alone in its file

Random numbers come from the seed and the number of the epoch, so no generator's state is kept.
"""

import json
import platform
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

import falcon_snn
from falcon_snn.config import FalconConfig
from falcon_snn.errors import FalconError
from falcon_snn.files import replacing
from falcon_snn.network.model import Falcon
from falcon_snn.network.teacher import Teacher

FORMAT = 1


@dataclass(frozen=True)
class Metadata:
    """What the header of a checkpoint says about it."""

    config: FalconConfig
    words: tuple[str, ...]
    recipe: dict[str, Any]
    epoch: int  # epochs done
    seed: int
    metrics: dict[str, float]
    delays: dict[str, int] | None = None  # the schedule that a spiking phase trained under
    facts: dict[str, Any] = field(default_factory=dict)  # data source, initial checkpoint
    teacher: bool = False  # no Falcon network, but a teacher of one with this configuration

    def as_json(self) -> str:
        versions = {
            "falcon-snn": falcon_snn.__version__,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        }
        return json.dumps({"format": FORMAT, **asdict(self), "versions": versions})


def save_checkpoint(path: Path, metadata: Metadata, tensors: dict[str, Tensor]) -> None:
    """Write a checkpoint, whole or not at all."""
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replacing(path) as temporary:
        save_file(held, temporary, metadata={"falcon": metadata.as_json()})


def load_checkpoint(path: Path | str) -> tuple[Metadata, dict[str, Tensor]]:
    """Read a checkpoint; a file cut short or of another kind is one clear line."""
    return _read(path, tensors=True)


def load_metadata(path: Path | str) -> Metadata:
    """What a checkpoint says about itself, without its tensors."""
    return _read(path, tensors=False)[0]


def _read(path: Path | str, *, tensors: bool) -> tuple[Metadata, dict[str, Tensor]]:
    if not Path(path).is_file():
        raise FalconError(f"{path}: no such checkpoint")
    try:
        with safe_open(path, framework="pt") as file:
            header = (file.metadata() or {}).get("falcon")
            names = file.keys() if tensors else ()
            held = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as error:
        raise FalconError(f"{path}: cut short or no checkpoint ({error})") from None
    if header is None:
        raise FalconError(f"{path}: holds tensors, but no Falcon checkpoint")
    return _parse_metadata(header, path), held


def _parse_metadata(header: str, path: Path | str) -> Metadata:
    try:
        values = json.loads(header)
        if values.pop("format") != FORMAT:
            raise FalconError(f"{path}: written by another version of Falcon; train it again")
        values.pop("versions")
        known = {field.name for field in fields(FalconConfig)}
        config = {key: value for key, value in values.pop("config").items() if key in known}
        words = tuple(values.pop("words"))
        return Metadata(config=FalconConfig(**config), words=words, **values)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FalconError(f"{path}: its header cannot be understood ({error})") from None


def load_model(path: Path | str, qk_prefix: int | None = None) -> tuple[Falcon, Metadata]:
    """The network of a checkpoint, as it was validated, and what the checkpoint says about it.

    `qk_prefix` asks for another Q/K prefix than the one it was trained with.
    """
    metadata, tensors = load_checkpoint(path)
    if qk_prefix is not None:
        metadata = replace(metadata, config=replace(metadata.config, qk_prefix=qk_prefix))
    return model_of(metadata, tensors, path), metadata


def model_of(metadata: Metadata, tensors: dict[str, Tensor], path: Path | str) -> Falcon:
    """The network that a checkpoint's tensors describe, ready for inference."""
    weights = under("model.", tensors)
    if not weights:
        raise FalconError(f"{path}: a converted network cannot be trained; give its checkpoint")
    if metadata.teacher:
        raise FalconError(f"{path}: a teacher, which never spikes; it serves as --teacher only")
    model = Falcon(metadata.config)
    load_weights(model, weights, path)
    return model.eval()


def load_teacher(path: Path | str) -> tuple[Falcon | Teacher, Metadata]:
    """A network to distil from: a teacher's checkpoint or one of Falcon."""
    metadata, tensors = load_checkpoint(path)
    if not metadata.teacher:
        return model_of(metadata, tensors, path), metadata
    teacher = Teacher(metadata.config)
    load_weights(teacher, under("model.", tensors), path)
    return teacher.eval(), metadata


def load_weights(model: nn.Module, weights: dict[str, Tensor], path: Path | str) -> None:
    """Put weights into a model; the first that does not fit is named."""
    wanted = model.state_dict()
    for name in sorted(wanted.keys() | weights.keys()):
        if name not in weights:
            raise FalconError(f"{path}: lacks '{name}', which this network has")
        if name not in wanted:
            raise FalconError(f"{path}: holds '{name}', which this network has not")
        if wanted[name].shape != weights[name].shape:
            shapes = f"{list(weights[name].shape)}, not {list(wanted[name].shape)}"
            raise FalconError(f"{path}: '{name}' has the shape {shapes}: another configuration")
    model.load_state_dict(weights)


def demand_same(path: Path | str, what: str, held: Any, wanted: Any) -> None:
    """Refuse a checkpoint of another run; name the first difference."""
    if held == wanted:
        return
    if isinstance(held, dict) and isinstance(wanted, dict):
        for key in sorted(held.keys() | wanted.keys()):
            if held.get(key) != wanted.get(key):
                what, held, wanted = f"{what} '{key}'", held.get(key), wanted.get(key)
                break
    raise FalconError(f"{path}: made with another {what} ({held}) than asked for ({wanted})")


def demand_words(path: Path | str, held: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    """Refuse a checkpoint of other words; name some, since all are too long a line."""
    if held != wanted:
        only = sorted(set(held) ^ set(wanted))[:3]
        more = f"{len(wanted)}; only one has {', '.join(only)}" if only else "another order"
        demand_same(path, "word list", f"{len(held)} words", more)


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with the prefix, without it."""
    return {name[len(prefix) :]: t for name, t in tensors.items() if name.startswith(prefix)}


def prefixed(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors with the prefix before their names."""
    return {prefix + name: tensor for name, tensor in tensors.items()}
