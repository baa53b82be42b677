"""Options that several commands share: which network, which schedule, which hardware."""

from pathlib import Path

import typer

from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile, load_profile
from falcon_snn.workflow.networks import Timed, timed_network

Network = typer.Option(
    "medium",
    "--network",
    help="A built-in network: tiny, medium, large (Falcon), kestrel-5, -7, -9.",
)
Dataset = typer.Option("gsc", "--dataset", help="Its input: gsc (98 tokens) or ssc (100 tokens).")
GraphFile = typer.Option(
    None, "--graph", help="A network of your own: a stage graph (.toml) or NIR (.nir)."
)
Checkpoint = typer.Option(None, "--checkpoint", help="A checkpoint, or a converted network.")
Pretrained = typer.Option(None, "--pretrained", help="A network that `falcon-snn models` lists.")
Data = typer.Option(
    "embedded",
    "--data",
    help="'embedded', a path (recordings, .npz, images, .h5), or a name in $FALCON_DATA.",
)
Devices = typer.Option(
    1, "--devices", min=1, help="GPUs, or processes on the CPU, that share each batch."
)
Teacher = typer.Option(
    [], "--teacher", help="Checkpoint to distil from; of several, the mean of their scores."
)
Compiled = typer.Option(
    None, "--compile/--no-compile", help="torch.compile; by default on a GPU only."
)
Slots = typer.Option(None, "--slots", help="Spike slots T of every stage (default: the network's).")
QkPrefix = typer.Option(None, "--qk-prefix", help="Slots that Q and K wait for (default: all).")
Hardware = typer.Option(None, "--hardware", help="Hardware profile: a shipped name or a TOML file.")
Attention = typer.Option(None, "--attention", help="serial (the paper) or streamed.")
Schedule = typer.Option(
    None, "--schedule", help="own, fastest, balanced, accurate, full, uniform:D or a JSON file; by "
    "default what a checkpoint was trained under, or fastest.",
)  # fmt: skip
Style = typer.Option(
    "screen", "--style", help="Style of pictures: screen, paper (one column) or paper-wide (two)."
)
Formats = typer.Option(
    None, "--format", help="More formats of each picture, such as svg,pdf,csv; csv is its data."
)
DelayChanges = typer.Option([], "--delay", help="BOUNDARY=D changes one delay; may be repeated.")


def network_file(checkpoint: Path | None, pretrained: str | None) -> Path:
    """The file that --checkpoint or --pretrained names; one of them must be given."""
    found = optional_file(checkpoint, pretrained)
    if found is None:
        raise FalconError("give a network: either --checkpoint FILE or --pretrained NAME")
    return found


def optional_file(checkpoint: Path | None, pretrained: str | None) -> Path | None:
    """The same where a network may also come from elsewhere."""
    if checkpoint is not None and pretrained is not None:
        raise FalconError("give a network: either --checkpoint FILE or --pretrained NAME")
    if pretrained is None:
        return checkpoint
    from falcon_snn.training.pretrained import pretrained_path

    return pretrained_path(pretrained)


def choose_network(
    network: str, dataset: str, graph: Path | None, checkpoint: Path | None,
    pretrained: str | None, slots: int | None, qk_prefix: int | None,
) -> Timed:  # fmt: skip
    """The network that the options name, to be timed."""
    return timed_network(
        network, dataset, graph=graph, checkpoint=optional_file(checkpoint, pretrained),
        slots=slots, qk_prefix=qk_prefix,
    )  # fmt: skip


def choose_profile(hardware: str | None, attention: str | None) -> Profile:
    """The chip that the options name."""
    from dataclasses import replace

    profile = load_profile(hardware)
    if attention is None:
        return profile
    if attention not in ("serial", "streamed"):
        raise FalconError(f"--attention is '{attention}'; allowed: serial, streamed")
    return replace(profile, attention=attention)
