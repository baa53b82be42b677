"""Schedules: a delay for every searchable boundary, by name or from a file."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from falcon_snn.errors import FalconError
from falcon_snn.files import demand_file_target, read_json, write_json

Delays = dict[str, int]


def parse_delays(
    text: str, boundaries: Sequence[str], slots: int, published: Mapping[str, Delays] | None = None
) -> Delays:
    """A schedule by name or file: fastest (delay 1), full (delay T), uniform:D, a JSON file.

    `published` has the delays of the paper's balanced and accurate schedules of a network.
    """
    if text == "fastest":
        return uniform(1, boundaries, slots)
    if text == "full":
        return uniform(slots, boundaries, slots)
    if text.startswith("uniform:"):
        number = text.removeprefix("uniform:")
        if not number.isdecimal() or len(number) > 3:
            raise FalconError(f"schedule '{text[:40]}': write uniform:D with D in 1..{slots}")
        return uniform(int(number), boundaries, slots)
    if text in ("balanced", "accurate"):
        if published is None or text not in published:
            raise FalconError(
                f"no schedule '{text}' is published for this network; search for one, or choose "
                "fastest, full, uniform:D or a JSON file"
            )
        return complete(published[text], boundaries, slots, f"schedule '{text}'")
    file = Path(text)
    if file.is_dir() or not (file.exists() or file.suffix == ".json"):
        raise FalconError(
            f"unknown schedule '{text[:80]}'; "
            "choose fastest, balanced, accurate, full, uniform:D or a JSON file"
        )
    return read_schedule(text, boundaries, slots)


def uniform(delay: int, boundaries: Sequence[str], slots: int) -> Delays:
    """The same delay at every boundary."""
    return complete(dict.fromkeys(boundaries, delay), boundaries, slots, f"uniform:{delay}")


def with_delays(delays: Delays, changes: Sequence[str], slots: int) -> Delays:
    """The schedule with changes such as `hidden1=2`."""
    changed = dict(delays)
    for change in changes:
        name, equals, number = change.partition("=")
        # Python itself refuses numbers of thousands of digits.
        if not equals or not number.strip().isdecimal() or len(number) > 100:
            raise FalconError(f"--delay '{change[:40]}': write BOUNDARY=D, for instance hidden1=2")
        changed[name.strip()] = int(number)
    return complete(changed, list(delays), slots, "--delay")


def read_schedule(path: Path | str, boundaries: Sequence[str], slots: int) -> Delays:
    """Read `{"delays": {boundary: delay}}`; boundaries that are not listed have delay 1."""
    return complete(listed_delays(read_json(path), path), boundaries, slots, str(path))


def listed_delays(document: Any, where: Path | str) -> dict[str, Any]:
    """The delays that a schedule file lists, not yet checked."""
    listed = document.get("delays") if isinstance(document, dict) else None
    if not isinstance(listed, dict):
        raise FalconError(
            f'{where}: not a schedule; it must hold {{"delays": {{boundary: delay}}}}'
        )
    return listed


def write_schedule(path: Path | str, delays: Mapping[str, int], **facts: Any) -> None:
    """Write a schedule that `read_schedule` reads, with free facts beside the delays."""
    demand_file_target(Path(path), mark=b'"delays"')
    write_json(path, {**facts, "delays": dict(delays)})


def complete(
    listed: Mapping[str, Any], boundaries: Sequence[str], slots: int, where: str
) -> Delays:
    """Delays of all boundaries in network order, checked; `where` names the origin in messages."""
    for name, delay in listed.items():
        if name not in boundaries:
            near = get_close_matches(name, boundaries, n=3) or list(boundaries)
            raise FalconError(
                f"{where}: unknown boundary '{name}'; did you mean {', '.join(near)}?"
            )
        if isinstance(delay, bool) or not isinstance(delay, int) or not 1 <= delay <= slots:
            raise FalconError(f"{where}: delay of {name} is {delay!r}; it must lie in 1..{slots}")
    return {name: listed.get(name, 1) for name in boundaries}
