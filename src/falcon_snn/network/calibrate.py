"""The range of each layer's converters, from clips: one for all converters of the layer.

`unit`: a step is one unit of a slice. `quantile`: 99.9 % of the sums that are not zero fit.
`least-squares`: converted sums are nearest to exact ones, by the sum of squares. Sums are those of
the network on a chip without errors, in row groups, in units of a slice.
"""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from falcon_snn.hardware.effects import without_errors
from falcon_snn.hardware.profile import Profile
from falcon_snn.network.chip import sampled
from falcon_snn.network.integer import Running, Snn
from falcon_snn.neuron.analog_cells import UNIT
from falcon_snn.neuron.layers_torch import rows_of

CALIBRATION_CLIPS = 32  # enough: each layer sees many sums
_ROWS = 512  # of a layer, evenly chosen: each gives many sums
_FINE = 16  # bins of a unit
_INSIDE = 0.999


@torch.no_grad()
def calibrate(
    snn: Snn, profile: Profile, x: Tensor, lengths: Tensor | None, delays: Mapping[str, int], *,
    qnn: bool = False,
) -> dict[str, float]:  # fmt: skip
    """Layer to the range of its converters, from the first clips; none for exact sums."""
    if profile.converter_range == "exact":
        return {}
    codes = profile.largest_code
    x, lengths = x[:CALIBRATION_CLIPS], None if lengths is None else lengths[:CALIBRATION_CLIPS]
    names = [
        (f"{stage.name}.weight{suffix}", stage.name, suffix, read, product)
        for stage in snn.network.stages
        for suffix, read, product in stage.products
    ]
    if profile.converter_range == "unit":
        return {name[0]: float(codes) for name in names}
    perfect = sampled(
        snn, without_errors(profile), 0, dict.fromkeys([name[0] for name in names], 1.0), qnn=qnn
    )
    # On a GPU these few clips are run sooner than the fused kernels would be compiled.
    streams = snn.streams(x, lengths, delays, "torch" if x.is_cuda else "auto")
    run = Running(perfect, streams, lengths, delays, "torch")
    ranges = {}
    for name, stage, suffix, read, product in names:
        rows = rows_of(run.term(stage, suffix, read, product))
        rows = rows[:: -(-len(rows) // _ROWS)]
        tally = torch.zeros(1, dtype=torch.int64, device=rows.device)
        array = perfect.chip[name]
        assert array.converter is not None
        bins = _FINE / UNIT * array.converter.step / 2**array.converter.bits  # in a part of a step
        for inputs, _ in array.passes(rows, snn.network.slots):
            for at in range(0, len(inputs), 128):
                few = inputs[at : at + 128]
                sums = array.partial_sums(few).abs_().mul_(bins).round_()
                found = torch.bincount(sums.flatten().int(), minlength=len(tally))
                found[: len(tally)] += tally
                tally = found
        ranges[name] = chosen_range(tally.cpu().numpy(), codes, profile.converter_range)
    return ranges


def chosen_range(tally: NDArray[np.int64], codes: int, rule: str) -> float:
    """The range for sums of which `tally[n]` are n / 16 units large."""
    seen = np.flatnonzero(tally[1:]) + 1
    if not len(seen):
        return float(codes)
    size, weight = seen / _FINE, tally[seen].astype(np.float64)
    if rule == "quantile":
        return float(size[np.searchsorted(np.cumsum(weight), _INSIDE * weight.sum())])
    sixteenths = np.arange(1, max(2, -(-int(seen[-1]) // codes) + 1))
    # Of an even number of units every other whole sum would lie in the middle between two codes.
    steps = sixteenths[sixteenths % (2 * _FINE) != 0] / _FINE
    errors = [
        float((weight * (np.minimum(np.rint(size / step), codes) * step - size) ** 2).sum())
        for step in steps
    ]
    return float(steps[int(np.argmin(errors))] * codes)
