"""The report of a run: everything is read from the run's folder, nothing is computed again
except the latency model and its pictures.
"""

import shlex
from pathlib import Path
from typing import Any

from falcon_snn.files import sha256_of
from falcon_snn.hardware.profile import Profile
from falcon_snn.network.description import Network
from falcon_snn.network.falcon import DATASETS, MODELS, falcon_config
from falcon_snn.pipeline.schedule import complete, uniform
from falcon_snn.pipeline.timing import Timing, time_qnn, time_snn
from falcon_snn.report.energy_figure import draw_breakdown
from falcon_snn.report.page import write_page
from falcon_snn.report.related_work import compare
from falcon_snn.report.run_files import RunFiles, read_run
from falcon_snn.report.search_figures import write_search_figures
from falcon_snn.report.timeline import write_timeline
from falcon_snn.report.training_curves import draw_adaptation, draw_curves
from falcon_snn.search.result import distinct_pairs
from falcon_snn.search.result_form import CHOSEN

TITLES = {"fastest": "Fastest", "balanced": "Balanced", "accurate": "Accurate",
          "full": "Full lookahead", "QNN": "Matched QNN"}  # fmt: skip
DRAWN = (*CHOSEN, "QNN")  # timelines, from top to bottom
PAGE, ENERGY = "report.html", "energy.svg"


def write_run_report(run: Path, out: Path) -> Path:
    """Write `report.html` and its figures into `out`; return the path of the page."""
    files = read_run(run)
    facts, search, test, profile = files.facts, files.search, files.test, files.profile
    energy = _once(files.energy, files.adapted)
    checkpoint = run / "qnn" / "best.safetensors"
    network, parameters = _network(checkpoint)
    timings = _timings(network, files.adapted, profile)
    draw_breakdown(out / ENERGY, "", energy)
    conversion, phases = files.conversion, files.phases
    qnn_percent = conversion["float_accuracy"]
    schedules = [_schedule(name, search, files.adapted, test, timings) for name in CHOSEN]
    figures = _figures(files, out, timings, schedules, qnn_percent)
    page = out / PAGE
    write_page(
        page, "run.html.j2", network=network.name, data=facts["settings"]["data"],
        words=files.data["words"], clips=files.data["clips"], schedules=schedules, test=test,
        distinct=_distinct(schedules), waiting=_waiting(schedules, energy),
        compared=distinct_pairs(search),
        qnn_us=timings["QNN"].core_us, full_us=timings["full"].core_us, search=search,
        validation={"QNN": qnn_percent, "full": conversion["accuracy"]}, conversion=conversion,
        hardware=profile.name, attention=profile.attention, figures=figures, phases=phases,
        related=_related(network), parameters=parameters, run=facts,
        command=shlex.join(facts.get("command", [])), start=facts.get("start") or "a checkpoint",
        network_sha256=sha256_of(checkpoint), records=files.records,
        titles=_titles(schedules), energy=energy, chips=files.chips,
        recipes=_recipes(facts["settings"]),
    )  # fmt: skip
    return page


def _network(path: Path) -> tuple[Network, int]:
    """The network and its number of parameters."""
    from falcon_snn.network.qnn import parameter_count
    from falcon_snn.training.checkpoint import load_model

    model, metadata = load_model(path)
    return metadata.network, parameter_count(model)


def _timings(network: Network, adapted: dict[str, Any], profile: Profile) -> dict[str, Timing]:
    """The schedules, full lookahead and the matched QNN on the same graph."""
    graph = network.graph
    timings = {
        name: time_snn(
            graph,
            complete(adapted[name]["delays"], graph.boundaries, graph.slots, "adapted.json"),
            profile,
        )
        for name in CHOSEN
    }
    full = uniform(graph.slots, graph.boundaries, graph.slots)
    return timings | {"full": time_snn(graph, full, profile), "QNN": time_qnn(graph, profile)}


