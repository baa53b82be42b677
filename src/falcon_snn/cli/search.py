"""`falcon-snn search`: where to wait, and how long."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli import networks
from falcon_snn.cli.output import JsonFlag, err, notice, out, print_json
from falcon_snn.errors import FalconError

if TYPE_CHECKING:
    from falcon_snn.search.evaluations import Progress
    from falcon_snn.search.predictor import Engine, Predictor
    from falcon_snn.search.run import Method

METHODS = ("pds", "frontier")
ENGINES = ("local", "ray")

app = typer.Typer(help="Search where a network should wait; random schedules; figures.")


@app.callback(invoke_without_command=True)
def search(
    context: typer.Context,
    checkpoint: Path | None = networks.Checkpoint,
    pretrained: str | None = networks.Pretrained,
    data: str | None = typer.Option(None, help="Data set: a name under FALCON_DATA or a path."),
    folder: Path = typer.Option(Path("search-out"), "--out", help="Folder for result and journal."),
    method: str = typer.Option("pds", help="pds (the paper) or frontier (the whole front)."),
    tau: float = typer.Option(2.0, help="Smallest rescue score (R - H) / sqrt(R + H)."),
    eps: float = typer.Option(0.001, help="Smallest accuracy gain of a step."),
    delta_max: int = typer.Option(3, help="Longest delay."),
    budget_us: float | None = typer.Option(None, help="Latency to stay under (default: the QNN)."),
    evaluations: int | None = typer.Option(
        None, help="Schedules that frontier evaluates (default: 10 per boundary)."
    ),
    split_half: bool = typer.Option(
        False, "--split-half", help="Search on one half of validation, report on the other."
    ),
    limit: int | None = typer.Option(None, help="Use only so many clips."),
    random: int = typer.Option(10, help="Random schedules to set beside each chosen one."),
    seed: int = typer.Option(1, help="Seed of the random schedules."),
    engine: str = typer.Option("local", help="local, or ray for many processes or machines."),
    workers: int = typer.Option(2, help="Processes of --engine ray."),
    ray_address: str | None = typer.Option(None, help="Ray cluster (default: start a local one)."),
    device: str = typer.Option(
        "auto", help="auto, cpu or cuda; ray workers take a GPU only if told cuda."
    ),
    hardware: str | None = options.Hardware,
    attention: str | None = options.Attention,
    resume: bool = typer.Option(False, "--resume", help="Go on with an interrupted search."),
    as_json: bool = JsonFlag,
) -> None:
    """Search where a network should wait, under the latency of its QNN."""
    if context.invoked_subcommand is not None:
        return
    if data is None:
        raise FalconError("search needs --data NAME; see search --help")
    checkpoint = networks.network_file(checkpoint, pretrained)
    _known("--method", method, METHODS)
    _known("--engine", engine, ENGINES)

    from falcon_snn.files import sha256_of
    from falcon_snn.search.predictor import local_engine
    from falcon_snn.search.run import Surroundings, run_search
    from falcon_snn.training.checkpoint import load_metadata

    config = load_metadata(checkpoint).config
    profile = options.choose_profile(hardware, attention)
    if not 1 <= delta_max <= config.slots:
        raise FalconError(f"--delta-max is {delta_max}; it must lie in 1..{config.slots}")
    space = networks.falcon_space(config, profile, delta_max, budget_us)
    if space.cycles([space.start])[0] >= space.budget_cycles:
        notice("even delay 1 everywhere is not under the budget: there is nothing to search")
    evaluations = 10 * len(space.boundaries) if evaluations is None else evaluations
    settings: dict[str, Any] = {"tau": tau, "eps": eps, "delta_max": delta_max, "seed": seed}
    if method != "pds":
        settings["evaluations"] = evaluations
    facts = {
        "method": method,
        "settings": settings,
        "network": {"checkpoint": checkpoint.name, "sha256": sha256_of(checkpoint)},
        "data": {"source": data, "split": "validation", "limit": limit, "split_half": split_half},
        "hardware": {"profile": profile.name, "attention": profile.attention},
        "random": random,
    }
    predictor = partial(
        networks.falcon_predictor, checkpoint, data, "validation", limit=limit, device=device
    )
    half = 0 if split_half else None
    began = time.monotonic()
    with (
        _engine(engine, partial(predictor, half=half), workers, ray_address, device) as evaluate,
        schedule_bar() as progress,
    ):
        result = run_search(
            space,
            evaluate,
            _method(method, tau, eps, evaluations),
            Surroundings(profile.cycle_ns, config.slots, random, seed),
            out=folder,
            facts=facts,
            resume=resume,
            held_out=local_engine(predictor(half=1)) if split_half else None,
            progress=progress,
        )
    notice(f"{len(result['evaluated'])} schedules, {time.monotonic() - began:.1f} s")
    _report(result, folder, as_json)


@app.command("random")
def random_like(
    like: str = typer.Option(..., help="Schedule to imitate: a JSON file or balanced, accurate."),
    n: int = typer.Option(10, "-n", help="How many schedules."),
    folder: Path = typer.Option(Path("random-out"), "--out", help="Folder for the schedules."),
    seed: int = typer.Option(1, help="Seed of the choice."),
    model: str = options.Model,
    dataset: str = options.Dataset,
    graph: Path | None = options.GraphFile,
    slots: int | None = options.Slots,
    qk_prefix: int | None = options.QkPrefix,
    hardware: str | None = options.Hardware,
    attention: str | None = options.Attention,
    as_json: bool = JsonFlag,
) -> None:
    """Write random schedules with the same delays and exactly the same core latency."""
    from falcon_snn.pipeline.batch import core_cycles_many
    from falcon_snn.pipeline.schedule import write_schedule
    from falcon_snn.search.random_schedules import random_schedules

    network = options.choose_graph(model, dataset, graph, slots, qk_prefix)
    profile = options.choose_profile(hardware, attention)
    delays = options.choose_delays(like, [], network, model, dataset, graph is not None)
    found = random_schedules(
        tuple(delays.values()), lambda rows: core_cycles_many(network, rows, profile), n, seed
    )
    files = []
    for number, schedule in enumerate(found.schedules, start=1):
        files.append(folder / f"random-{number:02d}.json")
        named = dict(zip(network.boundaries, schedule, strict=True))
        write_schedule(files[-1], named, name=f"random {number}", like=like, seed=seed)
    if found.existing is not None:
        notice(f"{found.existing} other schedules have these delays and this latency")
    if len(files) < n:
        notice(f"only {len(files)} of {n} could be written")
    if as_json:
        print_json({"existing": found.existing, "files": [str(file) for file in files]})
        return
    for file, schedule in zip(files, found.schedules, strict=True):
        waits = zip(network.boundaries, schedule, strict=True)
        out.print(f"{file}: " + _waits({name: d for name, d in waits if d > 1}), soft_wrap=True)


@app.command("plot")
def plot(
    result: Path = typer.Argument(help="The result.json of a search."),
    folder: Path | None = typer.Option(None, "--out", help="Folder (default: beside the result)."),
) -> None:
    """Draw what delays do and what was chosen."""
    from falcon_snn.report.search_figures import write_search_figures
    from falcon_snn.search.result import read_result

    for path in write_search_figures(read_result(result), folder or result.parent):
        out.print(str(path), soft_wrap=True)


def _known(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise FalconError(f"{option} is '{value}'; choose one of {', '.join(allowed)}")


def _method(name: str, tau: float, eps: float, evaluations: int) -> "Method":
    from falcon_snn.search.frontier import FrontierSettings, frontier
    from falcon_snn.search.pds import Gates, pds

    gates = Gates(tau, eps)
    if name == "pds":
        return partial(pds, gates=gates)
    return partial(frontier, settings=FrontierSettings(evaluations), gates=gates)


@contextmanager
def _engine(
    name: str, factory: "Callable[[], Predictor]", workers: int, address: str | None, device: str
) -> "Iterator[Engine]":
    from falcon_snn.search.predictor import local_engine
    from falcon_snn.search.ray_engine import ray_engine

    if name == "local":
        yield local_engine(factory())
    else:
        with ray_engine(factory, workers, address, gpu=device == "cuda") as engine:
            yield engine


@contextmanager
def schedule_bar() -> "Iterator[Progress]":
    """Schedules done, per second, and the time that those now wanted will take."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("schedules"), BarColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=err) as bar:
        task = bar.add_task("", total=None, rate="")

        def show(done: int, wanted: int) -> None:
            speed = bar.tasks[0].speed
            rate = f"{speed:.1f}/s" if speed else ""
            bar.update(task, completed=done, total=wanted, rate=rate)

        yield show


