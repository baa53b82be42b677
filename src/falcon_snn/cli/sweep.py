"""`falcon-snn sweep`: move one value, or ask which of the paper's claims survive."""

import typer
from rich.table import Table
from rich.text import Text

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, out, print_json, print_table
from falcon_snn.errors import FalconError
from falcon_snn.workflow import sweep as sweeps


def sweep(
    key: str = typer.Argument("", help="A hardware or network key, a boundary's name, or delay."),
    values: str = typer.Argument("", help="1,2,4 or FIRST:LAST or FIRST:LAST:STEP."),
    claims: bool = typer.Option(
        False, "--claims", help="Move the inferred constants and test the paper's conclusions."
    ),
    setup: sweeps.Setup = options.SetupOptions,
    plot: options.Pictures = options.picture("--plot", "Draw the sweep"),
    as_json: bool = JsonFlag,
) -> None:
    """Move any value of hardware, network or schedule over a range and time SNN and QNN."""
    from falcon_snn.pipeline.sweep import parse_values
    from falcon_snn.report.curves import draw_sweep

    if claims:
        _claims(sweeps.examine_claims(setup.profile), as_json)
        return
    if not key or not values:
        raise FalconError(
            "name a key and its values, for instance: falcon-snn sweep tile_rows 9:45:9"
        )
    points = sweeps.sweep(setup, key, parse_values(key, values))
    # Where delays move, the schedule has no name.
    moved = key == "delay" or key in setup.graph.boundaries
    title = setup.graph.name + ("" if moved else f", SNN {setup.schedule}")
    plot.draw(draw_sweep, key, points, title)
    rows = [point._asdict() for point in points]
    if as_json:
        print_json({"key": key, "points": rows})
        return
    print_table(
        f"{key} | SNN µs | full lookahead | QNN | overlapping QNN | bit-parallel QNN | SNN / QNN",
        "{value} | {snn_us:.2f} | {full_us:.2f} | {qnn_us:.2f} | {overlapped_qnn_us:.2f} | "
        "{bit_parallel_qnn_us:.2f} | {ratio:.3f}",
        [row | {"ratio": row["snn_us"] / row["qnn_us"]} for row in rows],
    )  # fmt: skip


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
    out.print("Each for all three networks of the paper; one constant moves at a time.")
    heads = {one.key: f"{one.key}\n{min(one.holds)} to {max(one.holds)}" for one in verdicts}
    shown = Table("claim", *heads.values())
    for claim in dict.fromkeys(verdict.claim for verdict in verdicts):
        cells = [_cell(verdict) for verdict in verdicts if verdict.claim == claim]
        shown.add_row(claim.text + ("" if claim.published else " (ours)"), *cells)
    out.print(shown)


def _cell(verdict: sweeps.Verdict) -> Text:
    fails = [str(value) for value, holds in verdict.holds.items() if not holds]
    if not fails:
        return Text("holds", "green")
    everywhere = len(fails) == len(verdict.holds)
    return Text("fails" if everywhere else f"fails at {', '.join(fails)}", "red")
