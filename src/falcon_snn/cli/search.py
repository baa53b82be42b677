"""`falcon-snn search`: where to wait, and how long."""

import time
from pathlib import Path
from typing import Any

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.groups import spelled_out
from falcon_snn.cli.output import WATCH, JsonFlag, notice, out, print_json, print_table
from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile
from falcon_snn.workflow.networks import Timed

app = typer.Typer(help="Search where a network should wait; random schedules; figures.")


@app.callback(invoke_without_command=True)
@spelled_out
def search(
    context: typer.Context,
    file: Path | None = options.OptionalFile,
    data: str | None = typer.Option(
        None, help="Needed: embedded, a path, or a name in $FALCON_DATA."
    ),
    folder: Path = typer.Option(Path("search-out"), "--out", help="Folder for result and journal."),
    method: str = typer.Option("pds", help="pds (the paper) or frontier (the whole front)."),
    tau: float = typer.Option(
        2.0, help="Least score (R - H) / sqrt(R + H) of a step of pds: it rescues R clips, harms H."
    ),
    eps: float = typer.Option(0.001, help="Least gain of a step of pds, as a share of the clips."),
    delta_max: int | None = typer.Option(None, help="Longest delay (default 3, at most T)."),
    budget_us: float | None = typer.Option(
        None, help="Latency to stay under, µs (default: the QNN's)."
    ),
    evaluations: int | None = typer.Option(
        None, help="Schedules that frontier evaluates (default: 10 per boundary)."
    ),
    split_half: bool = typer.Option(
        False, "--split-half", help="Search on one half of validation, report on the other."
    ),
    limit: int | None = options.Limit,
    random: int = typer.Option(10, help="Random schedules to compare with each chosen one."),
    seed: int = typer.Option(1, help="Seed of the random schedules."),
    engine: str = typer.Option("local", help="local, or ray for many processes or machines."),
    workers: int = typer.Option(2, help="Processes of --engine ray."),
    ray_address: str | None = typer.Option(None, help="Ray cluster (default: start a local one)."),
    device: str = typer.Option(
        "auto", help="auto, cpu or cuda; ray workers take a GPU only with cuda."
    ),
    profile: Profile = options.Chip,
    chips: int = typer.Option(
        0, help="Chips of --hardware, of which most must name a clip correctly; 0: the ideal chip."
    ),
    resume: bool = options.Resume,
    as_json: bool = JsonFlag,
) -> None:
    """Search where a network should wait, under the latency of its QNN."""
    if context.invoked_subcommand is not None:
        return
    if data is None:
        raise FalconError("search needs --data NAME; see search --help")
    from falcon_snn.workflow.searching import SearchSettings
    from falcon_snn.workflow.searching import search as search_delays

    began = time.monotonic()
    result = search_delays(
        options.network_file(file), data, folder,
        SearchSettings(
            method, tau, eps, delta_max, budget_us, evaluations, split_half, limit, random, seed,
            engine, workers, ray_address, device, chips,
        ),
        profile=profile, resume=resume, watch=WATCH,
    )  # fmt: skip
    notice(f"{len(result['evaluated'])} schedules, {time.monotonic() - began:.1f} s")
    _report(result, folder, as_json)


