"""What a person has chosen in the studio; it fits into the address of the page."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from falcon_snn.errors import FalconError
from falcon_snn.files import parse_json
from falcon_snn.hardware.keys import ValueSource
from falcon_snn.hardware.profile import (
    KEYS,
    Profile,
    load_profile,
    profile_toml,
    shipped_profiles,
)
from falcon_snn.network.description import Network
from falcon_snn.neuron.encoding import MAX_SLOTS
from falcon_snn.pipeline.graph import MAX_GRAPH_SLOTS, Graph
from falcon_snn.pipeline.schedule import Delays, complete, listed_delays
from falcon_snn.workflow.networks import built_in, delays_of, graph_with_prefix

OWN = "own"  # the name of the network that the studio was started with
BELOW = {"nothing": "nothing", "qnn": "matched QNN", "full": "full lookahead"}
SHARE = "_percent"  # the end of the keys whose values add up to 100
# Words of an address that are not boundaries; a boundary of such a name is written `delay.NAME`.
_WORDS = {"network", "of", "dataset", "T", "prefix", "hardware", "below", "pin", *KEYS}


@dataclass(frozen=True)
class StudioState:
    """A network, its schedule and its hardware; every state that exists is valid."""

    name: str  # of a built-in network, or OWN
    dataset: str  # input of a built-in network
    slots: int
    prefix: int  # slots that Q and K wait for, 1..slots
    delays: Delays  # of all boundaries
    profile: Profile
    below: str = "nothing"  # what the timeline shows below the network, a key of BELOW
    own: Network | Graph | None = None  # what OWN means, if a network or a graph was given

    def __post_init__(self) -> None:
        if isinstance(self.network, Network):
            self.network.demand_spikes()
        complete(self.delays, self.network.boundaries, self.slots, "schedule")
        if self.below not in BELOW:
            raise FalconError(f"below is '{self.below}'; choose one of {', '.join(BELOW)}")

    @cached_property
    def network(self) -> Network | Graph:
        """The network, or its graph alone, with its T and its Q/K prefix."""
        network = _network(self.name, self.dataset, self.own)
        if self.slots != network.slots:
            network = _with_slots(network, self.slots)
        return network if self.prefix == _prefix(network) else _with_prefix(network, self.prefix)

    @property
    def graph(self) -> Graph:
        return self.network if isinstance(self.network, Graph) else self.network.graph

    @property
    def has_prefix(self) -> bool:
        """Whether there are Q and K that a prefix applies to."""
        return _has_codes(self.network)

    @property
    def highest_slots(self) -> int:
        """The largest T: spikes of a network are packed into bytes, a graph is only timed."""
        return MAX_GRAPH_SLOTS if isinstance(self.network, Graph) else MAX_SLOTS


def first_state(name: str = "medium", dataset: str = "gsc") -> StudioState:
    """Where the studio starts: the fastest schedule on the paper's hardware."""
    network = built_in(name, dataset)
    delays = dict.fromkeys(network.boundaries, 1)
    return StudioState(name, dataset, network.slots, network.slots, delays, load_profile())


def own_state(network: Network | Graph, delays: Delays | None) -> StudioState:
    """A start with a network of one's own, under the delays that it was trained under."""
    delays = delays or dict.fromkeys(network.boundaries, 1)
    return StudioState(
        OWN, "gsc", network.slots, _prefix(network), delays, load_profile(), own=network
    )


def _network(name: str, dataset: str, own: Network | Graph | None) -> Network | Graph:
    return own if name == OWN and own is not None else built_in(name, dataset)


def _has_codes(network: Network | Graph) -> bool:
    if isinstance(network, Graph):
        return any(stage.kind == "quantise" for stage in network.stages)
    return any(stage.emits == "codes" for stage in network.stages)


def _prefix(network: Network | Graph) -> int:
    if isinstance(network, Network):
        return network.prefix
    prefixes = {s.prefix or network.slots for s in network.stages if s.kind == "quantise"}
    return max(prefixes, default=network.slots)


