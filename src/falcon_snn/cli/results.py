"""`falcon-snn results`: what was measured on real speech, beside the paper."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, notice, out, print_json, progress_bar
from falcon_snn.errors import FalconError

if TYPE_CHECKING:
    from falcon_snn.report.results import PhaseOfResult

app = typer.Typer(help="Our accuracies beside the paper's; record an experiment.")


@app.callback(invoke_without_command=True)
def results(
    context: typer.Context,
    plot: Path | None = typer.Option(
        None, help="Draw accuracy against latency, with the paper's points: .png, .svg or .pdf."
    ),
    setting: str = typer.Option("gsc-medium", help="The network that --plot draws."),
    folder: list[Path] = typer.Option(
        [], "--from", help="A folder of `results record`, besides what is shipped; may be repeated."
    ),
    style: str = options.Style,
    formats: str | None = options.Formats,
    as_json: bool = JsonFlag,
) -> None:
    """Print our figures, the paper's and the latency of each configuration."""
    if context.invoked_subcommand is not None:
        return
    from falcon_snn.report.results import PAPER_DATA, load_results, table

    found = load_results()
    for place in folder:
        found += load_results(place)
    if plot is not None:
        from falcon_snn.report.results_figure import draw_results
        from falcon_snn.report.style import drawn_as

        with drawn_as(style, formats):
            draw_results(found, setting, plot)
        notice(f"drawn: {plot}")
    rows = table(found)
    if as_json:
        print_json(rows)
        return
    from rich.table import Table

    for name in dict.fromkeys(row["setting"] for row in rows):
        group = [row for row in rows if row["setting"] == name]
        data = sorted({row["data"] for row in group} - {None}) or ["nothing run"]
        shown = Table(title=f"{name}, ours on {' and '.join(data)}", title_justify="left")
        shown.add_column("configuration", no_wrap=True)
        for heading in ("test %", "seeds", "paper", "µs", "paper", "epochs"):
            shown.add_column(heading, justify="right", no_wrap=True)
        for row in group:
            shown.add_row(
                row["configuration"], _test(row), _seeds(row), _figure(row["paper_test_percent"]),
                _figure(row["latency_us"]), _figure(row["paper_latency_us"]),
                _whole(row["epochs"]),
            )  # fmt: skip
        out.print(shown)
    out.print(f"The paper's accuracies are on other data: {PAPER_DATA}.")


@app.command("record")
def record(
    folder: Path = typer.Argument(help="The --out folder of `falcon-snn train` or `adapt`."),
    setting: str = typer.Option(..., help="The paper's network beside ours, such as gsc-medium."),
    configuration: str = typer.Option(..., help="qnn, full, fastest, balanced, prefix-3, ..."),
    data: str = typer.Option(..., help="The data set that it was trained on."),
    attention: str = typer.Option("serial", help="serial (the paper) or streamed."),
    before: Path | None = typer.Option(
        None, help="The checkpoint that the adaptation began with, to measure it, too."
    ),
    noise: list[float] = typer.Option(
        [], help="Measure under noise at this ratio in dB, too; may be repeated."
    ),
    target: Path = typer.Option(Path("results"), "--out", help="Folder for the result."),
) -> None:
    """Read the test accuracy of a trained network, once, and keep it as a result."""
    from falcon_snn.report.provenance import commit, machine, versions
    from falcon_snn.report.results import Result, write_result
    from falcon_snn.training.checkpoint import load_metadata

    checkpoint = folder / "best.safetensors"
    metadata = load_metadata(checkpoint)
    delays, network = metadata.delays, metadata.network
    if configuration == "full":
        delays = dict.fromkeys(network.boundaries, network.slots)
    prefix = None if network.prefix == network.slots else network.prefix
    test, clips = _accuracy(checkpoint, data, "test", delays, None)
    result = Result(
        setting=setting,
        configuration=configuration,
        data=data,
        words=len(metadata.words),
        network=network,
        delays=delays,
        attention=attention,
        seed=metadata.seed,
        commit=commit(),
        versions=versions(),
        machine=machine(),
        phases=_phases(folder),
        validation_percent=_accuracy(checkpoint, data, "validation", delays, None)[0],
        test_percent=test,
        test_clips=clips,
        validation_before_percent=None
        if before is None
        else _accuracy(before, data, "validation", delays, prefix)[0],
        test_before_percent=None
        if before is None
        else _accuracy(before, data, "test", delays, prefix)[0],
        noise_percent={
            f"{db:g}": _accuracy(checkpoint, data, "test", delays, None, db)[0] for db in noise
        }
        or None,
        noise_clips=clips if noise else 0,
    )
    name = f"{setting}-{configuration}-seed{metadata.seed}.json"
    path = target / name
    write_result(path, result)
    out.print(f"{path}: test {test:.2f} %, {result.latency_us:.2f} µs", soft_wrap=True)
    notice(f"validation {result.validation_percent:.2f} %, {result.epochs} epochs")


def _accuracy(
    checkpoint: Path, data: str, split: str, delays: dict[str, int] | None, qk_prefix: int | None,
    noise_db: float | None = None,
) -> tuple[float, int]:  # fmt: skip
    """Accuracy in percent, of the QNN if there are no delays, and the number of clips."""
    import torch

    from falcon_snn.training.checkpoint import load_metadata, load_model
    from falcon_snn.training.evaluate import accuracy, qnn_predictions, snn_predictions
    from falcon_snn.training.export import load_network
    from falcon_snn.workflow.sources import load_split

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    examples = load_split(data, split, None, load_metadata(checkpoint).words, noise_db)
    with progress_bar(f"{checkpoint.parent.name}, {split}", len(examples)) as advance:
        if delays is None:
            model = load_model(checkpoint)[0].to(device)
            found = qnn_predictions(model, examples, advance=advance)
        else:
            network = load_network(checkpoint, qk_prefix)[0].to(device)
            found = snn_predictions(network, examples, delays, advance=advance)
    return accuracy(found, examples), len(examples)


def _phases(folder: Path) -> "list[PhaseOfResult]":
    """Recipe, teachers and curve of each phase that trained in the folder."""
    from falcon_snn.report.results import teachers_in
    from falcon_snn.report.training_curves import read_phases
    from falcon_snn.training.checkpoint import load_metadata
    from falcon_snn.training.recipe import PHASES

    alone = (folder / "curves.jsonl").exists()
    places = {"qnn": folder} if alone else {name: folder / name for name in ("qnn", *PHASES)}
    phases: list[PhaseOfResult] = []
    for name, place in places.items():
        if not (place / "curves.jsonl").exists():
            continue
        (curve,) = read_phases(place.parent, [place.name])
        best = load_metadata(place / "best.safetensors")
        phases.append({"name": name, "recipe": best.recipe, "teachers": teachers_in(best.facts),
                       "validation_percent": list(curve.validation_percent)})  # fmt: skip
    if not phases:
        raise FalconError(f"{folder}: holds no curves.jsonl; give the --out of train or adapt")
    return phases


def _test(row: dict[str, Any]) -> str:
    from falcon_snn.report.exhibit import NOT_RUN

    if row["test_percent"] is not None:
        return f"{row['test_percent']:.2f}"
    return "not read" if row["seeds"] else NOT_RUN


def _seeds(row: dict[str, Any]) -> str:
    """How many, and the range of their test accuracies."""
    if row["test_range"] is None:
        return _whole(row["seeds"] or None)
    low, high = row["test_range"]
    return f"{row['seeds']}: {low:.2f} .. {high:.2f}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _whole(value: int | None) -> str:
    return "-" if value is None else str(value)
