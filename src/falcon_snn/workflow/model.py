"""A network from a file, for Python: what it answers, when, and what that costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from falcon_snn.data.audio import log, read_wave, to_16_khz_mono, to_int16
from falcon_snn.data.features import BANDS, CLIP_SAMPLES, FRAMES, RATE_HZ, exact_log_mel, one_second
from falcon_snn.data.task import NO_WORDS, UNKNOWN
from falcon_snn.errors import FalconError
from falcon_snn.hardware.profile import load_profile
from falcon_snn.network.description import Network
from falcon_snn.network.integer import Snn, Streams
from falcon_snn.network.qnn import Qnn
from falcon_snn.pipeline.schedule import Delays
from falcon_snn.pipeline.timing import Timing, time_qnn, time_snn
from falcon_snn.training.checkpoint import Metadata, load_metadata, load_model
from falcon_snn.training.export import load_network
from falcon_snn.training.pretrained import (
    Pretrained,
    all_pretrained,
    pretrained_names,
    pretrained_path,
)
from falcon_snn.training.recipe import PHASES
from falcon_snn.workflow import measuring
from falcon_snn.workflow.detecting import Detection, Detector, Hear, Rule, detect
from falcon_snn.workflow.networks import delays_of, schedule_or_own
from falcon_snn.workflow.sources import Data
from falcon_snn.workflow.watch import SILENT, Watch

if TYPE_CHECKING:
    from falcon_snn.workflow.searching import SearchSettings

_BLOCK_SAMPLES = 10 * RATE_HZ  # of a long recording that are heard at once
THRESHOLDS = "thresholds"  # of a checkpoint's facts
Schedule = str | Mapping[str, int] | None  # by name, as delays, or what the network was made for


@dataclass(frozen=True)
class Model:
    """A checkpoint or converted network on disk; its weights are read when they are needed."""

    path: Path

    @cached_property
    def metadata(self) -> Metadata:
        return load_metadata(self.path)

    @property
    def network(self) -> Network:
        """Its description."""
        return self.metadata.network

    @property
    def classes(self) -> tuple[str, ...]:
        return self.metadata.words

    @cached_property
    def snn(self) -> Snn:
        """Its integers, on the CPU."""
        return load_network(self.path)[0]

    @cached_property
    def qnn(self) -> Qnn:
        """Its trainable network."""
        return load_model(self.path)[0]

    def delays(self, schedule: Schedule = None) -> Delays:
        """The delays of a schedule; by default its own, or full lookahead if it has none."""
        if isinstance(schedule, Mapping):
            return dict(schedule)
        own = self.metadata.delays
        return delays_of(schedule_or_own(schedule, own, "full"), self.network, own)

    def streams(self, x: Tensor, schedule: Schedule = None, backend: str = "auto") -> Streams:
        """The spikes of every stage on inputs [clip, ...]."""
        return self.snn.streams(x, None, self.delays(schedule), backend)

    def predict(self, x: Any, schedule: Schedule = None) -> Tensor:
        """The class index of each input, int64 [clip]."""
        return self.snn.predict(torch.as_tensor(x), None, self.delays(schedule))

    def scores(self, x: Tensor, schedule: Schedule = None, backend: str = "auto") -> Tensor:
        """The score of every class in the units of training, float64 [clip, class]."""
        return self.snn.logits(self.streams(x, schedule, backend), None, backend)

    def confidences(self, x: Tensor, schedule: Schedule = None, backend: str = "auto") -> Tensor:
        """The confidence of every class, float64 [clip, class]."""
        return self.scores(x, schedule, backend).softmax(dim=1)

    def rankings(self, confidences: Tensor) -> list[list[tuple[str, float]]]:
        """Classes of each input with their confidence, likeliest first."""
        order = confidences.argsort(dim=1, descending=True, stable=True).tolist()
        return [
            [(self.classes[index], float(row[index])) for index in places]
            for row, places in zip(confidences, order, strict=True)
        ]

    def answer(
        self, ranking: Sequence[tuple[str, float]], threshold: float | None = None
    ) -> str:  # fmt: skip
        """The likeliest class; a word below the threshold is "unknown"."""
        word, confidence = ranking[0]
        least = self.threshold("clip", 0.0) if threshold is None else threshold
        return UNKNOWN if confidence < least and word not in NO_WORDS else word

    def classify(
        self, samples: Any, rate_hz: int = RATE_HZ, schedule: Schedule = None
    ) -> list[tuple[str, float]]:
        """Words with their confidence for the samples of one recording in -1..1."""
        wave, _ = to_16_khz_mono(_checked(samples, rate_hz), rate_hz)
        return self.rankings(self.confidences(self.features(wave), schedule))[0]

    def threshold(self, kind: str, default: float) -> float:
        """What `falcon-snn calibrate` chose for a "clip" or a "stream"."""
        chosen = self.metadata.facts.get(THRESHOLDS)
        value = chosen.get(kind) if isinstance(chosen, dict) else None
        return value if isinstance(value, float) and 0 <= value <= 1 else default

    def rule(
        self, threshold: float | None = None, every_ms: int = 80, smooth_ms: int | None = None,
        refractory_ms: int = 500,
    ) -> Rule:  # fmt: skip
        """When a word of a stream counts as heard; the threshold is its own, if it has one.

        A network with classes for what is not a word was trained on streams and needs no averaging.
        """
        if smooth_ms is None:
            smooth_ms = every_ms if {*NO_WORDS} <= {*self.classes} else Rule().smooth_ms
        if threshold is None:
            threshold = self.threshold("stream", Rule().threshold)
        return Rule(every_ms, smooth_ms, threshold, refractory_ms)

    def detector(
        self, rule: Rule | None = None, words: Sequence[str] | None = None,
        schedule: Schedule = None, backend: str = "auto",
    ) -> Detector:  # fmt: skip
        """What hears a stream: give it samples with `push`, as they come."""
        hear = self.hearing(schedule, backend)
        hear(torch.zeros(1, FRAMES, BANDS))  # compilers load now, not when the first word comes
        return Detector(hear, self.classes, rule or self.rule(), words)

    def hearing(self, schedule: Schedule = None, backend: str = "auto") -> Hear:
        """The network as a function of features, for streams."""
        self._demand_hearing()
        delays = self.delays(schedule)
        return lambda x: self.confidences(x, delays, backend)

    def detect(
        self, samples: Any, rate_hz: int = RATE_HZ, rule: Rule | None = None,
        schedule: Schedule = None,
    ) -> list[Detection]:  # fmt: skip
        """The words in the samples of a recording of any length in -1..1."""
        wave, _ = to_16_khz_mono(_checked(samples, rate_hz), rate_hz)
        blocks = (wave[at : at + _BLOCK_SAMPLES] for at in range(0, len(wave), _BLOCK_SAMPLES))
        return list(detect(self.detector(rule, schedule=schedule), blocks))

    def _demand_hearing(self) -> None:
        if self.network.source.input != (FRAMES, BANDS, 1):
            raise FalconError(f"{self.path}: takes {self.network.source.input}, not recordings")

    def features(self, wave: Any) -> Tensor:
        """Network input [1, frame, band] of samples at 16 kHz."""
        self._demand_hearing()
        samples = torch.from_numpy(to_int16(wave))
        padded = torch.nn.functional.pad(samples, (0, max(0, CLIP_SAMPLES - len(samples))))
        return exact_log_mel(one_second(padded[None], torch.tensor([len(samples)])))

    def features_of_file(self, file: Path | str) -> Tensor:
        """Network input of a recording; of a longer one the second in its middle."""
        wave = read_wave(Path(file))
        if len(wave) > 1.1 * CLIP_SAMPLES:
            log.warning(
                "%s: %.1f s long, the network hears the second in its middle; `falcon-snn detect` "
                "hears all of it", file, len(wave) / RATE_HZ,
            )  # fmt: skip
        return self.features(wave)

    def heard(
        self, files: Sequence[Path], schedule: Schedule = None, backend: str = "auto"
    ) -> list[list[tuple[str, float]]]:
        """Words with their confidence for recordings, all in one go."""
        x = torch.cat([self.features_of_file(file) for file in files])
        return self.rankings(self.confidences(x, schedule, backend))

    def latency(self, schedule: Schedule = None, hardware: str | None = None) -> Timing:
        """When everything happens on a chip; `.core_us` is the core latency. 'qnn' is its QNN."""
        profile = load_profile(hardware)
        if schedule == measuring.QNN:
            return time_qnn(self.network.graph, profile)
        return time_snn(self.network.graph, self.delays(schedule), profile)

    def evaluate(
        self, data: Data, split: str = "validation", schedule: str | None = None
    ) -> measuring.Evaluation:
        """How many clips of a split it labels correctly."""
        return measuring.evaluate(self.path, data, split=split, schedule=schedule)

    def energy(
        self, data: Data, split: str = "test", hardware: str | None = None,
        limit: int | None = None,
    ) -> dict[str, measuring.Measured]:  # fmt: skip
        """What an inference costs, as QNN, with full lookahead and under its own schedule."""
        profile = load_profile(hardware)
        return measuring.energy(self.path, data, split=split, profile=profile, limit=limit)


def _checked(samples: Any, rate_hz: int) -> NDArray[np.float32]:
    """Samples as [sample, channel], if they are some."""
    given = np.asarray(samples, dtype=np.float32)
    if given.ndim > 2 or not given.size or rate_hz < 1 or not np.isfinite(given).all():
        raise FalconError("give finite samples [sample] or [sample, channel] and their rate")
    return given.reshape(len(given), -1)


def load(source: str | Path) -> Model:
    """A network by name (`falcon-snn models` lists them) or from a checkpoint's path."""
    if isinstance(source, str) and source in pretrained_names():
        return Model(pretrained_path(source))
    model = Model(Path(source))
    _ = model.metadata  # says now what is wrong with the file
    return model