def _with_slots(network: Network | Graph, slots: int) -> Network | Graph:
    """Another number of slots; Q and K wait for all of them."""
    if isinstance(network, Network):
        return network.with_slots(slots)
    return replace(graph_with_prefix(network, None), slots=slots)


def _with_prefix(network: Network | Graph, prefix: int) -> Network | Graph:
    if isinstance(network, Network):
        return network.with_prefix(prefix)
    if not _has_codes(network):
        raise FalconError(f"graph '{network.name}' has no Q and K, so no Q/K prefix")
    return graph_with_prefix(network, prefix)


def with_network(state: StudioState, name: str, dataset: str) -> StudioState:
    """Another network; boundaries that both have keep their delays."""
    network = _network(name, dataset, state.own)
    delays = {boundary: state.delays.get(boundary, 1) for boundary in network.boundaries}
    prefix = state.prefix if _has_codes(network) else state.slots
    return replace(state, name=name, dataset=dataset, prefix=prefix, delays=delays)


def with_slots(state: StudioState, typed: str) -> StudioState:
    """Another T; delays are cut to it, and Q and K that waited for all slots still do."""
    slots = _whole(typed, "T")
    prefix = slots if state.prefix == state.slots else min(state.prefix, slots)
    delays = {name: min(delay, slots) for name, delay in state.delays.items()}
    return replace(state, slots=slots, prefix=prefix, delays=delays)


def with_prefix(state: StudioState, typed: str) -> StudioState:
    return replace(state, prefix=_whole(typed, "Q/K prefix"))


def with_delay(state: StudioState, boundary: str, typed: str) -> StudioState:
    delay = _whole(typed, f"delay of {boundary}")
    return replace(state, delays={**state.delays, boundary: delay})


def with_schedule(state: StudioState, name: str) -> StudioState:
    """A published schedule, or `full` for full lookahead."""
    return replace(state, delays=delays_of(name, state.network, None))


def with_schedule_file(state: StudioState, text: str, name: str) -> StudioState:
    """A file that `--schedule` takes; where it says which Q/K prefix it is for, that one too."""
    document = parse_json(text, name)
    delays = complete(listed_delays(document, name), state.network.boundaries, state.slots, name)
    prefix = document.get("qk_prefix", state.prefix)
    if not state.has_prefix or isinstance(prefix, bool) or not isinstance(prefix, int):
        prefix = state.prefix
    return replace(state, delays=delays, prefix=prefix)


def with_hardware(state: StudioState, key: str, typed: str) -> StudioState:
    """One value of the hardware changed, by its key.

    The shares of an access add up to 100 %: where one is changed, the others keep their ratios.
    """
    values = {key: _typed_value(key, typed)}
    if key.endswith(SHARE) and 0 <= values[key] <= 100:
        others = {name: getattr(state.profile, name) for name in KEYS if name.endswith(SHARE)}
        old = others.pop(key)
        if old < 100:
            values |= {n: share * (100 - values[key]) / (100 - old) for n, share in others.items()}
    return replace(state, profile=replace(state.profile, **values))


def with_t_cycle(state: StudioState, typed: str) -> StudioState:
    """Another t_cycle = t_set + t_ADC: the conversion takes what the set-up leaves."""
    t_cycle_ns = _number(typed, "t_cycle")
    t_set_ns = state.profile.t_set_ns if t_cycle_ns > state.profile.t_set_ns else 0.0
    t_adc_ns = round(t_cycle_ns - t_set_ns, 6)
    return replace(state, profile=replace(state.profile, t_set_ns=t_set_ns, t_adc_ns=t_adc_ns))


