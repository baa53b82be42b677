"""What each step of `falcon-snn run` does."""

import shutil
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from falcon_snn.cli.steps import Run, Step
from falcon_snn.files import read_json, replacing, write_json
from falcon_snn.hardware.profile import Profile

if TYPE_CHECKING:
    from falcon_snn.training.recipe import Recipe

BEST = "best.safetensors"


@dataclass(frozen=True)
class Settings:
    """All that the result of a run depends on."""

    data: str
    data_key: str
    model: str
    start_sha256: str | None  # of the checkpoint to start from
    qnn_recipe: "Recipe | None"  # None where a checkpoint is given
    adapt_recipes: dict[str, "Recipe"]
    seed: int
    profile: Profile
    tau: float
    delta_max: int
    search_clips: int | None  # None: all
    random: int


def main_steps(settings: Settings, start: Path | None) -> list[Step]:
    """The main job, in order."""

    def step(
        name: str, does: str, work: Any, uses: tuple[str, ...] = (), after: tuple[str, ...] = ()
    ) -> Step:
        return Step(name, does, partial(work, settings), uses, after)

    return [
        step("features", "log-mel features or spike counts of all clips", _features,
             uses=("data", "data_key")),
        step("qnn", "the quantised network, trained or taken from a checkpoint",
             partial(_qnn, start), uses=("model", "start_sha256", "qnn_recipe", "seed"),
             after=("features",)),
        step("convert", "its spiking network in integers, checked clip by clip", _convert,
             after=("features", "qnn")),
        step("search", "where to wait: Fastest, Balanced and Accurate", _search,
             uses=("profile", "tau", "delta_max", "search_clips", "random", "seed"),
             after=("features", "convert")),
        step("adapt", "training under each of the three schedules", _adapt,
             uses=("adapt_recipes", "seed"), after=("features", "qnn", "search")),
        step("measure", "accuracy and energy on the test clips", _measure, uses=("profile",),
             after=("features", "convert", "adapt")),
        step("report", "tables and figures in one page", _report,
             uses=("profile",), after=("convert", "search", "adapt", "measure")),
    ]  # fmt: skip


def _features(settings: Settings, run: Run, folder: Path) -> None:
    from falcon_snn.cli.output import progress_bar
    from falcon_snn.data.examples import load_examples

    clips: dict[str, int] = {}
    for split in ("training", "validation", "testing"):
        with progress_bar(split) as advance:
            examples = load_examples(settings.data, split, advance=advance)
        clips[split] = len(examples)
    write_json(folder / "facts.json", {"words": list(examples.words), "clips": clips})


def _qnn(start: Path | None, settings: Settings, run: Run, folder: Path) -> None:
    from falcon_snn.cli.networks import dataset_of
    from falcon_snn.cli.training_run import Start, open_training, run_phase
    from falcon_snn.config import falcon_config
    from falcon_snn.network.model import Falcon
    from falcon_snn.training.checkpoint import demand_words, load_model

    if start is not None:
        _, metadata = load_model(start)
        demand_words(start, metadata.words, _words(run))
        with replacing(folder / BEST) as temporary:
            shutil.copyfile(start, temporary)
        return
    assert settings.qnn_recipe is not None
    with open_training(
        settings.data, [settings.qnn_recipe], devices=1, seed=settings.seed
    ) as session:
        words = session.validation.words
        config = falcon_config(settings.model, dataset_of(session.validation), classes=len(words))
        begin = Start(Falcon(config), facts={"data": settings.data})
        run_phase(session, settings.qnn_recipe, begin, folder, resume=True)


def _convert(settings: Settings, run: Run, folder: Path) -> None:
    from falcon_snn.cli.convert import check_conversion
    from falcon_snn.network.convert import conversion_report, convert
    from falcon_snn.training.checkpoint import load_model
    from falcon_snn.training.export import save_network

    model, metadata = load_model(run.path("qnn", BEST))
    network = convert(model)
    checked = check_conversion(
        model, network, settings.data, "validation", None, "auto", metadata.words
    )
    save_network(folder / "network.safetensors", network, metadata)
    stages = [asdict(row) for row in conversion_report(network)]
    write_json(folder / "conversion.json", {"check": checked, "stages": stages})


