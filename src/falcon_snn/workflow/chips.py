"""Accuracy on chips as they are made: some of them, each effect alone, each layer alone."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import torch

from falcon_snn.forms import MOST_CHIPS, demand_within
from falcon_snn.hardware.effects import effects, is_random
from falcon_snn.hardware.profile import Profile
from falcon_snn.network.calibrate import CALIBRATION_CLIPS, calibrate
from falcon_snn.network.chip import sampled
from falcon_snn.network.integer import Snn
from falcon_snn.neuron.packed import count
from falcon_snn.pipeline.schedule import Delays
from falcon_snn.training.evaluate import Advance, batches, snn_predictions
from falcon_snn.training.export import load_network
from falcon_snn.workflow.measuring import QNN, Evaluation, evaluation
from falcon_snn.workflow.networks import delays_of, demand_whole_counts, schedule_or_own
from falcon_snn.workflow.sources import Data, device, load_split
from falcon_snn.workflow.watch import SILENT, Watch

if TYPE_CHECKING:
    from falcon_snn.data.examples import Examples

_TOGETHER = 5  # chips that see a batch one after the other: all are in memory


@dataclass(frozen=True)
class OnChips:
    """What some chips do with one effect, or with one layer on them."""

    name: str
    accuracies: tuple[float, ...]  # percent, one per chip
    changed: tuple[float, ...]  # percent of all decisions to spike that differ from the ideal

    def as_json(self) -> dict[str, Any]:
        found = self.accuracies
        return {
            "name": self.name, "chips": len(found), "mean": fmean(found),
            "deviation": stdev(found) if len(found) > 1 else 0.0, "worst": min(found),
            "best": max(found), "changed_percent": fmean(self.changed), "accuracies": found,
        }  # fmt: skip


@dataclass(frozen=True)
class ChipReport:
    """A network on the chips of one profile."""

    profile: Profile
    ideal: Evaluation
    effects: tuple[OnChips, ...]
    layers: tuple[OnChips, ...]  # each alone on the chip, with all effects; worst first

    def as_json(self) -> dict[str, Any]:
        ideal = {name: getattr(self.ideal, name) for name in ("clips", "accuracy", "interval")}
        return {
            "hardware": self.profile.name, "schedule": self.ideal.schedule, "ideal": ideal,
            "effects": [one.as_json() for one in self.effects],
            "layers": [one.as_json() for one in self.layers],
        }  # fmt: skip


@torch.no_grad()
def evaluate_on_chips(
    checkpoint: Path, data: Data, profile: Profile, *, chips: int = 5, seed: int = 0,
    schedule: str | None = None, split: str = "validation", qk_prefix: int | None = None,
    limit: int | None = None, noise_db: float | None = None, layer_by_layer: bool = False,
    effects_of: Callable[[Profile, int], dict[str, Profile]] = effects, watch: Watch = SILENT,
) -> ChipReport:  # fmt: skip
    """Accuracy over chips under each effect of a profile alone and all together.

    `effects_of` takes a profile and the bits of the network's weights apart.

    With `noise_db`, on clips with noise at that ratio; chips are set up on clean ones.
    Chips are the same for all networks and effects: number n has the seed `seed + n`.
    """
    demand_within("--chips", chips, 1, MOST_CHIPS)
    snn, metadata = load_network(checkpoint, qk_prefix)
    network, qnn = snn.network, schedule == QNN
    schedule = schedule_or_own(schedule, metadata.delays, "full")
    if qnn:
        demand_whole_counts(network)
    delays = network.lookahead if qnn else delays_of(schedule, network, metadata.delays)
    examples = load_split(data, split, limit, metadata.words, noise_db)
    few = load_split(data, "validation", CALIBRATION_CLIPS, metadata.words)
    kinds = effects_of(profile, network.weight_bits)
    layers = [
        f"{stage.name}.weight{suffix}"
        for stage in network.stages
        for suffix, _, _ in stage.products
    ]
    runs: list[tuple[str, Profile, Collection[str] | None]] = [
        (name, one, None) for name, one in kinds.items()
    ]
    if layer_by_layer:
        runs += [(name.replace(".weight", ""), profile, {name}) for name in layers]
    test = Chips(snn.to(device()), examples, few, delays, qnn)
    turns = sum(chips if is_random(one) else 1 for _, one, _ in runs) + 1
    with watch.bar("chips", turns * len(examples)) as advance:
        ideal = test.ideal(advance)
        found = []
        for name, one, only in runs:
            ranges, end = test.ranges(one), seed + (chips if is_random(one) else 1)
            results: list[tuple[torch.Tensor, float]] = []
            for begin in range(seed, end, _TOGETHER):
                numbers = range(begin, min(begin + _TOGETHER, end))
                made = [
                    sampled(test.snn, one, number, ranges, qnn=qnn, layers=only)
                    for number in numbers
                ]
                results += test.run(made, advance)
            percent = [evaluation(schedule, delays, labels, examples).accuracy
                       for labels, _ in results]  # fmt: skip
            found.append(OnChips(name, tuple(percent), tuple(share for _, share in results)))
    return ChipReport(
        profile,
        evaluation(schedule, None if qnn else delays, ideal, examples),
        tuple(found[: len(kinds)]),
        tuple(sorted(found[len(kinds) :], key=lambda one: fmean(one.accuracies))),
    )


@dataclass(frozen=True)
class Chips:
    """A network, the clips that it is tested on, and those that set its converters."""

    snn: Snn
    examples: "Examples"
    few: "Examples"
    delays: Delays
    qnn: bool = False

    def ranges(self, profile: Profile) -> dict[str, float]:
        first = next(batches(self.few, self.snn.device))
        return calibrate(self.snn, profile, *first, self.delays, qnn=self.qnn)

    def ideal(self, advance: Advance) -> torch.Tensor:
        """Labels of the ideal chip."""
        return snn_predictions(self.snn, self.examples, self.delays, advance=advance)

    def run(self, chips: Sequence[Snn], advance: Advance) -> list[tuple[torch.Tensor, float]]:
        """Labels that each chip gives, and percent of its decisions that are not the ideal ones.

        All chips see a batch before the next one comes, so the ideal network sees it once.
        """
        network, snn = self.snn.network, self.snn
        firing = [stage.name for stage in network.inner_stages[1:] if stage.emits == "spikes"]
        found: list[list[torch.Tensor]] = [[] for _ in chips]
        changed = torch.zeros(len(chips), dtype=torch.int64, device=snn.device)
        decisions = 0
        for x, lengths in batches(self.examples, snn.device):
            ideal = snn.streams(x, lengths, self.delays)
            decisions += network.slots * sum(
                network.inner(name, ideal[name]).numel() for name in firing
            )
            for number, chip in enumerate(chips):
                streams = chip.streams(x, lengths, self.delays)
                for name in firing:
                    changed[number] += count(streams[name] ^ ideal[name]).sum()
                found[number].append(snn.scores(streams, lengths).argmax(dim=1))
                advance(len(x))
        shares = (100.0 * changed.double() / max(decisions, 1)).tolist()
        return [(torch.cat(one).cpu(), share) for one, share in zip(found, shares, strict=True)]
