"""`falcon-snn studio`: a page on this machine to play with the delays."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import notice
from falcon_snn.errors import FalconError

if TYPE_CHECKING:
    from falcon_snn.studio.sample import Sample
    from falcon_snn.studio.state import StudioState


def studio(
    network: str = options.Network,
    dataset: str = options.Dataset,
    checkpoint: Path | None = typer.Option(
        None, help="A checkpoint, or a converted network, to see accuracy and spikes too."
    ),
    pretrained: str | None = options.Pretrained,
    data: str | None = typer.Option(
        None, help="'embedded', a path, or a name in $FALCON_DATA; by default embedded, if it fits."
    ),
    clips: int = typer.Option(64, min=1, help="Validation clips to run, evenly chosen."),
    host: str = typer.Option("127.0.0.1", help="Address to serve at; by default this machine."),
    port: int = typer.Option(8080, min=1, max=65535, help="Port to serve at."),
    browser: bool = typer.Option(True, "--browser/--no-browser", help="Open the page at once."),
) -> None:
    """Open a page to move delays and hardware, and see at once what the network then takes."""
    try:
        from falcon_snn.studio.page import serve
    except ImportError:
        raise FalconError("the studio needs nicegui; install falcon-snn[studio]") from None
    from falcon_snn.studio.state import first_state

    file = options.optional_file(checkpoint, pretrained)
    _demand_free(host, port)
    start, sample = first_state(network, dataset), None
    if file is not None:
        start, sample = _load(file, data, clips)
    serve(host, port, browser, start, sample)


def _load(checkpoint: Path, data: str | None, clips: int) -> "tuple[StudioState, Sample | None]":
    from falcon_snn.studio.sample import Sample
    from falcon_snn.studio.state import own_state
    from falcon_snn.training.export import load_network
    from falcon_snn.workflow.sources import load_split

    _, metadata = load_network(checkpoint)  # a file that cannot be run is refused at once
    start = own_state(metadata.network, metadata.delays)
    try:
        examples = load_split(data or "embedded", "validation", clips, metadata.words)
    except FalconError as error:
        if data is not None:
            raise
        notice(f"no clips to run ({error}); give --data")
        return start, None
    return start, Sample(checkpoint, start, examples)


def _demand_free(host: str, port: int) -> None:
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            reason = error.strerror or error
            raise FalconError(f"cannot serve at {host}:{port} ({reason}); try --port") from None
