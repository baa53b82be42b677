"""`falcon-snn studio`: a page on this machine to play with the delays."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import notice
from falcon_snn.errors import FalconError

if TYPE_CHECKING:
    from falcon_snn.hardware.profile import Profile
    from falcon_snn.pipeline.schedule import Delays
    from falcon_snn.studio.sample import ClipSample
    from falcon_snn.studio.state import StudioState


def studio(
    network: str = options.Network,
    dataset: str = options.Dataset,
    checkpoint: Path | None = typer.Option(
        None, help="A checkpoint, or a converted network, to see accuracy and spikes too."
    ),
    pretrained: str | None = options.Pretrained,
    graph: Path | None = options.GraphFile,
    schedule: str | None = options.Schedule,
    hardware: str | None = options.Hardware,
    search: Path | None = typer.Option(
        None, help="A search's result.json: its schedules as a front; a click loads one."
    ),
    data: str | None = typer.Option(
        None, help="'embedded', a path, or a name in $FALCON_DATA; by default embedded, if it fits."
    ),
    clips: int = typer.Option(64, min=1, help="Validation clips to run, evenly spaced."),
    host: str = typer.Option("127.0.0.1", help="Address to serve at; by default this machine."),
    port: int = typer.Option(8080, min=1, max=65535, help="Port to serve at."),
    browser: bool = typer.Option(True, "--browser/--no-browser", help="Open the page at once."),
) -> None:
    """Open a page to move delays and hardware, and see at once how long the network takes."""
    try:
        from falcon_snn.studio.page import serve
    except ImportError:
        raise FalconError("the studio needs nicegui; install falcon-snn[studio]") from None
    from falcon_snn.hardware.profile import load_profile
    from falcon_snn.studio.front import read_front
    from falcon_snn.studio.guard import is_local
    from falcon_snn.studio.state import first_state, own_state
    from falcon_snn.workflow.networks import timed_network

    profile = load_profile(hardware)
    file = options.optional_file(checkpoint, pretrained)
    _demand_free(host, port)
    sample = None
    if graph is not None:
        if data is not None:
            raise FalconError("--data needs a checkpoint: a graph has no weights to run clips with")
        stages = timed_network(graph=graph, checkpoint=file).graph
        start = _begin(own_state(stages, None), None, schedule, profile)
    elif file is not None:
        start, sample = _load(file, data, clips, schedule, profile)
    else:
        start = _begin(first_state(network, dataset), None, schedule, profile)
    front = None if search is None else read_front(search, start)
    if not is_local(host):
        notice(
            f"served at {host}: everyone who can reach port {port} of this machine can use the "
            "studio; there is no password and no encryption"
        )
    serve(host, port, browser, start, sample, front)


def _begin(
    start: "StudioState", own: "Delays | None", schedule: str | None, profile: "Profile"
) -> "StudioState":
    """The start under another schedule and on other hardware, if they are given."""
    from falcon_snn.workflow.networks import delays_of

    delays = start.delays if schedule is None else delays_of(schedule, start.network, own)
    return replace(start, delays=delays, profile=profile)


def _load(
    checkpoint: Path, data: str | None, clips: int, schedule: str | None, profile: "Profile"
) -> "tuple[StudioState, ClipSample | None]":
    from falcon_snn.studio.sample import ClipSample
    from falcon_snn.studio.state import own_state
    from falcon_snn.training.export import load_network
    from falcon_snn.workflow.sources import load_split

    _, metadata = load_network(checkpoint)  # a file that cannot be run is refused at once
    start = _begin(own_state(metadata.network, metadata.delays), metadata.delays, schedule, profile)
    try:
        examples = load_split(data or "embedded", "validation", clips, metadata.words)
    except FalconError as error:
        if data is not None:
            raise
        notice(f"no clips to run ({error}); give --data")
        return start, None
    return start, ClipSample(checkpoint, start, examples)


def _demand_free(host: str, port: int) -> None:
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            reason = error.strerror or error
            raise FalconError(f"cannot serve at {host}:{port} ({reason}); try --port") from None
