"""Options that several commands share: which network, which schedule, which hardware."""

from dataclasses import replace
from pathlib import Path

import typer

from falcon_snn.config import falcon_config
from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile, load_profile
from falcon_snn.pipeline.falcon_graph import falcon_graph
from falcon_snn.pipeline.graph import Graph, read_graph
from falcon_snn.pipeline.schedule import Delays, parse_delays, parse_schedule, with_delays

Model = typer.Option("medium", "--model", help="Falcon network: tiny, medium or large.")
Dataset = typer.Option("gsc", "--dataset", help="Input: gsc (98 tokens) or ssc (100 tokens).")
GraphFile = typer.Option(
    None, "--graph", help="A network of your own: a stage graph (.toml) or NIR (.nir)."
)
Slots = typer.Option(None, "--slots", help="Spike slots T of every stage (default 7).")
QkPrefix = typer.Option(None, "--qk-prefix", help="Slots that Q and K wait for (default: all).")
Hardware = typer.Option(None, "--hardware", help="Hardware profile: a shipped name or a TOML file.")
Attention = typer.Option(None, "--attention", help="serial (the paper) or streamed.")
Schedule = typer.Option(
    "fastest", "--schedule", help="fastest, balanced, accurate, full, uniform:D or a JSON file."
)
DelayChanges = typer.Option([], "--delay", help="BOUNDARY=D changes one delay; may be repeated.")


def choose_graph(
    model: str, dataset: str, graph: Path | None, slots: int | None, qk_prefix: int | None
) -> Graph:
    """The network that the options name."""
    if graph is None:
        config = falcon_config(
            model, dataset, slots=7 if slots is None else slots, qk_prefix=qk_prefix
        )
        return replace(falcon_graph(config), name=f"Falcon-{model.capitalize()} {dataset.upper()}")
    chosen = _read_nir(graph, slots) if graph.suffix == ".nir" else read_graph(graph)
    if qk_prefix is not None:
        stages = tuple(
            replace(stage, prefix=qk_prefix) if stage.kind == "quantise" else stage
            for stage in chosen.stages
        )
        chosen = replace(chosen, stages=stages)
    return chosen if slots is None else replace(chosen, slots=slots)


def _read_nir(path: Path, slots: int | None) -> Graph:
    from falcon_snn.interchange.nir_graph import graph_from_nir

    return graph_from_nir(path, slots)


def choose_profile(hardware: str | None, attention: str | None) -> Profile:
    """The chip that the options name."""
    profile = load_profile(hardware)
    if attention is None:
        return profile
    if attention not in ("serial", "streamed"):
        raise FalconError(f"--attention is '{attention}'; allowed: serial, streamed")
    return replace(profile, attention=attention)


def choose_delays(
    schedule: str, changes: list[str], graph: Graph, model: str, dataset: str, own: bool
) -> Delays:
    """The schedule that the options name; `own` says that the graph is not one of Falcon's."""
    if own:
        delays = parse_delays(schedule, graph.boundaries, graph.slots)
    else:
        config = falcon_config(model, dataset, slots=graph.slots)
        delays = parse_schedule(schedule, config, dataset, model)
    return with_delays(delays, changes, graph.slots)
