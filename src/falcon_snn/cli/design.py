"""`falcon-snn design`: which network should run on this chip?"""

from pathlib import Path
from typing import Any

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import WATCH, JsonFlag, command_facts, notice, out, print_table, show
from falcon_snn.cli.run import by_phase
from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile


def design(
    folder: Path = typer.Option(..., "--out", help="Folder for everything."),
    data: str = options.Data,
    within_us: float | None = typer.Option(None, help="Limit of the latency, µs."),
    within_tiles: int | None = typer.Option(None, help="Limit of the tiles."),
    within_mj: float | None = typer.Option(None, help="Limit of the energy of an inference, mJ."),
    space: str = typer.Option(
        "default", help="What to choose from: default, tiny or a TOML file of your own."
    ),
    trials: int = typer.Option(24, help="Designs that are trained, in all bands together."),
    bands: int = typer.Option(3, help="Ranges of latency; each has a contest and a winner."),
    epochs: int = typer.Option(
        27, min=1, help="Epochs of a full training; most end after a ninth."
    ),
    adapt_epochs: int = typer.Option(9, min=1, help="Epochs of the winners' adaptation."),
    recipe: list[str] = typer.Option(
        [], help="PHASE=RECIPE, a file or a shipped name; phases are qnn, qat; may be repeated."
    ),
    teachers: list[Path] = options.Teachers,
    noise: float | None = typer.Option(
        None,
        show_default="10.0",
        help="Noise in dB under which designs are judged, too; half of the score.",
    ),
    no_noise: bool = typer.Option(False, "--no-noise", help="Judge on clean clips alone."),
    chips: int = typer.Option(
        0, min=0, help="Search, adapt and judge winners on this many chips of --hardware; 0: ideal."
    ),
    seed: int = typer.Option(0, min=0, help="Same seed, same designs."),
    workers: int = typer.Option(1, help="Trials side by side."),
    engine: str = typer.Option("local", help="local, or ray for several machines."),
    ray_address: str | None = typer.Option(None, help="Ray cluster (default: start a local one)."),
    profile: Profile = options.Chip,
    resume: bool = options.Resume,
    as_json: bool = JsonFlag,
) -> None:
    """Search networks, slots and delays under limits; only what could meet them is trained."""
    from falcon_snn.report.design_page import PAGE
    from falcon_snn.search.designs import Limits
    from falcon_snn.workflow.design import design as search_designs
    from falcon_snn.workflow.workers import Workers

    if no_noise and noise is not None:
        raise FalconError("give --noise or --no-noise, not both")
    noise_db = 10.0 if noise is None else noise
    result = search_designs(
        data, folder, limits=Limits(within_us, within_tiles, within_mj), space=space,
        profile=profile, band_count=bands, trials=trials,
        epochs=epochs, adapt_epochs=adapt_epochs,
        recipes=by_phase("--recipe", recipe, ["qnn", "qat"]),
        teachers=teachers, noise_db=None if no_noise else noise_db, chips=chips, seed=seed,
        workers=Workers(workers, engine, ray_address), resume=resume,
        facts=command_facts(), watch=WATCH,
    )  # fmt: skip
    show(result, as_json, _print)
    notice(f"page: {folder / 'report' / PAGE}")


def _print(result: dict[str, Any]) -> None:
    space = result["space"]
    out.print(
        f"{space['designs']:,} designs, {space['within']:,} within the limits, "
        f"{len(result['trials'])} tried"
    )
    rows = []
    for one in result["designs"]:
        title = one["name"] + ("" if one["on_front"] else " (not on the front)")
        for name, row in one["networks"].items():
            rows.append({"design": title, "name": name, "noisy": None, **row})
            title = ""  # of a design's networks the first says its name
    print_table(
        "design | network | µs | tiles | mJ | clean % | noisy %",
        "{design} | {name} | {latency_us:.2f} | {tiles:,} | {core_mj:.4f} | {clean:.2f} | "
        "{noisy:.2f}",
        rows,
    )  # fmt: skip
