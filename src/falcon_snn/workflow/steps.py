"""Steps of a run: each works in its own folder, and knows whether its result is still valid.

`RUN/NAME/.falcon-step` marks a folder that a step made; nothing is written into any other.
`RUN/steps/NAME.json` is the step's record:

    inputs   the hash of its settings and of the results of the steps before it
    beside   files in its folder that were there before it and are not its own
    unsure   files that were found after a kill: the step's own, or put there meanwhile
    left     files that a step which was cut off by an error had written
    files    the hash of every file that a step which is done has written

A step that was cut off continues in its folder. One whose inputs changed starts anew: the files
that it is known to have written are removed, and nothing else ever is.
"""

import hashlib
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import falcon_snn
from falcon_snn.errors import FalconError, Stopped
from falcon_snn.files import (
    IN_USE,
    is_temporary,
    locked,
    new_folder,
    read_json,
    sha256_of,
    write_json,
    write_text,
)
from falcon_snn.forms import shaped
from falcon_snn.hardware.profile import Profile, profile_toml
from falcon_snn.report.provenance import commit, machine, versions
from falcon_snn.report.run_files import HARDWARE
from falcon_snn.workflow.watch import Watch
from falcon_snn.workflow.workers import processes

MARKER = ".falcon-step"
RUN_FILE = "run.json"
# The kinds of files that steps write; anything else in a step's folder is somebody else's.
KINDS = (".h5", ".html", ".json", ".jsonl", ".safetensors", ".svg")


@dataclass(frozen=True)
class RunStep:
    """One step: `work(run, folder)` writes its result into the folder and can be called again."""

    name: str
    does: str  # for people, in a few words
    work: Callable[["Run", Path], None]
    uses: tuple[str, ...] = ()  # the settings that its result depends on
    after: tuple[str, ...] = ()  # the steps whose results it reads


class _Record(TypedDict):
    """What is written down about a step; see above."""

    inputs: str
    beside: list[str]
    unsure: NotRequired[list[str]]
    left: NotRequired[list[str]]
    files: NotRequired[dict[str, str]]


