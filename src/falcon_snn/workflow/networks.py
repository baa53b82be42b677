"""Which network, and under which delays: built in, from a user's own file, or from a checkpoint."""

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from falcon_snn.errors import FalconError
from falcon_snn.network.description import Network
from falcon_snn.network.falcon import MODELS, PUBLISHED, FalconConfig, falcon, falcon_config
from falcon_snn.network.kestrel import SIZES, kestrel, kestrel_config
from falcon_snn.network.samples import Samples
from falcon_snn.pipeline.graph import Graph, read_graph
from falcon_snn.pipeline.schedule import Delays, parse_delays, with_delays

if TYPE_CHECKING:
    from falcon_snn.data.examples import Examples
    from falcon_snn.network.qnn import Qnn

BUILT_IN = (*MODELS, *SIZES)
INPUTS = {"gsc": (98, 64), "ssc": (100, 140)}  # lines and pixels
SOUND = ("recordings", "spikes")
CALIBRATION = 512  # training samples from which the steps of a torch module are taken


def built_in(
    name: str, dataset: str = "gsc", *, classes: int = 35, slots: int | None = None,
    qk_prefix: int | None = None,
) -> Network:  # fmt: skip
    """A network that comes with Falcon, for `gsc` (98 x 64) or `ssc` (100 x 140) input."""
    if name in SIZES:
        if dataset not in INPUTS:
            raise FalconError(f"unknown dataset '{dataset}'; choose one of {', '.join(INPUTS)}")
        if qk_prefix is not None:
            raise FalconError(f"network '{name}' has no Q and K, so no Q/K prefix")
        samples = Samples((*INPUTS[dataset], 1), classes, 32.0 if dataset == "gsc" else 1.0)
        return kestrel(kestrel_config(name, samples, slots=slots))
    _demand_known(name)
    slots = 7 if slots is None else slots
    return falcon(falcon_config(name, dataset, classes=classes, slots=slots, qk_prefix=qk_prefix))


def samples_of(examples: "Examples") -> Samples:
    """The shape, classes and range of a data set."""
    sample, classes = tuple(examples.x.shape[1:]), len(examples.words)
    if len(sample) > 3:
        raise FalconError(
            f"built-in networks take samples of one to three axes; these are "
            f"{' x '.join(map(str, sample))}: write one of your own (--network FILE.py:FUNCTION)"
        )
    shape = (*sample, *[1] * (3 - len(sample)))
    sample_shape = (shape[0], shape[1], shape[2])
    if examples.kind in SOUND and shape[1] in (64, 140):
        return Samples(sample_shape, classes, 32.0 if shape[1] == 64 else 1.0)
    values = examples.x[:CALIBRATION].double()
    zero = round(float(values.mean()), 3)
    return Samples(sample_shape, classes, 127 / max(float((values - zero).abs().max()), 1e-9), zero)


def network_for(name: str, examples: "Examples", slots: int | None = None) -> Network:
    """A built-in network for the samples and classes of a data set."""
    _demand_known(name)
    samples = samples_of(examples)
    if name in SIZES:
        return kestrel(kestrel_config(name, samples, slots=slots))
    for dataset, shape in INPUTS.items():
        if samples.shape[1:] == (shape[1], 1):
            return built_in(name, dataset, classes=samples.classes, slots=slots)
    lines, pixels, channels = samples.shape
    if channels > 1 or pixels % 4:
        raise FalconError(
            f"network '{name}' takes samples of two axes, the second a multiple of 4; these are "
            f"{lines} x {pixels} x {channels}: use a Kestrel, or write one of your own "
            "(--network FILE.py:FUNCTION)"
        )
    config = replace(
        falcon_config(name, "gsc", classes=samples.classes, slots=7 if slots is None else slots),
        name=f"Falcon-{name.capitalize()} {lines} x {pixels}",
        tokens=lines, features=pixels, input_levels=samples.levels, input_zero=samples.zero,
    )  # fmt: skip
    return falcon(config)


def _demand_known(name: str) -> None:
    if name not in BUILT_IN:
        known = ", ".join(BUILT_IN)
        raise FalconError(f"unknown network '{name[:80]}'; choose {known} or FILE.py:FUNCTION")


