"""What the page begins with: a network, its delays, its hardware, and clips to run if there are."""

import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile
from falcon_snn.pipeline.schedule import Delays
from falcon_snn.studio.sample import ClipSample
from falcon_snn.studio.state import StudioState, first_state, own_state
from falcon_snn.training.export import load_network
from falcon_snn.workflow.networks import delays_of, timed_network
from falcon_snn.workflow.sources import load_split


def first_page(
    network: str, dataset: str, graph: Path | None, checkpoint: Path | None,
    schedule: str | None, profile: Profile, data: str | None, clips: int,
    notice: Callable[[str], None],
) -> tuple[StudioState, ClipSample | None]:  # fmt: skip
    """The state of a graph's, a checkpoint's or a built-in network; a checkpoint runs clips."""

    def begin(start: StudioState, own: Delays | None = None) -> StudioState:
        delays = start.delays if schedule is None else delays_of(schedule, start.network, own)
        return replace(start, delays=delays, profile=profile)

    if checkpoint is None and data is not None:
        raise FalconError("--data needs a checkpoint: there are no weights to run clips with")
    if graph is not None:
        stages = timed_network(graph=graph, checkpoint=checkpoint).graph
        return begin(own_state(stages, None)), None
    if checkpoint is None:
        return begin(first_state(network, dataset)), None
    _, metadata = load_network(checkpoint)  # a file that cannot be run is refused at once
    start = begin(own_state(metadata.network, metadata.delays), metadata.delays)
    try:
        examples = load_split(data or "embedded", "validation", clips, metadata.words)
    except FalconError as error:
        if data is not None:
            raise
        notice(f"no clips to run ({error}); give --data")
        return start, None
    return start, ClipSample(checkpoint, start, examples)


def demand_free(host: str, port: int) -> None:
    """Refuse an address that something else serves at, and none, which would be all of them."""
    if not host:
        raise FalconError("--host is empty; give an address, such as 127.0.0.1")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, TypeError, ValueError) as error:  # the latter: no possible name
            reason = getattr(error, "strerror", None) or error
            raise FalconError(f"cannot serve at {host}:{port} ({reason}); try --port") from None
