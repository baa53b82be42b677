"""Checkpoints: safetensors whose header carries JSON; whole or not at all, no pickle.

Tensors are named by what they are for:

    model.*    the network as it was validated (the moving average where there is one)
    raw.*      the network as it is being trained, only where there is a moving average
    first.*, second.*   the optimiser's moments, in `last.safetensors` only
    integer.*  the converted network (`export.py`), alone in its file

Random numbers come from the seed and the number of the epoch, so no generator's state is kept.
"""

import json
import platform
from dataclasses import dataclass, field, fields, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

import falcon_snn
from falcon_snn.errors import FalconError
from falcon_snn.files import demand_utf8, parse_json, replacing
from falcon_snn.network.convert import convert
from falcon_snn.network.description import Network, network_from_json, weights_of
from falcon_snn.network.integer import Snn
from falcon_snn.network.qnn import Qnn, with_prefix
from falcon_snn.network.restore import restore
from falcon_snn.network.teacher import Teacher
from falcon_snn.pipeline.schedule import complete

FORMAT = 2
MARK = b'{"__metadata__":{"falcon":'  # how the header of a checkpoint begins


@dataclass(frozen=True)
class Metadata:
    """What the header of a checkpoint says about it."""

    network: Network
    words: tuple[str, ...]
    recipe: dict[str, Any]
    epoch: int  # epochs done
    seed: int
    metrics: dict[str, float]
    delays: dict[str, int] | None = None  # the schedule that a spiking phase trained under
    facts: dict[str, Any] = field(default_factory=dict)  # data source, initial checkpoint
    teacher: bool = False  # not the network itself, but a float teacher of it

    def as_json(self) -> str:
        versions = {
            "falcon-snn": falcon_snn.__version__,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        }
        facts = {each.name: getattr(self, each.name) for each in fields(self)}
        facts["network"] = self.network.as_json()
        return json.dumps({"format": FORMAT, **facts, "versions": versions})


def save_checkpoint(path: Path, metadata: Metadata, tensors: dict[str, Tensor]) -> None:
    """Write a checkpoint, whole or not at all."""
    demand_utf8(path)
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replacing(path, SafetensorError) as temporary:
        save_file(stored, temporary, metadata={"falcon": metadata.as_json()})


def load_checkpoint(path: Path | str) -> tuple[Metadata, dict[str, Tensor]]:
    """Read a checkpoint; a file cut short or of another kind gives one clear line."""
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
            found = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as error:
        raise FalconError(f"{path}: cut short or not a checkpoint ({error})") from None
    if header is None:
        raise FalconError(f"{path}: holds tensors, but is not a Falcon checkpoint")
    return _parse_metadata(header, path), found