def to_query(state: StudioState) -> str:
    """The state as the query of an address: what differs from the plain network and hardware."""
    pairs = {"network": state.name}
    if state.name != OWN:
        pairs["dataset"] = state.dataset
    elif state.own is not None:
        pairs["of"] = state.own.name
    pairs["T"] = str(state.slots)
    if state.prefix != state.slots:
        pairs["prefix"] = str(state.prefix)
    for name, delay in state.delays.items():
        if delay != 1:
            pairs[f"delay.{name}" if name in _WORDS else name] = str(delay)
    if state.profile.name != "paper":
        pairs["hardware"] = state.profile.name
    base = _base(state.profile.name)
    for key in KEYS:
        value = getattr(state.profile, key)
        if value != getattr(base, key):
            pairs[key] = "" if value is None else str(value)
    if state.below != "nothing":
        pairs["below"] = state.below
    return urlencode(pairs)


def from_query(query: Mapping[str, str], start: StudioState) -> StudioState:
    """The state in an address; an address without a query means `start`."""
    if not query:
        return start
    left = dict(query)
    network, dataset = left.pop("network", start.name), left.pop("dataset", start.dataset)
    _demand_same_own(network, left.pop("of", None), start.own)
    own = _network(network, dataset, start.own)
    slots = _whole(left.pop("T", str(own.slots)), "T")
    prefix = _whole(left.pop("prefix", str(slots)), "Q/K prefix")
    below = left.pop("below", "nothing")
    name = left.pop("hardware", "paper")
    values = {key: _typed_value(key, left.pop(key)) for key in [*left] if key in KEYS}
    profile = replace(_base(name), name=name, **values)
    delays = {
        name if name in own.boundaries else name.removeprefix("delay."): _whole(
            typed, f"delay of {name}"
        )
        for name, typed in left.items()
    }
    listed = complete(delays, own.boundaries, slots, "the address")
    return StudioState(network, dataset, slots, prefix, listed, profile, below, start.own)


def _demand_same_own(network: str, of: str | None, own: Network | Graph | None) -> None:
    """Refuse an address about a network other than the one that the studio was started with."""
    if network != OWN:
        return
    meant = "a network of one's own" if of is None else f"the network '{of[:80]}'"
    if own is None:
        raise FalconError(
            f"this link is about {meant}, and the studio was started without one; start it with "
            "--graph, --checkpoint or --pretrained"
        )
    if of not in (None, own.name):
        raise FalconError(f"this link is about {meant}; the studio was started with '{own.name}'")


def schedule_file(state: StudioState) -> str:
    """The schedule as a file that every `--schedule` takes."""
    facts = {"network": state.network.name, "slots": state.slots, "qk_prefix": state.prefix}
    document = {**facts, "delays": state.delays}
    return json.dumps(document, indent=1) + "\n"


def profile_file(state: StudioState) -> str:
    """The hardware as a file that every `--hardware` takes; what was changed here says so."""
    profile, base = state.profile, _base(state.profile.name)
    sources = dict(profile.sources)
    for key in KEYS:
        if getattr(profile, key) != getattr(base, key) and profile.sources == base.sources:
            sources[key] = ValueSource("assumed", "set in the studio")
    name = profile.name
    if name in shipped_profiles() and profile != base:
        name = f"{name}-changed"
    return profile_toml(replace(profile, name=name, sources=sources))


def _base(name: str) -> Profile:
    """The hardware that an address is relative to: the shipped one of that name, or the paper's."""
    return load_profile(name if name in shipped_profiles() else None)


def _typed_value(key: str, typed: str) -> Any:
    if KEYS[key].optional and not typed:
        return None
    if KEYS[key].kind is int:
        return _whole(typed, key)
    return _number(typed, key) if KEYS[key].kind is float else typed


def _whole(typed: str, what: str) -> int:
    try:
        return int(typed)
    except ValueError:
        raise FalconError(f"{what} is '{typed}'; it must be a whole number") from None


def _number(typed: str, what: str) -> float:
    try:
        return float(typed)
    except ValueError:
        raise FalconError(f"{what} is '{typed}'; it must be a number") from None