def _waits(delays: dict[str, int]) -> str:
    return ", ".join(f"{name} {delay}" for name, delay in delays.items()) or "none waits"


def _report(result: dict[str, Any], folder: Path, as_json: bool) -> None:
    chosen = {name: result["evaluated"][number] for name, number in result["chosen"].items()}
    if as_json:
        print_json(
            {
                "result": str(folder / "result.json"),
                "chosen": chosen,
                "compared": result["chosen_compared"],
                "held_out": result.get("held_out"),
            }
        )
        return
    from rich.table import Table

    table = Table("schedule", "accuracy %", "95 % interval", "us", "random %", "waits")
    for name, row in chosen.items():
        others = [
            100 * result["evaluated"][entry["schedule"]]["accuracy"]
            for entry in result["random"][name]["schedules"]
        ]
        low, high = row["interval"]
        table.add_row(
            name, f"{100 * row['accuracy']:.2f}", f"{100 * low:.2f} .. {100 * high:.2f}",
            f"{row['latency_us']:.2f}", f"{sum(others) / len(others):.2f}" if others else "-",
            _waits(row["delays"]),
        )  # fmt: skip
    out.print(table)
    for pair in result["chosen_compared"]:
        out.print(
            f"{pair['other']} against {pair['one']}: {pair['only_other_right']} clips only the "
            f"former, {pair['only_one_right']} only the latter, McNemar p = {pair['p']:.2g}"
        )
    for name, row in result.get("held_out", {}).get("chosen", {}).items():
        out.print(
            f"{name} on the other half: {100 * row['accuracy']:.2f} %; gain over delay 1 "
            f"{100 * row['held_out_gain']:+.2f} points, the search says {100 * row['gain']:+.2f}: "
            f"it flatters itself by {100 * row['flatters_by']:.2f}"
        )
    out.print(f"{folder}/: result.json, fastest.json, balanced.json, accurate.json", soft_wrap=True)