@app.command("random")
@spelled_out
def random_like(
    like: str = typer.Option(..., help="Schedule to imitate: a JSON file or balanced, accurate."),
    n: int = typer.Option(10, "-n", min=1, help="How many schedules."),
    folder: Path = typer.Option(Path("random-out"), "--out", help="Folder for the schedules."),
    seed: int = typer.Option(1, help="Seed of the choice."),
    timed: Timed = options.TimedNetwork,
    profile: Profile = options.Chip,
    as_json: bool = JsonFlag,
) -> None:
    """Write random schedules with the same delays and exactly the same core latency."""
    from falcon_snn.pipeline.batch import core_cycles_many
    from falcon_snn.pipeline.schedule import write_schedule
    from falcon_snn.search.random_schedules import random_schedules

    found = random_schedules(
        tuple(timed.delays(like).values()),
        lambda rows: core_cycles_many(timed.graph, rows, profile), n, seed,
    )  # fmt: skip
    if not found.schedules:
        raise FalconError(f"--like {like}: no other schedule has these delays and this latency")
    files = []
    for number, schedule in enumerate(found.schedules, start=1):
        files.append(folder / f"random-{number:02d}.json")
        named = dict(zip(timed.graph.boundaries, schedule, strict=True))
        write_schedule(files[-1], named, name=f"random {number}", like=like, seed=seed)
    if found.existing is not None:
        notice(f"{found.existing} other schedules have these delays and this latency")
    if len(files) < n:
        notice(f"only {len(files)} of {n} could be written")
    if as_json:
        print_json({"existing": found.existing, "files": [str(file) for file in files]})
        return
    for file, schedule in zip(files, found.schedules, strict=True):
        waits = zip(timed.graph.boundaries, schedule, strict=True)
        out.print(f"{file}: " + _waits({name: d for name, d in waits if d > 1}), soft_wrap=True)


@app.command("plot")
@spelled_out
def plot(
    result: Path = typer.Argument(help="The result.json of a search."),
    folder: Path | None = typer.Option(None, "--out", help="Folder (default: beside the result)."),
    pictures: options.Pictures = options.PictureOptions,
) -> None:
    """Draw what delays do and what was chosen."""
    from falcon_snn.report.search_figures import write_search_figures
    from falcon_snn.report.style import drawn_as
    from falcon_snn.search.result import read_result

    with drawn_as(pictures.look):
        for path in write_search_figures(read_result(result), folder or result.parent):
            notice(f"picture: {path}")


def _waits(delays: dict[str, int]) -> str:
    return ", ".join(f"{name} {delay}" for name, delay in delays.items()) or "nothing waits"


def _report(result: dict[str, Any], folder: Path, as_json: bool) -> None:
    chosen = {name: result["evaluated"][number] for name, number in result["chosen"].items()}
    if as_json:
        print_json({"result": str(folder / "result.json"), "chosen": chosen,
                    "compared": result["chosen_compared"],
                    "held_out": result.get("held_out")})  # fmt: skip
        return
    from falcon_snn.search.result import distinct_pairs, same_chosen

    rows = []
    for names in same_chosen(result):  # equal schedules are shown once
        row, random = chosen[names[0]], result["random"][names[0]]["schedules"]
        others = [100 * result["evaluated"][entry["schedule"]]["accuracy"] for entry in random]
        rows.append({
            "names": ", ".join(names), "percent": 100 * row["accuracy"],
            "ends": [100 * end for end in row["interval"]], "us": row["latency_us"],
            "random": sum(others) / len(others) if others else None,
            "waits": _waits(row["delays"]),
        })  # fmt: skip
    print_table(
        "schedule | accuracy % | 95 % interval | µs | random % | waits",
        "{names} | {percent:.2f} | {ends[0]:.2f} .. {ends[1]:.2f} | {us:.2f} | {random:.2f} | "
        "{waits}",
        rows,
    )  # fmt: skip
    if len(same_chosen(result)) == 1:
        out.print("no wait passed the gates: the three names stand for one schedule")
    for pair in distinct_pairs(result):
        out.print(
            f"{pair['other']} against {pair['one']}: {pair['only_other_right']} clips are right "
            f"under the former alone, {pair['only_one_right']} under the latter alone "
            f"(McNemar p = {pair['p']:.2g})"
        )
    for name, row in result.get("held_out", {}).get("chosen", {}).items():
        out.print(
            f"{name} on the other half: {100 * row['accuracy']:.2f} %; gain over delay 1 "
            f"{100 * row['held_out_gain']:+.2f} points, the search says {100 * row['gain']:+.2f}: "
            f"it flatters itself by {100 * row['flatters_by']:.2f}"
        )
    out.print(f"{folder}/: result.json, fastest.json, balanced.json, accurate.json", soft_wrap=True)
