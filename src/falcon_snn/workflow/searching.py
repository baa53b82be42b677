"""Where to wait: a search from a checkpoint and data to the chosen schedules."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from falcon_snn.errors import FalconError, Stopped
from falcon_snn.files import locked
from falcon_snn.forms import MOST_CHIPS, MOST_SEED, MOST_WORKERS, demand_within
from falcon_snn.hardware.profile import Profile, load_profile, profile_toml
from falcon_snn.network.calibrate import CALIBRATION_CLIPS, calibrate
from falcon_snn.network.chip import FIRST_CHIP, sampled
from falcon_snn.network.compile_ahead import compile_ahead, load_compiler
from falcon_snn.network.description import Network
from falcon_snn.pipeline.batch import core_cycles_many
from falcon_snn.pipeline.timing import qnn_cycles
from falcon_snn.search.frontier import FrontierSettings, frontier
from falcon_snn.search.network_predictor import NetworkPredictor
from falcon_snn.search.pds import Gates, pds
from falcon_snn.search.predictor import Engine, Majority, Predictor, local_engine
from falcon_snn.search.ray_engine import ray_engine
from falcon_snn.search.run import Method, Surroundings, run_search
from falcon_snn.search.space import Space
from falcon_snn.training.checkpoint import load_metadata
from falcon_snn.training.evaluate import batches
from falcon_snn.training.export import load_network
from falcon_snn.workflow.sources import (
    DEVICES,
    Data,
    chosen,
    data_source,
    fingerprint,
    load_split,
)
from falcon_snn.workflow.sources import device as choose_device
from falcon_snn.workflow.watch import SILENT, Watch
from falcon_snn.workflow.workers import ENGINES

METHODS = ("pds", "frontier")
_RANGES = {
    "limit": (1, inf), "evaluations": (1, inf), "delta_max": (1, inf), "workers": (1, MOST_WORKERS),
    "tau": (0, 1e9), "eps": (0, 1e9), "budget_us": (0, 1e9), "random": (0, 1_000),
    "chips": (0, MOST_CHIPS), "seed": (0, MOST_SEED),
}  # fmt: skip


@dataclass(frozen=True)
class SearchSettings:
    """How a search goes; the defaults are the paper's."""

    method: str = "pds"
    tau: float = Gates.tau  # smallest rescue score (R - H) / sqrt(R + H)
    eps: float = Gates.eps  # smallest accuracy gain of a step
    delta_max: int | None = None  # longest delay; None: 3, or all slots if they are fewer
    budget_us: float | None = None  # latency to stay under; None: the matched QNN's
    evaluations: int | None = None  # schedules that frontier evaluates; None: 10 per boundary
    split_half: bool = False  # search on one half of validation, report on the other
    limit: int | None = None  # clips; None: all
    random: int = 10  # random schedules to compare with each chosen one
    seed: int = 1  # of the random schedules
    engine: str = "local"
    workers: int = 2
    ray_address: str | None = None
    device: str = "auto"
    chips: int = 0  # of the profile, most of which must agree on a clip; 0: the ideal chip

    def __post_init__(self) -> None:
        for key, allowed in (("method", METHODS), ("engine", ENGINES), ("device", DEVICES)):
            if getattr(self, key) not in allowed:
                raise FalconError(
                    f"--{key} is '{getattr(self, key)[:40]}'; choose one of {', '.join(allowed)}"
                )
        for key, (low, high) in _RANGES.items():
            value = getattr(self, key)
            if value is not None:
                demand_within(f"--{key.replace('_', '-')}", value, low, high)
        if self.ray_address is not None and self.engine != "ray":
            raise FalconError("--ray-address is for --engine ray")
        if self.evaluations is not None and self.method == "pds":
            raise FalconError("--evaluations is for --method frontier; pds ends by itself")
        if self.method == "frontier" and (self.tau, self.eps) != (Gates.tau, Gates.eps):
            raise FalconError("--tau and --eps are for --method pds; frontier has no gates")


def search(
    checkpoint: Path, data: Data, out: Path | str, settings: SearchSettings | None = None, *,
    profile: Profile | None = None, resume: bool = False, watch: Watch = SILENT,
) -> dict[str, Any]:  # fmt: skip
    """Search where a network should wait, under the latency of its QNN; `result.json` as data."""
    settings, profile = settings or SearchSettings(), profile or load_profile()
    network = load_metadata(checkpoint).network
    longest = min(3, network.slots) if settings.delta_max is None else settings.delta_max
    if longest > network.slots:
        raise FalconError(f"--delta-max is {longest}; it must lie in 1..{network.slots}")
    settings = replace(settings, delta_max=longest)
    space = search_space(network, profile, longest, settings.budget_us)
    if space.cycles([space.start])[0] >= space.budget_cycles:
        watch.notice("even delay 1 everywhere is not under the budget: there is nothing to search")
    predictor = partial(
        predictor_of, checkpoint, data_source(data), longest=longest, limit=settings.limit,
        device=settings.device,
    )  # fmt: skip
    if settings.chips:
        predictor = partial(predictor, profile=profile, chips=settings.chips)
    half = 0 if settings.split_half else None
    evaluated = 0

    def count(done: int, wanted: int) -> None:
        nonlocal evaluated
        evaluated = done
        show(done, wanted)

    try:
        with (
            locked(Path(out)),
            _engine(settings, partial(predictor, half=half)) as engine,
            watch.schedules() as show,
        ):
            return run_search(
                space,
                engine,
                _method(settings, space),
                Surroundings(profile.cycle_ns, network.slots, settings.random, settings.seed),
                out=Path(out),
                facts=_facts(checkpoint, data, settings, profile),
                resume=resume,
                held_out=local_engine(predictor(half=1)) if settings.split_half else None,
                progress=count,
            )
    except KeyboardInterrupt:
        raise Stopped(f"stopped after {evaluated} schedules") from None


