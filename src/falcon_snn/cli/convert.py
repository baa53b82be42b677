"""`falcon-snn convert`: from a trained QNN to the integer SNN, with a report and a check."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from falcon_snn.cli.output import JsonFlag, notice, out, print_json, progress_bar


def convert(
    checkpoint: Path = typer.Option(..., help="A checkpoint of `falcon-snn train` or `adapt`."),
    target: Path = typer.Option(..., "--out", help="File for the converted network."),
    data: str | None = typer.Option(None, help="Clips to check the conversion on."),
    split: str = typer.Option("validation", help="validation or test."),
    limit: int | None = typer.Option(None, min=1, help="Check only so many clips."),
    qk_prefix: int | None = typer.Option(None, help="Slots that Q and K wait for."),
    backend: str = typer.Option("auto", help="auto, torch, numba or triton."),
    as_json: bool = JsonFlag,
) -> None:
    """Convert a checkpoint to integers; with --data, check it against the QNN stage by stage."""
    from falcon_snn.network.convert import conversion_report
    from falcon_snn.network.convert import convert as convert_model
    from falcon_snn.training.checkpoint import load_model
    from falcon_snn.training.export import save_network

    model, metadata = load_model(checkpoint)
    network = convert_model(model, qk_prefix)
    rows = conversion_report(network)
    checked: dict[str, Any] | None = None
    if data is not None:
        checked = check_conversion(model, network, data, split, limit, backend, metadata.words)
    save_network(target, network, metadata)
    if as_json:
        print_json({"stages": [asdict(row) for row in rows], "check": checked, "out": str(target)})
        return
    from rich.table import Table

    table = Table("stage", "kind", "neurons", "scale", "static term", "threshold")
    for row in rows:
        ranges = (
            f"{low:.4g} .. {high:.4g}" for low, high in (row.scale, row.static, row.threshold)
        )
        table.add_row(row.name, row.kind, str(row.neurons), *ranges)
    out.print(table)
    if checked is not None:
        out.print(
            f"checked on {checked['clips']:,} clips: counts and predictions of full lookahead are "
            f"those of the QNN; the float QNN decides otherwise on {checked['float_differs']:,}"
        )
    notice(f"{target}: {target.stat().st_size:,} bytes")


def check_conversion(
    model: Any, network: Any, data: str, split: str, limit: int | None, backend: str,
    words: tuple[str, ...],
) -> dict[str, Any]:  # fmt: skip
    """Full lookahead against the QNN in integers, and against the float QNN of training."""
    import torch

    from falcon_snn.cli.networks import load_split
    from falcon_snn.network.convert import check
    from falcon_snn.training.evaluate import accuracy, batches, qnn_predictions

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    examples = load_split(data, split, limit, words)
    moved = network.to(device)
    found = []
    with progress_bar("check", len(examples)) as advance:
        for x, lengths in batches(examples, device):
            found.append(check(moved, x, lengths, backend).cpu())
            advance(len(x))
    floats = qnn_predictions(model.to(device), examples)
    model.cpu()
    predictions = torch.cat(found)
    return {
        "data": data,
        "split": split,
        "clips": len(examples),
        "differing_counts": 0,
        "differing_predictions": 0,
        "float_differs": int((predictions != floats).sum()),
        "accuracy": accuracy(predictions, examples),
        "float_accuracy": accuracy(floats, examples),
    }
