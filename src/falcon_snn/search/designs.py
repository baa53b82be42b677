"""Which networks could run on a chip: every design of a space, with what it costs untrained.

Latency and tiles are exact, and the energy is the least that a design can need (no spike at all),
so what breaks a limit is known before a single step is trained.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import combinations_with_replacement, islice, product
from pathlib import Path
from typing import Any

import numpy as np

from falcon_snn.errors import FalconError
from falcon_snn.files import read_toml
from falcon_snn.hardware.profile import Profile
from falcon_snn.network.activity import least_energy
from falcon_snn.network.description import Network
from falcon_snn.network.falcon import FalconConfig, falcon
from falcon_snn.network.kestrel import KestrelConfig, kestrel
from falcon_snn.network.samples import Samples
from falcon_snn.neuron.encoding import MAX_SLOTS
from falcon_snn.pipeline.resources import count_resources
from falcon_snn.pipeline.schedule import Delays
from falcon_snn.pipeline.timing import time_snn

SPACES = ("default", "tiny")
MOST_DESIGNS = 20_000
KEYS = {
    "kestrel": ("stem_channels", "blocks", "widths", "long_blocks"),
    "falcon": ("blocks", "hidden", "stem_stride", "qk_prefix"),
}
MOST = {"slots": MAX_SLOTS, "blocks": 32, "long_blocks": 32}
_FOLDER = Path(__file__).parent / "spaces"
_HEAD = 32  # features of an attention head, as in Falcon-Medium


@dataclass(frozen=True)
class Limits:
    """What a design may cost; None: anything."""

    us: float | None = None
    tiles: int | None = None
    mj: float | None = None

    def __post_init__(self) -> None:
        for key, value in asdict(self).items():
            if value is not None and not 0 < value < 1e9:
                shown = str(value)[:40]
                raise FalconError(f"--within-{key} is {shown}; it must be a number above 0")

    def broken_by(self, us: float, tiles: int, mj: float) -> tuple[str, ...]:
        """The limits that are broken."""
        costs = {"us": us, "tiles": tiles, "mj": mj}
        return tuple(
            key for key, limit in asdict(self).items() if limit is not None and costs[key] > limit
        )


@dataclass(frozen=True)
class Candidate:
    """A design that has not been trained."""

    number: int  # its place in the space
    network: Network
    latency_us: float  # with delay 1 everywhere
    tiles: int
    least_mj: float
    weights: int  # of its analog layers

    @property
    def name(self) -> str:
        return f"{self.network.name} T{self.network.slots}"

    @property
    def delays(self) -> Delays:
        return dict.fromkeys(self.network.boundaries, 1)

    @property
    def lookahead(self) -> Delays:
        return self.network.lookahead


@dataclass(frozen=True)
class DesignSpace:
    """All candidates within the limits, and how many were not."""

    candidates: tuple[Candidate, ...]  # in order of latency
    designs: int  # of the space
    unfit: int  # designs that the data does not fit
    excluded: Mapping[str, int]  # limit to designs that break it; some break several


def read_space(source: str | Path) -> dict[str, Any]:
    """A space by name or from a TOML file, checked."""
    path = _FOLDER / f"{source}.toml" if str(source) in SPACES else Path(source)
    if not path.exists():
        raise FalconError(f"no space '{source}'; give a TOML file or one of {', '.join(SPACES)}")
    return parse_space(read_toml(path), str(path))


def parse_space(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Check keys and values; say the first thing that is wrong."""
    if unknown := sorted(values.keys() - KEYS.keys() - {"slots"}):
        raise FalconError(
            f"{where}: unknown key '{unknown[0]}'; known keys: slots, {', '.join(KEYS)}"
        )
    families = [name for name in KEYS if name in values]
    if "slots" not in values or not families:
        raise FalconError(f"{where}: needs 'slots' and a table [kestrel] or [falcon]")
    lists = {"slots": values["slots"]}
    for family in families:
        table = values[family]
        if not isinstance(table, dict) or set(table) != set(KEYS[family]):
            raise FalconError(f"{where}: [{family}] has the keys {', '.join(KEYS[family])}")
        lists |= {f"{family}.{key}": table[key] for key in KEYS[family]}
    for key, numbers in lists.items():
        least = 0 if key.endswith("long_blocks") else 1
        good = isinstance(numbers, list) and all(type(n) is int and n >= least for n in numbers)
        most = MOST.get(key.rpartition(".")[2], 4096)
        if not good or not numbers or max(numbers) > most:
            raise FalconError(f"{where}: '{key}' must be a list of whole numbers, {least}..{most}")
    return dict(values)


