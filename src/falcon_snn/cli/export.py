"""`falcon-snn export`: a trained network for other tools."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, notice, out, print_json
from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile
from falcon_snn.pipeline.schedule import Delays

FORMATS = ("nir", "onnx", "verilog", "c")


def export(
    checkpoint: Path | None = options.Checkpoint,
    pretrained: str | None = options.Pretrained,
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
    hardware: str | None = options.Hardware,
    attention: str | None = options.Attention,
    synthesise: bool = typer.Option(
        False, "--synthesise", help="verilog: cells, flip-flops and delay of its modules (yosys)."
    ),
    as_json: bool = JsonFlag,
) -> None:
    """Write the converted network as NIR, SystemVerilog or C, or the QNN as ONNX.

    NIR and ONNX files are read back and compared. SystemVerilog and C come with a test and two
    expected runs on random inputs; `falcon-snn verify` runs many of the hardware.
    """
    from falcon_snn.interchange.nir_network import write_nir
    from falcon_snn.interchange.onnx_network import write_onnx
    from falcon_snn.training.export import load_network
    from falcon_snn.workflow.networks import delays_of

    if file_format not in FORMATS:
        raise FalconError(f"--format is '{file_format}'; choose nir, onnx, verilog or c")
    if with_features and file_format != "onnx":
        raise FalconError("--with-features is for onnx; c has them inside, the others take spikes")
    if file_format == "onnx" and schedule is not None:
        raise FalconError("the QNN has no slots, so no --schedule; leave it out or export nir")
    if synthesise and file_format != "verilog":
        raise FalconError(f"--synthesise is for --format verilog, not {file_format}")
    snn, metadata = load_network(options.network_file(checkpoint, pretrained))
    delays, modules = None, None
    if file_format != "onnx":
        chosen = schedule or ("own" if metadata.delays else "fastest")
        delays = delays_of(chosen, snn.network, metadata.delays)
    sizes = {}
    if file_format == "verilog":
        assert delays is not None
        profile = options.choose_profile(hardware, attention)
        modules = _verilog(target, snn, delays, profile, synthesise)
    elif file_format == "c":
        from falcon_snn.interchange.c.folder import write_c

        assert delays is not None
        sizes = vars(write_c(target, snn, delays, metadata.words))
    elif file_format == "nir":
        assert delays is not None
        write_nir(target, snn, delays, metadata.words)
    else:
        notice("following the network through torch's exporter; Medium takes about a minute")
        write_onnx(target, snn, metadata.words, with_features=with_features)
    if as_json:
        report = {"out": str(target), "format": file_format, "delays": delays, **sizes}
        print_json(report if modules is None else report | {"synthesis": modules})
    elif modules is not None:
        _print(modules)
    if file_format == "verilog":
        notice(f"{target}: run `make` there; the macro and ConSmax are behavioural (README.md)")
        return
    if file_format == "c":
        notice(
            f"{target}: flash {sizes['flash_bytes']:,} bytes of constants, RAM "
            f"{sizes['ram_bytes']:,} bytes; run `make` there (README.md)"
        )
        return
    size = target.stat().st_size
    what = "read back and equal" if delays else "onnxruntime gives the scores of full lookahead"
    notice(f"{target}: {size:,} bytes, {what}")


def _verilog(
    target: Path, snn: Any, delays: Delays, profile: Profile, synthesised: bool
) -> list[dict[str, Any]] | None:
    from falcon_snn.interchange.verilog.folder import Run, write_folder
    from falcon_snn.interchange.verilog.synthesise import synthesise, yosys_command
    from falcon_snn.workflow.verify import random_inputs

    if synthesised:
        yosys_command()  # said before anything is written
    x = random_inputs(snn.network, 2, seed=0)
    design = write_folder(target, snn, profile, [Run(x[i : i + 1], delays) for i in (0, 1)])
    if not synthesised:
        return None
    notice("synthesising with yosys; units of many neurons take minutes")
    return [asdict(one) for one in synthesise(design)]


def _print(modules: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table("module", "one unit", "cells", "flip-flops", "gates in a row", "ns")
    for one in modules:
        table.add_row(
            one["module"], one["what"], f"{one['cells']:,}", f"{one['flip_flops']:,}",
            str(one["gates_in_a_row"]), f"{one['delay_ns']:.2f}",
        )  # fmt: skip
    out.print(table)
    out.print("Gates of yosys, no cell library and no wires; ns are estimated for 45 nm.")
