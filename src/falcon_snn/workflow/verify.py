"""The latency, executed: a network as hardware in a simulator, against model and integers."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from torch import Tensor

from falcon_snn.errors import FalconError
from falcon_snn.forms import MOST_CHIPS, MOST_SEED, demand_within
from falcon_snn.hardware.profile import Profile, load_profile
from falcon_snn.interchange.verilog.design import Design
from falcon_snn.interchange.verilog.folder import ClipRun, write_folder
from falcon_snn.interchange.verilog.simulate import Simulated, build, demand_tools, simulate
from falcon_snn.network.description import Network
from falcon_snn.network.integer import Snn
from falcon_snn.pipeline.schedule import Delays
from falcon_snn.pipeline.timing import time_snn
from falcon_snn.training.export import load_network
from falcon_snn.workflow.networks import delays_of
from falcon_snn.workflow.sources import Data, load_split
from falcon_snn.workflow.watch import SILENT, Watch


@dataclass(frozen=True)
class Verified:
    """What was executed, and what came out."""

    network: str
    core_us: dict[str, float]  # core latency of each schedule, as predicted
    runs: int
    simulated: Simulated


def verify(
    checkpoint: Path, data: Data | None = None, *, clips: int = 2, schedules: int = 4,
    named: Sequence[str] = (), profile: Profile | None = None, seed: int = 0,
    watch: Watch = SILENT,
) -> Verified:  # fmt: skip
    """Execute a network under `schedules` random schedules and those named, each on `clips` inputs.

    Inputs are clips of the test split of `data`, or random numbers if no data is given.
    """
    demand_within("--clips", clips, 1, MOST_CHIPS)
    demand_within("--random", schedules, 0, MOST_CHIPS)
    demand_within("--seed", seed, 0, MOST_SEED)
    snn, metadata = load_network(checkpoint)
    x = random_inputs(snn.network, clips, seed)
    if data is not None:
        x = load_split(data, "test", clips).x  # of any classes: nothing is labelled here
        snn.network.source.fit(x[:1])
    chosen = {name: delays_of(name, snn.network, metadata.delays) for name in named}
    return verify_snn(snn, x, chosen, schedules, profile=profile, seed=seed, watch=watch)


def verify_snn(
    snn: Snn, x: Tensor, named: dict[str, Delays], schedules: int, *,
    profile: Profile | None = None, seed: int = 0, watch: Watch = SILENT,
) -> Verified:  # fmt: skip
    """The same for integers in memory and inputs [clip, ...]."""
    if not named and schedules < 1:
        raise FalconError("nothing to run; give --random 1 or more, or a --schedule")
    demand_tools()
    profile, snn = profile or load_profile(), snn.to("cpu")
    chosen = named | random_schedules(Design(snn, profile), schedules, seed)
    runs = [ClipRun(x[i : i + 1], delays) for delays in chosen.values() for i in range(len(x))]
    with tempfile.TemporaryDirectory(prefix="falcon-verilog-") as place:
        folder = Path(place) / "design"
        watch.notice(f"writing {len(runs)} expected runs")
        write_folder(folder, snn, profile, runs)
        watch.notice("building with Verilator")
        build(folder)
        watch.notice("running")
        simulated = simulate(folder)
    graph = snn.network.graph
    core = {name: time_snn(graph, delays, profile).core_us for name, delays in chosen.items()}
    return Verified(snn.network.name, core, len(runs), simulated)


def random_schedules(design: Design, number: int, seed: int) -> dict[str, Delays]:
    """Delays in 1..T at every boundary, 1 where the hardware takes no other."""
    random, network = Random(seed), design.network
    return {
        f"random {index}": {
            name: 1 if name in design.from_source else random.randint(1, network.slots)
            for name in network.boundaries
        }
        for index in range(number)
    }


def random_inputs(network: Network, clips: int, seed: int) -> Tensor:
    """Random inputs of a network [clip, line, pixel, channel]."""
    draw, source = torch.Generator().manual_seed(seed), network.source
    shape = (clips, *source.input)
    if source.given:
        return torch.randint(0, network.slots + 1, shape, generator=draw).float()
    return 40 * torch.randn(shape, generator=draw) / source.levels + source.zero
