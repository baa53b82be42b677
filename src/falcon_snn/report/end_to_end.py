"""The whole delay of a network that hears: from the end of a word to the answer, part by part.

The core is timed to the cycle. What stands before and behind it is counted in operations and run on
the digital units that the profile has: one operation a lane and cycle, products on the arrays. How
long the window makes one wait are settings of `falcon-snn detect`.
"""

from typing import Any

import numpy as np

from falcon_snn.data.features import (
    BANDS,
    FFT_SAMPLES,
    FRAMES,
    RATE_HZ,
    mel_filters,
)
from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import Profile
from falcon_snn.network.description import Network
from falcon_snn.pipeline.graph import TimedStage
from falcon_snn.pipeline.steps import product_cycles

# A real transform of 480 samples is a complex one of 240 = 2^4 3 5, four products each.
_FFT_PRODUCTS = 4 * (FFT_SAMPLES // 2) * (2 + 2 + 2 + 2 + 3 + 5)


def end_to_end(
    network: Network, core_us: float, profile: Profile, every_ms: float, averaged: int
) -> dict[str, Any]:
    """Parts with their times in us, where each comes from, and the share of the core."""
    if network.source.input != (FRAMES, BANDS, 1):
        raise FalconError(
            f"network '{network.name}' takes {network.source.input}, not sound; leave out "
            "--end-to-end"
        )
    source, readout = network.source, network.readout
    before = network.shapes[readout.source]
    _, pooled = readout.windows(before)
    frame = _FFT_PRODUCTS + FFT_SAMPLES + 2 * (FFT_SAMPLES // 2 + 1)
    frame += int(np.count_nonzero(mel_filters())) + BANDS
    encoder = _on_lanes(FRAMES * BANDS, profile)
    if source.product is not None:
        lines, pixels, outputs = network.shapes[source.name]
        inner = source.product.rows(source.input[2])
        encoder = _on_arrays(lines * pixels, inner, outputs, profile)
    cycle_us = profile.cycle_ns / 1000
    features = _on_lanes(frame, profile) + _on_lanes(3 * FRAMES * BANDS, profile)
    rows = [
        ("next look", 2 * 1000.0 * every_ms, "setting",
         "at most: twice --every of `detect`, where nothing was heard"),
        ("averaging", 1000.0 * every_ms * (averaged - 1), "setting", "--smooth of `detect`"),
        ("last frame", 1e6 * FFT_SAMPLES / 2 / RATE_HZ, "inferred",
         "half of a frame lies behind what it hears"),
        ("features", cycle_us * features, "assumed",
         "one frame, and the window normalised, on the vector engines"),
        ("encoder", cycle_us * encoder, "assumed", "on the digital arrays"),
        ("core", core_us, "inferred", "the latency model, to the cycle"),
        ("pooling", cycle_us * _on_lanes(int(np.prod(before)), profile), "assumed",
         "spikes counted on the vector engines"),
        ("classifier", cycle_us * _on_arrays(1, pooled, readout.classes, profile), "assumed",
         "on the digital arrays"),
    ]  # fmt: skip
    parts = [
        {"part": part, "us": round(us, 4), "tag": tag, "how": how} for part, us, tag, how in rows
    ]  # fmt: skip
    whole = sum(row[1] for row in rows)
    computed = sum(row[1] for row in rows[3:])
    return {
        "parts": parts,
        "total_us": round(whole, 4),
        "computed_us": round(computed, 4),
        "core_percent_of_total": 100 * core_us / whole,
        "core_percent_of_computed": 100 * core_us / computed,
    }


def _on_lanes(operations: int, profile: Profile) -> int:
    return -(-operations // (profile.engines * profile.engine_lanes))


def _on_arrays(rows: int, inner: int, columns: int, profile: Profile) -> int:
    """A product whose rows, or columns where there are more, the arrays share."""
    if rows >= columns:
        rows = -(-rows // profile.arrays)
    else:
        columns = -(-columns // profile.arrays)
    stage = TimedStage("product", "product", (), rows=rows, inner=inner, columns=columns)
    return product_cycles(stage, profile)
