"""`falcon-snn classify`: say the word in a recording."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from falcon_snn.cli import network_options as options
from falcon_snn.cli.output import JsonFlag, notice, out, print_json, print_styled
from falcon_snn.errors import FalconError
from falcon_snn.report.style import check_picture

if TYPE_CHECKING:
    from falcon_snn.workflow.model import Model

_AT_ONCE = 64
_FEW = 8  # files for which loading numba would take longer than torch does


def classify(
    files: list[Path] = typer.Argument(
        help="Recordings of one word each (wav and what libsndfile reads), or folders of them."
    ),
    file: Path = options.File,
    schedule: str | None = options.ScheduleOrFull,
    threshold: float | None = typer.Option(
        None,
        min=0.0,
        max=1.0,
        help="A word of less confidence is 'unknown'; default: the "
        "network's own (`falcon-snn calibrate`), or 0.",
    ),
    raster: Path | None = typer.Option(
        None, help="Draw the spikes of every stage: .png, .svg or .pdf."
    ),
    backend: str = options.Backend,
    as_json: bool = JsonFlag,
) -> None:
    """Say which word a recording holds, with the three likeliest and their confidence."""
    from falcon_snn.data.audio import recordings_in
    from falcon_snn.workflow.model import load
    from falcon_snn.workflow.networks import schedule_or_own

    if raster is not None:
        check_picture(raster)
    model = load(file)
    found = [one for path in files for one in (recordings_in(path) if path.is_dir() else [path])]
    if backend == "auto" and len(found) <= _FEW:
        backend = "torch"  # the same spikes
    chosen = schedule_or_own(schedule, model.metadata.delays, "full")
    delays = model.delays(chosen)
    if raster is not None:
        if len(found) > 1:
            raise FalconError("--raster shows one recording; give one file")
        _draw(raster, model, found[0], chosen, backend)
    rows = []
    for first in range(0, len(found), _AT_ONCE):
        part = found[first : first + _AT_ONCE]
        for heard, ranking in zip(part, model.heard(part, chosen, backend), strict=True):
            top = [{"word": word, "confidence": each} for word, each in ranking[:3]]
            word = model.answer(ranking, threshold)
            rows.append({"file": str(heard), "word": word, "top": top, "delays": delays})
            if not as_json:
                _show(rows[-1], named=len(found) > 1)
    if as_json:
        print_json(rows[0] if len(files) == 1 and files == found else rows)


def _show(row: dict[str, Any], *, named: bool) -> None:
    first, *rest = row["top"]
    known = first["word"] == row["word"]
    sure = f"  {first['confidence']:.1%}" if known else ""
    print_styled((row["word"], "bold"), sure, f"  {row['file']}" if named else "")
    if named:
        return
    others = rest if known else row["top"]
    lead = "then " if known else "below the threshold: "
    out.print(lead + ", ".join(f"{one['word']} {one['confidence']:.1%}" for one in others))


def _draw(raster: Path, model: "Model", file: Path, schedule: str, backend: str) -> None:
    from falcon_snn.report.raster import draw_raster

    x = model.features_of_file(file)
    streams = model.streams(x, schedule, backend)
    word = model.rankings(model.snn.logits(streams, None, backend).softmax(dim=1))[0][0][0]
    title = f"{file.name}: {word} ({schedule} schedule)"
    draw_raster(raster, model.snn, streams, model.delays(schedule), x[0].numpy(), title)
    notice(f"picture: {raster}")
