"""`falcon-snn hardware`: copy a profile to edit it, or see what one says and from where."""

import json
from pathlib import Path

import typer

from falcon_snn.cli.output import JsonFlag, notice, out, print_json, print_styled, print_table
from falcon_snn.errors import FalconError
from falcon_snn.files import demand_new, write_text
from falcon_snn.hardware.profile import KEYS, differences, load_profile, shipped_profiles

app = typer.Typer(no_args_is_help=True, help="Copy a hardware profile to edit it, or show one.")


@app.command("new")
def new(
    path: Path = typer.Argument(help="The TOML file to write."),
    start: str = typer.Option("paper", "--from", help="The shipped profile to copy."),
) -> None:
    """Copy a shipped profile to a file of your own, which gives it its name."""
    shipped = shipped_profiles()
    if start not in shipped:
        raise FalconError(f"no shipped profile '{start}'; there are: {', '.join(shipped)}")
    demand_new(path)
    own = f"name = {json.dumps(path.stem)}"
    write_text(path, shipped[start].replace(f'name = "{start}"', own, 1))
    notice(f"wrote {path}; edit it and pass --hardware {path}")


@app.command("show")
def show(
    profile: str = typer.Argument("paper", help="A shipped name or a TOML file."),
    as_json: bool = JsonFlag,
) -> None:
    """Show every value of a profile, with its meaning and where it comes from."""
    loaded = load_profile(profile)
    rows = [
        {
            "key": key.name,
            "section": key.section,
            "value": getattr(loaded, key.name),
            "tag": loaded.sources[key.name].tag if key.name in loaded.sources else None,
            "source": loaded.sources[key.name].text if key.name in loaded.sources else None,
            "meaning": key.meaning,
        }
        for key in KEYS.values()
    ]
    changes = differences(load_profile(), loaded)
    if as_json:
        print_json({"name": loaded.name, "values": rows, "differs_from_paper": changes})
        return
    print_styled((loaded.name, "bold"), f": one access {loaded.t_cycle_ns:g} ns, one cycle "
                 f"{loaded.cycle_ns:g} ns")  # fmt: skip
    print_table(
        "key | value | tag | meaning | source",
        "{key} | {shown} | {tag} | {meaning} | {source}",
        [row | {"shown": "unknown" if row["value"] is None else row["value"]} for row in rows],
        unknown="",
    )
    for key, (paper, own) in changes.items():
        out.print(f"{key} ({KEYS[key].meaning}): {paper} in 'paper', here {own}", style="dim")
