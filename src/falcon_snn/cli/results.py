"""`falcon-snn results`: what was measured on real speech, beside the paper."""

from pathlib import Path
from typing import Any

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.groups import spelled_out
from falcon_snn.cli.output import WATCH, JsonFlag, notice, out, print_json, print_table
from falcon_snn.errors import FalconError

app = typer.Typer(help="Our accuracies beside the paper's; record an experiment.")


@app.callback(invoke_without_command=True)
@spelled_out
def results(
    context: typer.Context,
    plot: options.Pictures = options.picture(
        "--plot", "Draw accuracy against latency, with the paper's points"
    ),
    setting: str | None = typer.Option(
        None, help="The network that --plot draws (default: gsc-medium)."
    ),
    folder: list[Path] = typer.Option(
        [], "--from", help="A folder of results; they replace shipped ones of the same name."
    ),
    as_json: bool = JsonFlag,
) -> None:
    """Print our figures, the paper's and the latency of each configuration."""
    if context.invoked_subcommand is not None:
        return
    from falcon_snn.report.measurements import load_replaced
    from falcon_snn.report.results_figure import draw_results
    from falcon_snn.report.results_table import differences, results_table

    if setting is not None and plot.path is None:
        raise FalconError("--setting is what --plot draws; add --plot")
    found = load_replaced(folder)
    plot.draw(draw_results, found, "gsc-medium" if setting is None else setting)
    rows = results_table(found)
    if as_json:
        print_json(rows)
        return
    for name in dict.fromkeys(row["setting"] for row in rows):
        group = [row for row in rows if row["setting"] == name]
        data = sorted({row["data"] for row in group} - {None}) or ["nothing run"]
        print_table(
            "configuration | >test % | >95 %, or seeds | >paper | µs | >paper | epochs",
            "{configuration} | {test} | {spread} | {paper_test_percent:.2f} | {latency_us:.2f} | "
            "{paper_latency_us:.2f} | {epochs}",
            [row | {"test": _test(row), "spread": _spread(row)} for row in group],
            title=f"{name}, ours on {' and '.join(data)}", title_justify="left",
        )  # fmt: skip
        for line in differences(group):
            out.print(line)
    out.print(
        "An interval says what other clips might give; of several seeds, mean and range are shown. "
        "The paper's accuracies are on other data: GSC v2 and SSC, 35 words each."
    )


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
    from falcon_snn.report.results import write_result
    from falcon_snn.workflow.recording import record as record_result

    result = record_result(folder, setting, configuration, data, attention=attention,
                           before=before, noise=noise, watch=WATCH)  # fmt: skip
    path = target / result.file_name
    write_result(path, result)
    out.print(f"{path}: test {result.test_percent:.2f} %, {result.latency_us:.2f} µs",
              soft_wrap=True)  # fmt: skip
    notice(f"validation {result.validation_percent:.2f} %, {result.epochs} epochs")


def _test(row: dict[str, Any]) -> str:
    from falcon_snn.report.exhibit import NOT_RUN

    if row["test_percent"] is not None:
        return f"{row['test_percent']:.2f}"
    return "not read" if row["seeds"] else NOT_RUN


def _spread(row: dict[str, Any]) -> str:
    """The interval of a single seed, or how many there are and their range."""
    if row["test_range"] is not None:
        low, high = row["test_range"]
        return f"{row['seeds']}: {low:.2f}..{high:.2f}"
    if row["test_interval"] is None:
        return "-"
    low, high = row["test_interval"]
    return f"{low:.2f}..{high:.2f}"
