"""Options that several commands share: which network, which schedule, which chip, which data."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from falcon_snn.cli.groups import given
from falcon_snn.cli.output import notice
from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile, load_profile
from falcon_snn.report.style import Look, check_picture, drawn_as, look_of
from falcon_snn.workflow.networks import Timed, timed_network
from falcon_snn.workflow.sweep import Setup

Network = typer.Option(
    None,
    "--network",
    show_default="medium",
    help="A built-in network: tiny, medium, large (Falcon), kestrel-5, -7, -9, -5-small.",
)
Dataset = typer.Option(
    None, "--dataset", show_default="gsc", help="Its input: gsc (98 tokens) or ssc (100 tokens)."
)
GraphFile = typer.Option(
    None, "--graph", help="A network of your own: a stage graph (.toml) or NIR (.nir)."
)
Checkpoint = typer.Option(None, "--checkpoint", help="A checkpoint, or a converted network.")
Pretrained = typer.Option(None, "--pretrained", help="A network that `falcon-snn models` lists.")
Slots = typer.Option(None, "--slots", help="Spike slots T of every stage (default: the network's).")
QkPrefix = typer.Option(
    None, "--qk-prefix", help="Slots of Q and K that attention waits for (default: the network's)."
)
Schedule = typer.Option(
    None, "--schedule", help="own, fastest, balanced, accurate, full, uniform:D or a JSON file; by "
    "default what a checkpoint was trained under, or fastest.",
)  # fmt: skip
ScheduleOrFull = typer.Option(
    None, "--schedule", help="own, fastest, balanced, accurate, full, uniform:D or a JSON file; by "
    "default what the network was trained for, or full.",
)  # fmt: skip
Hardware = typer.Option(
    None,
    "--hardware",
    help="The chip: paper (default), 45nm, fitted, noisy, xue2020 or a TOML file.",
)
Data = typer.Option(
    "embedded",
    "--data",
    help="'embedded', a path (recordings, .npz, images, .h5), or a name in $FALCON_DATA.",
)
Split = typer.Option("validation", "--split", help="Clips to use: validation or test.")
Limit = typer.Option(None, "--limit", min=1, help="Use only this many clips, evenly spaced.")
Backend = typer.Option(
    "auto", "--backend", help="What computes: auto, torch, numba, or triton on a GPU; all agree."
)
Resume = typer.Option(False, "--resume", help="Continue the run in --out, if there is one.")
Phases = typer.Option(
    "qat,tune,joint",
    "--phases",
    help="Of the adaptation, in order: qat, tune (neurons alone), joint (both).",
)
Devices = typer.Option(
    1, "--devices", min=1, help="GPUs, or processes on the CPU, that share each batch."
)


def optional_file(
    checkpoint: Path | None = Checkpoint, pretrained: str | None = Pretrained
) -> Path | None:
    """The file of a trained network; None: the network comes from elsewhere."""
    if checkpoint is not None and pretrained is not None:
        raise FalconError("give a network: either --checkpoint FILE or --pretrained NAME")
    if pretrained is None:
        return checkpoint
    from falcon_snn.training.pretrained import pretrained_path

    return pretrained_path(pretrained)


OptionalFile = given(optional_file)


def network_file(file: Path | None = OptionalFile) -> Path:
    """The same where there must be one."""
    if file is None:
        raise FalconError("give a network: either --checkpoint FILE or --pretrained NAME")
    return file


File = given(network_file)


def _trained_files(names: list[str]) -> list[Path]:
    if not names:
        return []
    from falcon_snn.training.pretrained import trained_file

    return [trained_file(name) for name in names]


def teachers(
    teacher: list[str] = typer.Option(
        [], help="Network to distil from: a checkpoint, or a name that `falcon-snn models` lists; "
        "if repeated, the mean of their scores.",
    ),
) -> list[Path]:  # fmt: skip
    """The files of networks to distil from."""
    return _trained_files(teacher)


Teachers = given(teachers)


def start(
    init: str | None = typer.Option(
        None, help="Start from the weights of this checkpoint, or of a network by its name; slots "
        "and bits may differ.",
    ),
) -> Path | None:  # fmt: skip
    """The file of a network to start from."""
    return None if init is None else _trained_files([init])[0]


Start = given(start)


def built_in_name(
    network: str | None, dataset: str | None, *others: Path | None
) -> tuple[str, str]:
    """A built-in network and its input; refused beside others, which it would not change."""
    if not network is dataset is None and any(other is not None for other in others):
        raise FalconError(
            "--network and --dataset choose a built-in network; leave them out, or give no other"
        )
    return "medium" if network is None else network, "gsc" if dataset is None else dataset


def chip(
    hardware: str | None = Hardware,
    attention: str | None = typer.Option(
        None, help="Attention's products: serial, one after another (the paper), or streamed."
    ),
) -> Profile:
    """The chip that the options name."""
    profile = load_profile(hardware)
    if attention is None:
        return profile
    if attention not in ("serial", "streamed"):
        raise FalconError(f"--attention is '{attention}'; allowed: serial, streamed")
    return replace(profile, attention=attention)


Chip = given(chip)


def timed(
    network: str | None = Network,
    dataset: str | None = Dataset,
    graph: Path | None = GraphFile,
    file: Path | None = OptionalFile,
    slots: int | None = Slots,
    qk_prefix: int | None = QkPrefix,
) -> Timed:
    """The network that the options name, to be timed."""
    name, source = built_in_name(network, dataset, graph, file)
    return timed_network(
        name, source, graph=graph, checkpoint=file, slots=slots, qk_prefix=qk_prefix
    )


TimedNetwork = given(timed)


def setup(
    timed: Timed = TimedNetwork,
    schedule: str | None = Schedule,
    delay: list[str] = typer.Option([], help="BOUNDARY=D changes one delay; may be repeated."),
    profile: Profile = Chip,
) -> Setup:
    """The same under a schedule on a chip."""
    return Setup(timed, profile, schedule, tuple(delay))


SetupOptions = given(setup)


def split_words(words: str | None) -> list[str] | None:
    """The words of a list with commas."""
    if words is None:
        return None
    found = [word.strip() for word in words.split(",") if word.strip()]
    if not found:
        raise FalconError("--words is empty; give words such as yes,no,stop")
    return found


def classes(
    words: str | None = typer.Option(
        None, help="Tell only these words apart, such as yes,no; all others are left out."
    ),
    unknown: bool = typer.Option(
        False, "--unknown", help="With --words: a class 'unknown', of other words' clips."
    ),
    silence: bool = typer.Option(
        False, "--silence", help="With --words: a class 'silence', of background noise."
    ),
) -> tuple[str, ...] | None:
    """The classes of a task; None: those of the data."""
    chosen = split_words(words)
    if chosen is None:
        if unknown or silence:
            raise FalconError("--unknown and --silence go with --words; say which words are known")
        return None
    from falcon_snn.data.task import task_classes

    return task_classes(chosen, unknown=unknown, silence=silence)


Classes = given(classes)


@dataclass(frozen=True)
class Pictures:
    """How pictures are drawn, and where one is asked for."""

    look: Look
    path: Path | None = None

    def draw(self, draw: Callable[..., None], *what: Any) -> None:
        """Draw a picture where one is asked for, and say so."""
        if self.path is not None:
            with drawn_as(self.look):
                draw(self.path, *what)
            notice(f"picture: {self.path}")


def pictures(
    style: str = typer.Option(
        "screen", help="Style of pictures: screen, paper (one column) or paper-wide (two)."
    ),
    formats: str | None = typer.Option(
        None, "--format", help="More formats of each picture, such as svg,pdf,csv; csv is its data."
    ),
) -> Pictures:
    """Checked where no picture is asked for, too, and before any work is done."""
    return Pictures(look_of(style, formats))


PictureOptions = given(pictures)


def picture(
    flag: str, shows: str, check: Callable[[Path], None] = check_picture,
    endings: str = ".png, .svg or .pdf",
) -> Pictures:  # fmt: skip
    """The option of a picture with those of its look; a bad name is refused before any work."""

    def make(
        picture: Path | None = typer.Option(None, flag, help=f"{shows}: {endings}."),
        pictures: Pictures = PictureOptions,
    ) -> Pictures:
        if picture is not None:
            check(picture)
        if (picture is None or picture.suffix == ".toml") and pictures.look != look_of():
            raise FalconError("--style and --format are about a picture; ask for one, too")
        return replace(pictures, path=picture)

    return given(make)
