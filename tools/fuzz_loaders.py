"""Everything that reads a file of a user's: how a valid one is made, read and looked at.

Whoever writes a new loader adds it to LOADERS, or to `fuzz_data.py` if it reads data;
`tools/fuzz.py` damages its files.
"""

from math import isfinite
from pathlib import Path
from urllib.parse import parse_qsl

import numpy as np
import torch
from tests.run_folder import write_run, write_search
from tests.training_data import NETWORK, WORDS, make_job
from tools.fuzz_data import DATA_LOADERS, Loader

from falcon_snn.files import read_json, write_json, write_text
from falcon_snn.hardware.profile import load_profile, parse_profile, profile_toml, shipped_profiles
from falcon_snn.interchange.nir_graph import graph_from_nir
from falcon_snn.interchange.nir_network import read_nir, write_nir
from falcon_snn.network.convert import convert
from falcon_snn.network.description import network_from_json
from falcon_snn.network.integer import Snn
from falcon_snn.network.qnn import Qnn
from falcon_snn.pipeline.graph import Graph, graph_toml, read_graph
from falcon_snn.pipeline.schedule import read_schedule, uniform
from falcon_snn.pipeline.timing import time_snn
from falcon_snn.report.measurements import Measurements
from falcon_snn.report.paper_figures import energy
from falcon_snn.report.results import load_energy, load_results, results_folder, write_result
from falcon_snn.report.run_files import read_run
from falcon_snn.report.search_figures import representatives
from falcon_snn.search.designs import read_space
from falcon_snn.search.journal import Journal
from falcon_snn.search.result import read_result as read_search
from falcon_snn.search.result import same_chosen
from falcon_snn.studio.state import from_query, own_state, to_query, with_schedule_file
from falcon_snn.training.checkpoint import Metadata, load_teacher, prefixed, save_checkpoint
from falcon_snn.training.export import load_network, save_network
from falcon_snn.training.loop import LAST, _State
from falcon_snn.training.recipe import load_recipe
from falcon_snn.workflow.steps import Run, RunStep

ENERGY = "energy-gsc-medium.json"
FULL = dict.fromkeys(NETWORK.boundaries, NETWORK.slots)


def _metadata() -> Metadata:
    return Metadata(NETWORK, WORDS, {"encoding": "first"}, epoch=1, seed=0, metrics={"loss": 0.5})


def _checkpoint(folder: Path) -> list[Path]:
    torch.manual_seed(1)
    path = folder / "c.safetensors"
    save_checkpoint(path, _metadata(), prefixed("model.", Qnn(NETWORK).state_dict()))
    return [path]


def _converted(folder: Path) -> list[Path]:
    torch.manual_seed(1)
    save_network(folder / "c.safetensors", convert(Qnn(NETWORK)), _metadata())
    return [folder / "c.safetensors"]


def _load_network(folder: Path) -> None:
    snn, metadata = load_network(folder / "c.safetensors")
    _look_at_integers(snn)
    assert len(metadata.words) == snn.network.classes


def _look_at_integers(snn: Snn) -> None:
    for name, tensor in snn.tensors.items():
        assert not tensor.is_floating_point() or bool(tensor.isfinite().all()), name
        assert not name.endswith(".threshold") or bool((tensor > 0).all()), name


def _load_teacher(folder: Path) -> None:
    model, _ = load_teacher(folder / "c.safetensors")
    assert all(bool(tensor.isfinite().all()) for tensor in model.state_dict().values())


def _resumable(folder: Path) -> list[Path]:
    from falcon_snn.training.devices import open_devices
    from falcon_snn.training.loop import train

    train(make_job(folder, epochs=1), open_devices(1))
    return [folder / LAST, folder / "curves.jsonl"]


def _resume(folder: Path) -> None:
    from falcon_snn.training.devices import open_devices

    state = _State(make_job(folder, epochs=1, resume=True), open_devices(1))
    assert state.epoch == len(state.results) == 1
    for moments in state.optimiser.moments.values():
        assert bool(moments.first.isfinite().all())


def _network(folder: Path) -> list[Path]:
    write_json(folder / "network.json", NETWORK.as_json())
    return [folder / "network.json"]