def _search(settings: Settings, run: Run, folder: Path) -> None:
    from falcon_snn.cli.networks import falcon_predictor, falcon_space
    from falcon_snn.cli.search import schedule_bar
    from falcon_snn.files import sha256_of
    from falcon_snn.search.pds import Gates, pds
    from falcon_snn.search.predictor import local_engine
    from falcon_snn.search.run import Surroundings, run_search
    from falcon_snn.training.checkpoint import load_metadata

    network = run.path("convert", "network.safetensors")
    profile, gates, clips = settings.profile, Gates(settings.tau), settings.search_clips
    config = load_metadata(network).config
    facts = {
        "method": "pds",
        "settings": {
            "tau": gates.tau, "eps": gates.eps, "delta_max": settings.delta_max,
            "seed": settings.seed,
        },
        "network": {"checkpoint": network.name, "sha256": sha256_of(network)},
        "data": {"source": settings.data, "split": "validation", "limit": clips},
        "hardware": {"profile": profile.name, "attention": profile.attention},
        "random": settings.random,
    }  # fmt: skip
    predictor = falcon_predictor(
        network, settings.data, "validation", limit=clips, half=None, device="auto"
    )
    with schedule_bar() as progress:
        run_search(
            falcon_space(config, profile, settings.delta_max),
            local_engine(predictor),
            partial(pds, gates=gates),
            Surroundings(profile.cycle_ns, config.slots, settings.random, settings.seed),
            out=folder,
            facts=facts,
            resume=True,
            progress=progress,
        )


def _adapt(settings: Settings, run: Run, folder: Path) -> None:
    from falcon_snn.cli.training_run import Start, adapt_phases, note_encodings, open_training
    from falcon_snn.pipeline.schedule import read_schedule
    from falcon_snn.training.checkpoint import load_metadata, load_model

    checkpoint = run.path("qnn", BEST)
    plans = settings.adapt_recipes
    note_encodings(plans, load_metadata(checkpoint).recipe["encoding"])
    adapted: dict[str, dict[str, Any]] = {}
    with open_training(
        settings.data, list(plans.values()), devices=1, seed=settings.seed
    ) as session:
        for name in ("fastest", "balanced", "accurate"):
            model, metadata = load_model(checkpoint)
            config = metadata.config
            file = run.path("search", f"{name}.json")
            delays = read_schedule(file, config.boundaries, config.slots)
            same = next((row for row in adapted.values() if row["delays"] == delays), None)
            if same is not None:  # the search chose one schedule twice
                adapted[name] = same
                continue
            facts = {"data": settings.data, "schedule": name, "start": "qnn"}
            best = adapt_phases(
                session, plans, checkpoint, Start(model, delays, facts=facts), folder / name,
                resume=True,
            )  # fmt: skip
            adapted[name] = {"folder": name, "delays": delays, "validation_percent": best}
    write_json(folder / "adapted.json", adapted)


def _measure(settings: Settings, run: Run, folder: Path) -> None:
    """The test clips are looked at here and nowhere else, once per network."""
    import torch

    from falcon_snn.cli.energy import told
    from falcon_snn.cli.networks import load_split
    from falcon_snn.cli.output import progress_bar
    from falcon_snn.network.activity import schedule_energy
    from falcon_snn.pipeline.schedule import uniform
    from falcon_snn.report.energy import Configuration, energy_report
    from falcon_snn.search.statistics import wilson
    from falcon_snn.training.evaluate import accuracy, batches
    from falcon_snn.training.export import load_network

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    converted = run.path("convert", "network.safetensors")
    config, words = load_network(converted)[0].config, _words(run)
    examples = load_split(settings.data, "test", None, words)
    full = uniform(config.slots, config.boundaries, config.slots)
    jobs: dict[str, tuple[Path, dict[str, int] | None]] = {
        "QNN": (converted, None), "full": (converted, full),
    }  # fmt: skip
    for name, row in read_json(run.path("adapt", "adapted.json")).items():
        jobs[name] = (run.path("adapt", row["folder"], BEST), row["delays"])
    measured: dict[tuple[Path, str], tuple[Any, Any]] = {}
    rows, tested = [], {}
    for name, (file, delays) in jobs.items():
        key = (file, str(delays))
        if key not in measured:
            network = load_network(file)[0].to(device)
            with progress_bar(name, len(examples)) as advance:
                clips = told(batches(examples, device), advance)
                measured[key] = schedule_energy(network, clips, delays, settings.profile)
        energy, found = measured[key]
        rows.append(Configuration(name, delays, energy, accuracy(found, examples)))
        right = int((found == examples.labels).sum())
        tested[name] = {"right": right, "percent": rows[-1].accuracy,
                        "interval": wilson(right, len(examples))}  # fmt: skip
    write_json(folder / "accuracy.json", {"clips": len(examples), "networks": tested})
    balanced = next(row for row in rows if row.name == "balanced")
    write_json(folder / "energy.json", energy_report(config, "", rows, balanced))


def _words(run: Run) -> tuple[str, ...]:
    return tuple(read_json(run.path("features", "facts.json"))["words"])


def _report(settings: Settings, run: Run, folder: Path) -> None:
    from falcon_snn.report.run_report import write_run_report

    write_run_report(run.folder, folder)
