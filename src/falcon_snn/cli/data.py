"""`falcon-snn data`: list data, fetch it, pack it, compute its features or spikes."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from falcon_snn.cli.data_spikes import spikes
from falcon_snn.cli.output import JsonFlag, err, notice, out, print_json, progress_bar

app = typer.Typer(no_args_is_help=True, help="List, download, pack and prepare speech data.")

SourceArgument = typer.Argument(help="'embedded', a path, or a name under $FALCON_DATA.")


@app.command("list")
def list_sets(as_json: bool = JsonFlag) -> None:
    """List the data sets that can be used by name, with their splits, and those to download."""
    from falcon_snn.data.clips import SPLITS
    from falcon_snn.data.examples import EMBEDDED, data_home, find_source
    from falcon_snn.data.gsc import LICENCE, RELEASES

    home = data_home()
    found = (
        sorted(entry.name for entry in home.iterdir() if entry.is_dir()) if home.is_dir() else []
    )
    rows = [{**_describe(find_source(EMBEDDED)), "name": EMBEDDED, "place": "in the package"}]
    rows += [_describe(home / name) for name in found if not name.startswith(".")]
    rows += [
        {"name": name, "place": "to download", "words": release.words, "clips": release.clips}
        for name, release in RELEASES.items()
        if name not in found
    ]
    if as_json:
        print_json({"home": str(home), "sets": rows, "licence": LICENCE})
        return
    from rich.table import Table

    table = Table("name", "words", "training", "validation", "testing", "where")
    for row in rows:
        splits = row.get("splits", {})
        counts = [f"{splits[split]:,}" if split in splits else "" for split in SPLITS]
        where = row.get("problem", row["place"])
        table.add_row(row["name"], str(row.get("words", "")), *counts, where)
    out.print(table)
    out.print(f"gsc: {LICENCE}")


def _describe(path: Path) -> dict[str, Any]:
    """A row of the list: what the folder holds, or what is wrong with it."""
    from falcon_snn.data.clips import word_list
    from falcon_snn.data.examples import is_spikes, open_recordings
    from falcon_snn.data.ssc import FILE_OF, read_facts
    from falcon_snn.errors import FalconError

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


@app.command("download")
def download(
    name: str = typer.Argument(help="gsc-v1 (30 words, 1.4 GB) or gsc-v2 (35 words, 2.3 GB)."),
    to: Path | None = typer.Option(None, help="Folder to put it in; default $FALCON_DATA."),
) -> None:
    """Download Google Speech Commands (CC BY 4.0), check it and unpack it; resumes if cut off."""
    from falcon_snn.data import gsc

    notice(gsc.LICENCE)
    with _bytes_bar(f"downloading {name}") as update:
        folder = gsc.download(name, to, advance=update)
    typer.echo(folder)


@app.command("pack")
def pack(
    source: str = SourceArgument,
    folder: Path = typer.Argument(help="New folder for the packed set."),
    kbps: float = typer.Option(24.0, min=8.0, max=128.0, help="Opus bit rate in kbit/s."),
    as_json: bool = JsonFlag,
) -> None:
    """Pack a set of recordings as Opus chunks and an index, about 11 times smaller than wavs."""
    from falcon_snn.data.examples import find_source, open_recordings, read_recordings
    from falcon_snn.data.packed import write_packed

    recordings = open_recordings(find_source(source))
    clips = recordings.clips
    with progress_bar("reading clips", len(clips)) as advance:
        waves, lengths = read_recordings(recordings, advance=advance)
    with progress_bar("packing clips", len(clips)) as advance:
        noise = recordings.noise_files()
        write_packed(folder, clips, noise, waves, lengths, bitrate_kbps=kbps, advance=advance)
    packed_mb = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
    times_smaller = 2 * int(lengths.sum()) / 1e6 / packed_mb
    if as_json:
        print_json({"folder": str(folder), "clips": len(clips), "packed_mb": round(packed_mb, 3),
                    "times_smaller": round(times_smaller, 2)})  # fmt: skip
        return
    typer.echo(f"{folder}: {len(clips):,} clips, {packed_mb:.1f} MB, "
               f"{times_smaller:.1f} times smaller than 16-bit wavs")  # fmt: skip


@app.command("split")
def split(
    folder: Path = typer.Argument(help="A folder of word/name.wav."),
    by: str = typer.Option(
        ..., help="published (SHA-1 of the speaker), speaker (whole speakers) or clip."
    ),
    as_json: bool = JsonFlag,
) -> None:
    """Split a folder by a rule of your choice: writes split.csv into it, which you may edit."""
    from falcon_snn.data.clips import SPLITS
    from falcon_snn.data.folder import write_split
    from falcon_snn.data.split import shared_speakers

    parts = write_split(folder, by)
    counts, shared = Counter(parts.values()), shared_speakers(parts)
    if as_json:
        splits = {name: counts[name] for name in SPLITS}
        print_json({"folder": str(folder), "splits": splits, "shared_speakers": shared})
        return
    line = ", ".join(f"{counts[name]:,} {name}" for name in SPLITS)
    typer.echo(f"{folder / 'split.csv'}: {line}; {shared} speakers in more than one of them")


@app.command("features")
def features(
    source: str = SourceArgument,
    split: str = typer.Option("validation", help="training, validation or testing."),
    as_json: bool = JsonFlag,
) -> None:
    """Compute the features of a split once, keep them in the cache, and describe them."""
    from time import perf_counter

    from falcon_snn.data.examples import load_examples

    start_s = perf_counter()
    with progress_bar("clips ready") as advance:
        examples = load_examples(source, split, advance=advance)
    seconds = perf_counter() - start_s
    x = examples.x.float()
    facts = {
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
    if as_json:
        print_json(facts)
        return
    from rich.table import Table

    table = Table("", f"{source}, {split}", show_header=True)
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), f"{value:,}")
    out.print(table)


app.command("spikes")(spikes)


@contextmanager
def _bytes_bar(doing: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar for a transfer; gives the function that takes (bytes here, bytes in all)."""
    if not err.is_terminal:
        yield lambda here, total: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn(doing), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda here, total: progress.update(task, completed=here, total=total)
