"""How well a network finds words in long recordings: misses against false accepts per hour."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falcon_snn.data.examples import load_noise, load_waves
from falcon_snn.data.features import RATE_HZ
from falcon_snn.data.noise import demand_ratio
from falcon_snn.data.scene import SCENE_S, Spoken, scenes
from falcon_snn.data.stream import StreamFeatures, Windows
from falcon_snn.errors import FalconError
from falcon_snn.search.statistics import wilson
from falcon_snn.workflow.detecting import Confidences, Decider, Rule, keywords_of
from falcon_snn.workflow.model import Model, load
from falcon_snn.workflow.sources import SPLITS, Data, data_source
from falcon_snn.workflow.watch import SILENT, Watch

LATE_S = 0.5  # after its clip has ended a word may still be reported
RATES_PER_H = (0.5, 5.0)  # at which misses are said
# Confidences crowd near 1, so thresholds are evenly spaced in log(p / (1 - p)).
THRESHOLDS = tuple(float(t) for t in 1 / (1 + np.exp(-np.linspace(-3.0, 12.0, 76))))
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class ThresholdPoint:
    """What a threshold gives."""

    threshold: float
    missed: int
    false_accepts: int
    delays_s: tuple[float, ...]  # of the words that were found, from their end


@dataclass(frozen=True)
class StreamReport:
    """A network on hours of sound."""

    keywords: tuple[str, ...]
    hours: float
    spoken: int  # keywords
    others: int  # other words
    snr_db: float | None
    rule: Rule
    points: list[ThresholdPoint]  # rising thresholds
    default: ThresholdPoint  # at the rule's threshold

    def miss_percent(self, point: ThresholdPoint) -> float:
        return 100.0 * point.missed / self.spoken

    def per_hour(self, point: ThresholdPoint) -> float:
        return point.false_accepts / self.hours

    def at_most(self, rate_per_h: float) -> ThresholdPoint | None:
        """The threshold of fewest misses with no more false accepts per hour than that."""
        allowed = [point for point in self.points if self.per_hour(point) <= rate_per_h]
        return min(allowed, key=lambda point: point.missed, default=None)

    def facts(self, point: ThresholdPoint | None) -> dict[str, Any] | None:
        """A point for machines."""
        if point is None:
            return None
        delays = np.array(point.delays_s or [np.nan])
        known = bool(point.delays_s)
        low, high = wilson(point.missed, self.spoken)
        return {
            "threshold": point.threshold, "miss_percent": self.miss_percent(point),
            "interval": [100 * low, 100 * high], "false_accepts": point.false_accepts,
            "false_per_hour": self.per_hour(point),
            "median_delay_s": float(np.median(delays)) if known else None,
            "delay_90_percent_s": float(np.percentile(delays, 90)) if known else None,
        }  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        at_rates = {str(rate): self.facts(self.at_most(rate)) for rate in RATES_PER_H}
        return {
            "keywords": list(self.keywords), "hours": self.hours, "spoken": self.spoken,
            "other_words": self.others, "snr_db": self.snr_db, "rule": vars(self.rule),
            "default": self.facts(self.default),
            "at_false_per_hour": at_rates,
            "curve": [self.facts(point) for point in self.points],
        }  # fmt: skip


def evaluate_stream(
    checkpoint: Path, data: Data, *, hours: float = 3.0, snr_db: float | None = 20.0,
    words: Sequence[str] | None = None, split: str = "test", schedule: str | None = None,
    rule: Rule | None = None, backend: str = "auto", seed: int = 0, watch: Watch = SILENT,
) -> StreamReport:  # fmt: skip
    """Misses and false accepts on recordings made of the clips of a split."""
    if split not in SPLITS:
        raise FalconError(f"unknown split '{split[:40]}'; choose validation or test")
    if not SCENE_S / 3600 <= hours <= 1000:
        raise FalconError(f"{hours} hours of sound; choose 0.01 to 1000")
    if snr_db is not None:
        demand_ratio(snr_db)
    model = load(checkpoint)
    rule = rule or model.rule()
    keywords = keywords_of(model.classes, words)
    source = data_source(data)
    waves = load_waves(source, SPLITS[split])
    for word in keywords:
        if word not in waves.words:
            raise FalconError(f"{data}: has no clips of '{word}', which the network knows")
    count = round(hours * 3600 / SCENE_S)
    made = scenes(
        waves, load_noise(source).numpy(), keywords, count=count, snr_db=snr_db, seed=seed
    )
    spoken: list[Spoken] = []
    confidences, lately, end_s = [], [], []
    with watch.bar("scenes", count) as advance:
        for own, windows, heard in _followed(model, keywords, rule, schedule, backend, made):
            confidences.append(own)
            lately.append(windows.lately)
            end_s.append(windows.end_s)
            spoken += heard
            advance(1)
    return report_of(np.concatenate(confidences), np.concatenate(lately), np.concatenate(end_s),
                     spoken, keywords, rule, count * SCENE_S / 3600, snr_db)  # fmt: skip


def _followed(
    model: Model, keywords: Sequence[str], rule: Rule, schedule: str | None, backend: str,
    made: Any,
) -> Iterator[tuple[Numbers, Windows, list[Spoken]]]:  # fmt: skip
    """Averaged confidences, windows and words, scene after scene, as one recording."""
    hear = model.hearing(schedule, backend)
    features = StreamFeatures(rule.every_frames)
    averaged = Confidences(hear, model.classes, keywords, rule)
    for scene in made:
        at_s = features.samples / RATE_HZ
        windows = features.push(scene.wave)
        shifted = [one.later(at_s) for one in scene.spoken]
        yield averaged.of(windows), windows, shifted


def report_of(
    confidences: Numbers, lately: NDArray[np.bool_], end_s: Numbers, spoken: Sequence[Spoken],
    keywords: Sequence[str], rule: Rule, hours: float, snr_db: float | None,
) -> StreamReport:  # fmt: skip
    """Every threshold on the same confidences."""
    wanted = [one for one in spoken if one.word in keywords]
    if not wanted:
        raise FalconError("no keyword in these recordings; make them longer")

    def point(threshold: float) -> ThresholdPoint:
        decider = Decider(threshold, rule.refractory_ms / 1000)
        found = decider.of(confidences, lately, end_s)
        reported = [(float(end_s[at]), keywords[word]) for at, word in found]
        delays_s, false_accepts = matched(reported, wanted)
        return ThresholdPoint(
            threshold, len(wanted) - len(delays_s), false_accepts, tuple(delays_s)
        )

    return StreamReport(
        tuple(keywords), hours, len(wanted), len(spoken) - len(wanted), snr_db, rule,
        [point(threshold) for threshold in THRESHOLDS], point(rule.threshold),
    )  # fmt: skip


def matched(
    reported: Sequence[tuple[float, str]], spoken: Sequence[Spoken]
) -> tuple[list[float], int]:
    """The delays of the words that were found, and how many reports were false.

    A report counts for the first word of its name that was not found before, from the beginning of
    its clip to half a second after it; every other report is a false accept.
    """
    found: set[int] = set()
    delays, false_accepts, first = [], 0, 0
    for at_s, word in reported:
        while first < len(spoken) and spoken[first].clip_end_s + LATE_S < at_s:
            first += 1
        for index in range(first, len(spoken)):
            one = spoken[index]
            if one.clip_start_s > at_s:
                false_accepts += 1
                break
            if one.word == word and index not in found and at_s <= one.clip_end_s + LATE_S:
                found.add(index)
                delays.append(at_s - one.end_s)
                break
        else:
            false_accepts += 1
    return delays, false_accepts
