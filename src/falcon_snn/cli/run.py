"""`falcon-snn run`: the main job in one command."""

from pathlib import Path

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import WATCH, command_facts, out
from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile


def run(
    data: str = options.Data,
    folder: Path = typer.Option(Path("run-out"), "--out", help="Folder for everything."),
    network: str | None = typer.Option(
        None,
        show_default="tiny",
        help="A built-in name or FILE.py:FUNCTION, if it is to be trained (see train).",
    ),
    slots: int | None = typer.Option(
        None, help="T, the spike slots of a stage (default: the network's)."
    ),
    checkpoint: Path | None = typer.Option(None, help="Start from this QNN instead of training."),
    pretrained: str | None = options.Pretrained,
    recipe: list[str] = typer.Option(
        [],
        help="PHASE=RECIPE, a file or a shipped name; phases are qnn, "
        "qat, tune and joint; may be repeated.",
    ),
    epochs: list[str] = typer.Option(
        [], help="PHASE=N, epochs instead of the recipe's; may be repeated."
    ),
    phases: str = options.Phases,
    search_clips: int | None = typer.Option(
        None, min=1, help="Validation clips of the search (default: all)."
    ),
    tau: float = typer.Option(2.0, help="Least rescue score of a step of the search (see search)."),
    delta_max: int = typer.Option(3, min=1, help="Longest delay that the search tries."),
    random: int = typer.Option(10, min=0, help="Random schedules to compare with each chosen one."),
    noise: float | None = typer.Option(
        None, help="Measure on test clips with noise at this ratio in dB, too (see evaluate)."
    ),
    chips: int = typer.Option(
        0, min=0, help="Search, adapt and measure on this many chips of --hardware; 0: ideal."
    ),
    seed: int = typer.Option(0, min=0, help="Same seed, same result on the CPU."),
    profile: Profile = options.Chip,
    only: str | None = typer.Option(
        None, help="Do this step alone: features, qnn, convert, search, adapt, measure or report."
    ),
) -> None:
    """Train, convert, search, adapt, measure and report; what is done is not done again."""
    from falcon_snn.workflow.run import run as run_all

    start = options.optional_file(checkpoint, pretrained)
    if start is not None and (network is not None or slots is not None):
        raise FalconError("--network and --slots are for training; a checkpoint has its own")
    names = (["qnn"] if start is None else []) + phases.split(",")
    page = run_all(
        data, folder, network="tiny" if network is None else network, slots=slots, start=start,
        recipes=by_phase("--recipe", recipe, names),
        epochs={name: _whole(name, n) for name, n in by_phase("--epochs", epochs, names).items()},
        phases=phases.split(","), profile=profile, tau=tau, delta_max=delta_max,
        search_clips=search_clips, random=random, noise_db=noise, chips=chips, seed=seed, only=only,
        facts={**command_facts(), "start": pretrained or (start and str(start))}, watch=WATCH,
    )  # fmt: skip
    if only in (None, "report"):
        out.print(f"report: {page}", soft_wrap=True)


def by_phase(option: str, given: list[str], phases: list[str]) -> dict[str, str]:
    """`PHASE=VALUE` options by phase."""
    found = {}
    for text in given:
        phase, equals, value = text.partition("=")
        if not equals or phase not in phases:
            raise FalconError(
                f"{option} '{text}': write PHASE=VALUE, PHASE one of {', '.join(phases)}"
            )
        found[phase] = value
    return found


def _whole(phase: str, text: str) -> int:
    if not text.isdecimal():
        raise FalconError(f"--epochs {phase}={text}: write a whole number")
    return int(text)
