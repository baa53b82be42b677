"""Schedules: a delay for every searchable boundary; the published ones, and files."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from falcon_snn.config import FalconConfig
from falcon_snn.errors import FalconError
from falcon_snn.files import read_json, write_json

Delays = dict[str, int]

# The paper's table of layer-wise firing delays; boundaries that are not listed have delay 1.
PUBLISHED: dict[tuple[str, str], dict[str, Delays]] = {
    ("medium", "gsc"): {
        "fastest": {},
        "balanced": {"block0.ffn1": 2, "block2.attn_out": 2, "block2.residual2": 3},
        "accurate": {
            "stem.conv2": 2, "block0.ffn1": 3, "block1.ffn1": 3, "block2.attn_out": 3,
            "block2.residual2": 3,
        },
    },
    ("large", "gsc"): {
        "fastest": {},
        "balanced": {"block2.residual1": 2, "block3.ffn1": 2, "block4.residual2": 3},
        "accurate": {
            "block0.ffn1": 2, "block1.ffn1": 2, "block3.ffn1": 2, "block4.ffn1": 2,
            "block2.residual1": 2, "block3.attn_out": 2, "block4.attn_out": 2,
            "stem.conv2": 3, "block2.ffn1": 3, "block4.residual2": 3,
        },
    },
    ("medium", "ssc"): {
        "fastest": {},
        "balanced": {"stem.conv1": 3, "stem.conv2": 3, "block2.ffn2": 3},
        "accurate": {
            "block1.residual1": 2, "stem.conv1": 3, "stem.conv2": 3, "block0.ffn1": 3,
            "block2.ffn2": 3, "block2.residual2": 3,
        },
    },
}  # fmt: skip


def parse_schedule(
    text: str, config: FalconConfig, dataset: str | None = None, model: str | None = None
) -> Delays:
    """A schedule of a Falcon network: fastest, balanced, accurate, full, uniform:D or a file."""
    if text in ("balanced", "accurate"):
        named = PUBLISHED.get((model or "", dataset or ""), {})
        if text not in named:
            known = ", ".join(f"{size} {data}" for size, data in PUBLISHED)
            raise FalconError(
                f"no schedule '{text}' is published for {model} {dataset}; there is one for {known}"
            )
        return complete(named[text], config.boundaries, config.slots, f"schedule '{text}'")
    return parse_delays(text, config.boundaries, config.slots)


def parse_delays(text: str, boundaries: Sequence[str], slots: int) -> Delays:
    """A schedule of any network: fastest (delay 1), full (delay T), uniform:D or a file."""
    if text == "fastest":
        return uniform(1, boundaries, slots)
    if text == "full":
        return uniform(slots, boundaries, slots)
    if text.startswith("uniform:"):
        number = text.removeprefix("uniform:")
        if not number.isdecimal():
            raise FalconError(f"schedule '{text}': write uniform:D with D in 1..{slots}")
        return uniform(int(number), boundaries, slots)
    if text in ("balanced", "accurate"):
        raise FalconError(f"schedule '{text}' is published for Falcon networks only")
    if not Path(text).exists() and not text.endswith(".json"):
        raise FalconError(
            f"unknown schedule '{text}'; "
            "choose fastest, balanced, accurate, full, uniform:D or a JSON file"
        )
    return read_schedule(text, boundaries, slots)


def uniform(delay: int, boundaries: Sequence[str], slots: int) -> Delays:
    """The same delay at every boundary."""
    return complete(dict.fromkeys(boundaries, delay), boundaries, slots, f"uniform:{delay}")


def with_delays(delays: Delays, changes: Sequence[str], slots: int) -> Delays:
    """The schedule with changes such as `block0.ffn1=2`."""
    changed = dict(delays)
    for change in changes:
        name, equals, number = change.partition("=")
        if not equals or not number.strip().isdecimal():
            raise FalconError(f"--delay '{change}': write BOUNDARY=D, for instance block0.ffn1=2")
        changed[name.strip()] = int(number)
    return complete(changed, list(delays), slots, "--delay")


def read_schedule(path: Path | str, boundaries: Sequence[str], slots: int) -> Delays:
    """Read `{"delays": {boundary: delay}}`; boundaries that are not listed have delay 1."""
    document = read_json(path)
    listed = document.get("delays") if isinstance(document, dict) else None
    if not isinstance(listed, dict):
        raise FalconError(f'{path}: not a schedule; it must hold {{"delays": {{boundary: delay}}}}')
    return complete(listed, boundaries, slots, str(path))


def write_schedule(path: Path | str, delays: Mapping[str, int], **facts: Any) -> None:
    """Write a schedule that `read_schedule` reads, with free facts beside the delays."""
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
