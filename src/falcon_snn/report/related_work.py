"""Modeled against published: the latencies of the networks that the paper compares with."""

from typing import NamedTuple

from falcon_snn.pipeline.related_work import Modeled, model
from falcon_snn.report.published import GSC_LATENCY_COMPARISON, GscLatencyRow


class Comparison(NamedTuple):
    """One network: as fitted, as published, and with its neurons spread over the idle engines."""

    modeled: Modeled
    published: GscLatencyRow
    spread_us: float

    @property
    def error_percent(self) -> float:
        return 100 * (self.modeled.us / self.published.latency_us - 1)


def compare() -> list[Comparison]:
    """The six reconstructed networks, in the order of the paper's table."""
    return [
        Comparison(model(row.method), row, model(row.method, spread_neurons=True).us)
        for row in GSC_LATENCY_COMPARISON
        if not row.method.startswith("Falcon")
    ]
