"""`falcon-snn energy`: what one inference costs, and where."""

from pathlib import Path

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import WATCH, JsonFlag, notice, show


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
    plot: options.Pictures = options.picture("--plot", "Draw both breakdowns"),
    fit: Path | None = typer.Option(
        None, help="Write the profile, fitted to the paper's Medium figures, to this TOML file."
    ),
    backend: str = options.Backend,
    as_json: bool = JsonFlag,
) -> None:
    """Say what an inference costs: QNN, full lookahead and schedules, from spikes on real clips."""
    from falcon_snn.cli.energy_tables import print_tables
    from falcon_snn.files import demand_new, write_text
    from falcon_snn.hardware.profile import load_profile, profile_toml
    from falcon_snn.report.energy import check_can_fit, fitted_profile
    from falcon_snn.report.energy_figure import draw_breakdown
    from falcon_snn.report.published import setting_of
    from falcon_snn.training.checkpoint import load_metadata
    from falcon_snn.workflow.measuring import default_schedules, energy_file, found_schedules
    from falcon_snn.workflow.measuring import energy as measure

    profile = load_profile(hardware)
    metadata = load_metadata(file)
    network = metadata.network
    setting = setting_of(network.name, network.slots)
    if fit is not None:
        check_can_fit(setting)
        demand_new(fit)
    asked = schedule or default_schedules(metadata)
    more = {} if search is None else found_schedules(search, network)
    measured = measure(
        file, data, asked, more=more, split=split, limit=limit, profile=profile, backend=backend,
        watch=WATCH,
    )  # fmt: skip
    report = energy_file(file, data, split, measured, asked[0])
    if fit is not None:
        main = measured[asked[0]].configuration(asked[0])
        write_text(fit, profile_toml(fitted_profile(setting, main)))
        notice(f"{fit}: profile fitted to the paper's figures for {setting}")
    title = f"{network.name}, {report['clips']:,} clips, hardware '{profile.name}', per inference"
    plot.draw(draw_breakdown, title, report["configurations"])
    show(report, as_json, print_tables)
    if limit is not None:
        notice("only a part of the split (--limit)")
