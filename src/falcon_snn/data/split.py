"""Which clips are for validation and for testing, where nothing says so.

    published   SHA-1 of the speaker's name, about 10 % + 10 %; the split of Speech Commands
    speaker     whole speakers, 10 % of the clips or a little more each
    clip        within each word 10 % of the clips each; speakers are then in several parts

`choose_split` takes the first of them that leaves every part enough.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from math import ceil

from falcon_snn.data.clips import hash_split, speaker_of
from falcon_snn.errors import FalconError

RULES = ("published", "speaker", "clip")
ASIDE = 0.1  # of the clips, for validation and for testing
LEAST_ASIDE = 0.05  # what each must have at least, for a rule to be taken
MOST_ASIDE = 0.25  # by whole speakers; the rest must do for training
_PARTS = ("validation", "testing")

Split = dict[str, str]  # file -> training, validation or testing


def choose_split(files: Sequence[str]) -> tuple[str, Split]:
    """The first rule that leaves every part enough clips, and its split of `word/name.wav`."""
    for rule in RULES[:-1]:
        split = split_by(rule, files)
        if _is_enough(split):
            return rule, split
    try:
        return "clip", split_by("clip", files)
    except FalconError:  # so few clips that a part stays empty; whoever needs it says so
        return RULES[0], split_by(RULES[0], files)


def split_by(rule: str, files: Sequence[str]) -> Split:
    """The split of clips by one rule; the same for the same names."""
    if rule not in RULES:
        raise FalconError(f"unknown rule '{rule[:40]}'; choose one of {', '.join(RULES)}")
    rules = {"published": _published, "speaker": _by_speaker, "clip": _by_clip}
    return rules[rule](files)


def shared_speakers(split: Split) -> int:
    """How many speakers have clips in more than one part."""
    parts: dict[str, set[str]] = {}
    for file, part in split.items():
        parts.setdefault(speaker_of(file), set()).add(part)
    return sum(len(each) > 1 for each in parts.values())


def _is_enough(split: Split) -> bool:
    """Whether validation and testing have their share, and training has every word."""
    counts = Counter(split.values())
    words = {file.split("/", 1)[0] for file in split}
    trained = {file.split("/", 1)[0] for file, part in split.items() if part == "training"}
    return words == trained and all(counts[part] >= LEAST_ASIDE * len(split) for part in _PARTS)


def _published(files: Sequence[str]) -> Split:
    return {file: hash_split(file) for file in files}


def _by_speaker(files: Sequence[str]) -> Split:
    """Speakers in the order of their names' hashes, those that fit: first validation, then test."""
    clips = Counter(speaker_of(file) for file in files)
    waiting, part_of = sorted(clips, key=_mixed), {}
    for part in _PARTS:
        taken = 0
        for speaker in list(waiting):
            if taken < ASIDE * len(files) and taken + clips[speaker] <= MOST_ASIDE * len(files):
                taken += clips[speaker]
                part_of[speaker] = part
                waiting.remove(speaker)
    return {file: part_of.get(speaker_of(file), "training") for file in files}


def _by_clip(files: Sequence[str]) -> Split:
    """Of each word the first clips in the order of their names' hashes."""
    words: dict[str, list[str]] = {}
    for file in sorted(files, key=_mixed):
        words.setdefault(file.split("/", 1)[0], []).append(file)
    split = dict.fromkeys(files, "training")
    for clips in words.values():
        aside = ceil(ASIDE * len(clips)) if len(clips) >= 3 else 0
        split |= dict.fromkeys(clips[:aside], "validation")
        split |= dict.fromkeys(clips[aside : 2 * aside], "testing")
    if len(set(split.values())) < 3:
        raise FalconError("no word has three recordings; validation and testing need one each")
    return split


def _mixed(name: str) -> str:
    return hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()
