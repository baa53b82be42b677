"""`falcon-snn export`: a trained network for other tools."""

from pathlib import Path

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, notice, print_json
from falcon_snn.errors import FalconError

FORMATS = ("nir", "onnx")


def export(
    checkpoint: Path | None = options.Checkpoint,
    pretrained: str | None = options.Pretrained,
    target: Path = typer.Option(..., "--out", help="File to write."),
    file_format: str = typer.Option(
        ..., "--format", help="nir (the spiking network) or onnx (the QNN)."
    ),
    schedule: str | None = typer.Option(
        None,
        help="Delays for nir: fastest, balanced, accurate, full, uniform:D or a JSON file; by "
        "default those that the network was trained under, or else fastest.",
    ),
    as_json: bool = JsonFlag,
) -> None:
    """Write the converted network as NIR, or the QNN as ONNX, and check the file by reading it."""
    from falcon_snn.interchange.nir_network import write_nir
    from falcon_snn.interchange.onnx_network import write_onnx
    from falcon_snn.training.export import load_network
    from falcon_snn.workflow.networks import delays_of

    if file_format not in FORMATS:
        raise FalconError(f"--format is '{file_format}'; choose {' or '.join(FORMATS)}")
    if file_format == "onnx" and schedule is not None:
        raise FalconError("the QNN has no slots, so no --schedule; leave it out or export nir")
    snn, metadata = load_network(options.network_file(checkpoint, pretrained))
    delays = None
    if file_format == "nir":
        chosen = schedule or ("own" if metadata.delays else "fastest")
        delays = delays_of(chosen, snn.network, metadata.delays)
        write_nir(target, snn, delays, metadata.words)
    else:
        notice("following the network through torch's exporter; Medium takes about a minute")
        write_onnx(target, snn, metadata.words)
    if as_json:
        print_json({"out": str(target), "format": file_format, "delays": delays})
    size = target.stat().st_size
    what = "read back and equal" if delays else "onnxruntime gives the scores of full lookahead"
    notice(f"{target}: {size:,} bytes, {what}")