def search_space(
    network: Network, profile: Profile, delta_max: int, budget_us: float | None = None
) -> Space:
    """What a search may choose from; by default it stays under the network's QNN."""
    graph = network.graph
    budget_cycles = (
        qnn_cycles(graph, profile)
        if budget_us is None
        else round(budget_us * 1000 / profile.cycle_ns)
    )
    return Space(
        graph.boundaries,
        lambda delays: core_cycles_many(graph, delays, profile),
        budget_cycles,
        delta_max,
    )


def predictor_of(
    checkpoint: Path, data: str, *, longest: int = 1, limit: int | None = None,
    half: int | None = None, device: str = "auto", profile: Profile | None = None,
    chips: int = 0,
) -> Predictor:  # fmt: skip
    """The integer network of a checkpoint on validation clips, as a search asks it.

    `half` 0 or 1 keeps every other clip, from the first or from the second on. On chips of a
    profile, ranges of converters are those under delay 1. A GPU gets its kernels for delays up to
    `longest` while the clips are read.
    """
    snn, metadata = load_network(checkpoint)
    where = choose_device(device)
    batch = 2048 if where.type == "cuda" else 64
    delays = {*range(1, longest + 1), snn.network.slots}
    uniform = [dict.fromkeys(snn.network.boundaries, delay) for delay in delays]
    with ThreadPoolExecutor(1) as aside:  # kernels are compiled while clips are read
        aside.submit(load_compiler, where)  # and their compiler is loaded while the GPU wakes up
        snn = snn.to(where)
        compiled = aside.submit(compile_ahead, snn, [] if chips else uniform)
        examples = load_split(data, "validation", limit, metadata.words)
        compiled.result()
    if half is not None:
        if len(examples) < 2:
            raise FalconError("--split-half: one validation clip has no halves; give 2 or more")
        examples = chosen(examples, range(half, len(examples), 2))
    if profile is None or not chips:
        return NetworkPredictor(snn, examples, batch)
    few = chosen(examples, range(0, len(examples), -(-len(examples) // CALIBRATION_CLIPS)))
    first = dict.fromkeys(snn.network.boundaries, 1)
    ranges = calibrate(snn, profile, *next(batches(few, where)), first)
    return Majority([
        NetworkPredictor(sampled(snn, profile, seed, ranges), examples, batch)
        for seed in range(FIRST_CHIP, FIRST_CHIP + chips)
    ])  # fmt: skip


def _facts(
    checkpoint: Path, data: Data, settings: SearchSettings, profile: Profile
) -> dict[str, Any]:
    """What the result says about its origin, and what a resumed search must match."""
    known: dict[str, Any] = {
        "tau": settings.tau, "eps": settings.eps, "delta_max": settings.delta_max,
        "seed": settings.seed,
    }  # fmt: skip
    if settings.chips:
        known |= {"chips": settings.chips, "hardware": profile_toml(profile)}
    if settings.method != "pds":
        known["evaluations"] = settings.evaluations or 0
    facts = fingerprint(data, start=checkpoint)
    return {
        "method": settings.method,
        "settings": known,
        "network": {"checkpoint": checkpoint.name, "sha256": facts["start"]},
        "data": {
            **facts["data"], "split": "validation", "limit": settings.limit,
            "split_half": settings.split_half,
        },
        "hardware": {"profile": profile.name, "attention": profile.attention},
        "random": settings.random,
    }  # fmt: skip


def _method(settings: SearchSettings, space: Space) -> Method:
    gates = Gates(settings.tau, settings.eps)
    if settings.method == "pds":
        return partial(pds, gates=gates)
    evaluations = settings.evaluations or 10 * len(space.boundaries)
    return partial(frontier, settings=FrontierSettings(evaluations), gates=gates)


@contextmanager
def _engine(settings: SearchSettings, factory: "partial[Predictor]") -> Iterator[Engine]:
    if settings.engine == "local":
        yield local_engine(factory())
    else:
        gpu = settings.device == "cuda"
        with ray_engine(factory, settings.workers, settings.ray_address, gpu=gpu) as engine:
            yield engine