@dataclass(frozen=True)
class Run:
    """A folder and the settings of everything in it."""

    folder: Path
    settings: Mapping[str, Any]

    def path(self, step: str, *parts: str) -> Path:
        """A file in a step's folder."""
        return self.folder.joinpath(step, *parts)

    def record(self, step: str) -> dict[str, Any]:
        """What is written down about a step; empty if nothing is."""
        path = self._record_path(step)
        if not path.exists():
            return {}
        try:
            record: dict[str, Any] = shaped(read_json(path), _Record, path)
        except FalconError as error:
            raise FalconError(f"{error}; delete this file to run the step again") from None
        return record

    def inputs(self, step: RunStep) -> str:
        """The hash of all that a step's result depends on."""
        chosen = {name: self.settings[name] for name in step.uses}
        before = {name: self.record(name).get("files") for name in step.after}
        facts = [falcon_snn.__version__, step.name, chosen, before]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def valid(self, step: RunStep) -> bool:
        """Whether the step's result is there, whole, and made from the present inputs."""
        record = self.record(step.name)
        files = record.get("files")
        if files is None or record["inputs"] != self.inputs(step):
            return False
        paths = {self.path(step.name, name): known for name, known in files.items()}
        return all(
            os.path.isfile(path) and sha256_of(path) == known for path, known in paths.items()
        )

    def demand_own(self) -> None:
        """Refuse a folder that holds something and is not a run's, before anything is written."""
        if not os.path.lexists(self.folder):
            return
        if not self.folder.is_dir():
            raise FalconError(f"{self.folder}: is not a folder; choose another --out")
        present = [name for name in os.listdir(self.folder) if not _is_of_a_kill(name)]
        if present and not _is_run(self.folder / RUN_FILE):
            raise FalconError(
                f"{self.folder}: holds files and is not the folder of a run; "
                "choose a new or an empty folder as --out"
            )
        if (records := self.folder / "steps").is_symlink():
            raise FalconError(f"{records}: is a link, which a run does not follow; remove it")

    @contextmanager
    def opened(self, facts: Mapping[str, Any], profile: Profile | None = None) -> Iterator[None]:
        """Keep others out of the folder, and say in it what the run is and where it comes from."""
        self.demand_own()
        with locked(self.folder):
            write_json(self.folder / RUN_FILE, {
                "command": [], **facts, "settings": self.settings, "versions": versions(),
                "machine": machine(), "commit": commit(),
            })  # fmt: skip
            if profile is not None:
                write_text(self.folder / HARDWARE, profile_toml(profile))
            yield

    def execute(self, step: RunStep) -> float:
        """Do a step, or what is left of it; the seconds that it took."""
        inputs, folder = self.inputs(step), self.path(step.name)
        record, path = self.record(step.name), self._record_path(step.name)
        _open_marked(folder, step.name)
        there, known = set(_listing(folder)), record.get("files", record.get("left"))
        if known is None:  # killed, or the record is lost
            foreign = there & set(record.get("beside", ()))
            unsure = there - foreign
        else:
            foreign, unsure = there - set(known), there & set(record.get("unsure", ()))
        if record.get("inputs") != inputs or "files" in record:
            if unsure:
                raise FalconError(
                    f"{folder}: step '{step.name}' was cut off here, and {min(unsure)} may be its "
                    "own or yours; delete this folder to start the step again"
                )
            _remove(folder, there - foreign)
        working = {"inputs": inputs, "beside": sorted(foreign), "unsure": sorted(unsure)}
        write_json(path, working)
        began = time.monotonic()
        try:
            step.work(self, folder)
        except BaseException:
            write_json(path, {**working, "left": sorted(set(_listing(folder)) - foreign)})
            raise
        seconds = round(time.monotonic() - began, 1)
        files = {name: sha256_of(folder / name) for name in _listing(folder) if name not in foreign}
        write_json(path, {**working, "seconds": seconds, "files": files})
        return seconds

    def _record_path(self, step: str) -> Path:
        return self.folder / "steps" / f"{step}.json"


def demand_only(job: Run, steps: Sequence[RunStep], only: str) -> None:
    """Refuse a step that cannot be done alone, before `run.json` says otherwise."""
    if only not in [step.name for step in steps]:
        raise FalconError(f"no step '{only}'; choose one of {', '.join(s.name for s in steps)}")
    job.demand_own()
    for step in steps:
        if step.name in _needed(steps, only) and not job.valid(step):
            raise FalconError(
                f"step '{only}' needs '{step.name}', whose result is missing or was made "
                "with other settings; run without --only"
            )


def execute_steps(
    job: Run, steps: Sequence[RunStep], watch: Watch, only: str | None = None, workers: int = 1
) -> None:
    """Do what is not done yet of some steps, in order, or of one alone; or several side by side."""
    if workers > 1:
        _side_by_side(job, steps, watch, workers)
        return
    for number, step in enumerate(steps, start=1):
        if job.valid(step):
            watch.notice(f"{number}/{len(steps)} {step.name}: done already")
            continue
        if only is not None and step.name != only:
            continue
        watch.notice(f"{number}/{len(steps)} {step.name}: {step.does}")
        try:
            seconds = job.execute(step)
        except KeyboardInterrupt as stop:
            where = stop.where if isinstance(stop, Stopped) else f"stopped in step '{step.name}'"
            raise Stopped(where, "the same command continues from there") from None
        watch.notice(f"    {seconds:.1f} s")