def _parse_metadata(header: str, path: Path | str) -> Metadata:
    try:
        values = parse_json(header, path)
        found = values.pop("format")
        if found != FORMAT:
            raise FalconError(
                f"{path}: written in format {found!s:.20}, this version reads {FORMAT}; "
                "train it again, or use a network that `falcon-snn models` lists"
            )
        values.pop("versions")
        network = network_from_json(values.pop("network"))
        metadata = Metadata(network=network, words=tuple(values.pop("words")), **values)
    except FalconError as error:
        raise FalconError(str(error) if str(path) in str(error) else f"{path}: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FalconError(f"{path}: its header cannot be understood ({error!s:.80})") from None
    _check_metadata(metadata, path)
    return metadata


def _check_metadata(metadata: Metadata, path: Path | str) -> None:
    """What later code relies on: types, as many words as classes, delays that fit."""
    network, words, delays = metadata.network, metadata.words, metadata.delays
    good = (
        all(isinstance(word, str) for word in words)
        and isinstance(metadata.recipe, dict)
        and isinstance(metadata.metrics, dict)
        and isinstance(metadata.facts, dict)
        and type(metadata.epoch) is type(metadata.seed) is int
        and isinstance(metadata.teacher, bool)
        and (delays is None or isinstance(delays, dict))
    )
    if not good:
        raise FalconError(f"{path}: its header holds values of the wrong kind")
    if len(words) != network.classes:
        raise FalconError(f"{path}: names {len(words)} classes, its network has {network.classes}")
    if len(set(words)) < len(words):
        raise FalconError(f"{path}: two of its classes have the same name")
    if delays is not None:
        complete(delays, network.boundaries, network.slots, str(path))


def load_model(path: Path | str, qk_prefix: int | None = None) -> tuple[Qnn, Metadata]:
    """The network of a checkpoint, as it was validated, and what the checkpoint says about it.

    A converted network gets parameters again (`network.restore`). `qk_prefix` asks for a Q/K prefix
    other than the one it was trained with.
    """
    metadata, tensors = load_checkpoint(path)
    model = model_of(metadata, tensors, path)
    if qk_prefix is not None:
        model = with_prefix(model, qk_prefix)
    return model, replace(metadata, network=model.network)


def model_of(metadata: Metadata, tensors: dict[str, Tensor], path: Path | str) -> Qnn:
    """The network that a checkpoint's tensors describe, ready for inference."""
    if metadata.teacher:
        raise FalconError(f"{path}: a teacher, which never spikes; it serves as --teacher only")
    weights = under("model.", tensors)
    if integers := under("integer.", tensors):
        check_integers(metadata.network, integers, path)
        weights = restore(Snn(metadata.network, integers)).state_dict()
    model = Qnn(metadata.network)
    load_weights(model, weights, path)
    return model.eval()


def load_teacher(path: Path | str) -> tuple[Qnn | Teacher, Metadata]:
    """A network to distil from: a teacher's checkpoint or that of a QNN."""
    metadata, tensors = load_checkpoint(path)
    if not metadata.teacher:
        return model_of(metadata, tensors, path), metadata
    teacher = Teacher(metadata.network)
    load_weights(teacher, under("model.", tensors), path)
    return teacher.eval(), metadata


def load_weights(model: nn.Module, weights: dict[str, Tensor], path: Path | str) -> None:
    """Put weights into a model; the first that does not fit is named."""
    check_tensors(model.state_dict(), weights, path)
    for name, tensor in weights.items():
        least = {"threshold": 1e-6, "running_var": 0.0}.get(name.rpartition(".")[2])
        if least is not None and bool((tensor < least).any()):
            raise FalconError(f"{path}: '{name}' must be above 0")
    model.load_state_dict(weights)


def check_integers(network: Network, tensors: dict[str, Tensor], path: Path | str) -> None:
    """Refuse integers that conversion of this network could not have given."""
    # Shapes and types come from a network of random weights. Where the file has fewer numbers than
    # that would take, it has no memory: "meta", which takes torch a second to load.
    enough = sum(tensor.numel() for tensor in tensors.values()) >= weights_of(network)
    with torch.device("cpu" if enough else "meta"), torch.random.fork_rng(devices=[]):
        wanted = convert(Qnn(network)).tensors
    check_tensors(wanted, tensors, path)
    for name, tensor in tensors.items():
        if name.endswith((".threshold", ".grid")) and bool((tensor <= 0).any()):
            raise FalconError(f"{path}: '{name}' must be above 0")
        if name.endswith(".shift") and bool(((tensor < 0) | (tensor > 24)).any()):
            raise FalconError(f"{path}: '{name}' must lie in 0..24")
        if name.endswith(".curve.table"):  # kernels stop at its ends
            ends = tensor[:, 0] + tensor[:, -1]
            rising = bool((tensor[:, 1:] >= tensor[:, :-1]).all())
            if not rising or bool(ends.any()) or bool((tensor[:, -1] != 2**31 - 1).any()):
                raise FalconError(f"{path}: '{name}' must rise from end to end")


def check_tensors(wanted: dict[str, Tensor], found: dict[str, Tensor], path: Path | str) -> None:
    """Names, shapes, types and finite values; the first fault is named."""
    for name in sorted(wanted.keys() | found.keys()):
        if name not in found:
            raise FalconError(f"{path}: lacks '{name}', which this network has")
        if name not in wanted:
            raise FalconError(f"{path}: holds '{name[:80]}', which this network does not have")
        one, other = found[name], wanted[name]
        if one.shape != other.shape:
            shapes = f"{list(one.shape)}, not {list(other.shape)}"
            raise FalconError(f"{path}: '{name}' has the shape {shapes}: another configuration")
        if one.dtype != other.dtype:
            raise FalconError(f"{path}: '{name}' is {one.dtype}, not {other.dtype}")
        if one.is_floating_point() and not bool(one.isfinite().all()):
            raise FalconError(f"{path}: '{name}' holds values that are not finite")


def demand_same_network(path: Path | str, found: Network, wanted: Network) -> None:
    """Refuse a checkpoint of another network; name the first stage that differs."""
    if found == wanted:
        return
    for key in ("name", "slots", "weight_bits"):
        demand_same(path, f"network {key}", getattr(found, key), getattr(wanted, key))
    pairs = zip_longest(found.stages, wanted.stages)
    one, other = next((one, other) for one, other in pairs if one != other)
    demand_same(path, "network: stage", one and one.name, other and other.name)
    raise FalconError(f"{path}: made with another stage '{one.name}'")


def demand_same(path: Path | str, what: str, found: Any, wanted: Any) -> None:
    """Refuse a checkpoint of another run; name the first difference."""
    if found == wanted:
        return
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in sorted(found.keys() | wanted.keys()):
            if found.get(key) != wanted.get(key):
                what, found, wanted = f"{what} '{key}'", found.get(key), wanted.get(key)
                break
    raise FalconError(f"{path}: made with {what} {found}, not {wanted}")


def demand_words(path: Path | str, found: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    """Refuse a checkpoint of other classes; name some, since all would make too long a line."""
    if found != wanted:
        only = sorted(set(found) ^ set(wanted))[:3]
        some = f"{len(wanted)} (only one has {', '.join(only)})" if only else "in this order"
        raise FalconError(f"{path}: made with {len(found)} classes, not {some}")


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with the prefix, without it."""
    return {name[len(prefix) :]: t for name, t in tensors.items() if name.startswith(prefix)}


def prefixed(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors with the prefix before their names."""
    return {prefix + name: tensor for name, tensor in tensors.items()}
