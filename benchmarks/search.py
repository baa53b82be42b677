"""Hypervolume against evaluations: PDS, frontier search and Optuna's NSGA-II on the same networks.

    python -m benchmarks.search --blocks 3 --seeds 10 11 12 --out search-benchmark
    python -m benchmarks.search --checkpoint model.safetensors --data gsc-v1 --out search-benchmark

Each method may evaluate as many schedules as PDS did. Half of the clips is searched on; the other
half says what the front found is worth on clips that no method saw.
"""

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks.search_bed import Bed
from benchmarks.search_nsga2 import nsga2

from falcon_snn.files import replacing, write_json
from falcon_snn.hardware.profile import load_profile
from falcon_snn.network.falcon import FalconConfig, falcon
from falcon_snn.pipeline.schedule import Delays
from falcon_snn.search.evaluations import Evaluations
from falcon_snn.search.frontier import FrontierSettings, frontier
from falcon_snn.search.pareto import Point, choose, dominates, hypervolume, pareto_filter
from falcon_snn.search.pds import Gates, pds
from falcon_snn.search.predictor import Correct, Predictor, local_engine
from falcon_snn.search.run import Method
from falcon_snn.search.space import Schedule, Space
from falcon_snn.training.checkpoint import load_metadata
from falcon_snn.workflow.searching import predictor_of, search_space

CLIPS = 2400  # of a bed, both halves
GATES = Gates()
COLOURS = {"pds": "#845b97", "nsga2": "#7b8794", "frontier": "#2563a8"}


class Halved:
    """One half of a predictor's clips; both halves share what is already known."""

    def __init__(self, whole: Predictor, half: int, known: dict[Schedule, Correct]) -> None:
        self.whole, self.half, self.known = whole, half, known

    def start_from(self, delays: Delays) -> None:
        self.current = delays

    def correct(self, delays: Delays) -> Correct:
        schedule = tuple(delays.values())
        if schedule not in self.known:
            self.whole.start_from(self.current)
            self.known[schedule] = self.whole.correct(delays)
        return self.known[schedule][self.half :: 2]


class Contest(NamedTuple):
    """A network on which all methods are run."""

    name: str
    space: Space
    searched: Predictor
    held_out: Predictor


def contests(arguments: argparse.Namespace) -> Iterator[Contest]:
    if arguments.checkpoint:
        network = load_metadata(arguments.checkpoint).network
        space = search_space(network, load_profile(), arguments.delta_max)
        whole: Predictor = predictor_of(arguments.checkpoint, arguments.data, limit=arguments.limit)
        yield contest(arguments.checkpoint.name, space, whole)
        return
    for seed in arguments.seeds:
        network = falcon(FalconConfig("bed", arguments.blocks, features=64, tokens=98))
        whole = Bed(arguments.blocks, seed, CLIPS)
        space = search_space(network, load_profile(), arguments.delta_max)
        yield contest(f"bed {seed}", space, whole)


def contest(name: str, space: Space, whole: Predictor) -> Contest:
    known: dict[Schedule, Correct] = {}
    return Contest(name, space, Halved(whole, 0, known), Halved(whole, 1, known))


def share(evaluations: Evaluations, points: list[Point]) -> float:
    """Hypervolume beyond the start, in per cent of all accuracy times all room under the budget."""
    start = evaluations.points([evaluations.space.start])[0]
    budget = evaluations.space.budget_cycles
    room = evaluations.clips * (budget - start.cycles)
    return 100 * hypervolume(points, right=start.right, cycles=budget) / room


def held_out_share(contest: Contest, front: list[Point]) -> float:
    """What the front, as chosen on the searched half, is worth on the other half.

    Each schedule serves from its own latency to that of the next, for better or worse.
    """
    space = contest.space
    other = Evaluations(space, local_engine(contest.held_out))
    schedules = [point.schedule for point in sorted(front, key=lambda point: point.cycles)]
    other.correct(space.start, [space.start, *schedules])
    points = other.points(schedules)
    start = other.points([space.start])[0]
    ends = [point.cycles for point in points[1:]] + [space.budget_cycles]
    area = sum(
        (point.right - start.right) * (end - point.cycles)
        for point, end in zip(points, ends, strict=True)
    )
    return 100 * area / (other.clips * (space.budget_cycles - start.cycles))


