"""`falcon-snn studio`: a page on this machine to play with the delays."""

from pathlib import Path

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import notice
from falcon_snn.errors import FalconError


def studio(
    network: str | None = options.Network,
    dataset: str | None = options.Dataset,
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
    no_browser: bool = typer.Option(False, "--no-browser", help="Do not open the page at once."),
) -> None:
    """Open a page to move delays and hardware, and see at once how long the network takes."""
    try:
        from falcon_snn.studio.page import serve
    except ImportError:
        raise FalconError("the studio needs nicegui; pip install 'falcon-snn[studio]'") from None
    from falcon_snn.hardware.profile import load_profile
    from falcon_snn.studio.front import read_front
    from falcon_snn.studio.guard import is_local
    from falcon_snn.studio.start import demand_free, first_page

    profile = load_profile(hardware)
    file = options.optional_file(checkpoint, pretrained)
    name, source = options.built_in_name(network, dataset, graph, file)
    demand_free(host, port)
    start, sample = first_page(
        name, source, graph, file, schedule, profile, data, clips, notice
    )  # fmt: skip
    front = None if search is None else read_front(search, start)
    if not is_local(host):
        notice(
            f"served at {host}: everyone who can reach port {port} of this machine can use the "
            "studio; there is no password and no encryption"
        )
    serve(host, port, not no_browser, start, sample, front)
