"""The best of a contest, finished: where it waits, its adaptation, what it costs, its rivals."""

import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from falcon_snn.files import replacing, write_json
from falcon_snn.network.calibrate import calibrate
from falcon_snn.network.chip import FIRST_CHIP, sampled
from falcon_snn.network.convert import convert
from falcon_snn.network.integer import Snn
from falcon_snn.network.qnn import Qnn, with_slots
from falcon_snn.pipeline.resources import count_resources
from falcon_snn.pipeline.schedule import Delays, write_schedule
from falcon_snn.pipeline.timing import time_qnn, time_snn
from falcon_snn.training.checkpoint import load_model
from falcon_snn.training.evaluate import batches
from falcon_snn.training.export import save_network
from falcon_snn.training.loop import BEST
from falcon_snn.training.recipe import Recipe
from falcon_snn.workflow.contest import ENERGY_CLIPS, Contest, Judge, folder_of, opened
from falcon_snn.workflow.measuring import measure
from falcon_snn.workflow.searching import SearchSettings, search
from falcon_snn.workflow.sources import chosen
from falcon_snn.workflow.training import Session, Start, adapt_phases, on_chips, run_phase

CONVERTED, SCHEDULE, DESCRIPTION = "network.safetensors", "schedule.json", "network.json"


def finish(
    contest: Contest, qat: Recipe, number: int, trials: Path, folder: Path
) -> dict[str, Any]:
    """Search the delays of a trained candidate, adapt and measure it; all that is known of it."""
    candidate = contest.candidates[number]
    checkpoint = folder_of(candidate, trials) / BEST
    out = folder_of(candidate, folder)
    found = search(
        checkpoint, contest.data, out / "search",
        SearchSettings(
            budget_us=contest.limits.us, random=0, seed=contest.seed, chips=contest.chips
        ),
        profile=contest.profile, resume=True, watch=contest.watch,
    )  # fmt: skip
    listed = found["evaluated"][found["chosen"]["balanced"]]["delays"]
    delays = {name: listed.get(name, 1) for name in candidate.network.boundaries}
    with opened(contest, [contest.recipe, qat]) as (session, judge):
        chip = contest.profile if contest.chips else None
        model = on_chips(load_model(checkpoint)[0], chip)
        start = Start(model, delays, contest.teachers, contest.fingerprint, chip)
        adapt_phases(session, {"qat": qat}, start, out / "adapt", resume=True)
        with replacing(out / BEST) as temporary:
            shutil.copyfile(out / "adapt" / BEST, temporary)
        model, metadata = load_model(out / BEST)
        save_network(out / CONVERTED, convert(model), metadata)
        write_schedule(out / SCHEDULE, delays)
        write_json(out / DESCRIPTION, metadata.network.as_json())
        rows = _rows(contest, session, judge, qat, checkpoint, model, delays, out)
    own = rows["SNN"]
    broken = contest.limits.broken_by(own["latency_us"], own["tiles"], own["core_mj"])
    return {
        "candidate": number, "name": candidate.name, "folder": out.name, "delays": delays,
        "epochs": contest.recipe.epochs, "adapt_epochs": qat.epochs, "breaks": list(broken),
        "networks": rows,
    }  # fmt: skip


def _score(
    contest: Contest, judge: Judge, snn: Snn, delays: Delays, *, qnn: bool
) -> dict[str, float]:
    """Percent of the validation clips; with chips, the mean over them."""
    if not contest.chips:
        return judge.score(snn, delays)
    profile = contest.profile
    ranges = calibrate(snn, profile, *next(batches(judge.clean, snn.device)), delays, qnn=qnn)
    scores = [
        judge.score(sampled(snn, profile, FIRST_CHIP + number, ranges, qnn=qnn), delays)
        for number in range(contest.chips)
    ]
    return {name: fmean(one[name] for one in scores) for name in scores[0]}


def _rows(
    contest: Contest, session: Session, judge: Judge, qat: Recipe, checkpoint: Path, model: Qnn,
    delays: Delays, out: Path,
) -> dict[str, dict[str, Any]]:  # fmt: skip
    """The design and its rivals: what they cost, and how many validation clips they get right.

    The three kinds of QNN are one network timed in three ways. With one slot SNN and QNN are the
    same thing; that rival starts from the QNN's weights and trains as long as the adaptation.
    """
    profile, device = contest.profile, session.devices.device
    qnn, _ = load_model(checkpoint)
    one = out / "one-slot"
    if model.network.slots > 1:
        plan = replace(contest.recipe, epochs=qat.epochs)
        start = Start(with_slots(qnn, 1), None, contest.teachers, contest.fingerprint)
        run_phase(session, plan, start, one, resume=True)
    rows: dict[str, dict[str, Any]] = {}
    clips = chosen(judge.clean, range(len(judge.clean))[:ENERGY_CLIPS])

    def add(name: str, network: Qnn, used: Delays | None, us: float) -> None:
        snn = convert(network).to(device)
        at = used or network.network.lookahead
        rows[name] = {
            "latency_us": us,
            "tiles": count_resources(network.network.graph, profile).tiles,
            "core_mj": measure(snn, clips, used, profile, name).energy.core_mj,
            **_score(contest, judge, snn, at, qnn=used is None),
        }

    add("SNN", model, delays, time_snn(model.network.graph, delays, profile).core_us)
    graph = qnn.network.graph
    add("bit-serial QNN", qnn, None, time_qnn(graph, profile).core_us)
    for title, style in (
        ("QNN, overlapping row groups", "overlapped"), ("bit-parallel QNN", "bit-parallel"),
    ):  # fmt: skip
        us = time_qnn(graph, profile, style).core_us  # type: ignore[arg-type]
        rows[title] = rows["bit-serial QNN"] | {"latency_us": us}
    # A bit-parallel macro is another chip: what its conversions cost, this profile does not say.
    rows["bit-parallel QNN"] = rows["bit-parallel QNN"] | {"core_mj": None}
    single = load_model(one / BEST)[0] if model.network.slots > 1 else model
    ones = dict.fromkeys(single.network.boundaries, 1)
    add("one slot", single, ones, time_snn(single.network.graph, ones, profile).core_us)
    return rows