def shipped_models() -> list[dict[str, Any]]:
    """The networks that `load` knows by name: what they are, how good and how fast."""
    return [_facts(one) for one in all_pretrained()]


def _facts(one: Pretrained) -> dict[str, Any]:
    metadata, network = one.metadata, one.metadata.network
    delays = metadata.delays or delays_of("full", network, None)
    codes = any(stage.emits == "codes" for stage in network.stages)
    serial_us, streamed_us = (
        time_snn(network.graph, delays, replace(load_profile(), attention=attention)).core_us
        for attention in ("serial", "streamed")
    )
    return {
        "name": one.name,
        "network": network.name,
        "slots": network.slots,
        "qk_prefix": network.prefix if codes else None,
        "data": metadata.facts.get("data", ""),
        "words": len(metadata.words),
        "schedule": metadata.facts.get("schedule", "full"),
        "delays": delays,
        "validation_percent": metadata.metrics["validation_accuracy"],
        "test_percent": metadata.metrics.get("test_accuracy"),
        "latency_us": serial_us,
        "streamed_latency_us": streamed_us,
        "bytes": one.path.stat().st_size,
    }


def train(
    network: str | Qnn, data: Data, out: Path | str, *, recipe: str | Path | None = None,
    epochs: int | None = None, slots: int | None = None, seed: int = 0, resume: bool = False,
    watch: Watch = SILENT,
) -> Model:  # fmt: skip
    """Train a QNN: a built-in network by name, FILE.py:FUNCTION, or what `from_torch` gave."""
    # Heavy, and answers need none of it.
    from falcon_snn.training.loop import BEST
    from falcon_snn.workflow import training

    training.train(
        network, data, out, recipe=recipe, epochs=epochs, slots=slots, seed=seed, resume=resume,
        watch=watch,
    )  # fmt: skip
    return load(Path(out) / BEST)


