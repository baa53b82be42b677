"""`falcon-snn studio`: a page on this machine to play with the delays."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from falcon_snn.errors import FalconError

if TYPE_CHECKING:
    from falcon_snn.studio.sample import Sample
    from falcon_snn.studio.state import StudioState


def studio(
    checkpoint: Path | None = typer.Option(
        None, help="A checkpoint, or a converted network, to see accuracy and spikes too."
    ),
    data: str = typer.Option("embedded", help="'embedded', a path, or a name in $FALCON_DATA."),
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

    _demand_free(host, port)
    start, sample = first_state(), None
    if checkpoint is not None:
        start, sample = _load(checkpoint, data, clips)
    serve(host, port, browser, start, sample)


def _load(checkpoint: Path, data: str, clips: int) -> "tuple[StudioState, Sample]":
    from falcon_snn.cli.networks import load_split
    from falcon_snn.config import names_of
    from falcon_snn.studio.sample import Sample
    from falcon_snn.studio.state import first_state
    from falcon_snn.training.export import load_network

    _, metadata = load_network(checkpoint)
    config = metadata.config
    start = first_state(*names_of(config), config.slots, config.prefix)
    if replace(start.config, classes=config.classes, qk_prefix=config.qk_prefix) != config:
        raise FalconError(f"{checkpoint}: not a tiny, medium or large Falcon network")
    return start, Sample(checkpoint, start, load_split(data, "validation", clips, metadata.words))


def _demand_free(host: str, port: int) -> None:
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            reason = error.strerror or error
            raise FalconError(f"cannot serve at {host}:{port} ({reason}); try --port") from None
