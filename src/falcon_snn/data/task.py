"""Which words are to be told apart: all of a set, or some with "unknown" and "silence" beside them.

The usual task of ten words and twelve classes: "unknown" are clips of the other words, "silence"
pieces of the background noise, each as many as 10 % of the clips of the words (as the set's own
training script takes them). Which clips is the same on every machine, split by split.
"""

UNKNOWN, SILENCE = "unknown", "silence"
NO_WORDS = (UNKNOWN, SILENCE)
