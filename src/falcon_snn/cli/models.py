"""`falcon-snn models`: the trained networks that ship with Falcon."""

from typing import TYPE_CHECKING, Any

from falcon_snn.cli.output import JsonFlag, out, print_json, print_table

if TYPE_CHECKING:
    from falcon_snn.training.pretrained import Pretrained


def models(as_json: bool = JsonFlag) -> None:
    """List the pretrained networks that `--pretrained NAME` takes."""
    from falcon_snn.training.pretrained import all_pretrained

    rows = [_facts(one) for one in all_pretrained()]
    if as_json:
        print_json(rows)
        return
    if not rows:
        out.print("no pretrained network comes with this version")
        return
    print_table(
        "name | T | p | words | val. % | test % | µs | streamed",
        "{name} | {slots} | {qk_prefix} | {words} | {validation_percent:.2f} | {test_percent:.2f}"
        " | {latency_us:.2f} | {streamed_latency_us:.2f}",
        rows,
    )
    out.print("T: slots; p: Q/K prefix; µs: core latency on the paper's chip, serial or streamed")


def _facts(one: "Pretrained") -> dict[str, Any]:
    from falcon_snn.cli.network_options import chip
    from falcon_snn.pipeline.schedule import uniform
    from falcon_snn.pipeline.timing import time_snn

    metadata, network = one.metadata, one.metadata.network
    delays = metadata.delays or uniform(network.slots, network.boundaries, network.slots)
    codes = any(stage.emits == "codes" for stage in network.stages)

    def core_us(attention: str) -> float:
        return time_snn(network.graph, delays, chip(None, attention)).core_us

    return {
        "name": one.name,
        "network": network.name,
        "slots": network.slots,
        "qk_prefix": network.prefix if codes else None,
        "data": metadata.facts.get("data", ""),
        "words": len(metadata.words),
        "schedule": metadata.facts.get("schedule", "full"),
        "delays": delays,
        "validation_percent": metadata.metrics["validation_accuracy"],
        "test_percent": metadata.metrics.get("test_accuracy"),
        "latency_us": core_us("serial"),
        "streamed_latency_us": core_us("streamed"),
        "bytes": one.path.stat().st_size,
    }
