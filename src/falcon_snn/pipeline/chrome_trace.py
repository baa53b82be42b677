"""Timelines in the Chrome trace format, which Perfetto opens."""

from collections.abc import Iterable
from typing import Any, NamedTuple


class TraceSpan(NamedTuple):
    """One bar: `process` and `track` say on which line it is drawn."""

    process: str
    track: str
    name: str
    start_us: float
    end_us: float


def chrome_trace(spans: Iterable[TraceSpan]) -> dict[str, Any]:
    """The JSON document; processes and tracks are numbered in order of appearance."""
    processes: dict[str, int] = {}
    tracks: dict[tuple[str, str], int] = {}
    bars: list[dict[str, Any]] = []
    for span in spans:
        process = processes.setdefault(span.process, len(processes) + 1)
        track = tracks.setdefault((span.process, span.track), len(tracks) + 1)
        bars.append({
            "ph": "X", "pid": process, "tid": track, "name": span.name,
            "ts": span.start_us, "dur": round(span.end_us - span.start_us, 3),
        })  # fmt: skip
    names = [_name("process_name", pid, 0, name) for name, pid in processes.items()]
    names += [
        _name("thread_name", processes[process], tid, name)
        for (process, name), tid in tracks.items()
    ]
    return {"displayTimeUnit": "ns", "traceEvents": names + bars}


def _name(kind: str, process: int, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": process, "tid": track, "name": kind, "args": {"name": name}}
