"""`falcon-snn evaluate`: how many clips a checkpoint labels rightly."""

from pathlib import Path
from typing import Any

import typer

from falcon_snn.cli import networks
from falcon_snn.cli.output import JsonFlag, notice, out, print_json, progress_bar


def evaluate(
    checkpoint: Path | None = networks.Checkpoint,
    pretrained: str | None = networks.Pretrained,
    data: str = typer.Option("embedded", help="'embedded', a path, or a name in $FALCON_DATA."),
    schedule: str | None = typer.Option(
        None,
        help="qnn (float), fastest, balanced, accurate, full, uniform:D or a JSON file; by default "
        "what the checkpoint was trained for.",
    ),
    split: str = typer.Option("validation", help="validation or test."),
    qk_prefix: int | None = typer.Option(None, help="Slots that Q and K wait for."),
    limit: int | None = typer.Option(None, min=1, help="Only so many clips, evenly chosen."),
    backend: str = typer.Option("auto", help="auto, torch, numba or triton."),
    as_json: bool = JsonFlag,
) -> None:
    """Measure the accuracy of a network under a schedule of firing delays."""
    import torch

    from falcon_snn.errors import FalconError
    from falcon_snn.training.checkpoint import load_metadata, load_model
    from falcon_snn.training.evaluate import accuracy, qnn_predictions, snn_predictions
    from falcon_snn.training.export import load_network

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    checkpoint = networks.network_file(checkpoint, pretrained)
    metadata = load_metadata(checkpoint)
    schedule = schedule or ("qnn" if metadata.delays is None else "own")
    delays = None if schedule == "qnn" else networks.delays_of(schedule, metadata)
    examples = networks.load_split(data, split, limit, metadata.words)
    if schedule == "qnn":
        if qk_prefix is not None:
            raise FalconError("the QNN has no slots, so no Q/K prefix; choose a --schedule")
        model = load_model(checkpoint)[0].to(device)
        with progress_bar("QNN", len(examples)) as advance:
            found = qnn_predictions(model, examples, advance=advance)
    else:
        assert delays is not None
        network, metadata = load_network(checkpoint, qk_prefix)
        with progress_bar("SNN", len(examples)) as advance:
            found = snn_predictions(
                network.to(device), examples, delays, backend=backend, advance=advance
            )
    right = int((found == examples.labels).sum())
    report: dict[str, Any] = {
        "checkpoint": str(checkpoint),
        "data": data,
        "split": split,
        "schedule": schedule,
        "delays": delays,
        "slots": metadata.config.slots,
        "qk_prefix": metadata.config.prefix,
        "clips": len(examples),
        "right": right,
        "accuracy": accuracy(found, examples),
    }
    if as_json:
        print_json(report)
        return
    out.print(
        f"{report['accuracy']:.2f} % of {len(examples):,} {split} clips ({right:,} right), "
        f"schedule {schedule}, T = {report['slots']}, Q/K prefix {report['qk_prefix']}"
    )
    if limit is not None:
        notice("a part of the split only (--limit)")
