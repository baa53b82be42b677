"""The folder of a run that is done, written in a moment: its files have the right form, its
network has random weights.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tests.training_data import NETWORK, WORDS

from falcon_snn.files import write_json, write_text
from falcon_snn.hardware.energy import ANALOG_PARTS, DIGITAL_PARTS
from falcon_snn.hardware.profile import load_profile, profile_toml
from falcon_snn.network.qnn import Qnn
from falcon_snn.pipeline.schedule import Delays
from falcon_snn.report.run_files import STEPS
from falcon_snn.search.pds import Gates, pds
from falcon_snn.search.predictor import Correct, local_engine
from falcon_snn.search.result_form import CHOSEN
from falcon_snn.search.run import Surroundings, run_search
from falcon_snn.training.checkpoint import Metadata, prefixed, save_checkpoint
from falcon_snn.workflow.searching import search_space

RECIPE = {"epochs": 2, "batch": 6, "weight_rate": 1e-3, "neuron_rate": 0.0}


class Guessing:
    """A predictor whose answers follow from the delays alone."""

    def start_from(self, delays: Delays) -> None:
        pass

    def correct(self, delays: Delays) -> Correct:
        draw = np.random.default_rng(sum(delays.values()))
        answers: Correct = draw.uniform(size=60) < 0.5 + 0.02 * sum(delays.values())
        return answers


def write_search(folder: Path) -> None:
    """The result, the journal and the schedules of a search of the small network."""
    profile = load_profile()
    run_search(
        search_space(NETWORK, profile, 2),
        local_engine(Guessing()),
        partial(pds, gates=Gates(tau=0.5)),
        Surroundings(profile.cycle_ns, NETWORK.slots, random=2, seed=1),
        out=folder,
        facts={"settings": {"tau": 0.5, "eps": 0.001}},
    )


def write_run(run: Path) -> Path:
    """Every file that the report of a run reads."""
    settings = {
        "data": "spikes", "seed": 0, "fingerprint": {"data": {"source": "spikes", "key": "5e1f"}},
        "qnn_recipe": RECIPE, "adapt_recipes": {"qat": RECIPE},
    }  # fmt: skip
    write_json(run / "run.json", {
        "command": ["falcon-snn", "run"], "settings": settings, "versions": {"torch": "2"},
        "machine": "2 cores", "commit": None,
    })  # fmt: skip
    for step in STEPS:
        record = {"inputs": "ab", "beside": [], "seconds": 0.5, "files": {"facts.json": "cd"}}
        write_json(run / "steps" / f"{step}.json", record)
    write_text(run / "hardware.toml", profile_toml(load_profile()))
    clips = {"training": 12, "validation": 12, "testing": 12}
    write_json(run / "features" / "facts.json", {"words": list(WORDS), "clips": clips})
    metadata = Metadata(NETWORK, WORDS, {}, epoch=2, seed=0, metrics={})
    tensors = prefixed("model.", Qnn(NETWORK).state_dict())
    save_checkpoint(run / "qnn" / "best.safetensors", metadata, tensors)
    check = {
        "clips": 12, "differing_counts": 0, "differing_predictions": 0, "float_differs": 0,
        "accuracy": 50.0, "float_accuracy": 50.0,
    }  # fmt: skip
    write_json(run / "convert" / "conversion.json", {"check": check, "stages": []})
    write_search(run / "search")
    delays = {name: dict.fromkeys(NETWORK.boundaries, 1 + n) for n, name in enumerate(CHOSEN)}
    write_json(run / "adapt" / "adapted.json", {
        name: {"folder": name, "delays": delays[name], "validation_percent": 60.0}
        for name in CHOSEN
    })  # fmt: skip
    for place in ("qnn", *(f"adapt/{name}/qat" for name in CHOSEN)):
        write_text(run / place / "curves.jsonl", '{"validation_accuracy": 50.0}\n' * 2)
    tested = {"right": 6, "percent": 50.0, "interval": [0.3, 0.7], "recall": {}}
    names = ("QNN", "full", *CHOSEN)
    write_json(run / "measure" / "accuracy.json", {
        "clips": 12, "networks": dict.fromkeys(names, tested),
        "before": dict.fromkeys(CHOSEN, tested),
    })  # fmt: skip
    rows = [{"name": name, **_energy()} for name in names]
    write_json(run / "measure" / "energy.json", {"configurations": rows})
    return run


def _energy() -> dict[str, Any]:
    return {
        "arithmetic_mj": 1e-4, "analog_mj": 1e-3, "digital_mj": 1e-4, "core_mj": 1.1e-3,
        "edp_nj_s": 0.1, "spikes_per_neuron": 1.5,
        "analog_parts_mj": dict.fromkeys(ANALOG_PARTS, 1e-4),
        "digital_parts_mj": dict.fromkeys(DIGITAL_PARTS, 1e-5),
    }  # fmt: skip
