"""What a job depends on: its data, its checkpoint, its chip; one fingerprint for all jobs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from falcon_snn.errors import FalconError
from falcon_snn.files import sha256_of

if TYPE_CHECKING:
    import torch

    from falcon_snn.data.examples import Examples
    from falcon_snn.hardware.profile import Profile

Data = str | Path | Mapping[str, Any]  # a source, or the arrays of an .npz file by name
DEVICES = ("auto", "cpu", "cuda")
SPLITS = {"training": "training", "validation": "validation", "test": "testing"}


def device(name: str = "auto") -> "torch.device":
    """The device by its name in DEVICES; auto is the GPU if there is one."""
    import torch

    if name not in DEVICES:
        raise FalconError(f"--device is '{name[:40]}'; choose one of {', '.join(DEVICES)}")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise FalconError("--device is cuda, but torch sees no GPU here; choose cpu")
    return torch.device(name)


def data_source(data: Data) -> str:
    """The source as text; arrays are kept in the cache under a name made from their content."""
    if not isinstance(data, Mapping):
        return str(data)
    from falcon_snn.data.cache import cache_folder, key_of
    from falcon_snn.files import replacing

    arrays = {name: np.ascontiguousarray(array) for name, array in data.items()}
    key = key_of(
        part
        for name, array in sorted(arrays.items())
        for part in (f"{name} {array.dtype} {array.shape}", array.tobytes())
    )
    path = cache_folder() / f"{key}.npz"
    if not path.exists():
        with replacing(path) as temporary:
            np.savez(temporary, allow_pickle=False, **arrays)
    return str(path)


def load_split(
    data: Data, split: str, limit: int | None = None, words: Sequence[str] | None = None,
    noise_db: float | None = None,
) -> "Examples":  # fmt: skip
    """Clips of a split, if their classes are the network's; `limit` takes some, evenly spaced.

    Of a set of more words, those of the network, with unknown words and silence if it knows them.

    With `noise_db`, noise is added at that ratio of signal to noise.
    """
    from falcon_snn.data.task import examples_for

    if split not in SPLITS:
        raise FalconError(f"unknown split '{split[:40]}'; choose validation or test")
    if limit is not None and limit < 1:
        raise FalconError(f"a limit of {limit} clips; it must be 1 or more")
    source = data_source(data)
    examples = examples_for(source, SPLITS[split], words)
    if words is not None and tuple(examples.words) != tuple(words):
        raise FalconError(
            f"{data}: its {len(examples.words)} classes are not the network's {len(words)}"
        )
    keep: Sequence[int] = range(len(examples))
    if limit is not None and limit < len(examples):
        keep = [index * len(examples) // limit for index in range(limit)]
        examples = chosen(examples, keep)
    if noise_db is None:
        return examples
    from falcon_snn.data.noise import with_noise

    return with_noise(source, SPLITS[split], examples, keep, noise_db)


def chosen(examples: "Examples", indices: Iterable[int]) -> "Examples":
    """Some of the clips, in the order of the indices."""
    keep = list(indices)
    return replace(
        examples,
        x=examples.x[keep],
        lengths=examples.lengths[keep],
        labels=examples.labels[keep],
        names=[examples.names[index] for index in keep],
    )


def fingerprint(
    data: Data, *, start: Path | None = None, profile: "Profile | None" = None, **settings: Any
) -> dict[str, Any]:  # fmt: skip
    """All that the result of a job depends on; a job of another fingerprint is not continued."""
    from falcon_snn.data.examples import data_key
    from falcon_snn.hardware.profile import profile_toml

    source = data_source(data)
    facts: dict[str, Any] = {"data": {"source": source, "key": data_key(source)}, **settings}
    if start is not None:
        facts["start"] = sha256_of(start)
    if profile is not None:
        facts["hardware"] = {"name": profile.name, "toml": profile_toml(profile)}
    return facts