@dataclass(frozen=True)
class Found:
    """The schedules that a search chose, and all of its result."""

    fastest: Delays
    balanced: Delays
    accurate: Delays
    result: dict[str, Any]


def search_delays(
    model: Model, data: Data, out: Path | str, *, hardware: str | None = None,
    settings: "SearchSettings | None" = None, resume: bool = False, watch: Watch = SILENT,
) -> Found:  # fmt: skip
    """Where a network should wait, under the latency of its QNN."""
    from falcon_snn.workflow import searching

    result = searching.search(
        model.path, data, out, settings, profile=load_profile(hardware), resume=resume, watch=watch
    )

    def chosen(name: str) -> Delays:
        listed = result["evaluated"][result["chosen"][name]]["delays"]
        return {boundary: listed.get(boundary, 1) for boundary in model.network.boundaries}

    return Found(chosen("fastest"), chosen("balanced"), chosen("accurate"), result)


def adapt(
    model: Model, data: Data, schedule: Schedule, out: Path | str, *,
    recipes: Mapping[str, str | Path] | None = None, epochs: int | None = None,
    phases: tuple[str, ...] = PHASES, seed: int = 0, resume: bool = False,
    watch: Watch = SILENT,
) -> Model:  # fmt: skip
    """Train the spiking network under a schedule; the best epoch of all phases."""
    from falcon_snn.training.loop import BEST
    from falcon_snn.workflow import training

    training.adapt(
        model.path, model.delays(schedule), data, out, phases=phases, recipes=recipes,
        epochs=epochs, seed=seed, resume=resume, watch=watch,
        schedule=schedule if isinstance(schedule, str) else "",
    )  # fmt: skip
    return load(Path(out) / BEST)


def convert(
    model: Model, out: Path | str, *, data: Data | None = None, qk_prefix: int | None = None
) -> Model:
    """Write a network's integers; with data, checked against the QNN stage by stage."""
    measuring.convert_checkpoint(model.path, Path(out), data=data, qk_prefix=qk_prefix)
    return load(Path(out))
