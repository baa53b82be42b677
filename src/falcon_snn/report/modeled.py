"""Latencies of the paper's networks from our model, by the paper's names."""

from falcon_snn.config import FalconConfig, falcon_config
from falcon_snn.hardware.profile import load_profile
from falcon_snn.pipeline.falcon_graph import falcon_graph
from falcon_snn.pipeline.schedule import parse_schedule
from falcon_snn.pipeline.timing import Timing, time_qnn, time_snn


def config_of(setting: str, qk_prefix: int | None = None) -> FalconConfig:
    """The network of a setting such as 'gsc-medium'."""
    dataset, model = setting.split("-")
    return falcon_config(model, dataset, qk_prefix=qk_prefix)


def timing_of(setting: str, schedule: str, qk_prefix: int | None = None) -> Timing:
    """A setting under a schedule of the paper, full, uniform:D, or as its matched QNN ('qnn')."""
    config = config_of(setting, qk_prefix)
    dataset, model = setting.split("-")
    graph, profile = falcon_graph(config), load_profile()
    if schedule == "qnn":
        return time_qnn(graph, profile)
    return time_snn(graph, parse_schedule(schedule, config, dataset, model), profile)


def core_us(setting: str, schedule: str, qk_prefix: int | None = None) -> float:
    """Modeled core latency."""
    return timing_of(setting, schedule, qk_prefix).core_us


def less_percent(shorter: float, longer: float) -> float:
    """By how many percent one is less than the other."""
    return 100 * (1 - shorter / longer)
