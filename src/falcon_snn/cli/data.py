"""`falcon-snn data`: list data, fetch it, pack it, compute its features or spikes."""

from collections import Counter
from pathlib import Path
from typing import Any

import typer

from falcon_snn.cli.output import WATCH, JsonFlag, live_bar, notice, out, print_json, print_table

app = typer.Typer(no_args_is_help=True, help="List, download, pack and prepare speech data.")

SourceArgument = typer.Argument(help="'embedded', a path, or a name under $FALCON_DATA.")

# The sets' own lists say testing; every other command says test.
SplitOption = typer.Option(
    "validation",
    help="training, validation or test.",
    callback=lambda split: "testing" if split == "test" else split,
)


@app.command("list")
def list_sets(as_json: bool = JsonFlag) -> None:
    """List the data sets that can be used by name, with their splits, and those to download."""
    from falcon_snn.data.clips import SPLITS
    from falcon_snn.data.examples import data_home
    from falcon_snn.data.gsc import LICENCE
    from falcon_snn.workflow.data_sets import list_sets as rows_of_sets

    rows = rows_of_sets()
    if as_json:
        print_json({"home": str(data_home()), "sets": rows, "licence": LICENCE})
        return
    none = dict.fromkeys(("words", *SPLITS))
    print_table(
        "name | words | training | validation | testing | where",
        "{name} | {words} | {training:,} | {validation:,} | {testing:,} | {where}",
        [none | row | row.get("splits", {}) | {"where": _where(row)} for row in rows],
        unknown="",
    )  # fmt: skip
    out.print(f"gsc: {LICENCE}")


def _where(row: dict[str, Any]) -> str:
    """Where a set is, or what is wrong with it, without a list of what would be right."""
    place: str = row["place"]
    problem = row.get("problem", "").partition(";")[0].removeprefix(f"{place}: ")
    return f"{place}: {problem}" if problem else place


@app.command("download")
def download(
    name: str = typer.Argument(help="gsc-v1 (30 words, 1.4 GB) or gsc-v2 (35 words, 2.3 GB)."),
    to: Path | None = typer.Option(None, help="Folder to put it in; default $FALCON_DATA."),
) -> None:
    """Download Google Speech Commands (CC BY 4.0), check it and unpack it; resumes if cut off."""
    from falcon_snn.data import gsc

    notice(gsc.LICENCE)
    columns = ("DownloadColumn", "TransferSpeedColumn")
    with live_bar(f"downloading {name}", *columns) as change:
        folder = gsc.download(
            name, to, advance=lambda here, total: change(completed=here, total=total)
        )
    typer.echo(folder)


@app.command("pack")
def pack(
    source: str = SourceArgument,
    folder: Path = typer.Argument(help="New folder for the packed set."),
    kbps: float = typer.Option(24.0, min=8.0, max=128.0, help="Opus bit rate in kbit/s."),
    as_json: bool = JsonFlag,
) -> None:
    """Pack a set of recordings as Opus chunks and an index, about 11 times smaller than wavs."""
    from falcon_snn.workflow.data_sets import pack as write_pack

    facts = write_pack(source, folder, kbps, WATCH)
    if as_json:
        print_json(facts)
        return
    typer.echo(f"{folder}: {facts['clips']:,} clips, {facts['packed_mb']:.1f} MB, "
               f"{facts['times_smaller']:.1f} times smaller than 16-bit wavs")  # fmt: skip


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
    typer.echo(f"{folder / 'split.csv'}: {line}; speakers in more than one of them: {shared}")


@app.command("features")
def features(
    source: str = SourceArgument,
    split: str = SplitOption,
    as_json: bool = JsonFlag,
) -> None:
    """Compute the features of a split once, keep them in the cache, and describe them."""
    from falcon_snn.workflow.data_sets import feature_facts

    facts = feature_facts(source, split, WATCH)
    if as_json:
        print_json(facts)
        return
    rows = ((name.replace("_", " "), value) for name, value in facts.items())
    print_table(f"| {source}, {split}", "{0[0]} | {0[1]:,}", rows)


@app.command("spikes")
def spikes(
    data: str = typer.Option(help="'embedded', a path, or a name under $FALCON_DATA."),
    to: Path = typer.Option(..., "--out", help="SSC file (.h5) to write."),
    split: str = SplitOption,
    seed: int = typer.Option(0, min=0, help="Seed of the nerve's random firing."),
    device: str = typer.Option("auto", help="cpu, cuda, or auto: cuda if there is one."),
    limit: int | None = typer.Option(None, min=1, help="Only this many clips, the first ones."),
    as_json: bool = JsonFlag,
) -> None:
    """Turn speech into spikes of 700 channels with the inner-ear model, written as SSC."""
    from falcon_snn.workflow.data_sets import write_spikes

    facts = write_spikes(
        data, to, split=split, seed=seed, device_name=device, limit=limit, watch=WATCH
    )
    if as_json:
        print_json(facts)
        return
    clips = facts["clips"]
    typer.echo(
        f"{to}: {clips:,} clips, {facts['spikes'] / clips:,.0f} spikes each, "
        f"{facts['clips_per_s']:,.1f} clips per second on {facts['device']}"
    )
