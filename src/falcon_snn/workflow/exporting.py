"""A trained network for other tools: NIR, ONNX, SystemVerilog, C."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from falcon_snn.errors import FalconError
from falcon_snn.files import demand_file_target
from falcon_snn.hardware.profile import Profile, load_profile
from falcon_snn.network.integer import Snn
from falcon_snn.pipeline.schedule import Delays
from falcon_snn.training.export import load_network
from falcon_snn.workflow.networks import delays_of, schedule_or_own
from falcon_snn.workflow.watch import SILENT, Watch

FORMATS = ("nir", "onnx", "verilog", "c")
MARKS = {"nir": b"\x89HDF\r\n", "onnx": b"\n\x05words\x12"}  # what files of ours hold


def export_network(
    file: Path, target: Path, form: str, *, schedule: str | None = None,
    with_features: bool = False, synthesise: bool = False, profile: Profile | None = None,
    watch: Watch = SILENT,
) -> dict[str, Any]:  # fmt: skip
    """Write a network in one of FORMATS; what was written, with sizes and synthesis where asked.

    By default its delays are those that it was trained under, or else fastest; ONNX is the QNN.
    """
    if form not in FORMATS:
        raise FalconError(f"--format is '{form[:40]}'; choose nir, onnx, verilog or c")
    if with_features and form != "onnx":
        raise FalconError("--with-features is for onnx; c has them inside, the others take spikes")
    if form == "onnx" and schedule is not None:
        raise FalconError("the QNN has no slots, so no --schedule; leave it out or export nir")
    if synthesise and form != "verilog":
        raise FalconError(f"--synthesise is for --format verilog, not {form}")
    if form != "verilog" and profile not in (None, load_profile()):
        raise FalconError(f"--hardware and --attention are for --format verilog, not {form}")
    if form in ("nir", "onnx"):
        demand_file_target(target, file, mark=MARKS[form])
    snn, metadata = load_network(file)
    report: dict[str, Any] = {"out": str(target), "format": form, "delays": None}
    if form == "onnx":
        from falcon_snn.interchange.onnx_network import write_onnx

        watch.notice("following the network through torch's exporter; Medium takes about a minute")
        write_onnx(target, snn, metadata.words, with_features=with_features)
        return report
    chosen = schedule_or_own(schedule, metadata.delays, "fastest")
    delays = report["delays"] = delays_of(chosen, snn.network, metadata.delays)
    if form == "nir":
        from falcon_snn.interchange.nir_network import write_nir

        write_nir(target, snn, delays, metadata.words)
        return report
    if form == "c":
        from falcon_snn.interchange.c.folder import write_c

        return report | vars(write_c(target, snn, delays, metadata.words))
    modules = _verilog(target, snn, delays, profile or load_profile(), synthesise, watch)
    return report if modules is None else report | {"synthesis": modules}


def _verilog(
    target: Path, snn: Snn, delays: Delays, profile: Profile, synthesised: bool, watch: Watch
) -> list[dict[str, Any]] | None:
    from falcon_snn.interchange.verilog.folder import ClipRun, write_folder
    from falcon_snn.interchange.verilog.synthesise import synthesise, yosys_command
    from falcon_snn.workflow.verify import random_inputs

    if synthesised:
        yosys_command()  # said before anything is written
    x = random_inputs(snn.network, 2, seed=0)
    design = write_folder(target, snn, profile, [ClipRun(x[i : i + 1], delays) for i in (0, 1)])
    if not synthesised:
        return None
    watch.notice("synthesising with yosys; units of many neurons take minutes")
    return [asdict(one) for one in synthesise(design)]
