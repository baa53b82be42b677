"""The delay-controlled kernel in one picture: the same inputs, firing after 1, 3 or all T slots."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from falcon_snn.neuron.reference import integrate_and_fire
from falcon_snn.report.style import INK, SOFT, drawing

# A late inhibition: firing at once spends a spike that the whole input does not pay for.
INPUTS = (0.7, 0.4, 0.5, -1.3, 0.2, 0.6, 0.1)
INITIAL, THRESHOLD = 0.5, 1.0
_INPUT, _SPIKE = "#7fa8d1", "#c0392b"


class Decision(NamedTuple):
    """What a neuron sees and does when it decides on an output slot."""

    round: int  # the last input slot that has arrived; beyond T - 1 nothing new comes
    potential: float
    fired: bool


def decisions(inputs: Sequence[float], delay: int) -> list[Decision]:
    """The firing decisions of SN_delta, each with the potential just before it."""
    spikes, _ = integrate_and_fire(inputs, delay, THRESHOLD, INITIAL, 0.0)
    return [
        Decision(
            slot + delay - 1,
            INITIAL + sum(inputs[: slot + delay]) - THRESHOLD * sum(spikes[:slot]),
            bool(spike),
        )
        for slot, spike in enumerate(spikes)
    ]


def draw_kernel(path: Path, delays: Sequence[int]) -> None:
    """One row per delay: inputs, potential, threshold, decisions."""
    with drawing(path, 11, 1.9 * len(delays)) as figure:
        rows = figure.subplots(len(delays), 1, sharex=True, sharey=True)
        for axis, delay in zip(rows, delays, strict=True):
            _row(axis, delay)
        rows[0].legend(loc="upper right", ncols=5)
        rows[-1].set_xlabel("round; input slots arrive one per round")
        rows[-1].set_xticks(range(len(INPUTS) + max(delays) - 1))


def _row(axis: Any, delay: int) -> None:
    made = decisions(INPUTS, delay)
    rounds, potentials = [d.round for d in made], [d.potential for d in made]
    axis.axhline(THRESHOLD, color=SOFT, linewidth=0.8, linestyle="--", label="threshold")
    axis.axvspan(-0.5, delay - 1.5, color="#f0f2f4", zorder=0)
    axis.bar(range(len(INPUTS)), INPUTS, width=0.5, color=_INPUT, label="input")
    axis.plot(rounds, potentials, color=INK, linewidth=1, label="potential")
    for fired, fill, name in ((True, _SPIKE, "fires"), (False, "white", "does not")):
        chosen = [d for d in made if d.fired is fired]
        axis.plot([d.round for d in chosen], [d.potential for d in chosen], "o",
                  color=_SPIKE, markerfacecolor=fill, label=name)  # fmt: skip
    count = sum(d.fired for d in made)
    spikes = "1 spike" if count == 1 else f"{count} spikes"
    axis.set_ylim(-1.6, 2.9)
    waits = "fires at once" if delay == 1 else f"{delay} slots first"
    axis.set_title(f"delay {delay}: {waits}, {spikes}, done after round {rounds[-1]}",
                   color=INK)  # fmt: skip