def run(contest: Contest, name: str, seed: int, method: Method) -> dict[str, Any]:
    evaluations = Evaluations(contest.space, local_engine(contest.searched))
    found, _ = method(evaluations)
    points = evaluations.points(evaluations.asked)
    front = pareto_filter(evaluations.points(found))
    return {
        "network": contest.name,
        "method": name,
        "seed": seed,
        "evaluations": len(points),
        "hypervolume": share(evaluations, front),
        "hypervolume_of_all_evaluated": share(evaluations, points),
        "held_out_hypervolume": held_out_share(contest, front),
        "curve": [share(evaluations, points[:count]) for count in range(1, len(points) + 1)],
        "front": [{"right": p.right, "cycles": p.cycles, "delays": p.schedule} for p in front],
        "chosen": {n: p._asdict() for n, p in choose(evaluations.points(found)).items()},
    }


def compete(contest: Contest, sampler_seeds: int) -> list[dict[str, Any]]:
    rows = [run(contest, "pds", 0, partial(pds, gates=GATES))]
    limit = rows[0]["evaluations"]
    rows.append(
        run(
            contest, "frontier", 0, partial(frontier, settings=FrontierSettings(limit), gates=GATES)
        )
    )
    for seed in range(sampler_seeds):
        method = partial(nsga2, limit=limit, gates=GATES, seed=seed)
        rows.append(run(contest, "nsga2", seed, method))
    return rows


def beaten(rows: list[dict[str, Any]]) -> str:
    """How many of PDS's chosen schedules the frontier dominates or equals."""
    theirs = [Point(**point) for point in rows[0]["chosen"].values()]
    ours = [Point(tuple(p["delays"]), p["right"], p["cycles"]) for p in rows[1]["front"]]
    better = sum(any(dominates(one, other) for one in ours) for other in theirs)
    equal = sum(any(one[1:] == other[1:] for one in ours) for other in theirs)
    return f"of PDS's three, frontier dominates {better} and holds {equal}"


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 4.2), layout="constrained")
    pds_rows = {row["network"]: row for row in rows if row["method"] == "pds"}
    best = {
        name: max(row["hypervolume_of_all_evaluated"] for row in rows if row["network"] == name)
        for name in pds_rows
    }
    spent = np.linspace(0, 100, 201)  # per cent of PDS's evaluations, so that networks compare
    for method, colour in COLOURS.items():
        curves = []
        for row in (row for row in rows if row["method"] == method):
            reference = pds_rows[row["network"]]
            share_spent = 100 * np.arange(1, len(row["curve"]) + 1) / reference["evaluations"]
            volume = 100 * np.array(row["curve"]) / (best[row["network"]] or 1.0)
            axis.plot(share_spent, volume, color=colour, linewidth=0.6, alpha=0.35)
            curves.append(np.interp(spent, share_spent, volume))
        axis.plot(spent, np.mean(curves, axis=0), color=colour, linewidth=2, label=method)
    axis.axhline(100, color="#1f2933", linewidth=0.8, linestyle=":")
    axis.set(
        xlabel="schedules evaluated, % of those that PDS evaluates",
        ylabel="hypervolume, % of the best run's",
        ylim=(0, None),
    )
    axis.set_title("all schedules evaluated so far count; thin: single runs, thick: their mean",
                   fontsize=9)  # fmt: skip
    axis.grid(color="#e4e7eb")
    axis.legend(loc="lower right", frameon=False)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=160, format="png")
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12])
    parser.add_argument("--sampler-seeds", type=int, default=3)
    parser.add_argument("--delta-max", type=int, default=3)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--data", default="gsc-v1")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--out", type=Path, default=Path("search-benchmark"))
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for one in contests(arguments):
        found = compete(one, arguments.sampler_seeds)
        rows += found
        for row in found:
            print(
                f"{row['network']:10} {row['method']:9} seed {row['seed']} "
                f"{row['evaluations']:4} evaluations, hypervolume {row['hypervolume']:6.3f} "
                f"(all evaluated {row['hypervolume_of_all_evaluated']:6.3f}), "
                f"held out {row['held_out_hypervolume']:6.3f}",
                flush=True,
            )
        print(f"{one.name:10} {beaten(found)}", flush=True)
    for method in COLOURS:
        these = [row for row in rows if row["method"] == method]
        for key in ("hypervolume", "hypervolume_of_all_evaluated", "held_out_hypervolume"):
            print(f"{method:9} mean {key}: {np.mean([row[key] for row in these]):.3f}")
    write_json(arguments.out / "search.json", rows)
    draw(rows, arguments.out / "search.png")


if __name__ == "__main__":
    main()
