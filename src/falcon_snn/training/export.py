"""The integer network as a file: what inference needs and nothing else (under 2 MB for Medium)."""

from dataclasses import replace
from pathlib import Path

from falcon_snn.errors import FalconError
from falcon_snn.network.convert import convert
from falcon_snn.network.integer import Snn
from falcon_snn.training.checkpoint import (
    Metadata,
    check_integers,
    load_checkpoint,
    model_of,
    prefixed,
    save_checkpoint,
    under,
)


def save_network(path: Path, snn: Snn, metadata: Metadata) -> None:
    """Write a converted network, whole or not at all."""
    save_checkpoint(path, replace(metadata, network=snn.network), prefixed("integer.", snn.tensors))


def load_network(path: Path | str, qk_prefix: int | None = None) -> tuple[Snn, Metadata]:
    """The integer network of a converted file, or of a training checkpoint by converting it.

    `qk_prefix` asks for a Q/K prefix other than the file's own.
    """
    metadata, tensors = load_checkpoint(path)
    network = metadata.network
    integers = under("integer.", tensors)
    if integers:
        if qk_prefix not in (None, network.prefix):
            raise FalconError(
                f"{path}: converted for the Q/K prefix {network.prefix}; "
                f"convert its checkpoint for {qk_prefix}"
            )
        check_integers(network, integers, path)
        return Snn(network, integers), metadata
    if qk_prefix is not None:
        network = network.with_prefix(qk_prefix)
        metadata = replace(metadata, network=network)
    return convert(model_of(metadata, tensors, path)), metadata
