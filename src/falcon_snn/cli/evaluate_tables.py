"""The tables of `falcon-snn evaluate`: on clips, on chips, and in a stream."""

from typing import Any

from rich.table import Table

from falcon_snn.cli.output import out, print_table


def print_clips(found: dict[str, Any]) -> None:
    """How many clips are right, and of which classes."""
    share = _share(found, f"{found['split']} {_clips(found)}", f"{found['right']:,} right, ")
    out.print(f"{share}, schedule {found['schedule']}, T = {found['slots']}")
    out.print(
        f"mean recall of the classes {found['mean_recall']:.2f} %; recall of each, in percent:"
    )
    cells = [f"{word[:13]:<13}{percent:6.1f}" for word, percent in found["recall"].items()]
    for first in range(0, len(cells), 4):
        out.print(" ".join(cells[first : first + 4]))


def print_chips(found: dict[str, Any]) -> None:
    """Accuracy over chips, under each effect and with each layer."""
    out.print(
        f"ideal chip: {_share(found['ideal'], _clips(found))}, schedule {found['schedule']}; "
        f"hardware '{found['hardware']}':"
    )
    _print_chips("effect", found["effects"])
    if found["layers"]:
        out.print("one layer on the chip, all others ideal; worst first")
        _print_chips("layer", found["layers"])
    out.print("changed: decisions to spike that differ from the ideal chip's, in percent")


def _print_chips(first: str, rows: list[dict[str, Any]]) -> None:
    print_table(
        f"{first} | chips | mean % | dev. | worst | best | changed",
        "{name} | {chips} | {mean:.2f} | {deviation:.2f} | {worst:.2f} | {best:.2f} | "
        "{changed_percent:.2f}",
        rows,
    )  # fmt: skip


def _clips(found: dict[str, Any]) -> str:
    noise = found["noise_db"]
    return "clips" if noise is None else f"clips with noise at {noise:g} dB"


def _share(found: dict[str, Any], clips: str, right: str = "") -> str:
    low, high = found["interval"]
    return (
        f"{found['accuracy']:.2f} % of {found['clips']:,} {clips} "
        f"({right}95 % interval {low:.2f} .. {high:.2f})"
    )


def print_stream(found: dict[str, Any]) -> None:
    """Misses against false accepts per hour."""
    out.print(
        f"{found['hours']:g} h of sound, {found['snr_db']:g} dB: {found['spoken']:,} keywords (of "
        f"{len(found['keywords'])}), {found['other_words']:,} other words, seed {found['seed']}"
    )
    shown = Table("", "threshold", "misses %", "95 % interval", "false/h", "delay ms", "90 %")
    rows = {"default": found["default"]}
    rows |= {f"<= {rate} /h": point for rate, point in found["at_false_per_hour"].items()}
    for name, point in rows.items():
        if point is None:
            shown.add_row(name, "none")
            continue
        low, high = point["interval"]
        shown.add_row(
            name, f"{point['threshold']:.5f}", f"{point['miss_percent']:.2f}",
            f"{low:.2f} .. {high:.2f}", f"{point['false_per_hour']:.2f}",
            _ms(point["median_delay_s"]), _ms(point["delay_90_percent_s"]),
        )  # fmt: skip
    out.print(shown)
    out.print("delay: from the end of a word to the answer, median and 90 % of the words found")


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:.0f}"
