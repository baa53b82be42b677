"""A search from start to files: journal, method, comparison, result."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from falcon_snn.files import demand_unused
from falcon_snn.search.evaluations import Evaluations, Progress
from falcon_snn.search.journal import Journal
from falcon_snn.search.pds import Change
from falcon_snn.search.predictor import Engine
from falcon_snn.search.result import held_out_result, search_result, write_result
from falcon_snn.search.result_form import CHOSEN
from falcon_snn.search.space import Schedule, Space

# Evaluates schedules; returns those to choose from, and every change that it compared.
Method = Callable[[Evaluations], tuple[list[Schedule], list[Change]]]


@dataclass(frozen=True)
class Surroundings:
    """What goes with the search in its result."""

    cycle_ns: float
    slots: int  # uniform delays are evaluated up to this one
    random: int  # random schedules beside each chosen one
    seed: int


def run_search(
    space: Space,
    engine: Engine,
    method: Method,
    surroundings: Surroundings,
    *,
    out: Path,
    facts: dict[str, Any],
    resume: bool = False,
    held_out: Engine | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Search, write `result.json` and the chosen schedules into `out`, and return the result.

    `facts` names model, data and settings: a journal of others is refused. `held_out` evaluates
    clips that the search must not see.
    """
    identity = {
        "facts": facts,
        "boundaries": space.boundaries,
        "budget_cycles": space.budget_cycles,
        "delta_max": space.delta_max,
    }
    kept = out / "journal.jsonl"
    if not kept.exists():
        demand_unused(out, ("result.json", *(f"{name}.json" for name in CHOSEN)))
    with closing(Journal(kept, identity, resume=resume)) as journal:
        evaluations = Evaluations(space, engine, journal, progress)
        found, changes = method(evaluations)
        result = search_result(evaluations, found, changes, facts=facts, **asdict(surroundings))
    if held_out is not None:
        result["held_out"] = held_out_result(evaluations, Evaluations(space, held_out), result)
    write_result(out, result)
    return result
