"""A Falcon network as a predictor: the one place where the search meets a checkpoint."""

from pathlib import Path

from falcon_snn.config import FalconConfig
from falcon_snn.search.predictor import Predictor


def checkpoint_config(checkpoint: Path) -> FalconConfig:
    """The shape of the network in a checkpoint, from its header alone."""
    raise NotImplementedError


def falcon_predictor(
    checkpoint: Path, data: str, split: str, *, limit: int | None, half: int | None, device: str
) -> Predictor:
    """The converted network of a checkpoint on the clips of a split.

    `limit` keeps the first clips only; `half` 0 or 1 keeps every other clip, from the first or
    from the second on.
    """
    raise NotImplementedError
