"""`falcon-snn run`: the main job in one command."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.networks import Pretrained, network_file
from falcon_snn.cli.output import err, notice, out
from falcon_snn.errors import FalconError

if TYPE_CHECKING:
    from falcon_snn.cli.steps import Step

PHASES = "qat,tune,joint"


def run(
    data: str = typer.Option("embedded", help="'embedded', a path, or a name in $FALCON_DATA."),
    folder: Path = typer.Option(Path("run-out"), "--out", help="Folder for everything."),
    model: str = typer.Option("tiny", help="tiny, medium or large, if it is to be trained."),
    checkpoint: Path | None = typer.Option(None, help="Start from this QNN instead of training."),
    pretrained: str | None = Pretrained,
    recipe: list[str] = typer.Option(
        [],
        help="PHASE=FILE, a recipe of your own; phases are qnn, "
        "qat, tune and joint; may be repeated.",
    ),
    epochs: list[str] = typer.Option(
        [], help="PHASE=N, other epochs than the recipe's; may be repeated."
    ),
    phases: str = typer.Option(PHASES, help="Phases of the adaptation, with commas between."),
    search_clips: int | None = typer.Option(None, min=1, help="Validation clips of the search."),
    tau: float = typer.Option(2.0, help="Smallest rescue score of a step of the search."),
    delta_max: int = typer.Option(3, min=1, help="Longest delay that the search tries."),
    random: int = typer.Option(10, min=0, help="Random schedules beside each chosen one."),
    seed: int = typer.Option(0, help="Same seed, same result on the CPU."),
    hardware: str | None = options.Hardware,
    attention: str | None = options.Attention,
    only: str | None = typer.Option(
        None, help="Do this step alone: features, qnn, convert, search, adapt, measure or report."
    ),
) -> None:
    """Train, convert, search, adapt, measure and report; what is done already is not done again."""
    from falcon_snn.cli.run_steps import Settings, main_steps
    from falcon_snn.cli.steps import RUN_FILE, Run
    from falcon_snn.data.examples import data_key
    from falcon_snn.files import sha256_of, write_json, write_text
    from falcon_snn.hardware.profile import profile_toml
    from falcon_snn.report.provenance import commit, machine, versions
    from falcon_snn.report.run_report import HARDWARE, PAGE
    from falcon_snn.training.recipe import load_recipe

    start = None
    if checkpoint is not None or pretrained is not None:
        start = network_file(checkpoint, pretrained)
    names = (["qnn"] if start is None else []) + phases.split(",")
    files = _by_phase("--recipe", recipe, names)
    numbers = {name: _whole(name, n) for name, n in _by_phase("--epochs", epochs, names).items()}
    recipes = {name: load_recipe(files.get(name, name), numbers.get(name)) for name in names}
    for name, plan in recipes.items():
        if plan.spiking != (name != "qnn"):
            raise FalconError(f"recipe of {name}: 'forward' is '{plan.forward}', which is not its")
    settings = Settings(
        data=data,
        data_key=data_key(data),
        model=model,
        start_sha256=None if start is None else sha256_of(start),
        qnn_recipe=recipes.pop("qnn", None),
        adapt_recipes=recipes,
        seed=seed,
        profile=options.choose_profile(hardware, attention),
        tau=tau,
        delta_max=delta_max,
        search_clips=search_clips,
        random=random,
    )
    steps = main_steps(settings, start)
    if only is not None and only not in [step.name for step in steps]:
        raise FalconError(f"no step '{only}'; choose one of {', '.join(s.name for s in steps)}")
    job = Run(folder, asdict(settings))
    job.demand_own()
    write_json(folder / RUN_FILE, {
        "command": ["falcon-snn", *sys.argv[1:]], "start": pretrained or (start and str(start)),
        "settings": job.settings, "versions": versions(), "machine": machine(),
        "commit": commit(),
    })  # fmt: skip
    write_text(folder / HARDWARE, profile_toml(settings.profile))
    for number, step in enumerate(steps, start=1):
        if job.valid(step):
            err.print(f"{number}/{len(steps)} {step.name}: done already", style="dim")
            continue
        if only is not None and step.name != only:
            if step.name in _needed(steps, only):
                raise FalconError(
                    f"step '{only}' needs '{step.name}', whose result is not there or was made "
                    "with other settings; run without --only"
                )
            continue
        err.print(f"[bold]{number}/{len(steps)} {step.name}[/]: {step.does}")
        seconds = job.execute(step)
        notice(f"    {seconds:.1f} s")
    if only in (None, "report"):
        out.print(f"report: {folder / 'report' / PAGE}", soft_wrap=True)


def _needed(steps: "list[Step]", name: str) -> set[str]:
    """The steps that a step reads from, directly or through others."""
    before = {step.name: set(step.after) for step in steps}
    needed = set(before[name])
    for other in before[name]:
        needed |= _needed(steps, other)
    return needed


def _by_phase(option: str, given: list[str], phases: list[str]) -> dict[str, str]:
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
