"""Latencies of the paper's networks from our model, by the paper's names."""

from falcon_snn.hardware.profile import load_profile
from falcon_snn.network.description import Network
from falcon_snn.network.falcon import PUBLISHED, FalconConfig, falcon, falcon_config
from falcon_snn.pipeline.schedule import parse_delays
from falcon_snn.pipeline.timing import Timing, time_qnn, time_snn


def config_of(setting: str, qk_prefix: int | None = None) -> FalconConfig:
    """The sizes of the network of a setting such as 'gsc-medium'."""
    dataset, model = setting.split("-")
    return falcon_config(model, dataset, qk_prefix=qk_prefix)


def network_of(setting: str, qk_prefix: int | None = None) -> Network:
    """The network of a setting."""
    return falcon(config_of(setting, qk_prefix))


def timing_of(setting: str, schedule: str, qk_prefix: int | None = None) -> Timing:
    """A setting under a schedule of the paper, full, uniform:D, or as its matched QNN ('qnn')."""
    network, profile = network_of(setting, qk_prefix), load_profile()
    if schedule == "qnn":
        return time_qnn(network.graph, profile)
    published = PUBLISHED.get(network.name)
    delays = parse_delays(schedule, network.boundaries, network.slots, published)
    return time_snn(network.graph, delays, profile)


def core_us(setting: str, schedule: str, qk_prefix: int | None = None) -> float:
    """Modeled core latency."""
    return timing_of(setting, schedule, qk_prefix).core_us


def less_percent(shorter: float, longer: float) -> float:
    """By how many percent one is less than the other."""
    return 100 * (1 - shorter / longer)
