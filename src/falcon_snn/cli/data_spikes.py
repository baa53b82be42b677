"""`falcon-snn data spikes`: speech through the inner-ear model, as an SSC file."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from falcon_snn.cli.output import JsonFlag, print_json, progress_bar
from falcon_snn.errors import FalconError

if TYPE_CHECKING:
    import torch

    from falcon_snn.data.inner_ear import SpikeTrain

_CLIPS_AT_ONCE = 1024  # as sound in memory


def spikes(
    data: str = typer.Option(help="'embedded', a path, or a name under $FALCON_DATA."),
    to: Path = typer.Option(..., "--out", help="SSC file (.h5) to write."),
    split: str = typer.Option("validation", help="training, validation or testing."),
    seed: int = typer.Option(0, min=0, help="Seed of the nerve's random firing."),
    device: str = typer.Option("auto", help="cpu, cuda, or auto: cuda if there is one."),
    limit: int | None = typer.Option(None, min=1, help="Only this many clips, the first ones."),
    as_json: bool = JsonFlag,
) -> None:
    """Turn speech into spikes of 700 channels with the inner-ear model, written as SSC."""
    from itertools import tee
    from time import perf_counter

    from falcon_snn.data.basilar_membrane import pair_transfer
    from falcon_snn.data.examples import load_waves
    from falcon_snn.data.features import CLIP_SAMPLES, RATE_HZ, one_second
    from falcon_snn.data.inner_ear import clip_id, spike_trains
    from falcon_snn.data.ssc import write_ssc

    where = _device(device)
    with progress_bar("reading clips") as advance:
        waves = load_waves(data, split, advance=advance)
    clips = min(len(waves), limit or len(waves))
    names = waves.names[:clips]
    counts: list[int] = []

    def trains(advance: Callable[[int], None]) -> "Iterator[SpikeTrain]":
        for first in range(0, clips, _CLIPS_AT_ONCE):
            part = slice(first, min(first + _CLIPS_AT_ONCE, clips))
            sound = one_second(waves.waves[part], waves.lengths[part])
            ids = [clip_id(name) for name in names[part]]
            for train in spike_trains(sound, ids, rate_hz=RATE_HZ, seed=seed, device=where):
                counts.append(len(train.units))
                advance(1)
                yield train

    pair_transfer(CLIP_SAMPLES, RATE_HZ, where)  # needed once, so not counted in clips per second
    start_s = perf_counter()
    with progress_bar("clips to spikes", clips) as advance:
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
    facts = {
        "file": str(to),
        "clips": clips,
        "spikes": sum(counts),
        "device": str(where),
        "seed": seed,
        "seconds": round(seconds, 3),
        "clips_per_s": round(clips / seconds, 1),
    }
    if as_json:
        print_json(facts)
        return
    typer.echo(
        f"{to}: {clips:,} clips, {sum(counts) / clips:,.0f} spikes each, "
        f"{clips / seconds:,.1f} clips per second on {where}"
    )


def _device(name: str) -> "torch.device":
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise FalconError(f"device is '{name}'; choose auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise FalconError("device is 'cuda', but torch sees no GPU here; choose cpu")
    return torch.device(name)
