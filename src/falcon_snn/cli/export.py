"""`falcon-snn export`: a trained network for other tools."""

from pathlib import Path
from typing import Any

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import WATCH, JsonFlag, notice, out, print_json, print_table
from falcon_snn.hardware.profile import Profile


def export(
    file: Path = options.File,
    target: Path = typer.Option(..., "--out", help="File to write; verilog and c: a new folder."),
    file_format: str = typer.Option(
        ..., "--format", help="nir, verilog or c (the spiking network), or onnx (the QNN)."
    ),
    schedule: str | None = typer.Option(
        None,
        help="Delays for nir, verilog and c: fastest, balanced, accurate, full, uniform:D or a "
        "JSON file; by default those that the network was trained under, or else fastest.",
    ),
    with_features: bool = typer.Option(
        False, "--with-features", help="With onnx: log-mel inside, from samples in -1..1."
    ),
    profile: Profile = options.Chip,
    synthesise: bool = typer.Option(
        False, "--synthesise", help="verilog: cells, flip-flops and delay of its modules (yosys)."
    ),
    as_json: bool = JsonFlag,
) -> None:
    """Write the converted network as NIR, SystemVerilog or C, or the QNN as ONNX.

    NIR and ONNX files are read back and compared. SystemVerilog and C come with a
    test and two runs on random inputs; `falcon-snn verify` does many runs.
    """
    from falcon_snn.workflow.exporting import export_network

    report = export_network(
        file, target, file_format, schedule=schedule, with_features=with_features,
        synthesise=synthesise, profile=profile, watch=WATCH,
    )  # fmt: skip
    if as_json:
        print_json(report)
    elif "synthesis" in report:
        _print(report["synthesis"])
    if file_format == "verilog":
        notice(f"{target}: run `make` there; the macro and ConSmax are behavioural (README.md)")
    elif file_format == "c":
        notice(
            f"{target}: flash {report['flash_bytes']:,} bytes of constants, RAM "
            f"{report['ram_bytes']:,} bytes; run `make` there (README.md)"
        )
    else:
        equal = "onnxruntime gives the scores of full lookahead"
        what = equal if file_format == "onnx" else "read back and equal"
        notice(f"{target}: {target.stat().st_size:,} bytes, {what}")


def _print(modules: list[dict[str, Any]]) -> None:
    print_table(
        "module | one unit | cells | flip-flops | gates in a row | ns",
        "{module} | {what} | {cells:,} | {flip_flops:,} | {gates_in_a_row} | {delay_ns:.2f}",
        modules,
    )  # fmt: skip
    out.print("Gates of yosys, no cell library and no wires; ns are estimated for 45 nm.")
