"""Data sets as a whole: which there are, what they hold, packed, or turned into spikes."""

from collections import Counter
from collections.abc import Iterator
from itertools import tee
from pathlib import Path
from time import perf_counter
from typing import Any

from falcon_snn.data.basilar_membrane import pair_transfer
from falcon_snn.data.clips import word_list
from falcon_snn.data.examples import (
    EMBEDDED,
    data_home,
    find_source,
    is_spikes,
    load_examples,
    load_waves,
    open_recordings,
    read_recordings,
)
from falcon_snn.data.features import CLIP_SAMPLES, RATE_HZ, one_second
from falcon_snn.data.gsc import RELEASES
from falcon_snn.data.inner_ear import SpikeTrain, clip_id, spike_trains
from falcon_snn.data.packed import write_packed
from falcon_snn.data.ssc import FILE_OF, MARK, read_facts, write_ssc
from falcon_snn.errors import FalconError
from falcon_snn.files import demand_file_target
from falcon_snn.workflow.sources import device
from falcon_snn.workflow.watch import SILENT, Advance, Watch

_CLIPS_AT_ONCE = 1024  # as sound in memory


def list_sets() -> list[dict[str, Any]]:
    """The sets that can be used by name, and those that can be downloaded; a row each."""
    home = data_home()
    found = (
        sorted(entry.name for entry in home.iterdir() if entry.is_dir()) if home.is_dir() else []
    )
    rows = [{**_describe(find_source(EMBEDDED)), "name": EMBEDDED, "place": "in the package"}]
    rows += [_describe(home / name) for name in found if not name.startswith(".")]
    return rows + [
        {"name": name, "place": "to download", "words": release.words, "clips": release.clips}
        for name, release in RELEASES.items()
        if name not in found
    ]


def _describe(path: Path) -> dict[str, Any]:
    """What a folder holds, or what is wrong with it."""
    row = {"name": path.name, "place": str(path)}
    try:
        if is_spikes(path):
            files = {split: path / file for split, file in FILE_OF.items()}
            facts = {split: read_facts(file) for split, file in files.items() if file.is_file()}
            splits = {split: len(fact.labels) for split, fact in facts.items()}
            words = max(len(fact.words) for fact in facts.values())
        else:
            clips = open_recordings(path).clips
            splits = dict(Counter(clip.split for clip in clips))
            words = len(word_list(clips))
    except FalconError as error:
        return {**row, "problem": str(error)}
    return {**row, "words": words, "splits": splits, "clips": sum(splits.values())}


def pack(source: str, folder: Path, kbps: float, watch: Watch = SILENT) -> dict[str, Any]:
    """Write a set of recordings as Opus chunks and an index; how much smaller it became."""
    recordings = open_recordings(find_source(source))
    clips = recordings.clips
    with watch.bar("reading clips", len(clips)) as advance:
        waves, lengths = read_recordings(recordings, advance=advance)
    with watch.bar("packing clips", len(clips)) as advance:
        noise = recordings.noise_files()
        write_packed(folder, clips, noise, waves, lengths, bitrate_kbps=kbps, advance=advance)
    packed_mb = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
    times_smaller = 2 * int(lengths.sum()) / 1e6 / packed_mb
    return {"folder": str(folder), "clips": len(clips), "packed_mb": round(packed_mb, 3),
            "times_smaller": round(times_smaller, 2)}  # fmt: skip


def feature_facts(source: str, split: str, watch: Watch = SILENT) -> dict[str, Any]:
    """Compute the features of a split, once, and describe them."""
    start_s = perf_counter()
    with watch.bar("clips ready") as advance:
        examples = load_examples(source, split, advance=advance)
    seconds = perf_counter() - start_s
    x = examples.x.float()
    return {
        "clips": len(examples),
        "words": len(examples.words),
        "tokens": x.shape[1],
        "features": x.shape[2],
        "mean_length_tokens": round(float(examples.lengths.float().mean()), 2),
        "mean": round(float(x.mean()), 4),
        "standard_deviation": round(float(x.std()), 4),
        "smallest": round(float(x.min()), 4),
        "largest": round(float(x.max()), 4),
        "seconds": round(seconds, 2),
    }


def write_spikes(
    source: str, to: Path, *, split: str = "validation", seed: int = 0,
    device_name: str = "auto", limit: int | None = None, watch: Watch = SILENT,
) -> dict[str, Any]:  # fmt: skip
    """Turn the recordings of a split into spikes of 700 channels, as an SSC file."""
    demand_file_target(to, mark=MARK)
    where = device(device_name)
    with watch.bar("reading clips") as advance:
        waves = load_waves(source, split, advance=advance)
    clips = min(len(waves), limit or len(waves))
    names = waves.names[:clips]
    spikes = 0

    def trains(advance: Advance) -> Iterator[SpikeTrain]:
        nonlocal spikes
        for first in range(0, clips, _CLIPS_AT_ONCE):
            part = slice(first, min(first + _CLIPS_AT_ONCE, clips))
            sound = one_second(waves.waves[part], waves.lengths[part])
            ids = [clip_id(name) for name in names[part]]
            for train in spike_trains(sound, ids, rate_hz=RATE_HZ, seed=seed, device=where):
                spikes += len(train.units)
                advance(1)
                yield train

    pair_transfer(CLIP_SAMPLES, RATE_HZ, where)  # needed once, so not counted in clips per second
    start_s = perf_counter()
    with watch.bar("clips to spikes", clips) as advance:
        first, second = tee(trains(advance))
        write_ssc(
            to,
            units=(train.units for train in first),
            times=(train.times_s for train in second),
            labels=waves.labels[:clips].tolist(),
            words=waves.words,
            names=names,
            speakers=waves.speakers[:clips],
        )
    seconds = perf_counter() - start_s
    return {
        "file": str(to),
        "clips": clips,
        "spikes": spikes,
        "device": str(where),
        "seed": seed,
        "seconds": round(seconds, 3),
        "clips_per_s": round(clips / seconds, 1),
    }