def own_network(text: str, examples: "Examples", slots: int) -> "Qnn":
    """The QNN of `FILE.py:FUNCTION`: the function gives a torch module or a Network.

    The file is run because the user names it; a module's steps are calibrated on training samples.
    """
    from torch import nn

    from falcon_snn.interchange.torch_network import example_for, from_torch
    from falcon_snn.network.qnn import Qnn

    made = _call(text)
    if isinstance(made, Qnn):
        return made
    if isinstance(made, Network):
        return Qnn(made)
    if not isinstance(made, nn.Module):
        raise FalconError(f"{text}: gives {type(made).__name__}, not a torch module or a Network")
    step = max(1, len(examples) // CALIBRATION)
    sample = example_for(made, examples.x[::step][:CALIBRATION])
    # A plain nn.Sequential has no name of its own; the file has one.
    own = type(made).__module__.startswith("torch.")
    name = Path(text.rpartition(":")[0]).stem if own else type(made).__name__
    return from_torch(made, sample, slots, name=name)


def _call(text: str) -> Any:
    file, _, function = text.rpartition(":")
    path = Path(file)
    if path.suffix != ".py" or not path.is_file() or not function.isidentifier():
        raise FalconError(f"--network '{text[:80]}': no such file, or not FILE.py:FUNCTION")
    spec = importlib.util.spec_from_file_location(f"falcon_own_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and fx look a module up by its name
    try:
        spec.loader.exec_module(module)
        return getattr(module, function)()
    except FalconError:
        raise
    except AttributeError:
        if hasattr(module, function):
            raise FalconError(f"{text}: failed (AttributeError)") from None
        raise FalconError(f"{path}: has no function '{function}'") from None
    except Exception as error:  # whatever the user's own code does
        reason = str(error).splitlines()[0] if str(error) else ""
        raise FalconError(f"{text}: failed ({type(error).__name__}: {reason})") from None


def qnn_for(text: str, examples: "Examples", slots: int | None) -> "Qnn":
    """The QNN to train: a built-in network by name, or the user's `FILE.py:FUNCTION`."""
    from falcon_snn.network.qnn import Qnn

    if ":" not in text:
        return Qnn(network_for(text, examples, slots))
    model = own_network(text, examples, 7 if slots is None else slots)
    if slots is not None and model.network.slots != slots:
        raise FalconError(
            f"{text}: has {model.network.slots} slots; leave out --slots, or give the same"
        )
    demand_fit(model.network, examples)
    return model


def demand_fit(network: Network, examples: "Examples") -> None:
    """Refuse data whose shape or number of classes is not the network's."""
    network.source.fit(examples.x[:1])
    if len(examples.words) != network.classes:
        raise FalconError(
            f"the data has {len(examples.words)} classes, network '{network.name}' gives "
            f"{network.classes} scores"
        )


def delays_of(schedule: str, network: Network | Graph, own: Mapping[str, int] | None) -> Delays:
    """The delays that a schedule means for a network; 'own' is what it was trained under."""
    if schedule == "own":
        if own is None:
            raise FalconError("this network was not trained under a schedule; choose a --schedule")
        return dict(own)
    return parse_delays(schedule, network.boundaries, network.slots, PUBLISHED.get(network.name))


def demand_whole_counts(network: Network) -> None:
    """Refuse a network that reads only some of the slots, where a QNN is to run."""
    if network.prefix != network.slots:
        raise FalconError("the QNN reads whole counts; this network was converted for a Q/K prefix")


def schedule_or_own(asked: str | None, own: Mapping[str, int] | None, otherwise: str) -> str:
    """The schedule asked for; by default the network's own, or another where it has none."""
    if asked is not None:
        return asked
    return otherwise if own is None else "own"


@dataclass(frozen=True)
class Timed:
    """A network to be timed: its graph, and the delays that a checkpoint was trained under."""

    graph: Graph
    own: Delays | None = None
    network: Network | None = None  # a stage graph of a file has none
    sizes: FalconConfig | None = None  # of a built-in Falcon network, which a sweep may change

    def schedule(self, asked: str | None) -> str:
        """The name of the schedule to take; by default the network's own, or else fastest."""
        return schedule_or_own(asked, self.own, "fastest")

    def delays(self, schedule: str | None, changes: Sequence[str] = ()) -> Delays:
        """The delays of that schedule, with changes."""
        delays = delays_of(self.schedule(schedule), self.graph, self.own)
        return with_delays(delays, changes, self.graph.slots)


def timed_network(
    name: str = "medium", dataset: str = "gsc", *, graph: Path | None = None,
    checkpoint: Path | None = None, slots: int | None = None, qk_prefix: int | None = None,
) -> Timed:  # fmt: skip
    """The network to time: a stage graph or NIR file, a checkpoint's, or one that is built in."""
    if dataset not in INPUTS:
        raise FalconError(f"unknown dataset '{dataset[:40]}'; choose one of {', '.join(INPUTS)}")
    if graph is not None:
        if checkpoint is not None:
            raise FalconError("give one network: --graph or a checkpoint, not both")
        return Timed(_read_graph(graph, slots, qk_prefix))
    own = None
    if checkpoint is not None:
        from falcon_snn.training.checkpoint import load_metadata

        metadata = load_metadata(checkpoint)
        network, own = metadata.network, metadata.delays
        if slots not in (None, network.slots):
            network, own = network.with_slots(slots or 1), None
        if qk_prefix is not None:
            network = network.with_prefix(qk_prefix)
    elif name in MODELS:
        chosen = 7 if slots is None else slots
        return timed_falcon(falcon_config(name, dataset, slots=chosen, qk_prefix=qk_prefix))
    else:
        network = built_in(name, dataset, slots=slots, qk_prefix=qk_prefix)
    return Timed(network.graph, own, network)


def timed_falcon(sizes: FalconConfig) -> Timed:
    """A Falcon network of any size."""
    network = falcon(sizes)
    return Timed(network.graph, None, network, sizes)


def _read_graph(path: Path, slots: int | None, qk_prefix: int | None) -> Graph:
    if path.suffix == ".nir":
        from falcon_snn.interchange.nir_graph import graph_from_nir

        chosen = graph_from_nir(path, slots)
    else:
        chosen = read_graph(path)
    if qk_prefix is not None:
        chosen = graph_with_prefix(chosen, qk_prefix)
    return chosen if slots is None else replace(chosen, slots=slots)


def graph_with_prefix(graph: Graph, qk_prefix: int | None) -> Graph:
    """The same graph whose Q and K wait for another number of slots; None: for all."""
    stages = tuple(
        replace(stage, prefix=qk_prefix) if stage.kind == "quantise" else stage
        for stage in graph.stages
    )
    return replace(graph, stages=stages)
