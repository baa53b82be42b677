"""Modeled against published: the latencies of the networks that the paper compares with."""

from typing import Any, NamedTuple

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

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.published.method,
            "time_steps": self.modeled.time_steps,
            "published_us": self.published.latency_us,
            "modeled_us": self.modeled.us,
            "modeled_cycles": self.modeled.cycles,
            "error_percent": round(self.error_percent, 3),
            "spread_us": self.spread_us,
            "array_busy_percent": round(100 * self.modeled.busy("array"), 1),
            "vector_busy_percent": round(100 * self.modeled.busy("vector"), 1),
            "parameters_millions": self.published.parameters_millions,
            "published_accuracy_percent": self.published.accuracy_percent,
        }


def compare() -> list[Comparison]:
    """The six reconstructed networks, in the order of the paper's table."""
    return [
        Comparison(model(row.method), row, model(row.method, spread_neurons=True).us)
        for row in GSC_LATENCY_COMPARISON
        if not row.method.startswith("Falcon")
    ]
