"""The tables of `falcon-snn energy`."""

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from falcon_snn.cli.output import out, print_styled, print_table


def print_tables(report: dict[str, Any]) -> None:
    """The report of an energy measurement, for people."""
    from falcon_snn.workflow.measuring import FOUND

    rows = report["configurations"]
    print_styled(
        (report["network"], "bold"),
        f", {report['clips']:,} {report['split']} clips of "
        f"{report['data']}, hardware '{report['hardware']}', per inference",
    )
    print_table(
        "| right\n% | latency\nµs | arithm.\nmJ | analog\nmJ | digital\nmJ | core\nmJ | EDP\nnJ s"
        " | spikes/\nneuron | front",
        "{name} | {accuracy:.2f} | {latency_us:.2f} | {arithmetic_mj:.5f} | {analog_mj:.4f} | "
        "{digital_mj:.6f} | {core_mj:.4f} | {edp_nj_s:.2f} | {spikes_per_neuron:.3f} | {front}",
        [row | {"front": "*" if row["on_front"] else ""} for row in rows],
        box=SIMPLE_HEAD, show_edge=False, padding=0,  # ten columns fit a terminal of 80 characters
    )  # fmt: skip
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
        print_styled((tag, "bold"), f": {', '.join(keys)}")


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
    shown = Table("% of core energy", *(row["name"] for row in rows))
    for group, shares in by_group.items():
        if any(shares.values()):  # source and readout lie outside the core
            shown.add_row(group, *(f"{100 * shares[row['name']]:.2f}" for row in rows))
    out.print(shown)


def _print_published(published: dict[str, Any]) -> None:
    print_table(
        f"{published['setting']}, {published['schedule']} | ours mJ | paper mJ | error % |",
        "{name} | {ours_mj:.5f} | {paper_mj:g} | {error_percent:+.2f} | {kind}",
        [{"name": name, **figure} for name, figure in published["figures"].items()],
    )  # fmt: skip
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
    print_table(
        "what alone would give the paper's figure | figure | ours | needed",
        "{input} | {figure} | {ours:.4g} | {needed:.4g}",
        published["would_close_alone"], unknown="no value can",
    )  # fmt: skip
