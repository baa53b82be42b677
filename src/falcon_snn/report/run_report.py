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
    schedules = _schedules(files, timings)
    titles = TITLES | {row["name"]: row["title"] for row in schedules}
    figures = _figures(files, out, {titles[name]: timings[name] for name in timings}, schedules)
    page = out / PAGE
    write_page(
        page, "run.html.j2", network=network.name, data=facts["settings"]["data"],
        words=files.data["words"], clips=files.data["clips"], schedules=schedules, test=test,
        waiting=_waiting(schedules, energy), compared=distinct_pairs(search),
        qnn_us=timings["QNN"].core_us, full_us=timings["full"].core_us, search=search,
        validation={"QNN": conversion["float_accuracy"], "full": conversion["accuracy"]},
        conversion=conversion, hardware=profile.name, attention=profile.attention,
        figures=figures, phases=phases, related=_related(network), parameters=parameters, run=facts,
        command=shlex.join(facts.get("command", [])), start=facts.get("start") or "a checkpoint",
        network_sha256=sha256_of(checkpoint), records=files.records,
        titles=titles, energy=energy, chips=files.chips,
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


def _schedules(files: RunFiles, timings: dict[str, Timing]) -> list[dict[str, Any]]:
    """What was searched and adapted; a schedule that has several names is there once."""
    rows = []
    for name in CHOSEN:
        names = [other for other in CHOSEN if files.adapted[other]["folder"] == name]
        if not names:
            continue
        chosen = files.search["evaluated"][files.search["chosen"][name]]
        tested = files.test["networks"][name]
        rows.append({
            "name": name,
            "title": _joined([TITLES[one] for one in names]),
            "delays": files.adapted[name]["delays"],
            "waits": chosen["delays"],
            "latency_us": timings[name].core_us,
            "before_percent": 100 * chosen["accuracy"],
            "after_percent": files.adapted[name]["validation_percent"],
            "test_percent": tested["percent"],
            "test_interval": tested["interval"],
            "noisy_percent": tested.get("noisy_percent"),
            "test_before": files.test["before"][name],
        })  # fmt: skip
    return rows


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
    if fast is wait:
        return None
    core_mj = {row["name"]: row["core_mj"] for row in energy}
    apart = fast["test_before"]["interval"][1] < wait["test_before"]["interval"][0]
    return {
        "fast": fast, "wait": wait, "apart": apart,
        "mj": {"fast": core_mj[fast["name"]], "wait": core_mj[wait["name"]],
               "qnn": core_mj["QNN"]},
    }  # fmt: skip


def _figures(
    files: RunFiles, out: Path, timings: dict[str, Timing], schedules: list[dict[str, Any]]
) -> dict[str, Path | None]:
    """All pictures of the page; `timings` by their titles."""
    effects, chosen = write_search_figures(files.search, out, ".svg")
    timeline, adaptation, qnn = out / "timeline.svg", out / "adaptation.svg", None
    drawn = [*(row["title"] for row in schedules), TITLES["QNN"]]
    write_timeline(timeline, "", {title: timings[title] for title in drawn})
    draw_adaptation(
        adaptation,
        {row["name"]: files.curves[row["name"]] for row in schedules},
        {row["name"]: row["before_percent"] for row in schedules},
        files.conversion["float_accuracy"],
    )
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
