"""The integer network as a file: what inference needs and nothing else (under 2 MB for Medium)."""

from dataclasses import replace
from pathlib import Path

from falcon_snn.network.convert import convert
from falcon_snn.network.integer import Snn
from falcon_snn.network.qnn import with_prefix
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
    network, integers = metadata.network, under("integer.", tensors)
    if integers and qk_prefix in (None, network.prefix):
        check_integers(network, integers, path)
        return Snn(network, integers), metadata
    model = model_of(metadata, tensors, path)
    if qk_prefix is not None:
        model = with_prefix(model, qk_prefix)
    return convert(model), replace(metadata, network=model.network)
