"""`falcon-snn`: the commands, in the order a person would use them.

A command's file imports what it needs inside its function, so that `--help` and the light
commands never load torch.
"""

import sys
from typing import Any

import typer
from typer.core import TyperGroup, TyperOption

from falcon_snn import __version__
from falcon_snn.cli import (
    adapt,
    calibrate,
    classify,
    convert,
    data,
    describe,
    design,
    detect,
    doctor,
    energy,
    evaluate,
    export,
    graph,
    hardware,
    latency,
    listen,
    models,
    related_work,
    report,
    reproduce,
    resources,
    results,
    run,
    search,
    studio,
    sweep,
    theory,
    throughput,
    train,
    verify,
)
from falcon_snn.errors import FalconError, Stopped

# The order in which a person would meet them, and in which `--help` lists them.
ORDER = (
    "doctor", "run", "report", "studio", "theory", "hardware", "latency", "throughput",
    "resources", "sweep", "related-work", "graph", "data", "describe", "train", "convert",
    "evaluate", "search", "adapt", "energy", "design", "calibrate", "classify", "detect", "listen",
    "export", "verify", "models", "results", "reproduce",
)  # fmt: skip


class InOrder(TyperGroup):
    """Typer lists groups after commands; people look for them in the order of use."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(self.commands, key=ORDER.index)

    def invoke(self, ctx: Any) -> Any:
        """Ctrl-C in a job that can be continued says how."""
        try:
            return super().invoke(ctx)
        except Stopped as stop:
            typer.echo(str(stop), err=True)
            raise typer.Exit(130) from None


def _flags_without_a_type() -> None:
    """A flag takes no value, so that `--help` names no type for it; some versions say <bool>."""
    shown: Any = getattr(TyperOption, "display_type_rich", None)
    if shown is not None:

        def of_values_only(option: Any, ctx: Any) -> Any:
            return None if option.is_flag else shown(option, ctx=ctx)

        setattr(TyperOption, "display_type_rich", of_values_only)  # noqa: B010


_flags_without_a_type()
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


app.command("doctor")(doctor.doctor)
app.command("run")(run.run)
app.command("report")(report.report)
app.command("models")(models.models)
app.command("reproduce")(reproduce.reproduce)
app.add_typer(results.app, name="results")
app.command("theory")(theory.theory)
app.add_typer(hardware.app, name="hardware")
app.command("latency")(latency.latency)
app.command("throughput")(throughput.throughput)
app.command("resources")(resources.resources)
app.command("sweep")(sweep.sweep)
app.command("related-work")(related_work.related_work)
app.command("graph")(graph.graph)
app.add_typer(data.app, name="data")
app.command("describe")(describe.describe)
app.command("train")(train.train)
app.command("convert")(convert.convert)
app.command("evaluate")(evaluate.evaluate)
app.add_typer(search.app, name="search")
app.command("adapt")(adapt.adapt)
app.command("energy")(energy.energy)
app.command("design")(design.design)
app.command("export")(export.export)
app.command("verify")(verify.verify)
app.command("calibrate")(calibrate.calibrate)
app.command("classify")(classify.classify)
app.command("detect")(detect.detect)
app.command("listen")(listen.listen)
app.command("studio")(studio.studio)


def main() -> None:
    """Entry point: bad input becomes one line on stderr and exit status 1."""
    try:
        app()
    except FalconError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:  # a name that is too long, a folder that may not be read
        typer.echo(f"error: {str(error.filename)[:80]}: {error.strerror or error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
