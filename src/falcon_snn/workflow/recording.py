"""An experiment as a result file: what was trained, and its test accuracy, read once."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from falcon_snn.data.examples import Examples, data_key
from falcon_snn.errors import FalconError
from falcon_snn.files import read_json_lines
from falcon_snn.hardware.profile import load_profile
from falcon_snn.report.provenance import commit, machine, versions
from falcon_snn.report.results import PhaseOfResult, Result, demand_names, teachers_in
from falcon_snn.training.checkpoint import load_metadata, load_model
from falcon_snn.training.evaluate import accuracy, qnn_predictions, snn_predictions
from falcon_snn.training.export import load_network
from falcon_snn.training.loop import BEST, CURVES
from falcon_snn.training.recipe import PHASES
from falcon_snn.workflow.networks import delays_of
from falcon_snn.workflow.sources import Data, data_source, device, load_split
from falcon_snn.workflow.watch import SILENT, Watch

QNN, FULL = "qnn", "full"  # configurations of a network that was trained without slots


def record(
    folder: Path, setting: str, configuration: str, data: Data, *, data_name: str | None = None,
    attention: str = "serial", before: Path | None = None, noise: Sequence[float] = (),
    test: bool = True, watch: Watch = SILENT,
) -> Result:  # fmt: skip
    """The result of what `train` or `adapt` left in a folder; reads the test accuracy, if asked to.

    `before` is the checkpoint that an adaptation began with, to measure it, too.
    """
    demand_names(setting, configuration)
    replace(load_profile(), attention=attention)  # refuses what there is not
    checkpoint = folder / BEST
    metadata = load_metadata(checkpoint)
    delays, network = metadata.delays, metadata.network
    if configuration == FULL:
        delays = delays_of("full", network, None)

    prefix = None if network.prefix == network.slots else network.prefix

    def clips(split: str, noise_db: float | None = None) -> Examples:
        return load_split(data, split, None, metadata.words, noise_db)

    def answers(examples: Examples, file: Path = checkpoint) -> torch.Tensor:
        with watch.bar(f"{configuration}, {len(examples):,} clips", len(examples)) as advance:
            if delays is None:
                model = load_model(file)[0].to(device())
                return qnn_predictions(model, examples, advance=advance)
            snn = load_network(file, None if file == checkpoint else prefix)[0]
            return snn_predictions(snn.to(device()), examples, delays, advance=advance)

    validation = clips("validation")
    measured: dict[str, Any] = {"test_percent": None, "test_clips": 0}
    if test:
        examples = clips("test")
        found = answers(examples)
        measured = {
            "test_percent": accuracy(found, examples), "test_clips": len(examples),
            "test_wrong": (found != examples.labels.cpu()).nonzero().flatten().tolist(),
            "noise_clips": len(examples) if noise else 0,
        }  # fmt: skip
    if before is not None:
        measured["validation_before_percent"] = accuracy(answers(validation, before), validation)
        if test:
            measured["test_before_percent"] = accuracy(answers(examples, before), examples)
    if noise:
        measured["noise_percent"] = {
            f"{db:g}": accuracy(answers(noisy), noisy)
            for db in noise
            for noisy in [clips("test", db)]
        }
    phases, minutes = _phases(folder)
    source = data_source(data)
    return Result(
        setting=setting,
        configuration=configuration,
        data=data_name or source,
        words=len(metadata.words),
        network=network,
        delays=delays,
        attention=attention,
        seed=metadata.seed,
        commit=commit(),
        versions=versions(),
        machine=machine(),
        phases=phases,
        validation_percent=accuracy(answers(validation), validation),
        data_key=data_key(source),
        train_minutes=minutes,
        **measured,
    )


def _phases(folder: Path) -> tuple[list[PhaseOfResult], float]:
    """Recipe, teachers and curve of each phase that trained in a folder, and the minutes of all."""
    alone = (folder / CURVES).exists()
    places = {QNN: folder} if alone else {name: folder / name for name in (QNN, *PHASES)}
    phases: list[PhaseOfResult] = []
    seconds = 0.0
    for name, place in places.items():
        if not (place / CURVES).exists():
            continue
        rows = read_json_lines(place / CURVES)
        best = load_metadata(place / BEST)
        phases.append({
            "name": name, "recipe": best.recipe, "teachers": teachers_in(best.facts),
            "validation_percent": [row["validation_accuracy"] for row in rows],
        })  # fmt: skip
        seconds += sum(row["seconds"] for row in rows)
    if not phases:
        raise FalconError(f"{folder}: holds no {CURVES}; give the --out of train or adapt")
    return phases, round(seconds / 60, 2)
