"""The set that ships with the package."""

from collections import Counter

from falcon_snn.data.clips import word_list
from falcon_snn.data.examples import EMBEDDED, find_source
from falcon_snn.data.packed import open_packed


def test_embedded_set_is_complete_and_small() -> None:
    folder = find_source(EMBEDDED)
    clips = open_packed(folder).clips
    assert len(word_list(clips)) == 35
    assert Counter((clip.split, clip.word) for clip in clips) == {
        (split, word): count
        for split, count in (("training", 50), ("validation", 14), ("testing", 14))
        for word in word_list(clips)
    }
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 6_000_000


def test_no_voice_is_in_two_splits() -> None:
    clips = open_packed(find_source(EMBEDDED)).clips
    splits_of: dict[str, set[str]] = {}
    for clip in clips:
        splits_of.setdefault(clip.speaker, set()).add(clip.split)
    assert len(splits_of) > 80
    assert all(len(splits) == 1 for splits in splits_of.values())