def _schedule(
    name: str,
    search: dict[str, Any],
    adapted: dict[str, Any],
    test: dict[str, Any],
    timings: dict[str, Timing],
) -> dict[str, Any]:
    chosen = search["evaluated"][search["chosen"][name]]
    tested = test["networks"][name]
    return {
        "name": name,
        "title": TITLES[name],
        "folder": adapted[name]["folder"],
        "delays": adapted[name]["delays"],
        "waits": chosen["delays"],
        "latency_us": timings[name].core_us,
        "before_percent": 100 * chosen["accuracy"],
        "after_percent": adapted[name]["validation_percent"],
        "test_percent": tested["percent"],
        "test_interval": tested["interval"],
        "noisy_percent": tested.get("noisy_percent"),
        "test_before": test["before"][name],
    }


def _distinct(schedules: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Names that stand for the same schedule, together."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in schedules:
        groups.setdefault(row["folder"], []).append(row)
    return list(groups.values())


def _titles(schedules: list[dict[str, Any]]) -> dict[str, str]:
    """What each row is called; a schedule that has several names carries them all."""
    titles = dict(TITLES)
    for group in _distinct(schedules):
        titles[group[0]["name"]] = _joined([row["title"] for row in group])
    return titles


def _joined(names: list[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]


def _once(energy: list[dict[str, Any]], adapted: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the energy; a schedule that has several names is there once."""
    return [
        row for row in energy if adapted.get(row["name"], {}).get("folder") in (None, row["name"])
    ]


def _waiting(
    schedules: list[dict[str, Any]], energy: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """What waiting cost and gained: Accurate against Fastest; None if they are one schedule."""
    fast, wait = schedules[0], schedules[-1]
    if fast["folder"] == wait["folder"]:
        return None
    core_mj = {row["name"]: row["core_mj"] for row in energy}
    apart = fast["test_before"]["interval"][1] < wait["test_before"]["interval"][0]
    return {
        "fast": fast, "wait": wait, "title": _joined_title(wait, schedules), "apart": apart,
        "mj": {"fast": core_mj[fast["folder"]], "wait": core_mj[wait["folder"]],
               "qnn": core_mj["QNN"]},
    }  # fmt: skip


def _joined_title(row: dict[str, Any], schedules: list[dict[str, Any]]) -> str:
    return _joined([each["title"] for each in schedules if each["folder"] == row["folder"]])


def _figures(
    files: RunFiles,
    out: Path,
    timings: dict[str, Timing],
    schedules: list[dict[str, Any]],
    qnn_percent: float,
) -> dict[str, Path | None]:
    effects, chosen = write_search_figures(files.search, out, ".svg")
    timeline = out / "timeline.svg"
    titles = _titles(schedules)
    first = {row["name"]: row["folder"] for row in schedules}
    drawn = [name for name in DRAWN if first.get(name, name) == name]
    write_timeline(timeline, "", {titles[name]: timings[name] for name in drawn})
    adaptation = out / "adaptation.svg"
    own = {group[0]["folder"]: group[0] for group in _distinct(schedules)}  # a curve per network
    draw_adaptation(
        adaptation,
        {name: files.curves[name] for name in own},
        {name: row["before_percent"] for name, row in own.items()},
        qnn_percent,
    )
    qnn = None
    if files.qnn_curve is not None:
        qnn = out / "qnn-training.svg"
        draw_curves(qnn, {"QNN": files.qnn_curve.validation_percent})
    return {"effects": effects, "chosen": chosen, "timeline": timeline, "adaptation": adaptation,
            "qnn": qnn, "energy": out / ENERGY}  # fmt: skip


def _related(network: Network) -> list[dict[str, Any]]:
    """Other people's networks for speech; beside a network for other data they say nothing."""
    if network.name not in {
        falcon_config(model, data).name for model in MODELS for data in DATASETS
    }:
        return []
    return [row.as_json() for row in compare()]


def _recipes(settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
    own = {} if settings["qnn_recipe"] is None else {"qnn": settings["qnn_recipe"]}
    return own | settings["adapt_recipes"]
