"""`falcon-snn`: the commands, in the order a person would use them.

A command's file imports what it needs inside its function, so that `--help` and the light
commands never load torch.
"""

import gc
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

from falcon_snn import __version__
from falcon_snn.cli.groups import spelled_out
from falcon_snn.errors import FalconError, Stopped

# What `--help` lists, in this order, under these headings. Each is a file of this folder, with a
# function of the same name, or with an `app` where it has commands of its own.
PANELS = {
    "The main job": (
        "run", "report", "train", "convert", "search", "adapt", "evaluate", "energy"
    ),
    "Which network for a chip": ("design",),
    "Time and space on a chip": (
        "latency", "throughput", "resources", "sweep", "hardware", "graph", "describe",
        "related-work",
    ),
    "To look at": ("studio", "theory"),
    "Words in sound": ("classify", "detect", "listen", "refit", "calibrate"),
    "For other tools": ("export", "verify"),
    "Data, networks, figures, this machine": (
        "data", "models", "results", "reproduce", "doctor"
    ),
}  # fmt: skip

# Libraries that complain, at the end of a program, about objects that nobody collected.
_COMPLAIN = {"triton", "onnx"}


class InOrder(TyperGroup):
    """Typer lists groups after commands; people look for them in the order of PANELS."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for commands in PANELS.values() for name in commands]

    def invoke(self, ctx: Any) -> Any:
        """Ctrl-C in a job that can be continued says how."""
        try:
            return super().invoke(ctx)
        except Stopped as stop:
            typer.echo(str(stop), err=True)
            raise typer.Exit(130) from None


def _plain_types() -> None:
    """`--help` names a value in a word, and none for a flag; new versions of typer say
    <list[Path]>, <int range> and <bool>.
    """
    words = {"str": "TEXT", "path": "PATH", "int": "N", "float": "NUMBER"}

    def plain(shown: Any) -> Any:
        def of(parameter: Any, ctx: Any) -> Any:
            if getattr(parameter, "is_flag", False):
                return None
            name = shown(parameter, ctx=ctx)
            kind = name.strip("<>").removeprefix("list[").rstrip("]").removesuffix(" range")
            return words.get(kind.lower(), name)

        return of

    for kind in (TyperOption, TyperArgument):
        if (shown := getattr(kind, "display_type_rich", None)) is not None:
            setattr(kind, "display_type_rich", plain(shown))  # noqa: B010


_plain_types()
app = typer.Typer(
    name="falcon-snn",
    cls=InOrder,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="How long does a spiking network take on the chip, which layers should wait, "
    "and what does each choice cost?",
)


@app.callback(invoke_without_command=True)
def root(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        typer.echo(f"falcon-snn {__version__}")
        raise typer.Exit


for _panel, _commands in PANELS.items():
    for _command in _commands:
        _name = _command.replace("-", "_")
        _module = import_module(f"falcon_snn.cli.{_name}")
        if hasattr(_module, "app"):
            app.add_typer(_module.app, name=_command, rich_help_panel=_panel)
        else:
            app.command(_command, rich_help_panel=_panel)(spelled_out(getattr(_module, _name)))


def main() -> None:
    """Entry point: bad input becomes one line on stderr and exit status 1."""
    # Loading torch makes so many objects that looking through them for garbage, again and again
    # and once more at the end, takes as long as half of the loading.
    gc.set_threshold(100_000, 50, 50)
    if isinstance(sys.stdout, TextIOWrapper):  # a file's name may be bytes that are no text
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except FalconError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:  # a name that is too long, a folder that may not be read
        where = "" if error.filename is None else f"{str(error.filename)[:80]}: "
        typer.echo(f"error: {where}{error.strerror or error}", err=True)
        sys.exit(1)
    finally:
        if not _COMPLAIN & sys.modules.keys():
            gc.freeze()


if __name__ == "__main__":
    main()
