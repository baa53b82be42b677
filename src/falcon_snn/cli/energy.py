"""`falcon-snn energy`: what one inference costs, and where."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, notice, print_json

if TYPE_CHECKING:
    from falcon_snn.network.description import Network
    from falcon_snn.pipeline.schedule import Delays


def energy(
    checkpoint: Path | None = options.Checkpoint,
    pretrained: str | None = options.Pretrained,
    data: str = options.Data,
    schedule: list[str] = typer.Option(
        [],
        help="own, fastest, balanced, accurate, uniform:D or a JSON file; may be repeated. By "
        "default what the checkpoint was trained for, or fastest.",
    ),
    search: Path | None = typer.Option(
        None, help="A search's result.json: the schedules on its front, too."
    ),
    split: str = typer.Option("test", help="validation or test."),
    limit: int | None = typer.Option(None, min=1, help="Only this many clips, evenly spaced."),
    hardware: str | None = typer.Option(None, help="Hardware profile: a shipped name or a file."),
    figure: Path | None = typer.Option(None, help="Draw both breakdowns: .png, .svg or .pdf."),
    fit: Path | None = typer.Option(
        None, help="Write the profile, fitted to the paper's Medium figures, to this TOML file."
    ),
    backend: str = typer.Option("auto", help="auto, torch, numba or triton."),
    style: str = options.Style,
    formats: str | None = options.Formats,
    as_json: bool = JsonFlag,
) -> None:
    """Say what an inference costs: QNN, full lookahead and schedules, from spikes on real clips."""
    from falcon_snn.cli.energy_tables import FOUND, print_tables
    from falcon_snn.cli.watch import TerminalWatch
    from falcon_snn.files import write_text
    from falcon_snn.hardware.profile import load_profile, profile_toml
    from falcon_snn.report.energy import Configuration, check_can_fit, energy_report, fitted_profile
    from falcon_snn.report.energy_figure import draw_breakdown
    from falcon_snn.report.published import SETTING_OF
    from falcon_snn.report.style import check_picture, drawn_as
    from falcon_snn.training.checkpoint import load_metadata
    from falcon_snn.workflow.measuring import default_schedules
    from falcon_snn.workflow.measuring import energy as measure

    profile = load_profile(hardware)
    file = options.network_file(checkpoint, pretrained)
    metadata = load_metadata(file)
    network = metadata.network
    # The paper's figures are of seven slots; the same network with fewer is a different one.
    setting = SETTING_OF.get(network.name, "") if network.slots == 7 else ""
    if fit is not None:
        check_can_fit(setting)
    if figure is not None:
        check_picture(figure)
    asked = schedule or default_schedules(metadata)
    more = {} if search is None else _found(search, network, FOUND)
    measured = measure(
        file, data, asked, more=more, split=split, limit=limit, profile=profile, backend=backend,
        watch=TerminalWatch(),
    )  # fmt: skip
    rows = {
        name: Configuration(name, one.evaluation.delays, one.energy, one.evaluation.accuracy)
        for name, one in measured.items()
    }
    main, clips = rows[asked[0]], measured["QNN"].evaluation.clips
    report = {
        "checkpoint": str(file), "data": data, "split": split, "clips": clips,
        "network": network.name, **energy_report(setting, list(rows.values()), main),
    }  # fmt: skip
    if fit is not None:
        write_text(fit, profile_toml(fitted_profile(setting, main)))
        notice(f"{fit}: profile fitted to the paper's figures for {setting}")
    if figure is not None:
        title = f"{network.name}, {clips:,} clips, hardware '{profile.name}', per inference"
        with drawn_as(style, formats):
            draw_breakdown(figure, title, report["configurations"])
        notice(f"{figure}: analog and digital breakdown")
    if as_json:
        print_json(report)
    else:
        print_tables(report)
    if limit is not None:
        notice("a part of the split only (--limit)")


def _found(search: Path, network: "Network", prefix: str) -> "dict[str, Delays]":
    """The schedules on the front of a search, by name."""
    from falcon_snn.pipeline.schedule import complete
    from falcon_snn.search.result import read_result

    result = read_result(search)
    return {
        f"{prefix}{number}": complete(
            result["evaluated"][number]["delays"], network.boundaries, network.slots, str(search)
        )
        for number in result["front"]
    }