def make_space(
    values: Mapping[str, Any], samples: Samples, limits: Limits, profile: Profile
) -> DesignSpace:
    """Every design of a space that stays within the limits."""
    configs = list(islice(_configs(values, samples), MOST_DESIGNS + 1))
    if len(configs) > MOST_DESIGNS:
        raise FalconError(f"the space has more than {MOST_DESIGNS:,} designs; leave some out")
    found, unfit = [], 0
    excluded = {key: 0 for key, limit in asdict(limits).items() if limit is not None}
    for number, config in enumerate(configs):
        network = _fitting(config)
        if network is None:
            unfit += 1
            continue
        delays = dict.fromkeys(network.boundaries, 1)
        us = time_snn(network.graph, delays, profile).core_us
        tiles = count_resources(network.graph, profile).tiles
        mj = least_energy(network, delays, profile).core_mj
        broken = limits.broken_by(us, tiles, mj)
        for key in broken:
            excluded[key] += 1
        if not broken:
            found.append(Candidate(number, network, us, tiles, mj, _weights(network)))
    found.sort(key=lambda each: (each.latency_us, each.number))
    return DesignSpace(tuple(found), len(configs), unfit, excluded)


def _weights(network: Network) -> int:
    analog = [stage for stage in network.graph.stages if stage.kind == "analog"]
    return sum(stage.inner * stage.columns for stage in analog)


def _configs(values: Mapping[str, Any], samples: Samples) -> Iterator[KestrelConfig | FalconConfig]:
    """The designs of a space in a fixed order."""
    shape, classes = samples.shape, samples.classes
    inputs: dict[str, Any] = {"input_levels": samples.levels, "input_zero": samples.zero}
    for slots in values["slots"]:
        for stem, widths, long in _kestrels(values.get("kestrel")):
            name = f"kestrel {stem}:{'-'.join(map(str, widths))}" + f" long {long}" * (long > 0)
            yield KestrelConfig(
                name, widths, long, shape, classes, stem_channels=stem, slots=slots, **inputs
            )
        table = values.get("falcon")
        lists = [table[key] for key in KEYS["falcon"]] if table else [[]]
        for blocks, hidden, stride, prefix in product(*lists):
            if prefix <= slots and shape[2] == 1:
                yield FalconConfig(
                    f"falcon {blocks} x {hidden}, stride {stride}, prefix {prefix}", blocks,
                    shape[1], shape[0], classes, hidden, max(1, hidden // _HEAD), 2 * hidden,
                    stem_stride=stride, slots=slots, qk_prefix=prefix, **inputs,
                )  # fmt: skip


def _kestrels(table: Mapping[str, Any] | None) -> Iterator[tuple[int, tuple[int, ...], int]]:
    """Stem, widths that never fall, and how many of the last blocks have long kernels."""
    if table is None:
        return
    for stem, blocks, long in product(
        *(table[k] for k in ("stem_channels", "blocks", "long_blocks"))
    ):
        if long <= blocks:
            for widths in combinations_with_replacement(sorted(table["widths"]), blocks):
                yield stem, widths, long


def _fitting(config: KestrelConfig | FalconConfig) -> Network | None:
    """The network, if the data fits it."""
    try:
        network = kestrel(config) if isinstance(config, KestrelConfig) else falcon(config)
        _ = network.shapes
    except FalconError:
        return None
    return network


def bands(space: DesignSpace, count: int) -> list[list[Candidate]]:
    """Candidates by latency: as many equal ranges as asked for, without the empty ones.

    Each is a contest of its own, since the slower network would nearly always win.
    """
    first, last = space.candidates[0].latency_us, space.candidates[-1].latency_us
    width = max(last - first, 1e-9) / count
    found: list[list[Candidate]] = [[] for _ in range(count)]
    for each in space.candidates:
        found[min(count - 1, int((each.latency_us - first) / width))].append(each)
    return [band for band in found if band]


def draw(band: list[Candidate], count: int, seed: int) -> list[Candidate]:
    """`count` candidates of a band by chance, the same for the same seed.

    A design with twice the weights is drawn twice as often: in a band they cost no time.
    """
    weights = np.array([each.weights for each in band], dtype=np.float64)
    chance = np.random.Generator(np.random.Philox(seed))
    count = min(count, len(band))
    order = chance.choice(len(band), count, replace=False, p=weights / weights.sum())
    return [band[index] for index in order]
