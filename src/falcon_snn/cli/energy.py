"""`falcon-snn energy`: what one inference costs, and where."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from falcon_snn.cli.output import JsonFlag, notice, out, print_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from falcon_snn.network.activity import Batches
    from falcon_snn.pipeline.schedule import Delays
    from falcon_snn.training.checkpoint import Metadata

_BATCH = 128
_FOUND = "found "  # and a number: schedules of a search


def energy(
    checkpoint: Path = typer.Option(..., help="A checkpoint, or a converted network."),
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

    from falcon_snn.cli.networks import load_split, names_of, progress
    from falcon_snn.errors import FalconError
    from falcon_snn.files import write_text
    from falcon_snn.hardware.profile import load_profile, profile_toml
    from falcon_snn.network.activity import schedule_energy
    from falcon_snn.report.energy import Configuration, check_can_fit, energy_report, fitted_profile
    from falcon_snn.report.energy_figure import check_figure_name, draw_breakdown
    from falcon_snn.training.evaluate import accuracy, batches
    from falcon_snn.training.export import load_network

    profile = load_profile(hardware)
    network, metadata = load_network(checkpoint)
    network = network.to("cuda" if torch.cuda.is_available() else "cpu")
    model, dataset = names_of(metadata.config)
    setting = f"{dataset}-{model}"
    if fit is not None:
        check_can_fit(setting)
    if figure is not None:
        check_figure_name(figure)
    asked = schedule or (["fastest"] if metadata.delays is None else ["own"])
    runs = _runs(asked, search, metadata)
    examples = load_split(data, split, limit, metadata.words)
    if not len(examples):
        raise FalconError(f"{data}: no {split} clips")
    configurations = {}
    with progress("spikes", len(runs) * len(examples)) as advance:
        for name, delays in runs.items():
            clips = _told(batches(examples, _BATCH, network.device), advance)
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
        draw_breakdown(figure, title, rows)
        notice(f"{figure}: analog and digital breakdown")
    if as_json:
        print_json(report)
    else:
        _print(report)
    if limit is not None:
        notice("a part of the split only (--limit)")


def _told(batches: "Batches", advance: "Callable[[int], None]") -> "Batches":
    """The batches; the bar advances when the next one is asked for."""
    for x, lengths in batches:
        yield x, lengths
        advance(len(x))


def _runs(
    asked: list[str], search: Path | None, metadata: "Metadata"
) -> "dict[str, Delays | None]":
    """Name to delays: the QNN (no delays), full lookahead, what was asked for, what was found."""
    from falcon_snn.cli.networks import delays_of

    config = metadata.config
    runs: dict[str, Delays | None] = {"QNN": None, "full": delays_of("full", metadata)}
    runs |= {name: delays_of(name, metadata) for name in asked}
    if search is not None:
        from falcon_snn.pipeline.schedule import complete
        from falcon_snn.search.result import read_result

        result = read_result(search)
        for number in result["front"]:
            found = result["evaluated"][number]["delays"]
            runs[f"{_FOUND}{number}"] = complete(
                found, config.boundaries, config.slots, str(search)
            )
    return runs


def _print(report: dict[str, Any]) -> None:
    from rich.table import Table

    rows = report["configurations"]
    out.print(
        f"[bold]{report['network']}[/], {report['clips']:,} {report['split']} clips of "
        f"{report['data']}, hardware '{report['hardware']}', per inference"
    )
    heads = ("", "right\n%", "latency\nus", "arithm.\nuJ", "analog\nmJ", "digital\nuJ", "core\nmJ",
             "EDP\nnJ s", "spikes/\nneuron", "front")  # fmt: skip
    table = Table(*heads)
    for row in rows:
        table.add_row(
            row["name"], f"{row['accuracy']:.2f}", f"{row['latency_us']:.2f}",
            f"{1e3 * row['arithmetic_mj']:.2f}", f"{row['analog_mj']:.4f}",
            f"{1e3 * row['digital_mj']:.3f}", f"{row['core_mj']:.4f}", f"{row['edp_nj_s']:.2f}",
            f"{row['spikes_per_neuron']:.3f}", "*" if row["on_front"] else "",
        )  # fmt: skip
    out.print(table)
    out.print(
        "arithm.: operation counts, all-digital; core: analog and digital; spikes of the QNN: set "
        "bits; front: no other is at least as good in accuracy, latency and core energy"
    )
    _print_shares([row for row in rows if not row["name"].startswith(_FOUND)])
    slices = report["weight_slices"]
    more = ", ".join(
        f"{one['weight_slices']}: {one['analog_mj']:.4f} mJ "
        f"({one['analog_mj'] / slices[0]['analog_mj']:.2f} x)"
        for one in slices
    )
    out.print(f"macro columns per weight, and analog energy: {more}")
    if report["published"] is not None:
        _print_published(report["published"])
    tags: dict[str, list[str]] = {}
    for value in report["profile"]:
        tags.setdefault(value["tag"], []).append(value["key"])
    for tag, keys in tags.items():
        out.print(f"[bold]{tag}[/]: {', '.join(keys)}")


def _print_shares(rows: list[dict[str, Any]]) -> None:
    """Shares of the core's energy, by stage of the stem, by block, and by part."""
    from rich.table import Table

    by_group: dict[str, dict[str, float]] = {}
    for row in rows:
        for stage in row["stages"]:
            name = stage["name"]
            group = name.partition(".")[0] if name.startswith("block") else name
            shares = by_group.setdefault(group, {})
            shares[row["name"]] = shares.get(row["name"], 0.0) + stage["share"]
        parts = {f"analog: {part}": mj for part, mj in row["analog_parts_mj"].items()}
        parts |= {f"digital: {part}": mj for part, mj in row["digital_parts_mj"].items()}
        for part, mj in parts.items():
            by_group.setdefault(part, {})[row["name"]] = mj / row["core_mj"]
    table = Table("% of core energy", *(row["name"] for row in rows))
    for group, shares in by_group.items():
        if any(shares.values()):  # encoder and classifier lie outside the core
            table.add_row(group, *(f"{100 * shares[row['name']]:.2f}" for row in rows))
    out.print(table)


def _print_published(published: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(f"{published['setting']}, {published['schedule']}", "ours mJ", "paper mJ",
                  "error %", "")  # fmt: skip
    for name, figure in published["figures"].items():
        table.add_row(
            name, f"{figure['ours_mj']:.5f}", f"{figure['paper_mj']:g}",
            f"{figure['error_percent']:+.2f}", figure["kind"],
        )  # fmt: skip
    out.print(table)
    for name in ("analog", "arithmetic"):
        inputs = published[f"{name}_inputs_mj"]
        out.print(f"{name}, mJ: " + ", ".join(f"{key} {mj:+.5f}" for key, mj in inputs.items()))
    for row in published["split"]:
        sides = [
            f"{words} {row[key]['ours_mj']:.5f} (paper {row[key]['paper_mj']:.5f})"
            for key, words in (("per_block", "a block"), ("outside_blocks", "all else"))
        ]
        out.print(f"{row['figure']}, mJ, with the paper's from Large minus Medium: "
                  + ", ".join(sides))  # fmt: skip
    table = Table("what alone would give the paper's figure", "figure", "ours", "needed")
    for row in published["would_close_alone"]:
        needed = "no value can" if row["needed"] is None else f"{row['needed']:.4g}"
        table.add_row(row["input"], row["figure"], f"{row['ours']:.4g}", needed)
    out.print(table)
