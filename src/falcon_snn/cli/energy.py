"""`falcon-snn energy`: what one inference costs, and where."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from falcon_snn.cli import networks
from falcon_snn.cli.output import JsonFlag, notice, print_json, progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable

    from falcon_snn.network.activity import Batches
    from falcon_snn.pipeline.schedule import Delays
    from falcon_snn.training.checkpoint import Metadata


def energy(
    checkpoint: Path | None = networks.Checkpoint,
    pretrained: str | None = networks.Pretrained,
    data: str = typer.Option("embedded", help="'embedded', a path, or a name in $FALCON_DATA."),
    schedule: list[str] = typer.Option(
        [],
        help="own, fastest, balanced, accurate, uniform:D or a JSON file; may be repeated. By "
        "default what the checkpoint was trained for, or fastest.",
    ),
    search: Path | None = typer.Option(
        None, help="A search's result.json: the schedules on its front, too."
    ),
    split: str = typer.Option("test", help="validation or test."),
    limit: int | None = typer.Option(None, min=1, help="Only so many clips, evenly chosen."),
    hardware: str | None = typer.Option(None, help="Hardware profile: a shipped name or a file."),
    figure: Path | None = typer.Option(None, help="Draw both breakdowns: .png, .svg or .pdf."),
    fit: Path | None = typer.Option(
        None, help="Write the profile, fitted to the paper's Medium figures, to this TOML file."
    ),
    backend: str = typer.Option("auto", help="auto, torch, numba or triton."),
    as_json: bool = JsonFlag,
) -> None:
    """Say what an inference costs: QNN, full lookahead and schedules, from spikes on real clips."""
    import torch

    from falcon_snn.cli.energy_tables import print_tables
    from falcon_snn.config import names_of
    from falcon_snn.errors import FalconError
    from falcon_snn.files import write_text
    from falcon_snn.hardware.profile import load_profile, profile_toml
    from falcon_snn.network.activity import schedule_energy
    from falcon_snn.report.energy import Configuration, check_can_fit, energy_report, fitted_profile
    from falcon_snn.report.energy_figure import draw_breakdown
    from falcon_snn.report.style import check_picture
    from falcon_snn.training.evaluate import accuracy, batches
    from falcon_snn.training.export import load_network

    profile = load_profile(hardware)
    checkpoint = networks.network_file(checkpoint, pretrained)
    network, metadata = load_network(checkpoint)
    network = network.to("cuda" if torch.cuda.is_available() else "cpu")
    model, dataset = names_of(metadata.config)
    setting = f"{dataset}-{model}"
    if fit is not None:
        check_can_fit(setting)
    if figure is not None:
        check_picture(figure)
    asked = schedule or (["fastest"] if metadata.delays is None else ["own"])
    runs = _runs(asked, search, metadata)
    examples = networks.load_split(data, split, limit, metadata.words)
    if not len(examples):
        raise FalconError(f"{data}: no {split} clips")
    configurations = {}
    with progress_bar("spikes", len(runs) * len(examples)) as advance:
        for name, delays in runs.items():
            clips = told(batches(examples, network.device), advance)
            measured, found = schedule_energy(network, clips, delays, profile, backend)
            configurations[name] = Configuration(name, delays, measured, accuracy(found, examples))
    main = configurations[asked[0]]
    rows = list(configurations.values())
    report = {
        "checkpoint": str(checkpoint), "data": data, "split": split, "clips": len(examples),
        "network": setting, **energy_report(metadata.config, setting, rows, main),
    }  # fmt: skip
    if fit is not None:
        write_text(fit, profile_toml(fitted_profile(setting, main)))
        notice(f"{fit}: profile fitted to the paper's figures for {setting}")
    if figure is not None:
        title = f"{setting}, {len(examples):,} clips, hardware '{profile.name}', per inference"
        draw_breakdown(figure, title, report["configurations"])
        notice(f"{figure}: analog and digital breakdown")
    if as_json:
        print_json(report)
    else:
        print_tables(report)
    if limit is not None:
        notice("a part of the split only (--limit)")


def told(batches: "Batches", advance: "Callable[[int], None]") -> "Batches":
    """The batches; the bar advances when the next one is asked for."""
    for x, lengths in batches:
        yield x, lengths
        advance(len(x))


def _runs(
    asked: list[str], search: Path | None, metadata: "Metadata"
) -> "dict[str, Delays | None]":
    """Name to delays: the QNN (no delays), full lookahead, what was asked for, what was found."""
    from falcon_snn.cli.energy_tables import FOUND

    config = metadata.config
    runs: dict[str, Delays | None] = {"QNN": None, "full": networks.delays_of("full", metadata)}
    runs |= {name: networks.delays_of(name, metadata) for name in asked}
    if search is not None:
        from falcon_snn.pipeline.schedule import complete
        from falcon_snn.search.result import read_result

        result = read_result(search)
        for number in result["front"]:
            found = result["evaluated"][number]["delays"]
            runs[f"{FOUND}{number}"] = complete(found, config.boundaries, config.slots, str(search))
    return runs
