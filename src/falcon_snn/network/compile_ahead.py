"""Kernels are compiled side by side before they are needed: one after the other takes minutes.

A GPU kernel is compiled for each geometry of a stage and each delay when it is first called, in one
or two seconds on one core. Here every stage that a set of schedules needs is called once, on
silence, by as many threads as there are cores; the compiler works outside the interpreter's lock,
and keeps what it made on disk for the next start.
"""

import os
from collections.abc import Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module

import torch

from falcon_snn.network.integer import Running, Snn
from falcon_snn.network.stage import Stage
from falcon_snn.neuron.compiling import preparing_kernels
from falcon_snn.pipeline.schedule import Delays

_CLIPS = 16


@torch.no_grad()
def compile_ahead(snn: Snn, schedules: Iterable[Delays], *, padded: bool = False) -> None:
    """Have the kernels of these schedules ready; on a CPU there is nothing to do."""
    if snn.device.type != "cuda":
        return
    with preparing_kernels:
        _compile(snn, schedules, padded)


def _compile(snn: Snn, schedules: Iterable[Delays], padded: bool) -> None:
    load_compiler(snn.device)
    tasks: dict[Hashable, tuple[Stage, Delays]] = {}
    for delays in schedules:
        for stage in snn.network.stages:
            tasks.setdefault(_kernel(snn, stage, delays), (stage, delays))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting = [pool.submit(_run, snn, *task, padded) for task in tasks.values()]
        for done in waiting:
            done.result()


def load_compiler(device: torch.device) -> None:
    """Load once what all kernels share: many threads that come first each do it anew.

    Before it looks into its cache on disk, Triton takes the SHA-256 of itself, half a gigabyte,
    and asks its assembler for a version.
    """
    if device.type != "cuda":
        return
    with suppress(ImportError, AttributeError):  # where names differ, the first kernels do it
        import_module("falcon_snn.neuron.fused")
        from triton.compiler.compiler import make_backend
        from triton.runtime import driver
        from triton.runtime.cache import triton_key

        triton_key()
        make_backend(driver.active.get_current_target()).hash()


def _kernel(snn: Snn, stage: Stage, delays: Delays) -> Hashable:
    """Stages that share this share their kernels."""
    network = snn.network
    places = [(network.shapes[name], network.borders[name]) for name in (*stage.reads, stage.name)]
    products = tuple(product for _, _, product in stage.products)
    return stage.operation, stage.firing, tuple(places), products, delays.get(stage.name)


def _run(snn: Snn, stage: Stage, delays: Delays, padded: bool) -> None:
    """One stage on silence."""
    network, device = snn.network, snn.device
    lines = network.source.input[0]
    lengths = torch.full((_CLIPS,), lines, device=device) if padded else None
    x = torch.zeros(_CLIPS, *network.source.input, device=device)
    run = Running(snn, {}, lengths, delays, "auto", x)
    for name in stage.reads:
        shape, border = network.shapes[name], network.borders[name]
        size = (_CLIPS, shape[0] + 2 * border[0], shape[1] + 2 * border[1], shape[2])
        kind = torch.int8 if network.by_name[name].emits == "codes" else torch.uint8
        run.streams[name] = torch.zeros(size, dtype=kind, device=device)
    stage.run(run)
