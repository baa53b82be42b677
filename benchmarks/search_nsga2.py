"""The baseline: Optuna's NSGA-II, a multi-objective sampler that knows nothing of delays.

It lost to the frontier search on every network, so Falcon does not offer it.
"""

import warnings

import optuna

from falcon_snn.search.evaluations import Evaluations
from falcon_snn.search.pds import Change, Gates, compare
from falcon_snn.search.space import Schedule

_TRIALS_PER_EVALUATION = 20  # repeats and schedules over the budget cost trials, not evaluations


def nsga2(
    evaluations: Evaluations, limit: int, gates: Gates, seed: int
) -> tuple[list[Schedule], list[Change]]:
    """Every schedule evaluated, up to `limit`, and each beside the start."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = evaluations.space
    start = space.start
    evaluations.correct(start, [start])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer releases prefer another way to state constraints
        sampler = optuna.samplers.NSGAIISampler(
            seed=seed, constraints_func=lambda trial: (trial.user_attrs["over_budget"],)
        )
    study = optuna.create_study(directions=["maximize", "minimize"], sampler=sampler)
    study.enqueue_trial(space.delays(start))
    compared: list[Change] = []
    for number in range(limit * _TRIALS_PER_EVALUATION):
        if len(evaluations.asked) >= limit:
            break
        trial = study.ask()
        schedule = tuple(
            trial.suggest_int(boundary, 1, space.delta_max) for boundary in space.boundaries
        )
        (cycles,) = space.cycles([schedule])
        trial.set_user_attr("over_budget", cycles - space.budget_cycles + 1)
        right = 0
        if cycles < space.budget_cycles:
            compared += compare(evaluations, gates, "nsga2", number, start, [schedule])
            right = evaluations.right(schedule)
        study.tell(trial, [right, cycles])
    return evaluations.asked, compared