def _load_description(folder: Path) -> None:
    network = network_from_json(read_json(folder / "network.json"))
    assert network_from_json(network.as_json()) == network
    if network.slots <= 8:
        _time(network.graph)


def _time(graph: Graph) -> None:
    delays = uniform(1, graph.boundaries, graph.slots)
    assert time_snn(graph, delays, load_profile()).core_cycles > 0


def _graph(folder: Path) -> list[Path]:
    write_text(folder / "graph.toml", graph_toml(NETWORK.graph))
    return [folder / "graph.toml"]


def _hardware(folder: Path) -> list[Path]:
    for name, text in shipped_profiles().items():
        write_text(folder / f"{name}.toml", text)
    return sorted(folder.iterdir())


def _load_hardware(folder: Path) -> None:
    for path in folder.iterdir():
        profile = load_profile(path)
        again = parse_profile(profile_toml(profile), str(path))
        assert again == profile
        time_snn(NETWORK.graph, FULL, profile)


def _schedule(folder: Path) -> list[Path]:
    write_json(folder / "schedule.json", {"name": "full", "delays": FULL})
    return [folder / "schedule.json"]


def _load_schedule(folder: Path) -> None:
    delays = read_schedule(folder / "schedule.json", NETWORK.boundaries, NETWORK.slots)
    assert all(1 <= delay <= NETWORK.slots for delay in delays.values())


def _load_in_studio(folder: Path) -> None:
    text = (folder / "schedule.json").read_text(encoding="utf-8", errors="replace")
    state = with_schedule_file(own_state(NETWORK, FULL), text, "schedule.json")
    assert set(state.delays) == set(NETWORK.boundaries)


def _address(folder: Path) -> list[Path]:
    write_text(folder / "address", to_query(own_state(NETWORK, FULL)))
    return [folder / "address"]


def _load_address(folder: Path) -> None:
    text = (folder / "address").read_text(encoding="utf-8", errors="replace")
    try:
        query = dict(parse_qsl(text, keep_blank_values=True))
    except ValueError:  # so many fields that no browser sends them
        return
    from_query(query, own_state(NETWORK, FULL))


def _recipe(folder: Path) -> list[Path]:
    import falcon_snn

    known = Path(falcon_snn.__file__).parent / "training" / "recipes"
    for path in known.glob("*.toml"):
        write_text(folder / path.name, path.read_text())
    return sorted(folder.iterdir())


def _space(folder: Path) -> list[Path]:
    import falcon_snn.search.designs as designs

    for name in designs.SPACES:
        known = Path(designs.__file__).parent / "spaces" / f"{name}.toml"
        write_text(folder / known.name, known.read_text())
    return sorted(folder.iterdir())


def _load_spaces(folder: Path) -> None:
    for path in folder.iterdir():
        values = read_space(path)
        lists = [values["slots"], *values.get("kestrel", {}).values()]
        assert all(0 <= number <= 4096 for numbers in lists for number in numbers)


def _load_recipes(folder: Path) -> None:
    for path in folder.iterdir():
        recipe = load_recipe(path)
        for value in (*vars(recipe).values(), *vars(recipe.augment).values()):
            assert not isinstance(value, float) or isfinite(value)
        assert recipe.epochs >= 1
        assert recipe.batch >= 1


def _search(folder: Path) -> list[Path]:
    write_search(folder)
    return [folder / "result.json"]


def _load_search(folder: Path) -> None:
    result = read_search(folder / "result.json")
    same_chosen(result)
    representatives(result)


def _journal(folder: Path) -> list[Path]:
    journal = Journal(folder / "journal.jsonl", {}, resume=False)
    draw = np.random.default_rng(1)
    for number in range(20):
        journal.append((1, 1 + number), draw.uniform(size=60) < 0.5)
    return [folder / "journal.jsonl"]


def _load_journal(folder: Path) -> None:
    journal = Journal(folder / "journal.jsonl", {}, resume=True)
    for answers in journal.answers.values():
        assert answers.dtype == np.bool_
        assert answers.size <= 1000


