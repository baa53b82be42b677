"""`falcon-snn energy`: what one inference costs, and where."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import WATCH, JsonFlag, notice, show

if TYPE_CHECKING:
    from falcon_snn.network.description import Network
    from falcon_snn.pipeline.schedule import Delays


def energy(
    file: Path = options.File,
    data: str = options.Data,
    schedule: list[str] = typer.Option(
        [],
        help="own, fastest, balanced, accurate, uniform:D or a JSON file; may be repeated. By "
        "default what the checkpoint was trained for, or fastest.",
    ),
    search: Path | None = typer.Option(
        None, help="A search's result.json: the schedules on its front, too."
    ),
    split: str = typer.Option("test", help="Clips to use: validation or test."),
    limit: int | None = options.Limit,
    hardware: str | None = options.Hardware,
    plot: Path | None = typer.Option(None, help="Draw both breakdowns: .png, .svg or .pdf."),
    fit: Path | None = typer.Option(
        None, help="Write the profile, fitted to the paper's Medium figures, to this TOML file."
    ),
    backend: str = options.Backend,
    pictures: options.Pictures = options.PictureOptions,
    as_json: bool = JsonFlag,
) -> None:
    """Say what an inference costs: QNN, full lookahead and schedules, from spikes on real clips."""
    from falcon_snn.cli.energy_tables import FOUND, print_tables
    from falcon_snn.files import demand_new, write_text
    from falcon_snn.hardware.profile import load_profile, profile_toml
    from falcon_snn.report.energy import Configuration, check_can_fit, fitted_profile
    from falcon_snn.report.energy_figure import draw_breakdown
    from falcon_snn.report.published import setting_of
    from falcon_snn.training.checkpoint import load_metadata
    from falcon_snn.workflow.measuring import default_schedules, energy_file
    from falcon_snn.workflow.measuring import energy as measure

    profile = load_profile(hardware)
    metadata = load_metadata(file)
    network = metadata.network
    setting = setting_of(network.name, network.slots)
    if fit is not None:
        check_can_fit(setting)
        demand_new(fit)
    pictures.check(plot)
    asked = schedule or default_schedules(metadata)
    more = {} if search is None else _found(search, network, FOUND)
    measured = measure(
        file, data, asked, more=more, split=split, limit=limit, profile=profile, backend=backend,
        watch=WATCH,
    )  # fmt: skip
    report = energy_file(file, data, split, measured, asked[0])
    if fit is not None:
        one = measured[asked[0]]
        main = Configuration(asked[0], one.evaluation.delays, one.energy, one.evaluation.accuracy)
        write_text(fit, profile_toml(fitted_profile(setting, main)))
        notice(f"{fit}: profile fitted to the paper's figures for {setting}")
    title = f"{network.name}, {report['clips']:,} clips, hardware '{profile.name}', per inference"
    pictures.draw(plot, draw_breakdown, title, report["configurations"])
    show(report, as_json, print_tables)
    if limit is not None:
        notice("only a part of the split (--limit)")


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
