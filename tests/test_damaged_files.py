"""Damaged, foreign and too large files: one clear line, at once, whatever is wrong with them."""

import json
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import soundfile
import torch
from tests.data_files import tone, write_folder
from tests.run_folder import write_run, write_search
from tests.training_data import NETWORK, WORDS, write_spikes
from typer.testing import CliRunner

from falcon_snn.cli.main import app
from falcon_snn.data.audio import read_wave, samples_at_16_khz
from falcon_snn.data.clips import Clip
from falcon_snn.data.examples import load_examples
from falcon_snn.data.folder import open_folder
from falcon_snn.data.packed import open_packed, write_packed
from falcon_snn.errors import LONGEST, FalconError
from falcon_snn.files import read_json, write_json
from falcon_snn.hardware.profile import load_profile
from falcon_snn.interchange.nir_graph import graph_from_nir
from falcon_snn.interchange.nir_network import read_nir, write_nir
from falcon_snn.network.convert import convert
from falcon_snn.network.qnn import Qnn
from falcon_snn.pipeline.graph import read_graph
from falcon_snn.pipeline.schedule import read_schedule
from falcon_snn.report.results import read_result as read_experiment
from falcon_snn.report.run_report import write_run_report
from falcon_snn.search.journal import Journal
from falcon_snn.search.result import read_result
from falcon_snn.training.checkpoint import Metadata, prefixed, save_checkpoint
from falcon_snn.training.recipe import load_recipe

FULL = dict.fromkeys(NETWORK.boundaries, NETWORK.slots)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FALCON_CACHE", str(tmp_path / "cache"))


