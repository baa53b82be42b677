"""What a person has chosen in the studio; it fits into the address of the page."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import KEYS, Profile, load_profile, shipped_profiles, with_value
from falcon_snn.network.description import Network
from falcon_snn.pipeline.graph import Graph
from falcon_snn.pipeline.schedule import Delays, complete
from falcon_snn.workflow.networks import built_in, delays_of

OWN = "own"  # the name of the network that the studio was started with
BELOW = {"nothing": "nothing", "qnn": "matched QNN", "full": "full lookahead"}


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
    own: Network | None = None  # what OWN means, if a checkpoint was given

    def __post_init__(self) -> None:
        self.network.demand_spikes()
        complete(self.delays, self.network.boundaries, self.slots, "schedule")
        if self.below not in BELOW:
            raise FalconError(f"below is '{self.below}'; choose one of {', '.join(BELOW)}")

    @cached_property
    def network(self) -> Network:
        """The network with its T and its Q/K prefix."""
        network = _network(self.name, self.dataset, self.own)
        if self.slots != network.slots:
            network = network.with_slots(self.slots)
        return network if self.prefix == network.prefix else network.with_prefix(self.prefix)

    @property
    def graph(self) -> Graph:
        return self.network.graph

    @property
    def has_prefix(self) -> bool:
        """Whether there are Q and K that a prefix speaks of."""
        return _has_codes(self.network)


def first_state(name: str = "medium", dataset: str = "gsc") -> StudioState:
    """Where the studio starts: the fastest schedule on the paper's hardware."""
    network = built_in(name, dataset)
    delays = dict.fromkeys(network.boundaries, 1)
    return StudioState(name, dataset, network.slots, network.slots, delays, load_profile())


def own_state(network: Network, delays: Delays | None) -> StudioState:
    """A start with a network of one's own, under the delays that it was trained under."""
    delays = delays or dict.fromkeys(network.boundaries, 1)
    return StudioState(
        OWN, "gsc", network.slots, network.prefix, delays, load_profile(), own=network
    )


def _network(name: str, dataset: str, own: Network | None) -> Network:
    return own if name == OWN and own is not None else built_in(name, dataset)


def _has_codes(network: Network) -> bool:
    return any(stage.emits == "codes" for stage in network.stages)


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


def with_below(state: StudioState, below: str) -> StudioState:
    return replace(state, below=below)


def with_profile(state: StudioState, profile: Profile) -> StudioState:
    return replace(state, profile=profile)


def with_hardware(state: StudioState, key: str, typed: str) -> StudioState:
    """One value of the hardware changed, by its key."""
    return replace(state, profile=_with_typed(state.profile, key, typed))


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
    pairs["T"] = str(state.slots)
    if state.prefix != state.slots:
        pairs["prefix"] = str(state.prefix)
    pairs |= {name: str(delay) for name, delay in state.delays.items() if delay != 1}
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
    slots = _whole(left.pop("T", str(start.slots)), "T")
    network, dataset = left.pop("network", start.name), left.pop("dataset", start.dataset)
    boundaries = _network(network, dataset, start.own).boundaries
    prefix = _whole(left.pop("prefix", str(slots)), "Q/K prefix")
    below = left.pop("below", "nothing")
    name = left.pop("hardware", "paper")
    profile = replace(_base(name), name=name)
    for key in [key for key in left if key in KEYS]:
        profile = _with_typed(profile, key, left.pop(key))
    delays = {name: _whole(typed, f"delay of {name}") for name, typed in left.items()}
    listed = complete(delays, boundaries, slots, "the address")
    return StudioState(network, dataset, slots, prefix, listed, profile, below, start.own)


def schedule_file(state: StudioState) -> str:
    """The schedule as a file that every `--schedule` takes."""
    facts = {"network": state.network.name, "slots": state.slots, "qk_prefix": state.prefix}
    document = {**facts, "delays": state.delays}
    return json.dumps(document, indent=1) + "\n"


def _base(name: str) -> Profile:
    """The hardware that an address is relative to: the shipped one of that name, or the paper's."""
    return load_profile(name if name in shipped_profiles() else None)


def _with_typed(profile: Profile, key: str, typed: str) -> Profile:
    value: Any = typed
    if KEYS[key].optional and not typed:
        value = None
    elif KEYS[key].kind is int:
        value = _whole(typed, key)
    elif KEYS[key].kind is float:
        value = _number(typed, key)
    return with_value(profile, key, value)


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
