"""Train a network for the chips of `noisy` and measure it on them, as docs/chip.md lists it.

    python -m tools.chip_training --data gsc-v1 --out chips --workers 3

The network learns weights of the chip's bits, then it adapts to each schedule on chips, one per
step, and is measured with every effect of `tools.chip_effects`. It and its teacher are trained ones
by name, or files. A schedule is a name, a file, or qnn. A run that was stopped goes on;
`chips/effects.json` has what is measured so far.
"""

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tools.chip_effects import measured_effects

from falcon_snn.cli.output import WATCH
from falcon_snn.files import read_json, write_json
from falcon_snn.hardware.profile import load_profile
from falcon_snn.training.checkpoint import load_metadata, load_model
from falcon_snn.training.loop import BEST
from falcon_snn.training.pretrained import trained_file
from falcon_snn.workflow.measuring import QNN
from falcon_snn.workflow.networks import delays_of
from falcon_snn.workflow.steps import Run, RunStep, execute_steps
from falcon_snn.workflow.training import adapt, train

SHORT, EFFECTS = "short", "effects.json"


def shorten(asked: argparse.Namespace, run: Run, folder: Path) -> None:
    """The network with weights of as many bits as the chip holds."""
    train(
        load_model(trained_file(asked.start))[0], asked.data, folder, recipe="chip",
        epochs=asked.short_epochs, resume=True, teachers=[trained_file(asked.teacher)],
        weight_bits=load_profile("noisy").weight_bits,
    )  # fmt: skip


def learn(schedule: str, asked: argparse.Namespace, run: Run, folder: Path) -> None:
    start = run.path(SHORT, BEST)
    network = load_metadata(start).network
    adapt(
        start, None if schedule == QNN else delays_of(schedule, network, None), asked.data, folder,
        phases=("qat",), epochs=asked.epochs, resume=True, teachers=[trained_file(asked.teacher)],
        schedule=schedule, profile=load_profile("noisy"),
    )  # fmt: skip


def measure(schedule: str, asked: argparse.Namespace, run: Run, folder: Path) -> None:
    own = QNN if schedule == QNN else None  # None: the delays that it was trained under
    report = measured_effects(
        run.path(f"adapt-{Path(schedule).stem}", BEST), asked.data, own, split=asked.split,
        chips=asked.chips, limit=asked.limit,
    )  # fmt: skip
    write_json(folder / EFFECTS, report)


def steps(asked: argparse.Namespace) -> list[RunStep]:
    taught = ("data", "start", "teacher")
    found = [
        RunStep(SHORT, "weights of few bits", partial(shorten, asked), (*taught, "short_epochs"))
    ]
    for schedule in asked.schedules:
        name, own = f"adapt-{Path(schedule).stem}", partial(learn, schedule, asked)
        found.append(RunStep(name, f"{schedule} on chips", own, (*taught, "epochs"), (SHORT,)))
    for schedule in asked.schedules:
        name, own = Path(schedule).stem, partial(measure, schedule, asked)
        uses = ("data", "split", "chips", "limit")
        does = f"{schedule}: every effect"
        found.append(RunStep(f"measure-{name}", does, own, uses, (f"adapt-{name}",)))
    return found


def gather(job: Run, schedules: Sequence[str]) -> None:
    names = [Path(schedule).stem for schedule in schedules]
    paths = {name: job.path(f"measure-{name}", EFFECTS) for name in names}
    found = {name: read_json(path) for name, path in paths.items() if path.exists()}
    write_json(job.folder / EFFECTS, found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--start", default="gsc1-medium-full")
    parser.add_argument("--teacher", default="gsc1-medium-full")
    parser.add_argument("--schedules", nargs="+", default=["fastest", "balanced", "full", QNN])
    parser.add_argument("--short-epochs", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--chips", type=int, default=25)
    parser.add_argument("--split", default="test")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--workers", type=int, default=1)
    asked = parser.parse_args()
    settings = json.loads(json.dumps(vars(asked), default=str))
    job = Run(asked.out, settings)
    with job.opened({}):
        try:
            execute_steps(job, steps(asked), WATCH, workers=asked.workers)
        finally:
            gather(job, asked.schedules)


if __name__ == "__main__":
    main()
