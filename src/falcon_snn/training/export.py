"""The integer network as a file: what inference needs and nothing else (under 2 MB for Medium)."""

from dataclasses import replace
from pathlib import Path

from falcon_snn.errors import FalconError
from falcon_snn.network.convert import convert
from falcon_snn.network.integer import IntegerFalcon
from falcon_snn.training.checkpoint import (
    Metadata,
    load_checkpoint,
    model_of,
    prefixed,
    save_checkpoint,
    under,
)


def save_network(path: Path, network: IntegerFalcon, metadata: Metadata) -> None:
    """Write a converted network, whole or not at all."""
    tensors = prefixed("integer.", network.tensors)
    save_checkpoint(path, replace(metadata, config=network.config), tensors)


def load_network(path: Path | str, qk_prefix: int | None = None) -> tuple[IntegerFalcon, Metadata]:
    """The integer network of a converted file, or of a training checkpoint by converting it.

    `qk_prefix` asks for another Q/K prefix than the file's own.
    """
    metadata, tensors = load_checkpoint(path)
    integers = under("integer.", tensors)
    if not integers:
        network = convert(model_of(metadata, tensors, path), qk_prefix)
        network = replace(network, encoding=metadata.recipe["encoding"])
    else:
        network = IntegerFalcon(metadata.config, integers, metadata.recipe["encoding"])
        if qk_prefix not in (None, metadata.config.prefix):
            raise FalconError(
                f"{path}: converted for the Q/K prefix {metadata.config.prefix}; "
                f"convert its checkpoint for {qk_prefix}"
            )
    return network, replace(metadata, config=network.config)
