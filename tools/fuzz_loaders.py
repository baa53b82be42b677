"""Everything that reads a file of a user's: how a valid one is made, read and looked at.

Whoever writes a new loader adds it to LOADERS; `tools/fuzz.py` damages its files.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import torch
from tests.data_files import tone, write_folder
from tests.run_folder import write_run, write_search
from tests.training_data import NETWORK, WORDS, make_job, write_spikes

from falcon_snn.data import arrays, images, ssc
from falcon_snn.data.audio import read_in_blocks, read_wave
from falcon_snn.data.cache import cached_array
from falcon_snn.data.clips import Recordings
from falcon_snn.data.folder import open_folder, write_split
from falcon_snn.data.live import raw_blocks
from falcon_snn.data.packed import open_packed, write_packed
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
from falcon_snn.report.results import load_results, read_result, write_result
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

FULL = dict.fromkeys(NETWORK.boundaries, NETWORK.slots)


@dataclass(frozen=True)
class Loader:
    """`write` makes valid files in a folder and gives those to damage; `load` reads the folder.

    `load` also looks at what it got where that is cheap, and raises AssertionError at garbage.
    """

    name: str
    write: Callable[[Path], list[Path]]
    load: Callable[[Path], object]
    share: float = 1.0  # of the cases that each loader gets; slow ones get fewer


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
    from lightning.fabric import Fabric

    from falcon_snn.training.loop import train

    train(make_job(folder, epochs=1), Fabric(accelerator="cpu"))
    return [folder / LAST, folder / "curves.jsonl"]


def _resume(folder: Path) -> None:
    from lightning.fabric import Fabric

    state = _State(make_job(folder, epochs=1, resume=True), Fabric(accelerator="cpu"))
    assert state.epoch == len(state.results) == 1
    for moments in state.optimiser.state.values():
        assert bool(moments["exp_avg"].isfinite().all())


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
    return sorted(folder.iterdir())


def _load_experiments(folder: Path) -> None:
    for path in folder.iterdir():
        assert read_result(path).latency_us > 0


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


def _ssc(folder: Path) -> list[Path]:
    write_spikes(folder, clips=6)
    return [folder / "ssc_valid.h5"]


def _load_ssc(folder: Path) -> None:
    path = folder / "ssc_valid.h5"
    facts = ssc.read_facts(path)
    counts = np.zeros((len(facts.labels), ssc.BINS, ssc.FEATURES), np.uint8)
    ssc.read_ssc(path, counts, lambda clips: None)
    assert len(facts.names) == len(counts)


def _arrays(folder: Path) -> list[Path]:
    draw = np.random.default_rng(2)
    held: dict[str, Any] = {
        "x_train": draw.normal(size=(30, 4, 3)).astype(np.float32), "y_train": np.arange(30) % 3,
        "x_test": draw.normal(size=(6, 4, 3)).astype(np.float32), "y_test": np.arange(6) % 3,
        "class_names": np.array(["a", "b", "c"]), "record_train": np.arange(30) // 3,
    }  # fmt: skip
    np.savez(folder / "plain.npz", allow_pickle=False, **held)
    np.savez_compressed(folder / "small.npz", allow_pickle=False, **held)
    return sorted(folder.iterdir())


def _load_arrays(folder: Path) -> None:
    for path in folder.iterdir():
        held = arrays.open_arrays(path)
        dtype = arrays.KEPT[held.smallest_kept()]
        for split in arrays.PARTS:
            out = np.zeros(held.shape(split), dtype)
            held.read_into(out, split)
            assert np.isfinite(out.astype(np.float64)).all()


def _images(folder: Path) -> list[Path]:
    from PIL import Image

    draw = np.random.default_rng(3)
    for part in images.SPLIT_FOLDERS:
        for suffix in images.SUFFIXES:
            (folder / part / "a").mkdir(parents=True, exist_ok=True)
            pixels = draw.integers(0, 255, (9, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / part / "a" / f"{suffix[1:]}{suffix}")
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _load_images(folder: Path) -> None:
    held = images.open_images(folder)
    height, width, channels = held.form()
    assert height * width < 1 << 24
    held.read_into(np.zeros((len(held.pictures), height, width, channels)[: 3 if channels == 1
                            else 4], np.uint8), lambda images: None)  # fmt: skip


def _sound(folder: Path) -> list[Path]:
    import soundfile

    wave = tone(440, 4_000)
    kinds = {"a.wav": "PCM_16", "f.wav": "FLOAT", "u.wav": "ULAW", "c.flac": "PCM_16",
             "d.ogg": "VORBIS", "e.aiff": "PCM_24"}  # fmt: skip
    for name, subtype in kinds.items():
        soundfile.write(folder / name, wave, 16_000, subtype=subtype)
    return sorted(folder.iterdir())


def _load_sound(folder: Path) -> None:
    for path in folder.iterdir():
        wave = read_wave(path)
        assert np.isfinite(wave).all()
        assert len(wave) < 1 << 24


def _load_stream(folder: Path) -> None:
    for path in folder.iterdir():
        heard = 0
        for block in read_in_blocks(path, 0.05):
            assert np.isfinite(block).all()
            heard += len(block)
        assert heard < 1 << 24


def _raw(folder: Path) -> list[Path]:
    (folder / "raw").write_bytes((8000 * tone(440, 4_000)).astype("<i2").tobytes())
    return [folder / "raw"]


def _load_raw(folder: Path) -> None:
    with (folder / "raw").open("rb") as pipe:
        assert all(np.isfinite(block).all() for block in raw_blocks(pipe, 44_100))


def _recordings(folder: Path) -> list[Path]:
    write_folder(folder, clips_per_split=1)
    return sorted(folder.rglob("*.wav"))


def _read_all(recordings: Recordings) -> None:
    lengths = recordings.lengths()
    assert lengths.min() > 0
    out = np.zeros((len(lengths), max(16_000, int(lengths.max()))), np.int16)
    recordings.read_into(out, lambda clips: None)


def _packed(folder: Path) -> list[Path]:
    source = write_folder(folder / "source", clips_per_split=1)
    held = open_folder(source)
    lengths = held.lengths()
    waves = np.zeros((len(lengths), 16_000), np.int16)
    held.read_into(waves, lambda clips: None)
    write_packed(folder / "packed", held.clips, [], waves, lengths)
    return sorted((folder / "packed").iterdir())


def _split_lists(folder: Path) -> list[Path]:
    write_folder(folder, clips_per_split=1)
    held = open_folder(folder).clips
    for part, name in (("validation", "validation_list.txt"), ("testing", "testing_list.txt")):
        text = "".join(f"{clip.file}\n" for clip in held if clip.split == part)
        write_text(folder / name, text)
    return sorted(folder.glob("*.txt"))


def _own_split(folder: Path) -> list[Path]:
    write_folder(folder, clips_per_split=1)
    write_split(folder, "clip")
    return [folder / "split.csv"]


def _cache(folder: Path) -> list[Path]:
    import os

    os.environ["FALCON_CACHE"] = str(folder)
    _load_cache(folder)
    return [folder / "kept.npy"]


def _load_cache(folder: Path) -> None:
    def fill(out: Any) -> None:
        out[:] = 7

    assert cached_array("kept", (40, 3), np.int16, fill).shape == (40, 3)


LOADERS = (
    Loader("checkpoint", _checkpoint, _load_network),
    Loader("checkpoint as teacher", _checkpoint, _load_teacher, 0.5),
    Loader("checkpoint to resume", _resumable, _resume, 0.2),
    Loader("converted network", _converted, _load_network),
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
    Loader("SSC", _ssc, _load_ssc),
    Loader("arrays", _arrays, _load_arrays),
    Loader("images", _images, _load_images, 0.5),
    Loader("sound", _sound, _load_sound),
    Loader("sound as a stream", _sound, _load_stream, 0.5),
    Loader("raw samples", _raw, _load_raw, 0.2),
    Loader("recordings", _recordings, lambda folder: _read_all(open_folder(folder)), 0.5),
    Loader("packed set", _packed, lambda folder: _read_all(open_packed(folder / "packed")), 0.5),
    Loader("split lists", _split_lists, open_folder),
    Loader("own split", _own_split, open_folder),
    Loader("cache", _cache, _load_cache, 0.5),
)
