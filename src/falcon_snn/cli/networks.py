"""What the commands that run a trained network share: its file, its schedule, its clips."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from falcon_snn.config import names_of
from falcon_snn.errors import FalconError

if TYPE_CHECKING:
    from falcon_snn.config import FalconConfig
    from falcon_snn.data.examples import Examples
    from falcon_snn.hardware.profile import Profile
    from falcon_snn.pipeline.schedule import Delays
    from falcon_snn.search.falcon_predictor import FalconPredictor
    from falcon_snn.search.space import Space
    from falcon_snn.training.checkpoint import Metadata

Checkpoint = typer.Option(None, "--checkpoint", help="A checkpoint, or a converted network.")
Pretrained = typer.Option(None, "--pretrained", help="A network that `falcon-snn models` lists.")


def network_file(checkpoint: Path | None, pretrained: str | None) -> Path:
    """The file that --checkpoint or --pretrained names; one of them must be given."""
    from falcon_snn.training.pretrained import pretrained_path

    if (checkpoint is None) == (pretrained is None):
        raise FalconError("give a network: either --checkpoint FILE or --pretrained NAME")
    return checkpoint if checkpoint is not None else pretrained_path(pretrained or "")


def dataset_of(examples: "Examples") -> str:
    """The kind of input: 'gsc' (mel bands) or 'ssc' (channels of the inner ear)."""
    return "ssc" if examples.x.shape[2] == 140 else "gsc"


def delays_of(schedule: str, metadata: "Metadata") -> "Delays":
    """The delays that a schedule means for a network; 'own' is what it was trained under."""
    from falcon_snn.pipeline.schedule import parse_schedule

    if schedule == "own":
        if metadata.delays is None:
            raise FalconError("this network was trained under no schedule; choose a --schedule")
        return metadata.delays
    model, dataset = names_of(metadata.config)
    return parse_schedule(schedule, metadata.config, dataset=dataset, model=model)


def load_split(data: str, split: str, limit: int | None, words: tuple[str, ...]) -> "Examples":
    """Clips of a split, if their words are the network's; `limit` takes some, evenly spaced."""
    from falcon_snn.data.examples import load_examples

    if split not in ("validation", "test"):
        raise FalconError(f"unknown split '{split}'; choose validation or test")
    examples = load_examples(data, "testing" if split == "test" else split)
    if examples.words != words:
        raise FalconError(
            f"{data}: its {len(examples.words)} words are not the {len(words)} of the network"
        )
    if limit is None or limit >= len(examples):
        return examples
    return _chosen(examples, [index * len(examples) // limit for index in range(limit)])


def _chosen(examples: "Examples", indices: Sequence[int]) -> "Examples":
    keep = list(indices)
    return replace(
        examples,
        x=examples.x[keep],
        lengths=examples.lengths[keep],
        labels=examples.labels[keep],
        names=[examples.names[index] for index in keep],
    )


def falcon_predictor(
    checkpoint: Path, data: str, split: str, *, limit: int | None, half: int | None, device: str
) -> "FalconPredictor":
    """The integer network of a checkpoint on the clips of a split, as a search asks it.

    `half` 0 or 1 keeps every other clip, from the first or from the second on.
    """
    import torch

    from falcon_snn.search.falcon_predictor import FalconPredictor
    from falcon_snn.training.export import load_network

    network, metadata = load_network(checkpoint)
    examples = load_split(data, split, limit, metadata.words)
    if half is not None:
        examples = _chosen(examples, range(half, len(examples), 2))
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    batch = 2048 if device == "cuda" else 64
    return FalconPredictor(network.to(device), examples, batch)


def falcon_space(
    config: "FalconConfig", profile: "Profile", delta_max: int, budget_us: float | None = None
) -> "Space":
    """What a search of a Falcon network may choose from; by default it stays under its QNN."""
    from falcon_snn.pipeline.batch import core_cycles_many
    from falcon_snn.pipeline.falcon_graph import falcon_graph
    from falcon_snn.pipeline.timing import qnn_cycles
    from falcon_snn.search.space import Space

    graph = falcon_graph(config)
    budget_cycles = (
        qnn_cycles(graph, profile)
        if budget_us is None
        else round(budget_us * 1000 / profile.cycle_ns)
    )
    return Space(
        graph.boundaries,
        lambda delays: core_cycles_many(graph, delays, profile),
        budget_cycles,
        delta_max,
    )