def _side_by_side(job: Run, steps: Sequence[RunStep], watch: Watch, workers: int) -> None:
    """Several steps at a time; one that fails keeps those from beginning that need it."""
    running: dict[Future[float], RunStep] = {}
    with processes(workers) as pool:
        try:
            failed = _scheduled(job, steps, watch, pool, workers, running)
        except KeyboardInterrupt:
            for child in multiprocessing.active_children():
                child.terminate()
            names = ", ".join(step.name for step in running.values())
            raise Stopped(f"stopped in {names}", "the same command continues from there") from None
        except BrokenProcessPool:
            raise FalconError(
                "a process was killed (out of memory?); the same command continues, perhaps with "
                "fewer --workers"
            ) from None
    if failed:
        raise failed[0]


def _scheduled(
    job: Run, steps: Sequence[RunStep], watch: Watch, pool: ProcessPoolExecutor, workers: int,
    running: dict[Future[float], RunStep],
) -> list[BaseException]:  # fmt: skip
    """Each step as soon as a process is free and what it reads is done; the errors of some.

    Of several that could begin it is the first. `running` holds those at work.
    """
    waiting, done, failed = list(steps), set[str](), list[BaseException]()
    while True:
        ready = [step for step in waiting if done.issuperset(step.after)]
        if ready and len(running) < workers:
            waiting.remove(step := ready[0])
            if job.valid(step):
                done.add(step.name)
            else:
                running[pool.submit(job.execute, step)] = step
            what = "done already" if step.name in done else step.does
            watch.notice(f"{step.name}: {what}")
            continue
        if not running:
            return failed
        for ended in wait(running, return_when=FIRST_COMPLETED).done:
            step = running.pop(ended)
            error = ended.exception()
            if isinstance(error, BrokenProcessPool):
                raise error
            if error is not None:
                watch.notice(f"{step.name}: {error}")
                failed.append(error)
                continue
            done.add(step.name)
            place = f"{len(done)}/{len(steps)}"
            watch.notice(f"{place} {step.name}: done in {ended.result():.1f} s")


def _needed(steps: Sequence[RunStep], name: str) -> set[str]:
    """The steps that a step reads from, directly or through others."""
    before = {step.name: set(step.after) for step in steps}
    needed = set(before[name])
    for other in before[name]:
        needed |= _needed(steps, other)
    return needed


def _is_of_a_kill(name: str) -> bool:
    """Whether a kill left this: a file that was being written, or the note of who works here."""
    return name == IN_USE or (is_temporary(name) and Path(name).suffix in KINDS)


def _is_run(path: Path) -> bool:
    """Whether a file is the `run.json` that a run writes."""
    try:
        facts = read_json(path)
    except FalconError:
        return False
    return isinstance(facts, dict) and {"command", "settings"} <= facts.keys()


def _open_marked(folder: Path, step: str) -> None:
    """Make a step's folder with its marker; refuse one that no step made."""
    marker = folder / MARKER
    if not os.path.lexists(folder):
        with new_folder(folder) as temporary:
            (temporary / MARKER).write_text(f"{step}\n", encoding="utf-8")
    if folder.is_symlink() or marker.is_symlink() or not marker.is_file():
        raise FalconError(
            f"{folder}: was not made by a run (no {MARKER} in it, or a link), so nothing is "
            "written there; move it away or choose another --out"
        )
    for place, folders, names in os.walk(folder):
        for name in folders:
            if (link := Path(place, name)).is_symlink():
                raise FalconError(f"{link}: is a link, which a step does not follow; remove it")
        for name in filter(_is_of_a_kill, names):
            Path(place, name).unlink()


def _listing(folder: Path) -> list[str]:
    """The files in a step's folder that may be its own: of its kinds, not hidden, no links."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = [Path(place, name) for name in names if not name.startswith(".")]
        found += [path for path in paths if path.suffix in KINDS and not path.is_symlink()]
    return sorted(path.relative_to(folder).as_posix() for path in found)


def _remove(folder: Path, names: Iterable[str]) -> None:
    """Remove files, and the folders in `folder` that this leaves empty."""
    for name in names:
        path = folder / name
        path.unlink()
        for parent in path.parents:
            if parent == folder or any(parent.iterdir()):
                break
            parent.rmdir()
