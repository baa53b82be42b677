"""`falcon-snn sweep`: move one value, or ask which of the paper's claims survive."""

from pathlib import Path

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, notice, out, print_json
from falcon_snn.errors import FalconError
from falcon_snn.network.falcon import MODELS, falcon_config
from falcon_snn.pipeline.sweep import parse_values
from falcon_snn.workflow import sweep as sweeps


def sweep(
    key: str = typer.Argument("", help="A hardware or network key, a boundary's name, or delay."),
    values: str = typer.Argument("", help="1,2,4 or FIRST:LAST or FIRST:LAST:STEP."),
    claims: bool = typer.Option(
        False, "--claims", help="Move the inferred constants and test the paper's conclusions."
    ),
    network: str = options.Network,
    dataset: str = options.Dataset,
    schedule: str | None = options.Schedule,
    delay: list[str] = options.DelayChanges,
    qk_prefix: int | None = options.QkPrefix,
    slots: int | None = options.Slots,
    hardware: str | None = options.Hardware,
    attention: str | None = options.Attention,
    graph: Path | None = options.GraphFile,
    checkpoint: Path | None = options.Checkpoint,
    pretrained: str | None = options.Pretrained,
    plot: Path | None = typer.Option(None, "--plot", help="Draw the sweep: .png, .svg or .pdf."),
    style: str = options.Style,
    formats: str | None = options.Formats,
    as_json: bool = JsonFlag,
) -> None:
    """Move any value of hardware, network or schedule over a range and time SNN and QNN."""
    profile = options.choose_profile(hardware, attention)
    if claims:
        _claims(sweeps.examine_claims(profile), as_json)
        return
    if not key or not values:
        raise FalconError(
            "name a key and its values, for instance: falcon-snn sweep tile_rows 9:45:9"
        )
    swept = (
        falcon_config(network, dataset, slots=7 if slots is None else slots, qk_prefix=qk_prefix)
        if network in MODELS and (graph, checkpoint, pretrained) == (None, None, None)
        else options.choose_network(
            network, dataset, graph, checkpoint, pretrained, slots, qk_prefix
        )
    )
    setup = sweeps.Setup(swept, profile, schedule, tuple(delay))
    points = sweeps.sweep(setup, key, parse_values(key, values))
    if plot is not None:
        from falcon_snn.report.curves import draw_sweep
        from falcon_snn.report.style import drawn_as

        name = setup.timed.schedule(schedule)
        with drawn_as(style, formats):
            draw_sweep(plot, key, points, f"{setup.graph.name}, SNN {name}")
        notice(f"plot: {plot}")
    if as_json:
        print_json({"key": key, "points": [point._asdict() for point in points]})
        return
    from rich.table import Table

    table = Table(key, "SNN µs", "full lookahead", "QNN", "overlapping QNN", "bit-parallel QNN",
                  "SNN / QNN")  # fmt: skip
    for point in points:
        table.add_row(
            str(point.value), f"{point.snn_us:.2f}", f"{point.full_us:.2f}",
            f"{point.qnn_us:.2f}", f"{point.overlapped_qnn_us:.2f}",
            f"{point.bit_parallel_qnn_us:.2f}", f"{point.snn_us / point.qnn_us:.3f}",
        )  # fmt: skip
    out.print(table)


def _claims(verdicts: list[sweeps.Verdict], as_json: bool) -> None:
    if as_json:
        rows = [
            {
                "claim": verdict.claim.text,
                "published": verdict.claim.published,
                "constant": verdict.key,
                "holds": {str(value): holds for value, holds in verdict.holds.items()},
            }
            for verdict in verdicts
        ]
        print_json(rows)
        return
    from rich.table import Table

    out.print("Each for all three networks of the paper; one constant moves at a time.")
    keys = list(dict.fromkeys(verdict.key for verdict in verdicts))
    table = Table("claim")
    for key in keys:
        values = list(next(verdict.holds for verdict in verdicts if verdict.key == key))
        table.add_column(f"{key}\n{values[0]} to {values[-1]}")
    for claim in dict.fromkeys(verdict.claim for verdict in verdicts):
        cells = [_cell(v) for key in keys for v in verdicts if (v.claim, v.key) == (claim, key)]
        table.add_row(claim.text + ("" if claim.published else " (ours)"), *cells)
    out.print(table)


def _cell(verdict: sweeps.Verdict) -> str:
    fails = [str(value) for value, holds in verdict.holds.items() if not holds]
    if not fails:
        return "[green]holds[/]"
    if len(fails) == len(verdict.holds):
        return "[red]fails[/]"
    return f"[red]fails at {', '.join(fails)}[/]"
