"""How well could words be spotted by a listener who is told where each one begins and ends?

    python -m tools.told_where --data gsc-v1 --pretrained gsc1-kestrel-5 --pretrained gsc1-kestrel-7

Networks that know all words of a set name its validation clips one at a time, without noise and
without neighbours: all clips of the keywords, and as many of other words, as in the streams of
`evaluate --stream`. Prints the misses at so many false accepts, for each network and for all of
them together. What they miss here, no rule finds in a stream.
"""

import argparse

import numpy as np
import torch
from torch import Tensor

from falcon_snn.data.examples import load_examples
from falcon_snn.workflow.model import load

KEYWORDS = "yes,no,up,down,left,right,on,off,stop,go"
FALSE_ACCEPTS = (1, 3, 6, 15)
_AT_ONCE = 64


def misses(confidences: Tensor, labels: Tensor, keywords: list[int]) -> list[float]:
    """Percent of the keywords that stay below the threshold of so many false accepts."""
    sure, which = confidences[:, keywords].max(dim=1)
    right = torch.tensor(keywords)[which] == labels
    spoken = torch.isin(labels, torch.tensor(keywords))
    false = sure[~right].sort(descending=True).values
    found = [int((right & (sure > false[allowed])).sum()) for allowed in FALSE_ACCEPTS]
    return [100.0 * (1 - each / int(spoken.sum())) for each in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pretrained", action="append", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--words", default=KEYWORDS)
    given = parser.parse_args()
    clips = load_examples(given.data, "validation")
    keywords = [clips.words.index(word) for word in given.words.split(",")]
    spoken = torch.isin(clips.labels, torch.tensor(keywords))
    others = np.random.default_rng(0).permutation(torch.where(~spoken)[0].numpy())
    rows = torch.cat([torch.where(spoken)[0], torch.from_numpy(others[: int(spoken.sum())])])
    labels, logs = clips.labels[rows], []
    print(f"{int(spoken.sum())} keywords, {len(rows) - int(spoken.sum())} other words")
    wrong = torch.ones(len(rows), dtype=torch.bool)
    for name in given.pretrained:
        model = load(name)
        if model.classes != clips.words:
            raise SystemExit(f"{name}: its classes are not the words of {given.data}")
        parts = [rows[at : at + _AT_ONCE] for at in range(0, len(rows), _AT_ONCE)]
        logs.append(torch.cat([model.confidences(clips.x[part]) for part in parts]).log())
        wrong &= logs[-1].argmax(dim=1) != labels
        _show(name, misses(logs[-1], labels, keywords))
    if len(logs) > 1:
        together = torch.stack(logs).mean(dim=0).log_softmax(dim=1)
        _show("all together", misses(together, labels, keywords))
    print(f"clips that every network takes for another word: {int(wrong.sum())}, "
          f"{int(wrong[: int(spoken.sum())].sum())} of them keywords")  # fmt: skip


def _show(name: str, missed: list[float]) -> None:
    each = ", ".join(
        f"{percent:.1f} % at {allowed}"
        for percent, allowed in zip(missed, FALSE_ACCEPTS, strict=True)
    )
    print(f"{name}: misses {each} false accepts")


if __name__ == "__main__":
    main()