@contextmanager
def full_disk(bytes_left: int) -> Iterator[None]:
    """No file can become larger: to a library that is a disk which is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = False


def pack(folder: Path) -> None:
    waves = np.zeros((8, 16_000), np.int16)
    waves[:] = np.random.default_rng(1).integers(-9000, 9000, 16_000)
    clips = [Clip(f"no/{n}.wav", "no", str(n), "training") for n in range(8)]
    write_packed(folder / "packed", clips, [], waves, np.full(8, 16_000))


def save(folder: Path) -> None:
    metadata = Metadata(NETWORK, WORDS, {}, epoch=0, seed=0, metrics={})
    save_checkpoint(
        folder / "c.safetensors", metadata, prefixed("model.", Qnn(NETWORK).state_dict())
    )


def export_nir(folder: Path) -> None:
    pytest.importorskip("nir", reason="needs falcon-snn[interchange]")
    write_nir(folder / "n.nir", convert(Qnn(NETWORK)), FULL, WORDS)


@pytest.mark.parametrize(
    ("write", "bytes_left"),
    [(pack, 9_000), (save, 2_000), (export_nir, 9_000), (export_nir, 100), (write_spikes, 9_000),
     (write_spikes, 100)],
)  # fmt: skip
def test_a_full_disk_is_one_line_and_leaves_nothing(
    tmp_path: Path, write: Callable[[Path], object], bytes_left: int
) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(FalconError, match="writing failed") as said, full_disk(bytes_left):
        write(tmp_path / "out")
    assert "\n" not in str(said.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_zeroed_bytes_in_an_ssc_file_do_not_hang(tmp_path: Path) -> None:
    file = write_spikes(tmp_path) / "ssc_valid.h5"
    whole = file.read_bytes()
    heap = whole.index(b"GCOL")
    for start in range(heap + 16, heap + 12_000, 1_500):
        file.write_bytes(whole[:start] + bytes(1300) + whole[start + 1300 :])
        with pytest.raises(FalconError, match=r"ssc_valid\.h5: "):
            load_examples(file, "validation")


@pytest.mark.parametrize("key", ["labels", "spikes/units", "spikes/times", "extra/keys"])
@pytest.mark.parametrize(
    "value", [3, [[1, 2]], ["no"] * 12, np.zeros(12, "f4"), h5py.Empty("f4"), {}, None]
)
def test_ssc_data_sets_of_another_form(tmp_path: Path, key: str, value: Any) -> None:
    path = write_spikes(tmp_path) / "ssc_valid.h5"
    with h5py.File(path, "r+") as file:
        del file[key]
        if isinstance(value, dict):
            file.create_group(key)
        elif value is not None:
            file[key] = value
    if key == "extra/keys" and (value is None or (isinstance(value, list) and value[0] == "no")):
        load_examples(path, "validation")  # words may be left out, and are any
        return
    with pytest.raises(FalconError, match=r"ssc_valid\.h5: "):
        load_examples(path, "validation")


@pytest.mark.parametrize("damage", ["a number", "no nodes", "heads", "words", "delay", "edges"])
def test_nir_files_of_another_form(tmp_path: Path, damage: str) -> None:
    export_nir(tmp_path)
    path = tmp_path / "n.nir"
    with h5py.File(path, "r+") as file:
        if damage == "a number":
            name = NETWORK.boundaries[0]
            del file[f"node/nodes/{name}"]
            file[f"node/nodes/{name}"] = 3
        elif damage == "no nodes":
            del file["node/nodes"]
        elif damage == "heads":
            text = file["node/metadata/network"][()].decode()
            del file["node/metadata/network"]
            file["node/metadata/network"] = text.replace('"heads": 2', '"heads": [0]')
        elif damage == "words":
            del file["node/metadata/words"]
            file["node/metadata/words"] = "[1, 2, 3]"
        elif damage == "delay":
            place = f"node/nodes/{NETWORK.boundaries[0]}/metadata/delay"
            del file[place]
            file[place] = [1, 2]
        else:
            del file["node/nodes"][NETWORK.boundaries[1]]
    with pytest.raises(FalconError, match=r"n\.nir: "):
        read_nir(path)
    if damage in ("a number", "no nodes", "heads"):
        with pytest.raises(FalconError, match=r"n\.nir: "):
            graph_from_nir(path)


def wrong_shapes(value: Any) -> Iterator[Any]:
    """Valid JSON in which one thing is of another kind, or is not there."""
    yield from ([], 3, "text", None, {})
    if isinstance(value, dict):
        for key, held in value.items():
            yield {name: each for name, each in value.items() if name != key}
            yield {**value, key: "7" if isinstance(held, int | float) else 7}


REPORTED = ("run.json", "steps/search.json", "search/result.json", "adapt/adapted.json",
            "measure/accuracy.json", "measure/energy.json", "convert/conversion.json",
            "features/facts.json")  # fmt: skip
SPARE = ("command", "beside", "stages", "delta_max")  # what a page does without


@pytest.mark.parametrize("file", REPORTED)
def test_a_run_folder_with_files_of_another_form(tmp_path: Path, file: str) -> None:
    run = write_run(tmp_path / "run")
    good = read_json(run / file)
    cases = 0
    for wrong in wrong_shapes(good):
        if isinstance(wrong, dict) and all(good[k] == wrong.get(k) for k in set(good) - set(SPARE)):
            continue
        write_json(run / file, wrong)
        with pytest.raises(FalconError, match=r"\.json|not done"):
            write_run_report(run, tmp_path / "page")
        cases += 1
    assert cases > 5


def test_the_run_folder_of_these_tests_is_a_good_one(tmp_path: Path) -> None:
    page = write_run_report(write_run(tmp_path / "run"), tmp_path / "page")
    assert "Matched QNN" in page.read_text()


def test_the_folder_of_a_design_has_its_page_already(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / "contest").mkdir()
    with pytest.raises(FalconError, match=r"falcon-snn design.*design\.html"):
        write_run_report(run, tmp_path / "page")


def test_search_results_that_cannot_be_right(tmp_path: Path) -> None:
    write_search(tmp_path)
    good = read_json(tmp_path / "result.json")
    rows = good["evaluated"]
    for change in (
        {"chosen": {**good["chosen"], "fastest": len(rows)}},
        {"front": [-1]},
        {"evaluated": [{**row, "interval": [0.9, 0.1]} for row in rows]},
        {"evaluated": [{**row, "accuracy": 1e300} for row in rows]},
        {"evaluated": [{**row, "delays": {"nowhere": 2}} for row in rows]},
        {"chosen": {"fastest": 0}},
    ):
        path = tmp_path / "wrong.json"
        write_json(path, {**good, **change})
        with pytest.raises(FalconError, match=r"wrong\.json"):
            read_result(path)
        result = CliRunner().invoke(app, ["search", "plot", str(path)])
        assert isinstance(result.exception, FalconError)


TEXT_LOADERS: dict[str, Callable[[Path], object]] = {
    "schedule": lambda path: read_schedule(path, NETWORK.boundaries, 3),
    "search": read_result,
    "experiment": read_experiment,
    "graph": read_graph,
    "hardware": load_profile,
    "recipe": load_recipe,
    "journal": lambda path: Journal(path, {}, resume=True),
}
ODD_TEXTS = {
    "no UTF-8": b"\xff\xfe\x00\n",
    "deep": b'{"delays": ' + b"[" * 200_000 + b"\n",
    "deep TOML": b"slots = " + b"[" * 200_000 + b"\n",
    "digits": b'{"delays": {"a": ' + b"9" * 5_000 + b"}}\n",
    "TOML digits": b"slots = " + b"9" * 5_000 + b"\n",
    "NaN": b'{"delays": NaN}\n',
    "huge": b'{"delays": {"a": 1e999}}\n',
    "long name": b'{"delays": {"' + b"n" * 9_000 + b'": 1}}\n',
}


@pytest.mark.parametrize("loader", TEXT_LOADERS)
@pytest.mark.parametrize("odd", ODD_TEXTS)
def test_texts_that_no_parser_takes(tmp_path: Path, loader: str, odd: str) -> None:
    path = tmp_path / "odd"
    path.write_bytes(ODD_TEXTS[odd])
    with pytest.raises(FalconError) as said:
        TEXT_LOADERS[loader](path)
    assert len(str(said.value)) <= LONGEST
    assert "\n" not in str(said.value)


@pytest.mark.parametrize("name", ["validation_list.txt", "split.csv"])
@pytest.mark.parametrize("content", [b"\xff\xfe", b"n" * 200_000, b"no/" + b"x" * 300 + b".wav,a"])
def test_split_lists_of_bytes_and_of_long_names(tmp_path: Path, name: str, content: bytes) -> None:
    folder = write_folder(tmp_path / "clips")
    (folder / "testing_list.txt").write_text("")
    (folder / name).write_bytes(b"file,split\n" * name.endswith("csv") + content)
    with pytest.raises(FalconError) as said:
        open_folder(folder)
    assert len(str(said.value)) <= LONGEST


@pytest.mark.parametrize(
    "row", [b"\xff", b"x" * 140_000, b"a,no,b,training," + b"c" * 300 + b",0,100",
            b"a,no,b,training,clips-00.opus,0," + b"9" * 5_000,
            b"a,no,b,training,clips-00.opus,0,9999999999"],
)  # fmt: skip
def test_packed_indexes_of_bytes_and_of_long_fields(tmp_path: Path, row: bytes) -> None:
    pack(tmp_path)
    index = tmp_path / "packed" / "index.csv"
    index.write_bytes(index.read_bytes() + row + b"\n")
    with pytest.raises(FalconError, match=r"index\.csv"):
        open_packed(tmp_path / "packed")


def test_a_journal_is_not_believed_how_many_clips_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_search(tmp_path)
    path = tmp_path / "journal.jsonl"
    lines = path.read_text().splitlines()
    header = json.loads(lines[0])["inputs"]
    monkeypatch.setattr("falcon_snn.search.journal.fingerprint", lambda facts: header)
    for clips in (2**38, -1, 0, 7, "60", 61.0):
        record = {**json.loads(lines[1]), "clips": clips}
        path.write_text("\n".join([lines[0], json.dumps(record)]) + "\n")
        with pytest.raises(FalconError, match="line 2"):
            Journal(path, {}, resume=True)


def test_a_flac_is_not_believed_how_long_it_is(tmp_path: Path) -> None:
    path = tmp_path / "tone.flac"
    soundfile.write(path, tone(440), 16_000)
    whole = bytearray(path.read_bytes())
    whole[21] |= 0x0F  # the last bits of 36 that say how many samples there are
    path.write_bytes(whole)
    with pytest.raises(FalconError, match=r"tone\.flac"):
        read_wave(path)


@pytest.mark.parametrize("rate_hz", [1, 2**31 - 1])
def test_rates_that_would_take_gigabytes_to_change(tmp_path: Path, rate_hz: int) -> None:
    path = tmp_path / "tone.wav"
    soundfile.write(path, tone(440), 16_000)
    whole = bytearray(path.read_bytes())
    whole[24:28] = rate_hz.to_bytes(4, "little")
    path.write_bytes(whole)
    with pytest.raises(FalconError, match="Hz can be read"):
        read_wave(path)


def test_samples_that_are_no_numbers(tmp_path: Path) -> None:
    path = tmp_path / "nan.wav"
    soundfile.write(path, np.array([0.1, np.nan], np.float32), 16_000, subtype="FLOAT")
    with pytest.raises(FalconError, match="not numbers"):
        read_wave(path)


def test_a_checkpoint_to_resume_from_without_its_moments(tmp_path: Path) -> None:
    from tests.training_data import make_job

    from falcon_snn.training.checkpoint import load_checkpoint
    from falcon_snn.training.devices import open_devices
    from falcon_snn.training.loop import LAST, train

    torch.set_num_threads(1)
    train(make_job(tmp_path, epochs=1), open_devices(1))
    metadata, tensors = load_checkpoint(tmp_path / LAST)
    gone = next(name for name in tensors if name.startswith("first."))
    save_checkpoint(
        tmp_path / LAST, metadata, {name: t for name, t in tensors.items() if name != gone}
    )
    with pytest.raises(FalconError, match=f"lacks '{gone}'"):
        train(make_job(tmp_path, epochs=1, resume=True), open_devices(1))


def test_a_recording_without_samples_is_one_line(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "none.wav", np.zeros(0), 16_000)
    with pytest.raises(FalconError, match="no samples in it"):
        samples_at_16_khz(tmp_path / "none.wav")
