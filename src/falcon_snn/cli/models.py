"""`falcon-snn models`: the trained networks that ship with Falcon."""

from typing import TYPE_CHECKING, Any

from falcon_snn.cli.output import JsonFlag, out, print_json

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
    from rich.table import Table

    table = Table()
    table.add_column("name", no_wrap=True)
    for heading in ("T", "p", "words", "val. %", "test %", "µs", "streamed"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        test, prefix = row["test_percent"], row["qk_prefix"]
        table.add_row(
            row["name"], str(row["slots"]), "-" if prefix is None else str(prefix),
            str(row["words"]), f"{row['validation_percent']:.2f}",
            "-" if test is None else f"{test:.2f}", f"{row['latency_us']:.2f}",
            f"{row['streamed_latency_us']:.2f}",
        )  # fmt: skip
    out.print(table)
    out.print("µs: core latency on the paper's chip, its attention serial or streamed")


def _facts(one: "Pretrained") -> dict[str, Any]:
    from falcon_snn.cli.network_options import choose_profile
    from falcon_snn.pipeline.schedule import uniform
    from falcon_snn.pipeline.timing import time_snn

    metadata, network = one.metadata, one.metadata.network
    delays = metadata.delays or uniform(network.slots, network.boundaries, network.slots)
    codes = any(stage.emits == "codes" for stage in network.stages)

    def core_us(attention: str) -> float:
        return time_snn(network.graph, delays, choose_profile(None, attention)).core_us

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