def _run(folder: Path) -> list[Path]:
    write_run(folder)
    return [
        path for path in sorted(folder.rglob("*")) if path.suffix in (".json", ".toml", ".jsonl")
    ]


def _load_run(folder: Path) -> None:
    held = read_run(folder)
    assert held.test["clips"] > 0
    assert all(isfinite(p) for curve in held.curves.values() for c in curve for p in c[1])


def _record(folder: Path) -> list[Path]:
    _run_of(folder).execute(_STEP)
    return [folder / "steps" / "only.json"]


def _write_step(run: Run, folder: Path) -> None:
    write_json(folder / "facts.json", {"a": 1})


_STEP = RunStep("only", "writes a file", _write_step, uses=("size",))


def _run_of(folder: Path) -> Run:
    return Run(folder, {"size": 1})


def _load_record(folder: Path) -> None:
    _run_of(folder).valid(_STEP)


def _experiment(folder: Path) -> list[Path]:
    for number in (0, 5):
        result = load_results()[number]
        write_result(folder / f"{number}.json", result)
    write_text(folder / ENERGY, (results_folder() / ENERGY).read_text())
    return sorted(folder.iterdir())


def _load_experiments(folder: Path) -> None:
    results = load_results(folder)
    assert all(result.latency_us > 0 for result in results)
    measured = load_energy("gsc-medium", folder)
    assert measured is not None
    assert all(isfinite(one.ours or 0) for one in energy(Measurements(
        results, {}, {"gsc-medium": measured})).lines)  # fmt: skip


def _nir(folder: Path) -> list[Path]:
    torch.manual_seed(1)
    write_nir(folder / "n.nir", convert(Qnn(NETWORK)), FULL, WORDS)
    return [folder / "n.nir"]


def _load_nir(folder: Path) -> None:
    snn, delays, _ = read_nir(folder / "n.nir")
    _look_at_integers(snn)
    assert set(delays) == set(snn.network.boundaries)


def _foreign_nir(folder: Path) -> list[Path]:
    import nir

    ones = np.ones(6)
    layers = (
        nir.Conv2d((8, 8), np.ones((6, 1, 3, 3)), 1, 1, 1, 1, np.zeros(6)),
        nir.SumPool2d(*(np.array([2, 2]),) * 2, np.array([0, 0])),
        nir.IF(r=np.ones((6, 4, 4)), v_threshold=np.ones((6, 4, 4))),
        nir.Flatten({"input": np.array([6, 4, 4])}, 0),
        nir.Affine(np.ones((6, 96)), ones),
        nir.LIF(tau=ones, r=ones, v_leak=0 * ones, v_threshold=ones),
    )
    nir.write(folder / "n.nir", nir.NIRGraph.from_list(*layers))
    return [folder / "n.nir"]


def _load_foreign_nir(folder: Path) -> None:
    _time(graph_from_nir(folder / "n.nir", 4))


LOADERS = (
    Loader("checkpoint", _checkpoint, _load_network),
    Loader("checkpoint as teacher", _checkpoint, _load_teacher, 0.5),
    Loader("checkpoint to resume", _resumable, _resume, 0.2),
    Loader("converted network", _converted, _load_network),
    Loader("converted network as teacher", _converted, _load_teacher, 0.5),
    Loader("network description", _network, _load_description),
    Loader("stage graph", _graph, lambda folder: _time(read_graph(folder / "graph.toml"))),
    Loader("hardware profile", _hardware, _load_hardware, 0.5),
    Loader("schedule", _schedule, _load_schedule),
    Loader("schedule in studio", _schedule, _load_in_studio, 0.2),
    Loader("address of the studio", _address, _load_address, 0.5),
    Loader("recipe", _recipe, _load_recipes),
    Loader("space of designs", _space, _load_spaces, 0.5),
    Loader("search result", _search, _load_search),
    Loader("search journal", _journal, _load_journal),
    Loader("run folder", _run, _load_run),
    Loader("step record", _record, _load_record),
    Loader("experiment", _experiment, _load_experiments, 0.5),
    Loader("NIR, ours", _nir, _load_nir, 0.2),
    Loader("NIR, foreign", _foreign_nir, _load_foreign_nir, 0.5),
    *DATA_LOADERS,
)
