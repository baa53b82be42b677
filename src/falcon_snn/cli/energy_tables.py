"""The tables of `falcon-snn energy`."""

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from falcon_snn.cli.output import out

FOUND = "found "  # and a number: the names of a search's schedules


def print_tables(report: dict[str, Any]) -> None:
    """The report of an energy measurement, for people."""
    rows = report["configurations"]
    out.print(
        f"[bold]{report['network']}[/], {report['clips']:,} {report['split']} clips of "
        f"{report['data']}, hardware '{report['hardware']}', per inference"
    )
    heads = ("", "right\n%", "latency\nµs", "arithm.\nmJ", "analog\nmJ", "digital\nmJ", "core\nmJ",
             "EDP\nnJ s", "spikes/\nneuron", "front")  # fmt: skip
    table = Table(box=SIMPLE_HEAD, padding=0)  # ten columns fit a terminal of 80 characters
    for head in heads:
        table.add_column(head, justify="left" if head in ("", "front") else "right", no_wrap=True)
    for row in rows:
        table.add_row(
            row["name"], f"{row['accuracy']:.2f}", f"{row['latency_us']:.2f}",
            f"{row['arithmetic_mj']:.5f}", f"{row['analog_mj']:.4f}",
            f"{row['digital_mj']:.6f}", f"{row['core_mj']:.4f}", f"{row['edp_nj_s']:.2f}",
            f"{row['spikes_per_neuron']:.3f}", "*" if row["on_front"] else "",
        )  # fmt: skip
    out.print(table)
    out.print(
        "arithm.: operation counts, all-digital; core: analog and digital; spikes of the QNN: set "
        "bits; front: no other is at least as good in accuracy, latency and core energy"
    )
    _print_shares([row for row in rows if not row["name"].startswith(FOUND)])
    slices = report["weight_slices"]
    more = ", ".join(
        f"{one['weight_slices']}: {one['analog_mj']:.4g} mJ "
        f"({one['analog_mj'] / slices[0]['analog_mj']:.2f} x)"
        for one in slices
    )
    out.print(f"macro columns per weight, and analog energy: {more}")
    if report["published"] is not None:
        _print_published(report["published"])
    tags: dict[str, list[str]] = {}
    for value in report["profile"]:
        tags.setdefault(value["tag"], []).append(value["key"])
    for tag, keys in tags.items():
        out.print(f"[bold]{tag}[/]: {', '.join(keys)}")


def _print_shares(rows: list[dict[str, Any]]) -> None:
    """Shares of the core's energy, by block (the text before a name's first dot) and by part."""
    by_group: dict[str, dict[str, float]] = {}
    for row in rows:
        for stage in row["stages"]:
            group = stage["name"].partition(".")[0]
            shares = by_group.setdefault(group, {})
            shares[row["name"]] = shares.get(row["name"], 0.0) + stage["share"]
        parts = {f"analog: {part}": mj for part, mj in row["analog_parts_mj"].items()}
        parts |= {f"digital: {part}": mj for part, mj in row["digital_parts_mj"].items()}
        for part, mj in parts.items():
            by_group.setdefault(part, {})[row["name"]] = mj / row["core_mj"]
    table = Table("% of core energy", *(row["name"] for row in rows))
    for group, shares in by_group.items():
        if any(shares.values()):  # source and readout lie outside the core
            table.add_row(group, *(f"{100 * shares[row['name']]:.2f}" for row in rows))
    out.print(table)


def _print_published(published: dict[str, Any]) -> None:
    table = Table(f"{published['setting']}, {published['schedule']}", "ours mJ", "paper mJ",
                  "error %", "")  # fmt: skip
    for name, figure in published["figures"].items():
        table.add_row(
            name, f"{figure['ours_mj']:.5f}", f"{figure['paper_mj']:g}",
            f"{figure['error_percent']:+.2f}", figure["kind"],
        )  # fmt: skip
    out.print(table)
    for name in ("analog", "arithmetic"):
        inputs = published[f"{name}_inputs_mj"]
        out.print(f"{name}, mJ: " + ", ".join(f"{key} {mj:+.5f}" for key, mj in inputs.items()))
    for row in published["split"]:
        sides = [
            f"{words} {row[key]['ours_mj']:.5f} (paper {row[key]['paper_mj']:.5f})"
            for key, words in (("per_block", "a block"), ("outside_blocks", "all else"))
        ]
        out.print(f"{row['figure']}, mJ, with the paper's from Large minus Medium: "
                  + ", ".join(sides))  # fmt: skip
    table = Table("what alone would give the paper's figure", "figure", "ours", "needed")
    for row in published["would_close_alone"]:
        needed = "no value can" if row["needed"] is None else f"{row['needed']:.4g}"
        table.add_row(row["input"], row["figure"], f"{row['ours']:.4g}", needed)
    out.print(table)
