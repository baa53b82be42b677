"""Words in a stream: a window of one second slides along, and a rule says when a word was heard.

The network's confidences are averaged over the newest windows; where a word's mean reaches the
threshold it is reported, and nothing more for the refractory time. A window with nothing loud in
its last half second reports nothing: its word is over, or cut off at the window's beginning. The
network is spared it, and also the one after a window without a trace of a keyword; both count as
the window before. Memory does not grow.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from falcon_snn.data.features import RATE_HZ
from falcon_snn.data.stream import FRAME_S, StreamFeatures, Windows, word_span
from falcon_snn.data.task import NO_WORDS
from falcon_snn.errors import FalconError

Hear = Callable[[Tensor], Tensor]  # features [window, frame, band] to confidences [window, class]
TAIL_S = 0.5  # of silence after the end of a recording, so that its last word can be heard
_AT_ONCE = 64  # windows that a network gets together
TRACE = 0.1  # confidence of a keyword from which every window is heard
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Rule:
    """When a word counts as heard; the defaults were chosen on streams of validation clips."""

    every_ms: int = 80
    smooth_ms: int = 240
    threshold: float = 0.85
    refractory_ms: int = 500

    def __post_init__(self) -> None:
        if not 10 <= self.every_ms <= 1000 or self.every_ms % 10:
            raise FalconError(f"a window every {self.every_ms} ms; choose 10 to 1000, in tens")
        if not 0 <= self.smooth_ms <= 2000 or not 0 <= self.refractory_ms <= 10_000:
            raise FalconError("smoothing is 0 to 2000 ms, the refractory time 0 to 10,000 ms")
        if not (isfinite(self.threshold) and 0 <= self.threshold <= 1):
            raise FalconError(f"a threshold of {self.threshold}; it must lie in 0..1")

    @property
    def every_frames(self) -> int:
        return round(self.every_ms / 1000 / FRAME_S)

    @property
    def averaged(self) -> int:
        """Windows whose confidences are averaged."""
        return max(1, round(self.smooth_ms / self.every_ms))


@dataclass(frozen=True)
class Detection:
    """A word that was heard."""

    word: str
    confidence: float
    start_s: float  # of the word, from its loudness
    end_s: float
    answer_s: float  # of the stream when it was known

    @property
    def delay_s(self) -> float:
        """From the end of the word to the answer."""
        return self.answer_s - self.end_s

    def as_json(self) -> dict[str, float | str]:
        numbers = {"confidence": self.confidence, "start_s": self.start_s, "end_s": self.end_s,
                   "answer_s": self.answer_s, "delay_s": self.delay_s}  # fmt: skip
        return {"word": self.word, **{key: round(value, 4) for key, value in numbers.items()}}


def keywords_of(classes: Sequence[str], words: Sequence[str] | None = None) -> tuple[str, ...]:
    """The words that are reported: those asked for, or all that the network knows."""
    known = tuple(word for word in classes if word not in NO_WORDS)
    if words is None:
        return known
    for word in words:
        if word not in known:
            listed = ", ".join(known)
            raise FalconError(f"the network does not know '{word[:40]}'; it knows {listed}")
    return tuple(dict.fromkeys(words))


class Confidences:
    """The averaged confidences of the keywords, window by window.

    Of windows in which something was loud lately, every other one is heard in any case, and the one
    after it if there is a trace of a keyword.
    """

    def __init__(self, hear: Hear, classes: Sequence[str], keywords: Sequence[str], rule: Rule):
        self.hear, self.rule = hear, rule
        self.columns = [list(classes).index(word) for word in keywords]
        self._newest = np.zeros((0, len(keywords)))
        self._last = np.zeros((1, len(keywords)))  # confidences of the last window
        self._lately = False  # whether it had something loud lately
        self._odd = 0  # windows so far, modulo 2

    def of(self, windows: Windows) -> Numbers:
        """Averages over each window and those before it, [window, keyword]."""
        own = self._own(windows)
        held = np.concatenate([self._newest, own])
        first = len(held) - len(own)
        averaged = self.rule.averaged
        self._newest = held[max(0, len(held) - averaged + 1) :]
        if not len(own):
            return own
        return np.stack([
            held[max(0, at - averaged + 1) : at + 1].mean(axis=0)
            for at in range(first, len(held))
        ])  # fmt: skip

    def _own(self, windows: Windows) -> Numbers:
        """The confidences of each window, [window, keyword]."""
        lately = np.concatenate([[self._lately], windows.lately])
        turn = np.arange(len(windows)) % 2 == self._odd
        sure = lately[1:] & (turn | ~lately[:-1])
        own = np.concatenate([self._last, np.zeros((len(windows), len(self.columns)))])
        own[1:][sure] = self._heard(windows, sure)
        # A window that may be spared comes after one that was heard.
        asked = lately[1:] & ~sure & (own[:-1].max(axis=1, initial=0.0) >= TRACE)
        own[1:][asked] = self._heard(windows, asked)
        newest = np.where(sure | asked, np.arange(1, len(own)), 0)
        own = own[np.maximum.accumulate(np.concatenate([[0], newest]))]
        self._last, self._lately = own[-1:], bool(lately[-1])
        self._odd = (self._odd + len(windows)) % 2
        return own[1:]

    def _heard(self, windows: Windows, which: NDArray[np.bool_]) -> Numbers:
        """What the network says about some of the windows."""
        rows = np.flatnonzero(which)
        parts = [
            self.hear(windows.features(rows[at : at + _AT_ONCE])).double().numpy()
            for at in range(0, len(rows), _AT_ONCE)
        ]
        return np.concatenate(parts)[:, self.columns] if parts else self._newest[:0]


class Decider:
    """Where averaged confidences report a word.

    A word that was reported stays in the window for a second: it is reported again only after its
    confidence fell below half of the threshold.
    """

    def __init__(self, threshold: float, refractory_s: float) -> None:
        self.threshold, self.refractory_s = threshold, refractory_s
        self._silent_until_s = 0.0
        self._held = -1  # the keyword that is still in the window

    def of(
        self, confidences: Numbers, lately: NDArray[np.bool_], end_s: Numbers
    ) -> list[tuple[int, int]]:
        """The windows that report one, as (window, keyword)."""
        reported = []
        best = confidences.argmax(axis=1).tolist() if len(confidences) else []
        high = lately & (confidences.max(axis=1, initial=0.0) >= self.threshold)
        for at, keyword in enumerate(best):
            if self._held >= 0 and confidences[at, self._held] < self.threshold / 2:
                self._held = -1
            if high[at] and keyword != self._held and end_s[at] >= self._silent_until_s:
                self._held, self._silent_until_s = keyword, float(end_s[at]) + self.refractory_s
                reported.append((at, keyword))
        return reported


class Detector:
    """Hears a stream in pieces of any size and reports words; its memory does not grow."""

    def __init__(
        self, hear: Hear, classes: Sequence[str], rule: Rule, words: Sequence[str] | None = None
    ) -> None:
        self.rule, self.keywords = rule, keywords_of(classes, words)
        self.features = StreamFeatures(rule.every_frames)
        self.confidences = Confidences(hear, classes, self.keywords, rule)
        self._decider = Decider(rule.threshold, rule.refractory_ms / 1000)

    @property
    def heard_s(self) -> float:
        """Seconds of sound so far."""
        return self.features.samples / RATE_HZ

    def push(self, wave: NDArray[np.float32]) -> list[Detection]:
        """The words that become known within these samples (16 kHz, -1..1)."""
        return self.follow(wave).detections

    def follow(self, wave: NDArray[np.float32]) -> "Followed":
        """The same with what it was concluded from."""
        if not np.isfinite(wave).all():
            raise FalconError(f"samples after {self.heard_s:.2f} s are not numbers")
        windows = self.features.push(wave)
        confidences = self.confidences.of(windows)
        detections = []
        for at, keyword in self._decider.of(confidences, windows.lately, windows.end_s):
            answer_s = float(windows.end_s[at])
            start_s, end_s = (answer_s - 1.0 + float(s) for s in word_span(windows.logs[at]))
            detections.append(
                Detection(self.keywords[keyword], float(confidences[at, keyword]), start_s,
                          min(end_s, answer_s), answer_s)
            )  # fmt: skip
        return Followed(detections, windows, confidences)

    def finish(self) -> "Followed":
        """The last word of a recording, heard out with silence behind it that does not count."""
        samples = self.features.samples
        silence_s = max(TAIL_S, 1.0 - self.heard_s)
        last = self.follow(np.zeros(round(silence_s * RATE_HZ), np.float32))
        self.features.samples = samples
        return last


@dataclass(frozen=True)
class Followed:
    """What a piece of a stream brought."""

    detections: list[Detection]
    windows: Windows
    confidences: Numbers  # averaged, [window, keyword]


def follow(
    detector: Detector, blocks: Iterable[NDArray[np.float32]], tail: bool = True
) -> Iterator[Followed]:
    """A stream piece by piece; `tail` hears its last word out."""
    for block in blocks:
        yield detector.follow(block)
    if tail and detector.heard_s:
        yield detector.finish()


def detect(
    detector: Detector, blocks: Iterable[NDArray[np.float32]], tail: bool = True
) -> Iterator[Detection]:
    """The words of a stream as they become known."""
    for piece in follow(detector, blocks, tail):
        yield from piece.detections
